// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_FORMAT_TORCH_SAVE_FILE_HPP
#define CAIRN_TEST_FORMAT_TORCH_SAVE_FILE_HPP

#include <cairn/format/pickle/writer.hpp>
#include <cairn/format/torch/archive.hpp>
#include <cairn/format/torch_save/metadata.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

/// Files of torch.save, made by hand or read.
namespace torch_save_file {

namespace fs = std::filesystem;
namespace ts = cairn::format::torch_save;

inline fs::path const samples = fs::path(CAIRN_GOLDEN) / "formats";

inline std::string slurp(const fs::path& p) {
    std::ifstream f(p, std::ios::binary);
    return {std::istreambuf_iterator<char>(f), {}};
}
inline cairn::format::read_at reads(const std::string& file) {
    return [&file](std::uint64_t at, std::span<std::byte> into) {
        if (at > file.size() || into.size() > file.size() - at)
            throw std::logic_error("a read beyond the end of the file");
        if (!into.empty()) std::memcpy(into.data(), file.data() + at, into.size());
    };
}

struct opened {
    explicit opened(std::string bytes) : file(std::move(bytes)), all(reads(file), file.size()) {}
    cairn::value at(const std::string& name) const {
        return all.read_value(std::get<ts::stored_value>(all.entries().at(name).what), reads(file));
    }
    const ts::stored_tensor& tensor(const std::string& name) const {
        return std::get<ts::stored_tensor>(all.entries().at(name).what);
    }
    std::string file;
    ts::content all;
};

/// A record under `data/`, or a storage of a legacy file.
using record = std::pair<std::string, std::string>;

/// Writes a pickle opcode by opcode, and the file around it.
class pickled {
public:
    cairn::format::pickle::writer w{};
    bool views = false;  ///< Legacy ids are of a view of the storage: 3 elements from 1 on.

    void begin_dict() {
        w.op('}');
        w.mark();
    }
    void key(std::string_view s) { w.string(s); }
    void end_dict() { w.op('u'); }
    void numbers(const std::vector<std::int64_t>& all) {
        w.mark();
        for (auto n : all) w.integer(n);
        w.op('t');
    }
    /// @param count  Of elements, or of bytes if untyped.
    void tensor(std::string_view storage, std::uint64_t count, std::int64_t offset,
                const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides,
                const char* type = "FloatStorage", bool legacy = false,
                const char* flag = nullptr) {
        w.global("torch._utils", "_rebuild_tensor_v2");
        w.mark();
        w.mark();
        w.string("storage");
        w.global("torch", type);
        w.string(storage);
        w.string("cpu");
        w.integer(static_cast<std::int64_t>(count));
        if (legacy) views ? view() : w.none();
        w.op('t');
        w.op('Q');
        w.integer(offset);
        numbers(shape);
        numbers(strides);
        w.boolean(false);
        w.none();
        if (flag != nullptr) {
            begin_dict();
            key(flag);
            w.boolean(true);
            end_dict();
        }
        w.op('t');
        w.op('R');
    }
    std::string text() { return as_text(w.finish()); }
    std::string zip(const std::vector<record>& data, const std::vector<record>& others = {},
                    std::string_view byteorder = "little") {
        cairn::format::torch::archive a;
        a.add_preamble(w.finish(), byteorder);
        for (auto const& [key, bytes] : data) a.add("data/" + key, std::string_view(bytes));
        for (auto const& [name, bytes] : others) a.add(name, std::string_view(bytes));
        a.finish(0);
        return as_text(a.take());
    }
    std::string legacy(const std::vector<std::string>& keys, const std::vector<record>& storages) {
        std::string file(
            "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.", 21);
        file += std::string("\x80\x02}.", 4);
        file += text();
        cairn::format::pickle::writer list;
        list.op(']');
        list.mark();
        for (auto const& k : keys) list.string(k);
        list.op('e');
        file += as_text(list.finish());
        for (auto const& [key, bytes] : storages) {
            std::uint64_t const count = bytes.size() / 4;
            for (int i = 0; i < 8; ++i) file += static_cast<char>(count >> (8 * i));
            file += bytes;
        }
        return file;
    }

private:
    void view() {
        w.string("v");
        w.integer(1);
        w.integer(3);
        w.op(0x87);
    }
    static std::string as_text(const std::vector<std::byte>& b) {
        return {reinterpret_cast<const char*>(b.data()), b.size()};
    }
};

}  // namespace torch_save_file

#endif
