#include "lib/record/timeline.hpp"

#include <chrono>
#include <cmath>
#include <thread>

#include "tests/catch.hpp"

using namespace gpumat;

namespace {

void sleep_ms(int ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

StageTime stage_named(const std::vector<StageTime>& stages, const std::string& name) {
    for (const StageTime& stage : stages)
        if (stage.name == name) return stage;
    FAIL("there is no stage " << name);
    return stages.front();
}

}  // namespace

TEST_CASE("an activity keeps how long something worked, whatever the run grows to") {
    Activity activity;
    activity.add(0, 1);
    activity.add(3, 4);
    activity.add(1000, 1500);
    activity.add(90'000, 100'000);
    CHECK(std::abs(activity.busy_ms(0, 200'000) - 10'502) < 0.1);
    CHECK(std::abs(activity.busy_ms(80'000, 200'000) - 10'000) < 0.1);
    CHECK(std::abs(activity.busy_ms(2000, 80'000)) < 0.1);
    CHECK(std::abs(activity.busy_ms(91'000, 92'000) - 1000) < 0.1);
}

TEST_CASE("what a stage waits for in its work is not work, and the rest is when none works") {
    Timeline timeline;
    sleep_ms(20);
    timeline.read([] { sleep_ms(20); });
    timeline.write([&] {
        sleep_ms(10);
        timeline.write.pause([] { sleep_ms(30); });
        sleep_ms(10);
    });
    const double total_ms = timeline.elapsed_ms();
    const auto stages = timeline.stages();
    REQUIRE(stages.size() == 2);
    const StageTime read = stage_named(stages, "read");
    const StageTime write = stage_named(stages, "write");
    CHECK(read.begin_ms >= 20);
    CHECK(read.busy_ms >= 20);
    CHECK(write.busy_ms >= 20);
    CHECK(write.waiting_ms() >= 30);
    CHECK(write.begin_ms >= read.end_ms);
    // Nothing worked at the same time: the times make up the total.
    CHECK(std::abs(timeline.worked_ms() - (read.busy_ms + write.busy_ms)) < 1e-6);
    CHECK(total_ms - timeline.worked_ms() >= 50);
}

TEST_CASE("stages that work at the same time count once") {
    Timeline timeline;
    {
        const auto kernel = timeline.kernel.work();
        std::thread([&] { timeline.verify([] { sleep_ms(20); }); }).join();
    }
    const auto stages = timeline.stages();
    const StageTime kernel = stage_named(stages, "kernel");
    CHECK(stage_named(stages, "verify").busy_ms >= 20);
    CHECK(std::abs(timeline.worked_ms() - kernel.busy_ms) < 1e-6);
    REQUIRE(bounding_stage(stages) != nullptr);
    CHECK(bounding_stage(stages)->name == "kernel");
    CHECK(bounding_stage({}) == nullptr);
}

TEST_CASE("a stage that still works is told of up to now, and one that fails up to then") {
    Timeline timeline;
    const auto open = timeline.open.work();
    sleep_ms(10);
    CHECK(timeline.stages().front().busy_ms >= 10);
    CHECK(timeline.worked_ms() >= 10);
    CHECK_THROWS(timeline.read([]() -> void { throw 1; }));
    CHECK_THROWS(timeline.write([&] { timeline.write.pause([]() -> void { throw 1; }); }));
    CHECK(timeline.stages().size() == 3);
}

TEST_CASE("the picture of a run has a bar where each stage worked") {
    StageTime read{.name = "read", .begin_ms = 0, .end_ms = 140, .busy_ms = 140, .activity = {}};
    read.activity.add(0, 140);
    StageTime write{.name = "write", .begin_ms = 140, .end_ms = 280, .busy_ms = 70, .activity = {}};
    write.activity.add(140, 150);
    write.activity.add(220, 280);
    const auto lines = draw_timeline({read, write}, 5, 285);
    REQUIRE(lines.size() == 6);
    const std::string bar = lines[1].substr(lines[1].find('|'));
    CHECK(bar == "|##############              |");
    CHECK(lines[2].substr(lines[2].find('|')).find_first_not_of("|# .+") == std::string::npos);
    CHECK(lines[2].find("#.") != std::string::npos);
    for (const std::string& line : lines) CHECK(line.size() <= 72);
    CHECK(lines[3].find("5.00") != std::string::npos);
    CHECK(lines[4].find("285.00") != std::string::npos);
    CHECK(lines[5] == "bounded by: read");
}
