#include "lib/record/record.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <limits>
#include <regex>
#include <sstream>

#include "core/error.hpp"
#include "lib/record/run_log.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace gpumat;
using Json = nlohmann::ordered_json;

namespace {

void append_to(const std::string& log, const RunRecord& record) {
    RunLog(log).append(record);
}

RunRecord sample_record() {
    RunRecord record = start_record();
    record.command_line = "gpumat multiply 'a \"b\", c.h5' B.mtx";
    record.op = "multiply";
    record.level_requested = "auto";
    record.level = "tiled";
    record.device.kind = "cpu";
    record.device.name = "Test CPU, 2 cores";
    record.device.threads = 2;
    record.parameters = {{"tile", "32"}, {"block", "32x8"}};
    record.type = "f64";
    record.m = 2;
    record.n = 3;
    record.k = 4;
    record.alpha = Scalar{{1.5, 0}, 0};
    record.beta = Scalar::of(0);
    record.inputs = {{"a \"b\", c.h5", "/A", "hdf5", 2, 4, "f64", 64, "crc32:00000001"},
                     {"B.mtx", "", "matrix-market", 4, 3, "f64", 96, ""}};
    record.output = RecordedMatrix{"C.h5", "/C", "hdf5", 2, 3, "f64", 48, ""};
    record.stages_ms.read = 1.25;
    record.kernel_samples_ms = {3, 1, 2, 10};
    record.kernel_bytes = 208;
    record.kernel_flops = 48;
    record.verification.mode = "full";
    record.verification.verdict = "failed";
    record.verification.worst_ratio = std::numeric_limits<double>::infinity();
    record.verification.mismatches = 1;
    record.verification.worst = WorstElement{1, 2, "nan", "4", 0, 1e-15};
    record.exit_code = 1;
    return record;
}

std::string python_reads(const std::string& script, const std::string& path) {
    FILE* pipe = popen((GPUMAT_TEST_PYTHON " -c '" + script + "' '" + path + "'").c_str(), "r");
    REQUIRE(pipe != nullptr);
    std::string text;
    std::array<char, 4096> part{};
    while (std::fgets(part.data(), part.size(), pipe) != nullptr) text += part.data();
    REQUIRE(pclose(pipe) == 0);
    return text;
}

int count_lines(const std::string& text) {
    return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("the record has the names of gpumat.run/1 and derives its rates") {
    const Json json = to_json(sample_record());
    for (const char* name : {"schema",
                             "run_id",
                             "time",
                             "working_folder",
                             "build",
                             "processor",
                             "repeat",
                             "warmup",
                             "seed",
                             "command_line",
                             "version",
                             "host",
                             "op",
                             "level_requested",
                             "level",
                             "device",
                             "parameters",
                             "type",
                             "shape",
                             "alpha",
                             "beta",
                             "inputs",
                             "output",
                             "stages_ms",
                             "kernel_ms",
                             "kernel_bytes",
                             "kernel_flops",
                             "effective_bandwidth_gbps",
                             "gflops",
                             "fraction_of_bound",
                             "bound_ms",
                             "dry_run",
                             "peak_host_bytes",
                             "peak_device_bytes",
                             "verification",
                             "error",
                             "exit_code"}) {
        INFO(name);
        CHECK(json.contains(name));
    }
    CHECK(json["schema"] == "gpumat.run/1");
    CHECK(std::regex_match(json["time"].get<std::string>(),
                           std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)")));
    CHECK(json["shape"].dump() == R"({"m":2,"n":3,"k":4})");
    CHECK(json["alpha"] == 1.5);
    CHECK(json["stages_ms"].dump() ==
          R"({"open":null,"prepare":null,"read":1.25,"host_to_device":null,"kernel":null,)"
          R"("device_to_host":null,"verify":null,"hash":null,"write":null,"rest":null,"total":null})");
    CHECK(json["kernel_ms"].dump() == R"({"samples":[3.0,1.0,2.0,10.0],"median":2.5,"min":1.0,"max":10.0})");
    CHECK(json["kernel_bytes"].dump() == "208");
    CHECK(std::abs(json["effective_bandwidth_gbps"].get<double>() - 208 / 2.5e6) < 1e-15);
    CHECK(std::abs(json["gflops"].get<double>() - 48 / 2.5e6) < 1e-15);
    CHECK(json["parameters"].dump() == R"({"tile":"32","block":"32x8"})");
    CHECK(json["inputs"][1]["dataset"].is_null());
    CHECK(json["verification"]["worst_ratio"].is_null());  // JSON has no infinity
    CHECK(json["verification"]["worst"]["computed"] == "nan");
    CHECK(json["error"].is_null());
    CHECK(json["inputs"][0]["rows"] == 2);

    const Json named = to_json(named_matrix({"nowhere.h5", "/A"}));
    CHECK(named.dump() ==
          R"({"path":"nowhere.h5","dataset":"/A","format":null,"rows":null,"cols":null,"type":null,)"
          R"("bytes":null,"file_bytes":null,"hash":null,"packing":null,"unpacked":false})");

    RunRecord transpose = sample_record();
    transpose.kernel_flops = 0;
    transpose.k.reset();
    transpose.alpha.reset();
    transpose.output.reset();
    CHECK(to_json(transpose)["gflops"].is_null());
    CHECK(to_json(transpose)["shape"]["k"].is_null());
    CHECK(to_json(transpose)["alpha"].is_null());
    CHECK(to_json(transpose)["output"].is_null());
    transpose.type = "c64";
    transpose.alpha = Scalar{{1, -2}, 0};
    CHECK(to_json(transpose)["alpha"].dump() == "[1.0,-2.0]");
    transpose.type = "i64";
    transpose.alpha = Scalar::of(std::numeric_limits<std::int64_t>::min());
    CHECK(to_json(transpose)["alpha"].dump() == "-9223372036854775808");
    CHECK(to_json(RunRecord{})["kernel_ms"]["median"].is_null());
}

TEST_CASE("paths that are not UTF-8 do not spoil the record") {
    RunRecord record = sample_record();
    record.inputs[0].path = "\xff\xfe.mtx";
    CHECK(Json::parse(json_line(to_json(record)))["inputs"][0]["path"] == "\xef\xbf\xbd\xef\xbf\xbd.mtx");
}

TEST_CASE("a log of JSON Lines is one object a line") {
    const TemporaryFolder folder;
    const std::string log = folder / "log.jsonl";
    const RunRecord record = sample_record();
    append_to(log, record);
    append_to(log, record);
    const std::string text = file_text(log);
    CHECK(count_lines(text) == 2);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) CHECK(Json::parse(line) == to_json(record));

    // A line that an interrupted writer left open does not swallow the next.
    write_file(log, "{\"schema\": \"gpu");
    append_to(log, sample_record());
    CHECK(count_lines(file_text(log)) == 2);
}

TEST_CASE("a CSV log has one header and the same columns in every row") {
    const TemporaryFolder folder;
    const std::string log = folder / "log.csv";
    append_to(log, sample_record());
    append_to(log, RunRecord{});
    RunRecord record = sample_record();
    record.output.reset();
    record.verification.worst.reset();
    record.command_line = "two\nlines, \"quoted\"";
    append_to(log, record);
    const std::string answer = python_reads(
        "import csv,sys,json\n"
        "rows=list(csv.reader(open(sys.argv[1],newline=\"\")))\n"
        "assert len(rows)==4 and len({len(r) for r in rows})==1, rows\n"
        "assert len(set(rows[0]))==len(rows[0])\n"
        "d=[dict(zip(rows[0],r)) for r in rows[1:]]\n"
        "print(json.dumps([d[0][\"inputs.0.path\"],d[0][\"kernel_ms.median\"],d[0][\"kernel_ms.samples\"],"
        "d[1][\"shape.k\"],d[2][\"command_line\"],d[0][\"verification.worst.computed\"],"
        "d[2][\"verification.worst.computed\"],d[0][\"output.path\"],d[0][\"parameters\"]]))",
        log);
    CHECK(Json::parse(answer).dump() ==
          R"(["a \"b\", c.h5","2.5","[3.0,1.0,2.0,10.0]","","two\nlines, \"quoted\"","nan","","C.h5",)"
          R"("{\"tile\":\"32\",\"block\":\"32x8\"}"])");

    CHECK(file_text(log).find('\r') == std::string::npos);

    write_file(log, "other,columns\n");
    CHECK_THROWS_AS(append_to(log, sample_record()), Error);
    CHECK(file_text(log) == "other,columns\n");
}

TEST_CASE("runs side by side never mix their lines") {
    const TemporaryFolder folder;
    for (const std::string name : {"log.jsonl", "log.csv"}) {
        constexpr int kWriters = 8;
        constexpr int kRecords = 20;
        const std::string log = folder / name;
        for (int i = 0; i < kWriters; ++i) {
            if (fork() != 0) continue;
            RunRecord record = sample_record();
            record.command_line = std::string(5000, static_cast<char>('a' + i));
            for (int j = 0; j < kRecords; ++j) append_to(log, record);
            _exit(0);
        }
        for (int i = 0; i < kWriters; ++i) {
            int status = 0;
            wait(&status);
            CHECK(status == 0);
        }
        const bool csv = name == "log.csv";
        const std::string text = file_text(log);
        CHECK(count_lines(text) == kWriters * kRecords + (csv ? 1 : 0));
        std::istringstream lines(text);
        int whole = 0;
        for (std::string line; std::getline(lines, line);) {
            // Each writer's run of letters is unbroken, and the line is complete.
            const auto unbroken_run = [&line](char letter) {
                return line.find(std::string(5000, letter)) != std::string::npos;
            };
            const std::string letters = "abcdefgh";
            const bool unbroken = std::any_of(letters.begin(), letters.end(), unbroken_run);
            const bool header = csv && line.starts_with("schema,");
            whole += header || (unbroken && (csv ? line.ends_with(",1") : Json::accept(line))) ? 1 : 0;
        }
        CHECK(whole == count_lines(text));
    }
}

TEST_CASE("a log that cannot be written is an error, and stays as it was") {
    const TemporaryFolder folder;
    CHECK_THROWS_AS(append_to(folder.path(), sample_record()), Error);
    CHECK_THROWS_AS(append_to(folder / "absent/log", sample_record()), Error);
    CHECK_THROWS_AS(append_to("/dev/full", sample_record()), Error);
    append_to("/dev/null", sample_record());

    const std::string log = folder / "log.jsonl";
    append_to(log, sample_record());
    const std::string before = file_text(log);
    const pid_t child = fork();
    if (child == 0) {
        std::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{before.size() + 100, before.size() + 100};
        setrlimit(RLIMIT_FSIZE, &limit);
        try {
            append_to(log, sample_record());
        } catch (const Error& error) {
            _exit(error.code() == ErrorCode::output ? 0 : 1);
        }
        _exit(2);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(status == 0);
    CHECK(file_text(log) == before);
}

TEST_CASE("the median is the middle sample") {
    CHECK_FALSE(median({}));
    CHECK(*median({5}) == 5);
    CHECK(*median({9, 1, 5}) == 5);
    CHECK(*median({1, 9, 5, 6}) == 5.5);
}
