#pragma once

#include <string>
#include <vector>

namespace gpumat {

/// Throws Error{output} where gnuplot is not installed, naming what cannot be drawn and what there is
/// instead: asked before the work, not after it.
void require_gnuplot(const std::string& what, const std::string& instead);

/// As a gnuplot string.
std::string gnuplot_text(const std::string& text);

/// The same for the labels of an axis, in which gnuplot would replace what follows a %.
std::string gnuplot_label(const std::string& text);

/// Runs gnuplot on a script. Throws Error{output} with gnuplot's message, naming `path`.
void draw_script(const std::string& script, const std::string& path);

/// What each of the scripts draws, drawn in one go. They say no output. Throws as draw_script does.
std::vector<std::string> drawn_by(const std::vector<std::string>& scripts, const std::string& path);

}  // namespace gpumat
