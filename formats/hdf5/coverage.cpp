#include "formats/hdf5/coverage.hpp"

#include <algorithm>

namespace gpumat::formats::hdf5 {
namespace {

bool overlap(const Block& a, const Block& b) {
    return a.row < b.row + b.rows && b.row < a.row + a.rows && a.col < b.col + b.cols &&
           b.col < a.col + a.cols;
}

/// Extends `last` by `next` where both are one rectangle: beside each other, then below each other.
bool merge(Block& last, const Block& next) {
    if (last.row == next.row && last.rows == next.rows && last.col + last.cols == next.col) {
        last.cols += next.cols;
        return true;
    }
    if (last.col == next.col && last.cols == next.cols && last.row + last.rows == next.row) {
        last.rows += next.rows;
        return true;
    }
    return false;
}

}  // namespace

bool Coverage::add(const Block& block) {
    if (!block.inside(shape_)) return false;
    if (block.rows == 0 || block.cols == 0) return true;
    if (std::ranges::any_of(blocks_, [&](const Block& other) { return overlap(block, other); })) return false;
    elements_ += block.rows * block.cols;
    Block merged = block;
    while (!blocks_.empty() && merge(blocks_.back(), merged)) {
        merged = blocks_.back();
        blocks_.pop_back();
    }
    blocks_.push_back(merged);
    return true;
}

}  // namespace gpumat::formats::hdf5
