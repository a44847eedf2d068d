#include "formats/hdf5/sandbox/probe.hpp"
#include "formats/hdf5/write/dataset_file.hpp"

namespace gpumat::formats::hdf5 {
namespace {

/// What the parent asks of the child: to put a chunk, of which `bytes` follow; to give the dataset an
/// attribute, whose name follows with a zero and the value; or to close the file.
struct Request {
    enum class Kind { chunk, attribute, close } kind = Kind::chunk;
    std::uint32_t skipped = 0;
    std::uint64_t bytes = 0;
    std::array<hsize_t, 2> at{};
};

/// What the child says once the dataset is there, followed by `left_out_bytes` of text, a zero after each.
struct Created {
    haddr_t offset = HADDR_UNDEF;
    std::uint64_t left_out_bytes = 0;
};

std::span<const std::byte> bytes_of(const auto& value) {
    return std::as_bytes(std::span(&value, 1));
}

/// What the child does.
void serve(Conversation& parent, const WriteTarget& target, const DatasetPlan& plan) {
    const auto file = create_dataset_here(target, plan);
    std::string left_out;
    for (const std::string& text : file->left_out()) left_out.append(text).push_back('\0');
    const bool heard = parent.send(bytes_of(Created{file->offset(), left_out.size()})) &&
                       parent.send(std::as_bytes(std::span(left_out)));
    std::vector<std::byte> stored;
    for (Request request; heard && parent.receive(std::as_writable_bytes(std::span(&request, 1)));) {
        if (request.kind == Request::Kind::close) return file->close();
        stored.resize(request.bytes);
        if (!parent.receive(stored)) break;
        if (request.kind == Request::Kind::chunk) {
            file->put_chunk(request.at, request.skipped, stored);
        } else {
            const std::string text(reinterpret_cast<const char*>(stored.data()), stored.size());
            const std::size_t end = text.find('\0');
            file->put_attribute(text.substr(0, end), text.substr(end + 1));
        }
    }
    throw Error(ErrorCode::output, name_in_messages(target) + ": was not completed");  // the parent gave up
}

class RemoteDatasetFile final : public DatasetFile {
  public:
    RemoteDatasetFile(const WriteTarget& target, const DatasetPlan& plan)
        : child_(
              opened_path(target), name_in_messages(target), ErrorCode::output,
              [&](Conversation& parent) {
                  serve(parent, target, plan);
                  return std::string();
              },
              dense_bytes(plan.shape, plan.type, name_in_messages(target))) {
        Created created;
        if (!child_.receive(std::as_writable_bytes(std::span(&created, 1)))) give_up();
        std::string texts(created.left_out_bytes, '\0');
        if (!child_.receive(std::as_writable_bytes(std::span(texts)))) give_up();
        offset_ = created.offset;
        for (std::size_t at = 0; at < texts.size(); at += left_out_.back().size() + 1)
            left_out_.emplace_back(texts.c_str() + at);
    }

    [[nodiscard]] haddr_t offset() const override { return offset_; }
    [[nodiscard]] const std::vector<std::string>& left_out() const override { return left_out_; }

    void put_chunk(const std::array<hsize_t, 2>& at, std::uint32_t skipped,
                   std::span<const std::byte> stored) override {
        ask({.skipped = skipped, .bytes = stored.size(), .at = at}, stored);
    }

    void put_attribute(const std::string& name, const std::string& value) override {
        const std::string text = name + '\0' + value;
        ask({.kind = Request::Kind::attribute, .bytes = text.size()}, std::as_bytes(std::span(text)));
    }

    void close() override {
        ask({.kind = Request::Kind::close}, {});
        child_.finish();
    }

  private:
    void ask(const Request& request, std::span<const std::byte> content) {
        if (!child_.send(bytes_of(request)) || !child_.send(content)) give_up();
    }

    /// The child has ended before its time, and says why.
    [[noreturn]] void give_up() {
        child_.finish();
        throw Error(ErrorCode::output, "the process that writes the file ended without a word");
    }

    Child child_;
    haddr_t offset_ = HADDR_UNDEF;
    std::vector<std::string> left_out_;
};

}  // namespace

std::unique_ptr<DatasetFile> create_dataset_file(const WriteTarget& target, const DatasetPlan& plan) {
    if (!target.append) return create_dataset_here(target, plan);
    const Session session;
    return std::make_unique<RemoteDatasetFile>(target, plan);
}

}  // namespace gpumat::formats::hdf5
