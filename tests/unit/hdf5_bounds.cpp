// What opening the objects of an HDF5 file may take, and what is said where it takes more.
#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>

#include "formats/hdf5/read/locate.hpp"
#include "formats/hdf5/sandbox/probe.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace gpumat;
using namespace gpumat::formats::hdf5;

namespace {

using Catch::Matchers::Contains;

/// The message with which a child ends that runs `task` for the file "x.h5", which is not there.
std::string ending_of(const std::function<void()>& task) {
    const Session session;
    try {
        try_in_child("x.h5", "x.h5", ErrorCode::input, task);
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::input);
        return error.what();
    }
    return "the child came to its end";
}

/// Without an end; the processor has something to do.
void loop() {
    static volatile bool endless = true;
    while (endless) {
    }
}

}  // namespace

TEST_CASE("an HDF5 file whose time ran out is not called damaged") {
    const std::string named = ending_of([] {
        now_reading("x.h5:/a longer name");
        now_reading("x.h5:/v");
        extend_bounds(0.5, 0);
        loop();
    });
    CHECK_THAT(named, Contains("x.h5:/v: HDF5 was still reading it after "));
    CHECK_THAT(named, Contains("expected an end within 6 s"));
    CHECK_THAT(named, !Contains("damaged"));
}

TEST_CASE("an HDF5 file on which the library crashes is called damaged, and one that was killed is not") {
    const std::string crashed = ending_of([] {
        now_reading("x.h5:/v");
        std::signal(SIGABRT, SIG_DFL);
        std::abort();
    });
    CHECK_THAT(crashed, Contains("x.h5:/v: ") && Contains("it crashes: Aborted") && Contains("is damaged"));
    const std::string killed = ending_of([] { std::raise(SIGKILL); });
    CHECK_THAT(killed, Contains("x.h5: ") && Contains("was killed") && !Contains("damaged"));
}

TEST_CASE("a stack that is too small for HDF5 is not called a damaged file") {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, std::size_t{64} << 10);
    std::optional<Error> found;
    const auto try_file = [](void* told) -> void* {
        const Session session;
        try {
            try_in_child("x.h5", "x.h5", ErrorCode::input, [] {});
        } catch (const Error& error) {
            static_cast<std::optional<Error>*>(told)->emplace(error);
        }
        return nullptr;
    };
    pthread_t thread{};
    REQUIRE(pthread_create(&thread, &attributes, try_file, &found) == 0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
    REQUIRE(found);
    CHECK(found->code() == ErrorCode::memory);
    CHECK_THAT(found->what(), Contains("x.h5: the stack may take 64.00 KiB") && Contains("(ulimit -s)"));
}

TEST_CASE("what a child reads is told as far as there is room for it") {
    const std::string name(10000, 'n');
    const std::string told = ending_of([&] {
        now_reading(name);
        std::raise(SIGKILL);
    });
    CHECK_THAT(told, Contains("nnn…: the process"));
    CHECK(std::count(told.begin(), told.end(), 'n') > 4000);
}

TEST_CASE("what a child has to tell comes whole, however long it is") {
    const Session session;
    std::string text(300000, 'x');
    text[7] = '\0';
    CHECK((ask_child("x.h5", "x.h5", ErrorCode::input, [&] { return text; }) == text));
    CHECK(ask_child("x.h5", "x.h5", ErrorCode::input, [] { return std::string(); }).empty());
}

TEST_CASE("what cannot be opened by one of its names is not opened by another one") {
    const TemporaryFolder folder;
    const std::string path = folder / "names.h5";
    const Session session;
    {
        const Handle made(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
        const Handle group(H5Gcreate2(made.id(), "b", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        REQUIRE(H5Lcreate_hard(made.id(), "b", made.id(), "c", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    }
    const Handle file = open_for_reading(path);
    int opened = 0;
    const auto visit = [&](const Handle&, const std::string& name) {
        if (name == "/") return true;
        ++opened;
        throw Error(ErrorCode::memory, "too much");
    };
    Failures failures;
    walk(file.id(), path, visit, failures);
    CHECK(opened == 1);
    REQUIRE(failures.size() == 2);
    CHECK(failures.at("/b").what() == std::string("too much"));
    CHECK(failures.at("/c").code() == ErrorCode::memory);
    CHECK(failures.at("/c").what() == path + ":/c: is the same object as /b");
    walk(file.id(), path, visit, failures);  // as the parent does with what its child found
    CHECK(opened == 1);
}
