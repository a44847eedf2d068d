#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/context.hpp"
#include "cli/table.hpp"
#include "formats/registry.hpp"
#include "lib/core/error.hpp"

namespace gpumat::cli {
namespace {

using formats::Header;

nlohmann::ordered_json to_json(const Header& header) {
    const auto bytes = addressable_bytes(header.shape, header.type);
    return {
        {"path", header.source.path},
        {"dataset", header.source.dataset.empty() ? nullptr : nlohmann::ordered_json(header.source.dataset)},
        {"format", header.format},
        {"rows", header.shape.rows},
        {"cols", header.shape.cols},
        {"type", name_of(header.type)},
        {"storage", header.storage},
        {"stored_entries", header.stored_entries},
        {"file_bytes", header.file_bytes},
        {"dense_bytes", bytes ? nlohmann::ordered_json(*bytes) : nlohmann::ordered_json()}};
}

/// The headers behind one reference: the dataset named, or every matrix of the file.
std::vector<Header> headers_of(const std::string& text) {
    const formats::Reference reference = formats::parse_reference(text);
    const formats::Format& format = formats::recognise(reference);
    if (reference.dataset.empty() && reference.path != "-") return format.list(reference.path);
    return {format.open(reference, {})->header()};
}

void print_table(const std::vector<Header>& headers) {
    Table table({"matrix", "format", "shape", "type", "dense", "storage"});
    for (const Header& header : headers) {
        const auto bytes = addressable_bytes(header.shape, header.type);
        table.add({to_string(header.source), header.format, to_string(header.shape),
                   std::string(name_of(header.type)), bytes ? format_bytes(*bytes) : "beyond any memory",
                   header.storage});
    }
    std::fputs(table.text().c_str(), stdout);
}

}  // namespace

void add_info(CLI::App& app, Context& context) {
    CLI::App* command = app.add_subcommand("info", "show what matrix files hold, from their headers");
    auto files = std::make_shared<std::vector<std::string>>();
    command->add_option("files", *files, "FILE or FILE:/DATASET, '-' for standard input")->required();
    add_style_options(*command, context.style);
    command->footer("Examples:\n  gpumat info A.mtx B.h5\n  gpumat info --json B.h5:/run1/A");
    command->callback([files, &context] {
        std::vector<Header> headers;
        for (const std::string& file : *files) {
            for (Header& header : headers_of(file)) headers.push_back(std::move(header));
        }
        if (!context.style.json) return print_table(headers);
        nlohmann::ordered_json list = nlohmann::ordered_json::array();
        for (const Header& header : headers) list.push_back(to_json(header));
        std::puts(nlohmann::ordered_json{{"schema", "gpumat.info/1"}, {"matrices", std::move(list)}}
                      .dump(2)
                      .c_str());
    });
}

}  // namespace gpumat::cli
