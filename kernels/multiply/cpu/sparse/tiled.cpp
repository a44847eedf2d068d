// multiply of a sparse and a dense matrix, CPU level `tiled`: a stripe of the row of C in registers.
//
// Since `merge`: no load and store of a sum for each product. Eight vectors of sums stay in registers while
// the entries of a row go by, stripe after stripe; the rows of B that the next entries need are prefetched,
// so that many misses are on their way at a time; and rows of C that pass the caches are written around them.
// Pieces are those of `merge`. Traffic: an entry and a row of B for each entry, and C once. What limits it:
// the bytes of the rows of B that are gathered.
//
// A dense matrix times a sparse one goes by panels.cpp.
#include "kernels/multiply/cpu/sparse/tiled.hpp"

#include <algorithm>
#include <memory>
#include <string>

#include "core/parallel.hpp"
#include "kernels/common/vector_width.hpp"
#include "kernels/multiply/cpu/sparse/levels.hpp"
#include "kernels/multiply/cpu/sparse/plain_operands.hpp"
#include "kernels/multiply/cpu/sparse/row_sums.hpp"

namespace gpumat::multiply::cpu::sparse {
namespace {

/// Bytes of rows of B that are on their way.
constexpr std::int64_t kAheadBytes = 4096;
constexpr std::int64_t kMostAhead = 32;
/// A result that no cache keeps.
constexpr double kStreamedBytes = 32 << 20;

MultiplyPiece piece_for(VectorWidth width, Type type) {
#ifdef __x86_64__
    if (width == VectorWidth::avx512) return avx512_piece(type);
    if (width == VectorWidth::avx2) return avx2_piece(type);
#endif
    (void)width;
    return plain_piece(type);
}

bool streams(const Problem& p, const MutableOperand& c) {
    constexpr std::size_t kLineBytes = 64;
    const std::size_t size = size_of(result_type(p));
    const bool aligned = reinterpret_cast<std::uintptr_t>(c.data) % kLineBytes == 0 &&
                         static_cast<std::size_t>(c.pitch) * size % kLineBytes == 0;
    return aligned &&
           static_cast<double>(c.rows) * static_cast<double>(c.pitch * static_cast<std::int64_t>(size)) >
               kStreamedBytes;
}

template <class T>
void multiply_tiled(const Problem& p, const Operands& operands, MultiplyPiece multiply, int threads) {
    const std::int64_t row_bytes = std::max<std::int64_t>(1, p.n * static_cast<std::int64_t>(sizeof(T)));
    const TiledWork work{.problem = p,
                         .operands = operands,
                         .streams = streams(p, operands.c),
                         .ahead = std::clamp<std::int64_t>(kAheadBytes / row_bytes, 1, kMostAhead)};
    const Pieces pieces = pieces_of(operands.a);
    Parts<T> parts(pieces, p.n);
    parallel_for(static_cast<std::int64_t>(pieces.pieces.size()), 1, threads,
                 [&](std::int64_t begin, std::int64_t) {
                     const Piece& piece = pieces.pieces[static_cast<std::size_t>(begin)];
                     multiply(work, piece, piece.part >= 0 ? parts.sums(piece.part) : nullptr);
                 });
    const RowSums<false, T> rows(p, operands);
    parts.join([&](std::int64_t row, const Sum<T>* sums) { rows.finish(row, sums); });
}

}  // namespace

Launch prepare_tiled(const Problem& problem, const Operands& operands, const Device& device) {
    if (problem.k == 0) {
        Launch launch = prepare_rows(problem, operands, device);
        launch.level = "tiled";
        return launch;
    }
    if (operands.a.storage == Storage::dense) return prepare_panels(problem, operands, device);
    const auto plain = std::make_shared<PlainOperands>(problem, operands, device);
    const VectorWidth width = vector_width(problem);
    return {.level = "tiled",
            .run =
                [plain, multiply = piece_for(width, problem.type), threads = device.threads](Stream) {
                    const Operands& all = plain->make();
                    visit_multiply_type(plain->problem().type, [&]<class T>(TypeTag<T>) {
                        multiply_tiled<T>(plain->problem(), all, multiply, threads);
                    });
                },
            .details = {{"vectors", std::string(name_of(width))}}};
}

}  // namespace gpumat::multiply::cpu::sparse
