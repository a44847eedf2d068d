#pragma once

#include <mpi.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "lib/engines/module.hpp"

namespace gpumat::engines {

/// Ranks in a ring: a thread of each sends a beat to the next one every second, however long the others
/// compute, and listens to the one before. Where that is silent for kSilentSeconds, `silent` is called, on
/// that thread. The seconds are those in which this process runs: when all are stopped, nobody is missed.
class Watch {
  public:
    /// By all ranks, of which there are several, where MPI allows calls from any thread.
    explicit Watch(Silent silent);
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    ~Watch();  ///< no beat is missed afterwards

  private:
    void beat();
    bool wait_a_second();

    Silent silent_;
    MPI_Comm ring_ = MPI_COMM_NULL;
    int next_ = 0;
    int before_ = 0;
    std::string host_before_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool ends_ = false;
    std::thread beating_;
};

}  // namespace gpumat::engines
