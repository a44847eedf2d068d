#include "lib/run/sparse_flow.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/hash/sparse_hash.hpp"
#include "core/helpers.hpp"
#include "core/parallel.hpp"
#include "core/sparse/csr.hpp"
#include "lib/stored/conjugate.hpp"
#include "lib/stored/plain_nan.hpp"

namespace gpumat {
namespace {

/// The values of a matrix, as a dense row of them.
MutableMatrixView values_of(const MutableCsrView& matrix) {
    return {matrix.type, {1, matrix.entries}, matrix.entries, matrix.values};
}

/// Fills a result with bytes that cannot pass for indices or numbers.
void fill_unwritten(const MutableCsrView& matrix, int threads) {
    constexpr std::int64_t kGrain = std::int64_t{1} << 18;
    constexpr int kUnwritten = 0xff;
    const auto fill = [&](void* memory, std::int64_t count, std::size_t each) {
        parallel_for(count, kGrain, threads, [&](std::int64_t begin, std::int64_t end) {
            std::memset(static_cast<std::byte*>(memory) + static_cast<std::size_t>(begin) * each, kUnwritten,
                        static_cast<std::size_t>(end - begin) * each);
        });
    };
    fill(matrix.pointers, matrix.shape.rows + 1, sizeof(std::int64_t));
    fill(matrix.columns, matrix.entries, index_bytes(matrix.shape));
    fill(matrix.values, matrix.entries, size_of(matrix.type));
}

class SparseFlow {
  public:
    SparseFlow(const Plan& plan, const RunOptions& options, Progress& progress, SparseCounts& counts)
        : plan_(plan), options_(options), progress_(progress), counts_(counts) {}

    FlowResult run(const OpenSparse& open) {
        const KeptThreads kept;
        progress_.timeline.read([&] { read(); });
        progress_.timeline.kernel([&] { compute(); });
        progress_.timeline.verify([&] { verify(); });
        if (result_.wrong() && !options_.keep_failed) return std::move(result_);
        progress_.timeline.hash([&] { hash(); });
        progress_.timeline.write([&] {
            const auto writer = open(out_.entries());
            writer->write(0, out_.view());
            writer->finish();
        });
        result_.written = true;
        return std::move(result_);
    }

  private:
    void read() {
        formats::Reader& reader = *plan_.inputs.front().reader;
        in_ = reader.read_sparse(counts_.duplicates);
        reader.require_unchanged();
        result_.input_hashes.push_back(content_hash(std::as_const(in_).view(), options_.threads));
        counts_.entries = in_.entries();
        counts_.zeros = explicit_zeros(in_.view(), options_.threads);
        if (is_conjugated(plan_.problem, plan_.inputs.front().role))
            conjugate(values_of(in_.view()), options_.threads);
    }

    void compute() {
        problem_ = plan_.problem;
        problem_.entries = in_.entries();
        out_ = Csr(plan_.result, plan_.result_type, in_.entries(), "the result");
        fill_unwritten(out_.view(), options_.threads);
        operands_ = {.a = operand_of(std::as_const(in_).view()), .c = operand_of(out_.view())};
        const Launch launch = std::move(executor_.prepare(*plan_.level, problem_, {&operands_, 1}).front());
        result_.samples_ms = executor_.time(launch, problem_, options_.warmup, options_.repeat).samples_ms;
        result_.level = launch.level;
        result_.details = launch.details;
    }

    void verify() { result_.verification = executor_.verify(*plan_.level, problem_, operands_); }

    void hash() {
        if (!plan_.output->format().keeps_nans) make_nans_plain(values_of(out_.view()), options_.threads);
        result_.output_hash = content_hash(std::as_const(out_).view(), options_.threads);
    }

    const Plan& plan_;
    const RunOptions& options_;
    Progress& progress_;
    SparseCounts& counts_;
    Executor executor_{plan_.lane().device, {.mode = options_.verify, .threads = options_.threads}};
    Problem problem_;
    Csr in_;
    Csr out_;
    Operands operands_;
    FlowResult result_;
};

}  // namespace

FlowResult sparse_flow(const Plan& plan, const RunOptions& options, const OpenSparse& open,
                       Progress& progress, SparseCounts& counts) {
    return SparseFlow(plan, options, progress, counts).run(open);
}

}  // namespace gpumat
