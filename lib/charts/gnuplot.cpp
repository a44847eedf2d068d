#include "lib/charts/gnuplot.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <list>
#include <sstream>
#include <utility>

#include "core/error.hpp"

namespace gpumat {
namespace {

std::filesystem::path find_program(const std::string& name) {
    const char* variable = std::getenv("PATH");
    std::string folders = variable == nullptr ? "" : variable;
    for (std::size_t begin = 0; begin <= folders.size();) {
        const std::size_t end = std::min(folders.find(':', begin), folders.size());
        auto candidate = std::filesystem::path(folders.substr(begin, end - begin)) / name;
        if (access(candidate.c_str(), X_OK) == 0 && !std::filesystem::is_directory(candidate))
            return candidate;
        begin = end + 1;
    }
    return {};
}

/// A file of this process alone, with this text, removed with the object.
class ScriptFile {
  public:
    explicit ScriptFile(const std::string& text)
        : path_((std::filesystem::temp_directory_path() / "gpumat-plot-XXXXXX").string()) {
        const int file = mkstemp(path_.data());
        if (file < 0) throw Error(ErrorCode::output, path_ + ": cannot be created for gnuplot's script");
        const ssize_t written = write(file, text.data(), text.size());
        const bool closed = close(file) == 0;
        if (!closed || written != static_cast<ssize_t>(text.size())) {
            unlink(path_.c_str());
            throw Error(ErrorCode::output, path_ + ": gnuplot's script cannot be written");
        }
    }
    ~ScriptFile() { unlink(path_.c_str()); }
    ScriptFile(const ScriptFile&) = delete;
    ScriptFile& operator=(const ScriptFile&) = delete;

    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    std::string path_;
};

/// Runs gnuplot on the script; returns what it said, and whether it succeeded.
std::pair<std::string, bool> run_gnuplot(const std::string& script_path) {
    std::array<int, 2> pipe_ends{};
    if (pipe(pipe_ends.data()) != 0) return {"no pipe", false};
    const std::string program = find_program("gnuplot").string();
    const pid_t child = fork();
    if (child == 0) {
        dup2(pipe_ends[1], STDOUT_FILENO);
        dup2(pipe_ends[1], STDERR_FILENO);
        close(pipe_ends[0]);
        execl(program.c_str(), "gnuplot", script_path.c_str(), static_cast<char*>(nullptr));
        _exit(127);
    }
    close(pipe_ends[1]);
    std::string said;
    std::array<char, 4096> part{};
    for (ssize_t got = 0; child > 0 && (got = read(pipe_ends[0], part.data(), part.size())) > 0;)
        said.append(part.data(), static_cast<std::size_t>(got));
    close(pipe_ends[0]);
    int status = -1;
    const bool done = child > 0 && waitpid(child, &status, 0) == child;
    return {said, done && WIFEXITED(status) && WEXITSTATUS(status) == 0};
}

}  // namespace

void require_gnuplot(const std::string& what, const std::string& instead) {
    if (!find_program("gnuplot").empty()) return;
    throw Error(ErrorCode::output, what +
                                       " cannot be drawn: gnuplot is not installed (nothing named gnuplot "
                                       "in the folders of PATH); " +
                                       instead);
}

std::string gnuplot_text(const std::string& text) {
    std::string result = "'";  // which takes everything up to the next one as it is
    for (const char c : text) {
        if (c == '\n' || c == '\r') continue;
        result += c == '\'' ? std::string("''") : std::string(1, c);
    }
    return result + "'";
}

std::string gnuplot_label(const std::string& text) {
    std::string result;
    for (const char c : text) result += c == '%' ? std::string("%%") : std::string(1, c);
    return gnuplot_text(result);
}

void draw_script(const std::string& script, const std::string& path) {
    const ScriptFile file(script);
    const auto [said, good] = run_gnuplot(file.path());
    if (!good) throw Error(ErrorCode::output, path + " cannot be drawn: gnuplot failed: " + said);
}

std::vector<std::string> drawn_by(const std::vector<std::string>& scripts, const std::string& path) {
    std::list<ScriptFile> files;
    std::string all;
    for (const std::string& script : scripts) {
        files.emplace_back("");
        all += "reset\nset output " + gnuplot_text(files.back().path()) + "\n" + script + "set output\n";
    }
    if (!scripts.empty()) draw_script(all, path);
    std::vector<std::string> drawn;
    for (const ScriptFile& file : files) {
        std::ostringstream text;
        text << std::ifstream(file.path(), std::ios::binary).rdbuf();
        drawn.push_back(text.str());
    }
    return drawn;
}

}  // namespace gpumat
