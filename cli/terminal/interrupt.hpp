#pragma once

namespace gpumat::cli {

/// While it lives, SIGINT and SIGTERM finish the output before they end the process as they would have
/// ended it without: a result that is written in pieces stays valid. One at a time.
class FinishOnInterrupt {
  public:
    FinishOnInterrupt();
    ~FinishOnInterrupt();
    FinishOnInterrupt(const FinishOnInterrupt&) = delete;
    FinishOnInterrupt& operator=(const FinishOnInterrupt&) = delete;

    /// What an interrupt writes to standard output, and to standard error, from now on. The texts must live
    /// to the end of the process.
    void set_end(const char* on_stdout, const char* on_stderr);

    /// Between these an interrupt waits, so that it cannot cut a piece in two.
    void begin_piece();
    void end_piece();
};

}  // namespace gpumat::cli
