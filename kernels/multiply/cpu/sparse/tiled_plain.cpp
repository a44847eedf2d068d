// The loops of `tiled` in the instructions that every processor of the platform has.
#include "kernels/multiply/cpu/sparse/stripes.hpp"

namespace gpumat::multiply::cpu::sparse {
namespace {

/// Writes through the caches.
struct Plain {
    static constexpr int kBytes = 16;

    static inline void stream(const void* from, void* to, std::size_t bytes) { std::memcpy(to, from, bytes); }
    static inline void finish() {}
};

template <class T>
void multiply_plain(const TiledWork& work, const Piece& piece, void* part_sums) {
    multiply_piece<Plain, T>(work, piece, part_sums);
}

}  // namespace

MultiplyPiece plain_piece(Type type) {
    MultiplyPiece piece = nullptr;
    visit_multiply_type(type, [&]<class T>(TypeTag<T>) { piece = multiply_plain<T>; });
    return piece;
}

}  // namespace gpumat::multiply::cpu::sparse
