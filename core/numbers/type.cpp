#include "core/numbers/type.hpp"

#include <array>

namespace gpumat {
namespace {

struct Row {
    Type type;
    std::string_view name;
};

constexpr std::array kRows = {
    Row{Type::i8, "i8"},   Row{Type::i16, "i16"},   Row{Type::i32, "i32"}, Row{Type::i64, "i64"},
    Row{Type::u8, "u8"},   Row{Type::u16, "u16"},   Row{Type::u32, "u32"}, Row{Type::u64, "u64"},
    Row{Type::f16, "f16"}, Row{Type::bf16, "bf16"}, Row{Type::f32, "f32"}, Row{Type::f64, "f64"},
    Row{Type::c64, "c64"}, Row{Type::c128, "c128"},
};

constexpr auto kTypes = [] {
    std::array<Type, kRows.size()> types{};
    for (std::size_t i = 0; i < kRows.size(); ++i) types[i] = kRows[i].type;
    return types;
}();

}  // namespace

std::span<const Type> all_types() {
    return kTypes;
}

std::string_view name_of(Type type) {
    return kRows[static_cast<std::size_t>(type)].name;
}

std::optional<Type> type_from_name(std::string_view name) {
    for (const Row& row : kRows) {
        if (row.name == name) return row.type;
    }
    return std::nullopt;
}

std::size_t size_of(Type type) {
    return visit_type(type, []<class T>(TypeTag<T>) { return sizeof(T); });
}

}  // namespace gpumat
