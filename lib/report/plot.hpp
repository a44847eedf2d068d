#pragma once

#include <span>
#include <string>

#include "lib/measure/bench.hpp"

namespace gpumat {

/// Throws Error{usage} where `path` does not end in .svg or .png, and Error{output} where gnuplot is not
/// installed: asked before a bench, not after it.
void require_plot_possible(const std::string& path);

/// The gnuplot script that draws the rows into `output`, an SVG or PNG by the ending of `path`.
/// One problem: bars, a level each, with a dashed line at the faster of memcpy and copy (transpose) or the
/// vendor's library (multiply). Several problems: a curve for each level over the problems, copies and vendor
/// dashed. Whiskers are the 95 % intervals. Rows without a time are left out.
std::string plot_script(const BenchHead& head, std::span<const BenchRow> rows, const std::string& path,
                        const std::string& output);

/// Draws the rows into the file `output` with gnuplot. Throws Error{output} with gnuplot's message.
void draw_plot(const BenchHead& head, std::span<const BenchRow> rows, const std::string& path,
               const std::string& output);

}  // namespace gpumat
