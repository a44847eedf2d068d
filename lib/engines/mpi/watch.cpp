#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include "lib/engines/mpi/watch.hpp"

#include <array>
#include <chrono>

namespace gpumat::engines {

Watch::Watch(Silent silent) : silent_(silent) {
    MPI_Comm_dup(MPI_COMM_WORLD, &ring_);
    int rank = 0;
    int size = 1;
    MPI_Comm_rank(ring_, &rank);
    MPI_Comm_size(ring_, &size);
    next_ = (rank + 1) % size;
    before_ = (rank + size - 1) % size;
    std::array<char, MPI_MAX_PROCESSOR_NAME> own{};
    std::array<char, MPI_MAX_PROCESSOR_NAME> theirs{};
    int length = 0;
    MPI_Get_processor_name(own.data(), &length);
    MPI_Sendrecv(own.data(), static_cast<int>(own.size()), MPI_CHAR, next_, 0, theirs.data(),
                 static_cast<int>(theirs.size()), MPI_CHAR, before_, 0, ring_, MPI_STATUS_IGNORE);
    host_before_ = theirs.data();
    beating_ = std::thread([this] { beat(); });
}

Watch::~Watch() {
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
    }
    changed_.notify_one();
    beating_.join();
}

/// False at the end.
bool Watch::wait_a_second() {
    std::unique_lock lock(mutex_);
    return !changed_.wait_for(lock, std::chrono::seconds(1), [this] { return ends_; });
}

void Watch::beat() {
    const char sent = 0;
    char heard = 0;
    MPI_Request sending = MPI_REQUEST_NULL;
    MPI_Request listening = MPI_REQUEST_NULL;
    MPI_Send_init(&sent, 1, MPI_CHAR, next_, 1, ring_, &sending);
    MPI_Recv_init(&heard, 1, MPI_CHAR, before_, 1, ring_, &listening);
    MPI_Start(&listening);
    for (int silent_for = 0; wait_a_second();) {
        int done = 0;
        MPI_Test(&sending, &done, MPI_STATUS_IGNORE);
        if (done != 0) MPI_Start(&sending);
        ++silent_for;
        for (MPI_Test(&listening, &done, MPI_STATUS_IGNORE); done != 0;
             MPI_Test(&listening, &done, MPI_STATUS_IGNORE)) {
            silent_for = 0;
            MPI_Start(&listening);
        }
        if (silent_for > kSilentSeconds) silent_(before_, host_before_.c_str());
    }
    MPI_Cancel(&listening);
    for (int done = 0; done == 0;) MPI_Test(&listening, &done, MPI_STATUS_IGNORE);
    MPI_Request_free(&listening);
    MPI_Request_free(&sending);
}

}  // namespace gpumat::engines
