#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpumat {

/// The words of a line as a POSIX shell takes them: blanks between them, '…', "…" with \\ before " \ $ `,
/// $'…' with \ooo, \\ before anything else, and a comment from a # that begins a word on. Nothing is
/// expanded. Throws Error{usage} where a quote is not closed, the line ends in a single \\, an operator of
/// the shell (| & ; < > ( ) $ `) is not quoted, which would mean something else to a shell, or there is a
/// control character.
std::vector<std::string> shell_words(std::string_view line);

}  // namespace gpumat
