// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_FUZZ_TORCH_SAVE_HPP
#define CAIRN_TEST_FUZZ_TORCH_SAVE_HPP

#include "items.hpp"

#include "support/laid_out.hpp"

#include <cairn/format/torch_save/metadata.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <variant>

/// Files of torch.save, in both forms.
namespace fuzz {

/// What was read can be written again, and is then read as the same; at most a few entries, since
/// what is written takes more memory than what says it.
inline void written_again(const cairn::format::torch_save::content& all,
                          const cairn::format::read_at& source) {
    namespace ts = cairn::format::torch_save;
    if (all.entries().size() > 32) return;
    laid_out::state s;
    // Under a key that is no text a container is one value, and is written under the key's text.
    bool unfolds = false;
    for (auto const& [name, e] : all.entries()) {
        if (!e.path.empty()) s.paths.emplace(name, e.path);
        if (auto const* v = std::get_if<ts::stored_value>(&e.what)) {
            auto read = all.read_value(*v, source);
            unfolds = unfolds || read.is<cairn::value::dict_t>() || read.is<cairn::value::list_t>();
            s.entries.push_back({name, std::move(read)});
        } else if (auto const* t = std::get_if<ts::stored_tensor>(&e.what))
            s.entries.push_back({name, ts::new_tensor{t->type, t->shape, t->requires_grad, {}}});
        else
            return;  // its position in a list would be None
    }
    auto const is_refusal = [](const cairn::error& e) {
        return e.code() == make_error_code(cairn::errc::unsupported) ||
               e.code() == make_error_code(cairn::errc::invalid_state);
    };
    try {
        auto const l = s.file("f.pt");
        laid_out::without_elements const file(l);
        auto const reader = file.reader();
        ts::content const again(reader, l.file().size);
        if (again.entries().size() != s.entries.size() && unfolds) return;
        if (again.entries().size() != s.entries.size())
            throw support::finding("a file has other entries when it is written again");
        for (auto const& e : s.entries) {
            auto const it = again.entries().find(e.fqn);
            if (it == again.entries().end() && unfolds) return;
            if (it == again.entries().end() || it->second.path != all.entries().at(e.fqn).path)
                throw support::finding("'" + e.fqn + "' is lost when it is written again");
            if (auto const* t = std::get_if<ts::new_tensor>(&e.what)) {
                auto const& stored = std::get<ts::stored_tensor>(it->second.what);
                if (stored.type != t->type || stored.shape != t->shape)
                    throw support::finding("'" + e.fqn + "' changes when it is written again");
                continue;
            }
            auto const& v = std::get<cairn::value>(e.what);
            auto const read = again.read_value(std::get<ts::stored_value>(it->second.what), reader);
            if (v.is<cairn::value::opaque_t>() ? !read.is<cairn::value::opaque_t>() : !(read == v))
                throw support::finding("'" + e.fqn + "' changes when it is written again");
        }
    } catch (const cairn::error& e) {
        if (!is_refusal(e)) throw support::finding(std::string("written again: ") + e.what());
    }
}

/// What is accepted lies within the file, has the name of its path, and can be read.
inline void torch_save(bytes b) {
    namespace ts = cairn::format::torch_save;
    __extension__ using wide = __int128;
    auto const source = reads(b);
    ts::content const all(source, b.size());
    for (auto const& [name, entry] : all.entries()) {
        std::string joined;
        for (auto const& step : entry.path) {
            if (&step != &entry.path.front()) joined += '.';
            auto const* text = std::get_if<std::string>(&step);
            joined += text != nullptr ? *text : std::to_string(std::get<std::int64_t>(step));
        }
        if (joined != name) throw support::finding("a path that is not the name");
        if (auto const* v = std::get_if<ts::stored_value>(&entry.what)) {
            auto const read = all.read_value(*v, source);
            auto const* o = read.get_if<cairn::value::opaque_t>();
            if (o != nullptr && !torch::decode_value(o->item()).is<cairn::value::opaque_t>())
                throw support::finding("an opaque value whose item is a plain one");
        }
        auto const* t = std::get_if<ts::stored_tensor>(&entry.what);
        if (t == nullptr) continue;
        wide last = t->storage_offset;
        bool none = false;
        for (std::size_t d = 0; d < t->shape.size(); ++d) {
            none = none || t->shape[d] == 0;
            last += wide(t->shape[d] - 1) * t->strides[d];
        }
        if (wide(t->at.offset) + t->at.length > b.size() ||
            (!none && (last + 1) * static_cast<wide>(cairn::size_of(t->type)) > t->at.length))
            throw support::finding("a tensor beyond its storage, or a storage beyond the file");
    }
    auto const m = ts::describe(all, "f.pt", b.size());
    if (m.entries.size() + m.unsupported.size() != all.entries().size())
        throw support::finding("metadata of other entries");
    written_again(all, source);
}

}  // namespace fuzz

#endif
