#include "lib/output/atomic_output.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <vector>

#include "core/error.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace gpumat;
namespace fs = std::filesystem;

namespace {

/// Whether the tests run where files cannot be without a name.
const bool kNamed =
    std::string(std::getenv("GPUMAT_FILE_SYSTEM_LACKS") != nullptr ? std::getenv("GPUMAT_FILE_SYSTEM_LACKS")
                                                                   : "")
        .find("tmpfile") != std::string::npos;

/// The message of the Error{output} that opening throws.
std::string refusal(const std::string& target, OutputMode mode, const std::vector<std::string>& inputs = {}) {
    try {
        const AtomicOutput output(target, mode, inputs);
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::output);
        CHECK(std::string(error.what()).find(target) != std::string::npos);
        return error.what();
    }
    return "";
}

bool says(const std::string& message, const std::string& part) {
    return message.find(part) != std::string::npos;
}

/// Runs `body` in a child process; its wait status.
template <class Body>
int in_child(const Body& body) {
    const pid_t child = fork();
    if (child == 0) {
        body();
        _exit(99);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
}

unsigned mode_of(const std::string& path) {
    struct stat present = {};
    REQUIRE(stat(path.c_str(), &present) == 0);
    return present.st_mode & 07777;
}

}  // namespace

TEST_CASE("an output appears whole on commit, and not at all without it") {
    const TemporaryFolder folder;
    const std::string target = folder / "out.mtx";
    {
        AtomicOutput output(target, OutputMode::create);
        CHECK_FALSE(output.direct());
        write_file(output.path(), "half");
        CHECK(file_text(output.path()) == "half");
        CHECK(folder.entries() == (kNamed ? 1 : 0));
        CHECK_FALSE(fs::exists(target));
    }
    CHECK(folder.entries() == 0);
    {
        AtomicOutput output(target, OutputMode::create);
        write_file(output.path(), "whole");
        output.commit();
        CHECK(file_text(target) == "whole");
        output.commit();  // again: nothing left to do
    }
    CHECK(file_text(target) == "whole");
    CHECK(folder.entries() == 1);
}

TEST_CASE("an existing output is replaced only with force, and keeps its mode") {
    const TemporaryFolder folder;
    const std::string target = folder / "out";
    write_file(target, "old");
    chmod(target.c_str(), 0640);
    CHECK(says(refusal(target, OutputMode::create), "--force"));
    CHECK(folder.entries() == 1);
    {
        AtomicOutput output(target, OutputMode::replace);
        write_file(output.path(), "new");
        CHECK(file_text(target) == "old");
    }
    CHECK(file_text(target) == "old");
    AtomicOutput output(target, OutputMode::replace);
    write_file(output.path(), "new");
    output.commit();
    CHECK(file_text(target) == "new");
    CHECK(mode_of(target) == 0640);

    const mode_t before = umask(027);
    AtomicOutput fresh(folder / "fresh", OutputMode::create);
    fresh.commit();
    umask(before);
    CHECK(mode_of(folder / "fresh") == 0640);
}

TEST_CASE("a file that appears meanwhile is not replaced without force") {
    const TemporaryFolder folder;
    const std::string target = folder / "out";
    {
        AtomicOutput output(target, OutputMode::create);
        write_file(target, "other");
        CHECK_THROWS_AS(output.commit(), Error);
    }
    CHECK(file_text(target) == "other");
    CHECK(folder.entries() == 1);
}

TEST_CASE("an output that is an input is refused, whatever its name, also with force") {
    const TemporaryFolder folder;
    const std::string input = folder / "in";
    write_file(input, "in");
    fs::create_symlink("in", folder / "soft");
    fs::create_hard_link(input, folder / "hard");
    for (const std::string& name : {folder / "in", folder / "soft", folder / "hard",
                                    folder / "./../" + fs::path(folder.path()).filename().string() + "/in"}) {
        CHECK(says(refusal(name, OutputMode::replace, {"-", folder / "absent", input}), "input " + input));
    }
    CHECK(says(refusal(input, OutputMode::replace, {folder / "soft"}), "input"));
    CHECK(file_text(input) == "in");
    CHECK(folder.entries() == 3);
}

TEST_CASE("targets that cannot be written are refused before anything is computed") {
    const TemporaryFolder folder;
    CHECK(says(refusal(folder.path(), OutputMode::replace), "directory"));
    CHECK(says(refusal(folder / "absent/out", OutputMode::create), "folder"));
    CHECK(says(refusal(folder / "absent/", OutputMode::create), "directory"));
    write_file(folder / "file", "");
    CHECK_FALSE(refusal(folder / "file/out", OutputMode::create).empty());
    fs::create_symlink("loop", folder / "loop");
    CHECK_FALSE(refusal(folder / "loop", OutputMode::replace).empty());
    CHECK_FALSE(refusal(folder / std::string(300, 'x'), OutputMode::create).empty());
    AtomicOutput(folder / std::string(255, 'x'), OutputMode::create).commit();
    CHECK(fs::exists(folder / std::string(255, 'x')));
    if (geteuid() == 0) return;  // the superuser may write everywhere
    fs::create_directory(folder / "closed");
    fs::permissions(folder / "closed", fs::perms::owner_read | fs::perms::owner_exec);
    CHECK(says(refusal(folder / "closed/out", OutputMode::create), "Permission"));
    fs::permissions(folder / "closed", fs::perms::owner_all);
}

