#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "lib/report/report.hpp"

// What the sections of a report share.

namespace gpumat {

inline constexpr std::size_t kMostFigures = 40;
inline constexpr std::size_t kMostSeries = 80;  ///< of one figure

// Neither light nor dark, so that they can be seen on white and on black.
inline constexpr std::array kLevelColours = {
    "#0D7DD4", "#C4530F", "#009342", "#AD51A7", "#95760D", "#138B90", "#7B65D1", "#C74A51",
    "#718509", "#4B74D8", "#158E77", "#975AC0", "#6A96FE", "#E17F08", "#00B785", "#DE6EB2",
    "#A99F07", "#0FADC9", "#355BBD", "#915006", "#007654", "#9E3378", "#6D6603", "#0E6F81"};
/// Copies, vendor's libraries and what is no level.
inline constexpr const char* kGrey = "#8A9099";

/// One colour a level, whatever it is shown in.
class LevelColours {
  public:
    explicit LevelColours(const LogData& data);

    [[nodiscard]] std::string of(const std::string& level) const;
    [[nodiscard]] std::string of(const Measured& one) const;

  private:
    void learn(const std::string& level);

    std::map<std::string, std::size_t> places_;
};

/// The text, "-" where there is none.
std::string or_dash(const std::string& text);

ReportCell number_cell(const std::optional<double>& value, const std::string& text);
ReportCell ms_cell(const std::optional<double>& ms);

/// "~" before what did not settle.
std::string doubted(const std::string& text, bool settled);

/// "f32 4x5".
std::string problem_of(const Measured& one);
/// " on gpu:0 (2 threads), warm cache".
std::string place_of(const Measured& one);
/// "2 levels".
std::string plural(std::size_t count, const std::string& noun);

/// Ladders of levels, and sweeps over sizes; nothing where none was measured.
void add_sections_of_rates(const LogData& data, const LevelColours& colours, ReportDocument& document);

/// Levels on the roofline of each device; nothing where none was measured.
void add_roofline_section(const LogData& data, const LevelColours& colours, ReportDocument& document);

}  // namespace gpumat
