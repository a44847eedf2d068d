#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "core/spool.hpp"

namespace gpumat::formats::matrix_market {

/// Numbers that were parsed, in a file without a name.
class ValueStore {
  public:
    /// `name` is that of the text; nothing where there can be no such file.
    static std::optional<ValueStore> open(const std::string& name);

    /// False where there is no room left for them.
    [[nodiscard]] bool put(std::uint64_t offset, const void* from, std::size_t bytes);

    /// Several threads may ask at once. Throws Error{input}.
    void get(std::uint64_t offset, void* to, std::size_t bytes) const;

  private:
    ValueStore(std::string name, Spool spool) : name_(std::move(name)), spool_(std::move(spool)) {}

    std::string name_;
    Spool spool_;
};

}  // namespace gpumat::formats::matrix_market