TEST_CASE("a symbolic link stays, and the file it points to is written") {
    const TemporaryFolder folder;
    fs::create_directory(folder / "data");
    fs::create_symlink("data/real", folder / "link");
    fs::create_symlink("link", folder / "link2");
    {
        AtomicOutput output(folder / "link2", OutputMode::create);  // points to nothing yet
        write_file(output.path(), "one");
        output.commit();
    }
    CHECK(file_text(folder / "data/real") == "one");
    CHECK(says(refusal(folder / "link", OutputMode::create), "--force"));
    AtomicOutput output(folder / "link", OutputMode::replace);
    write_file(output.path(), "two");
    output.commit();
    CHECK(fs::is_symlink(folder / "link"));
    CHECK(file_text(folder / "data/real") == "two");
}

TEST_CASE("devices and pipes are written straight") {
    const TemporaryFolder folder;
    for (const std::string target : {"/dev/null", "/dev/full"}) {
        AtomicOutput output(target, OutputMode::create);
        CHECK(output.direct());
        CHECK(fs::read_symlink(output.path()) == target);
        output.commit();
        CHECK(fs::is_character_file(target));
    }
    const std::string pipe = folder / "pipe";
    REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
    {
        // Opening a FIFO for writing waits for its reader, but not in a rehearsal.
        const AtomicOutput rehearsed(pipe, OutputMode::create, {}, OutputPurpose::rehearse);
        CHECK(rehearsed.direct());
        const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        const AtomicOutput output(pipe, OutputMode::create);
        CHECK(output.direct());
        close(reader);
    }
    CHECK(fs::is_fifo(pipe));
}

TEST_CASE("a signal removes the temporary files and ends the process as usual") {
    const TemporaryFolder folder;
    for (const int signal_number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
        const int status = in_child([&] {
            const rlimit no_core{0, 0};
            setrlimit(RLIMIT_CORE, &no_core);
            install_signal_cleanup();
            const AtomicOutput first(folder / "first", OutputMode::create);
            const AtomicOutput second(folder / "second", OutputMode::create);
            if (folder.entries() != (kNamed ? 2 : 0)) _exit(1);
            raise(signal_number);
        });
        INFO(signal_number);
        CHECK(WIFSIGNALED(status));
        CHECK(WTERMSIG(status) == signal_number);
        CHECK(folder.entries() == 0);
    }
}

TEST_CASE("a signal in a child process leaves the parent's temporary file") {
    const TemporaryFolder folder;
    const int outer = in_child([&] {
        install_signal_cleanup();
        AtomicOutput output(folder / "out", OutputMode::create);
        const int inner = in_child([] { raise(SIGTERM); });
        output.commit();
        _exit(WIFSIGNALED(inner) && fs::exists(folder / "out") ? 0 : 1);
    });
    CHECK(WIFEXITED(outer));
    CHECK(WEXITSTATUS(outer) == 0);
}

