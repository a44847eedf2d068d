#pragma once

#include <string_view>

#include "core/memory.hpp"
#include "formats/matrix_market/text/leniency.hpp"

namespace gpumat::formats::matrix_market {

/// The text of a body as the format allows it, in `memory`, where `text` has comments between its lines,
/// lines that end with a carriage return alone, or exponents with the letter D. Every other byte is where it
/// was. `text` itself where it has none of these.
std::string_view relax(std::string_view text, Buffer& memory, Leniency& leniency);

}  // namespace gpumat::formats::matrix_market
