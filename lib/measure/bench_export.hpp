#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lib/measure/bench.hpp"

// A bench's results as texts, from the one row type. Every form is written a row at a time: what was
// written before an interrupt stays readable.

namespace gpumat {

/// One object of the `rows` of `gpumat.bench/1`. Absent values are null.
nlohmann::ordered_json to_json(const BenchRow& row);

/// The object `gpumat.bench/1` in pieces: the beginning, the rows, the end. Beginning and rows alone become
/// valid JSON with the end, whenever that comes.
std::string json_begin(const BenchHead& head);
std::string json_row(const BenchRow& row, bool first);
const char* json_end();

/// CSV: the names of the JSON object's members, then a line for each row. Lists are separated by ';'.
/// Time, version, host, cache and device come first, so that lines of several benches can be put together.
std::string csv_begin(const BenchHead& head);
std::string csv_row(const BenchHead& head, const BenchRow& row);

/// As many digits as a measurement deserves, without an exponent: "0.01234", "12.34", "12345".
std::string four_digits(double value);

/// The published table: problem, level, time, rate, shares, gains ("~2.00x": not known well), verified.
std::vector<std::string> table_header(const BenchHead& head);
std::vector<std::string> table_cells(const BenchRow& row);

/// What stands behind the cells: why a row could not run, or its note; may be empty.
std::string table_remark(const BenchRow& row);

/// "transpose on NVIDIA H200 (driver 580.95.05, …), cold cache, 2026-01-01T00:00:00Z, gpumat 0.1.0".
std::string describe(const BenchHead& head);

std::string markdown_begin(const BenchHead& head);
std::string markdown_row(const BenchRow& row);

}  // namespace gpumat