TEST_CASE("ignored signals stay ignored, and a file-size limit is an ordinary error") {
    const TemporaryFolder folder;
    const int status = in_child([&] {
        std::signal(SIGHUP, SIG_IGN);
        install_signal_cleanup();
        raise(SIGHUP);
        raise(SIGPIPE);
        const rlimit small{10, 10};
        setrlimit(RLIMIT_FSIZE, &small);
        const AtomicOutput output(folder / "out", OutputMode::create);
        std::ofstream file(output.path());
        file << std::string(100, 'x') << std::flush;
        _exit(file.good() ? 1 : 0);
    });
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("places for outputs are given back, and too many at once into one file are an error") {
    const TemporaryFolder folder;
    for (int i = 0; i < 100; ++i)
        AtomicOutput(folder / ("out" + std::to_string(i)), OutputMode::create).commit();
    CHECK(folder.entries() == 100);
    const TemporaryFolder crowded;
    std::vector<std::unique_ptr<AtomicOutput>> live;
    const auto open_one = [&] {
        live.push_back(std::make_unique<AtomicOutput>(crowded / "out", OutputMode::create));
    };
    for (int i = 0; i < 30; ++i) open_one();
    live.clear();
    CHECK(crowded.entries() == 0);
    constexpr int kNames = 1000;
    const auto name = [&](int number) { return crowded / (".out.gpumat-" + std::to_string(number)); };
    for (int i = 1; i < kNames; ++i) fs::create_symlink("nowhere", name(i));
    if (kNamed) {  // one more name is needed to try renaming
        const std::string message = refusal(crowded / "out", OutputMode::create);
        CHECK(says(message, "the names .out.gpumat-1 to .out.gpumat-1000 are all taken"));
    }
    CHECK(crowded.entries() == kNames - 1);
    fs::remove(name(kNames / 2));
    AtomicOutput(crowded / "out", OutputMode::create).commit();
    CHECK(crowded.entries() == kNames - 1);
}

TEST_CASE("what a killed process left goes with the next output, and nothing else") {
    const TemporaryFolder folder;
    const std::string target = folder / "out";
    const std::string left = folder / ".out.gpumat-1";
    write_file(left, "left");
    write_file(folder / ".out.gpumat-2", "in use");
    write_file(folder / ".out2.gpumat-1", "another's");
    fs::create_symlink("out.victim", folder / ".out.gpumat-3");
    const int other = open((folder / ".out.gpumat-2").c_str(), O_RDONLY | O_CLOEXEC);
    REQUIRE(flock(other, LOCK_SH | LOCK_NB) == 0);
    { const AtomicOutput rehearsed(target, OutputMode::create, {}, OutputPurpose::rehearse); }
    CHECK(fs::exists(left));  // a rehearsal changes nothing
    AtomicOutput(target, OutputMode::create).commit();
    CHECK_FALSE(fs::exists(left));
    CHECK(file_text(folder / ".out.gpumat-2") == "in use");
    CHECK(file_text(folder / ".out2.gpumat-1") == "another's");
    CHECK(fs::is_symlink(folder / ".out.gpumat-3"));
    CHECK(folder.entries() == 4);
    close(other);

    const int killed = in_child([&] {
        const AtomicOutput output(target, OutputMode::replace);
        raise(SIGKILL);
    });
    CHECK(WIFSIGNALED(killed));
    AtomicOutput(target, OutputMode::replace).commit();
    CHECK_FALSE(fs::exists(folder / ".out.gpumat-1"));
    CHECK_FALSE(fs::exists(folder / ".out.gpumat-2"));
}

TEST_CASE("who takes the temporary name away gets nothing written") {
    const TemporaryFolder folder;
    write_file(folder / "victim", "mine");
    AtomicOutput output(folder / "out", OutputMode::replace);
    if (!kNamed) return;
    for (const auto& entry : fs::directory_iterator(folder.path())) {
        if (entry.path().filename() == "victim") continue;
        fs::remove(entry.path());
        fs::create_symlink("victim", entry.path());
    }
    write_file(output.path(), "result");
    CHECK_THROWS_AS(output.commit(), Error);
    CHECK(file_text(folder / "victim") == "mine");
    CHECK_FALSE(fs::exists(folder / "out"));
}

TEST_CASE("a file that is replaced keeps its list, attributes and owner") {
    const TemporaryFolder folder;
    const std::string target = folder / "out";
    write_file(target, "old");
    chmod(target.c_str(), 0640);
    if (setxattr(target.c_str(), "user.note", "kept", 4, 0) != 0) return;  // the file system has none
    // owner rw-, user 12345 rw-, group r--, mask rw-, others ---, as the system stores it
    const std::array<std::uint32_t, 11> list = {2,          0x60001,    0xffffffff, 0x60002,
                                                12345,      0x40004,    0xffffffff, 0x60010,
                                                0xffffffff, 0x00000020, 0xffffffff};
    const bool listed = setxattr(target.c_str(), "system.posix_acl_access", list.data(), sizeof list, 0) == 0;
    const bool root = geteuid() == 0;
    if (root) REQUIRE(chown(target.c_str(), 4321, 4321) == 0);
    for (const OutputMode mode : {OutputMode::replace, OutputMode::extend}) {
        AtomicOutput output(target, mode);
        CHECK(output.not_kept().empty());
        output.commit();
        std::array<char, 16> note{};
        CHECK(getxattr(target.c_str(), "user.note", note.data(), note.size()) == 4);
        CHECK(std::string(note.data()) == "kept");
        if (root) {
            struct stat present = {};
            REQUIRE(stat(target.c_str(), &present) == 0);
            CHECK((present.st_uid == 4321 && present.st_gid == 4321));
        }
        if (!listed) continue;
        std::array<std::uint32_t, 32> found{};
        REQUIRE(getxattr(target.c_str(), "system.posix_acl_access", found.data(), sizeof found) ==
                sizeof list);
        CHECK(std::equal(list.begin(), list.end(), found.begin()));
        CHECK(mode_of(target) == 0660);
    }
}

TEST_CASE("extending starts from a copy, and never loses a change made meanwhile") {
    const TemporaryFolder folder;
    const std::string target = folder / "out";
    write_file(target, "old");
    {
        AtomicOutput output(target, OutputMode::extend);
        CHECK(output.extends());
        CHECK(file_text(output.path()) == "old");
        write_file(output.path(), "old and new");
        CHECK(file_text(target) == "old");
        output.commit();
    }
    CHECK(file_text(target) == "old and new");
    {
        AtomicOutput output(target, OutputMode::extend);
        write_file(target, "somebody else's");
        CHECK_THROWS_AS(output.commit(), Error);
    }
    CHECK(file_text(target) == "somebody else's");
    AtomicOutput fresh(folder / "fresh", OutputMode::extend);
    CHECK_FALSE(fresh.extends());
    write_file(fresh.path(), "first");
    fresh.commit();
    CHECK(file_text(folder / "fresh") == "first");
}
