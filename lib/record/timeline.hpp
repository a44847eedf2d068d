#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/stopwatch.hpp"

// When the stages of a run worked, on one clock that starts with the run. They may work at the same time.

namespace gpumat {

/// How long something worked in each of equally long spans of the run, which grow as the run does.
class Activity {
  public:
    /// It worked from one time to the other, no earlier than before.
    void add(double begin_ms, double end_ms);

    /// The time that it worked between the two.
    [[nodiscard]] double busy_ms(double begin_ms, double end_ms) const;

  private:
    double span_ms_ = 1.0 / 64;
    std::array<float, 512> busy_ms_{};
};

/// How long a stage worked, and how long it waited for others between its first and its last piece of work:
/// begin + busy + waiting = end.
struct StageTime {
    std::string name;
    double begin_ms = 0;  ///< from the start of the run
    double end_ms = 0;
    double busy_ms = 0;
    Activity activity;

    [[nodiscard]] double waiting_ms() const { return end_ms - begin_ms - busy_ms; }
};

class Timeline;

/// Measures a stage. One thread uses it at a time; who watches the timeline may do so beside it.
class StageClock {
  public:
    StageClock(std::string_view name, Timeline& timeline) : timeline_(timeline) { time_.name = name; }

    /// The stage works as long as this lives.
    class Work {
      public:
        explicit Work(StageClock& clock) : clock_(clock) { clock_.start(); }
        Work(const Work&) = delete;
        Work& operator=(const Work&) = delete;
        ~Work() { clock_.stop(); }

      private:
        StageClock& clock_;
    };
    [[nodiscard]] Work work() { return Work(*this); }

    template <class Piece>
    decltype(auto) operator()(const Piece& piece) {
        const Work working(*this);
        return piece();
    }

    /// Waits for others in the middle of a piece of work.
    template <class Wait>
    decltype(auto) pause(const Wait& wait) {
        const Pause pausing(*this);
        return wait();
    }

  private:
    friend class Timeline;

    struct Pause {
        explicit Pause(StageClock& paused) : clock(paused) { clock.stop(); }
        Pause(const Pause&) = delete;
        Pause& operator=(const Pause&) = delete;
        ~Pause() { clock.start(); }
        StageClock& clock;
    };

    void start();
    void stop();
    [[nodiscard]] StageTime time_until(double now_ms) const;

    Timeline& timeline_;
    StageTime time_;
    bool ran_ = false;
    bool works_ = false;
    double started_ms_ = 0;
};

/// The clocks of a run's stages, in the order of the flow.
class Timeline {
  public:
    Timeline() = default;
    Timeline(const Timeline&) = delete;
    Timeline& operator=(const Timeline&) = delete;
    ~Timeline() = default;

    StageClock open{"open", *this};        ///< inputs with their headers, and the output
    StageClock prepare{"prepare", *this};  ///< device, level and parts are chosen
    StageClock read{"read", *this};        ///< with conversion
    StageClock host_to_device{"host_to_device", *this};
    StageClock kernel{"kernel", *this};  ///< all repetitions and warm-ups
    StageClock device_to_host{"device_to_host", *this};
    StageClock verify{"verify", *this};
    StageClock hash{"hash", *this};    ///< of the inputs and the result
    StageClock write{"write", *this};  ///< until the output has its name

    [[nodiscard]] double elapsed_ms() const { return watch_.elapsed_ms(); }

    /// The time in which at least one stage worked.
    [[nodiscard]] double worked_ms() const;

    /// Those that have worked, up to now where they still do.
    [[nodiscard]] std::vector<StageTime> stages() const;

  private:
    friend class StageClock;

    Stopwatch watch_;
    mutable std::mutex mutex_;  ///< of all that follows, and of the clocks' times
    int working_ = 0;
    double since_ms_ = 0;  ///< that at least one works, where one does
    double worked_ms_ = 0;
};

/// The stage that bounds the run: the one that worked the longest. Null where none ran.
const StageTime* bounding_stage(const std::vector<StageTime>& stages);

/// A picture of the stages for people: a line each with its times and a bar that shows when it worked (#),
/// did so in part (+) and waited (.), then the time in which none worked and the total.
std::vector<std::string> draw_timeline(const std::vector<StageTime>& stages, double rest_ms, double total_ms);

}  // namespace gpumat
