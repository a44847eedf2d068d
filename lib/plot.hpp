#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lib/bench.hpp"

namespace gpumat {

/// Throws Error{usage} where `path` does not end in .svg or .png, and Error{output} where gnuplot is not
/// installed: asked before a bench, not after it.
void require_plot_possible(const std::string& path);

// What all scripts begin with, and how text and colours are written in them.
std::string plot_preamble(const std::string& title, const std::string& path, const std::string& output,
                          std::size_t height);
/// As a gnuplot string.
std::string gnuplot_text(const std::string& text);
/// The colour of a series, "#0072B2": the same again after eight.
std::string_view plot_colour(std::size_t series);

/// Runs gnuplot on a script. Throws Error{output} with gnuplot's message, naming `path`.
void draw_script(const std::string& script, const std::string& path);

/// The gnuplot script that draws the rows into `output`, an SVG or PNG by the ending of `path`.
/// One problem: bars, a level each, with a dashed line at the faster of memcpy and copy (transpose) or the
/// vendor's library (multiply). Several problems: a curve for each level over the problems, copies and vendor
/// dashed. Rows without a time are left out.
std::string plot_script(const BenchHead& head, std::span<const BenchRow> rows, const std::string& path,
                        const std::string& output);

/// Draws the rows into the file `output` with gnuplot. Throws Error{output} with gnuplot's message.
void draw_plot(const BenchHead& head, std::span<const BenchRow> rows, const std::string& path,
               const std::string& output);

}  // namespace gpumat
