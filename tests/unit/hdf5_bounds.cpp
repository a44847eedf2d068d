// What opening the objects of an HDF5 file may take, and what is said where it takes more.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>

#include "formats/hdf5/locate.hpp"
#include "formats/hdf5/probe.hpp"
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

/// A file of virtual datasets /a, /b and /c of one, two and one mapping.
std::string virtual_datasets(const TemporaryFolder& folder) {
    std::ofstream(folder / "make.py") << R"(
import sys, h5py
with h5py.File(sys.argv[1], "w", libver=("v110", "v110")) as file:
    for name, count in (("a", 1), ("b", 2), ("c", 1)):
        layout = h5py.VirtualLayout((count, 3), "f8")
        for row in range(count):
            layout[row] = h5py.VirtualSource("piece.h5", "A", (3,))
        file.create_virtual_dataset(name, layout)
)";
    std::string path = folder / "virtual.h5";
    const std::string command = std::string(GPUMAT_TEST_PYTHON) + " " + (folder / "make.py") + " " + path;
    REQUIRE(std::system(command.c_str()) == 0);
    return path;
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
    CHECK_THAT(named, Contains("expected an end within 3 s"));
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

TEST_CASE("virtual datasets of a file share the time in which they are to be opened") {
    const TemporaryFolder folder;
    const std::string path = virtual_datasets(folder);
    const Session session;
    const Handle file = open_for_reading(path);
    const double mapping = stored_mappings(file.id(), "/a", {}, path)->seconds;
    REQUIRE(mapping > 0);
    const auto walked = [&](double seconds, Failures& failures) {
        std::vector<std::string> names;
        const auto visit = [&](const Handle&, const std::string& name) {
            names.push_back(name);
            return true;
        };
        walk(file.id(), path, {{}, seconds}, visit, failures);
        return names;
    };
    using Names = std::vector<std::string>;
    Failures none;
    CHECK(walked(4.5 * mapping, none) == Names{"/", "/a", "/b", "/c"});
    CHECK(none.empty());

    Failures second;  // /c fits into what /b leaves
    CHECK(walked(2.5 * mapping, second) == Names{"/", "/a", "/c"});
    REQUIRE(second.size() == 1);
    CHECK(second.at("/b").code() == ErrorCode::input);
    CHECK_THAT(second.at("/b").what(),
               Contains(path + ":/b: HDF5 would take about") && Contains("whose 2 mappings") &&
                   Contains("for others of the file") && Contains("named alone it can be opened"));

    Failures alone;  // /b is too much also without the others
    CHECK(walked(1.5 * mapping, alone) == Names{"/", "/a"});
    REQUIRE(alone.size() == 2);
    CHECK_THAT(alone.at("/b").what(), !Contains("others of the file"));
    CHECK_THAT(alone.at("/c").what(), Contains("others of the file"));

    Failures known{{"/b", Error(ErrorCode::memory, "known")}};  // is not opened again
    CHECK(walked(4.5 * mapping, known) == Names{"/", "/a", "/c"});
    CHECK(known.at("/b").what() == std::string("known"));
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
    walk(file.id(), path, {}, visit, failures);
    CHECK(opened == 1);
    REQUIRE(failures.size() == 2);
    CHECK(failures.at("/b").what() == std::string("too much"));
    CHECK(failures.at("/c").code() == ErrorCode::memory);
    CHECK(failures.at("/c").what() == path + ":/c: is the same object as /b");
    walk(file.id(), path, {}, visit, failures);  // as the parent does with what its child found
    CHECK(opened == 1);
}
