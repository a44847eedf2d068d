#include "formats/foreign.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

namespace gpumat::formats {
namespace {

/// What stands at the start of files of a kind.
struct Signature {
    std::string_view bytes;
    std::string_view words;
    std::size_t offset = 0;
};

using namespace std::string_view_literals;

constexpr std::array kSignatures = {
    Signature{"MATLAB 5.0 MAT-file", "a MATLAB 5 file; save it with -v7.3, which is HDF5"},
    Signature{"CDF\x01"sv, "a netCDF-3 file; nccopy -k nc4 makes netCDF-4 of it, which is HDF5"},
    Signature{"CDF\x02"sv, "a netCDF-3 file; nccopy -k nc4 makes netCDF-4 of it, which is HDF5"},
    Signature{"CDF\x05"sv, "a netCDF-3 file; nccopy -k nc4 makes netCDF-4 of it, which is HDF5"},
    Signature{"\x0e\x03\x13\x01"sv, "an HDF4 file; h4toh5 makes HDF5 of it"},
    Signature{"PK\x03\x04"sv,
              "a ZIP archive whose first member is no array of NumPy; unpack it, and name a file in it"},
    Signature{"7z\xbc\xaf\x27\x1c"sv, "a 7-Zip archive; unpack it, and name a file in it"},
    Signature{"Rar!\x1a\x07"sv, "a RAR archive; unpack it, and name a file in it"},
    Signature{"ustar"sv, "a tar archive; tar -xf unpacks it", 257},
    Signature{"BZh"sv, "compressed by bzip2; bunzip2 unpacks it"},
    Signature{"\xfd"
              "7zXZ\x00"sv,
              "compressed by xz; unxz unpacks it"},
    Signature{"\x28\xb5\x2f\xfd"sv, "compressed by zstd; unzstd unpacks it"},
};

std::string_view signed_by(std::string_view head) {
    const auto* const found = std::ranges::find_if(kSignatures, [&](const Signature& row) {
        return head.size() > row.offset && head.substr(row.offset).starts_with(row.bytes);
    });
    return found == kSignatures.end() ? std::string_view{} : found->words;
}

/// The first lines, without their ends.
std::vector<std::string_view> lines_of(std::string_view text) {
    constexpr std::size_t kMost = 8;
    std::vector<std::string_view> lines;
    while (!text.empty() && lines.size() < kMost) {
        const std::size_t end = std::min(text.find_first_of("\r\n"), text.size());
        if (end > 0) lines.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

bool is_one_of(char c, std::string_view letters) {
    return letters.find(static_cast<char>(std::toupper(static_cast<unsigned char>(c)))) !=
           std::string_view::npos;
}

/// The third line of such a file begins with a code such as RUA, eleven blanks and numbers.
bool is_harwell_boeing(const std::vector<std::string_view>& lines) {
    if (lines.size() < 4 || lines[2].size() < 28) return false;
    const std::string_view code = lines[2];
    return is_one_of(code[0], "RCPIQ") && is_one_of(code[1], "SUHZR") && is_one_of(code[2], "AE") &&
           code.substr(3, 11).find_first_not_of(' ') == std::string_view::npos &&
           code.substr(14).find_first_not_of(" 0123456789") == std::string_view::npos;
}

/// Lines with the same number of a separator, and digits.
bool is_separated(const std::vector<std::string_view>& lines, char separator) {
    if (lines.empty()) return false;
    const auto count = std::ranges::count(lines.front(), separator);
    const std::size_t whole = lines.size() > 1 ? lines.size() - 1 : 1;  // the last one may be cut
    return count > 0 &&
           std::all_of(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(whole),
                       [&](std::string_view line) { return std::ranges::count(line, separator) == count; });
}

bool is_text(std::string_view head) {
    return std::ranges::none_of(head, [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte < ' ' && c != '\t' && c != '\r' && c != '\n';
    });
}

bool is_csv(std::string_view head, const std::string& path) {
    if (!is_text(head)) return false;
    if (path.ends_with(".csv") || path.ends_with(".tsv")) return true;
    const auto lines = lines_of(head);
    const bool numbers = std::ranges::any_of(lines, [](std::string_view line) {
        return line.find_first_of("0123456789") != std::string_view::npos;
    });
    return numbers &&
           std::ranges::any_of(",;\t"sv, [&](char separator) { return is_separated(lines, separator); });
}

}  // namespace

std::string foreign_format(std::string_view head, std::string_view unpacked, const std::string& path) {
    if (const std::string_view words = signed_by(head); !words.empty()) return std::string(words);
    if (head.starts_with("\x1f\x8b"sv)) {
        if (unpacked.starts_with("\x89HDF\r\n"sv)) return "HDF5 compressed by gzip; gunzip unpacks it";
        const std::string_view words = signed_by(unpacked);
        if (words.starts_with("a tar archive")) return "a tar archive compressed by gzip; tar -xf unpacks it";
        return words.empty() ? "compressed by gzip, and no Matrix Market text"
                             : std::string(words) + " (it is compressed by gzip)";
    }
    if (is_harwell_boeing(lines_of(head)))
        return "a Harwell-Boeing file; write it as Matrix Market (scipy.io.hb_read, scipy.io.mmwrite)";
    if (is_csv(head, path))
        return "text in columns (CSV); write it as Matrix Market (scipy.io.mmwrite) or HDF5 (h5py)";
    return {};
}

}  // namespace gpumat::formats
