// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_SAVE_CONTENT_HPP
#define CAIRN_FORMAT_TORCH_SAVE_CONTENT_HPP

#include <cairn/format/pickle/to_value.hpp>
#include <cairn/format/torch/archive.hpp>
#include <cairn/format/torch/copy_value.hpp>
#include <cairn/format/torch/tensor_call.hpp>
#include <cairn/format/torch/value_pickler.hpp>
#include <cairn/format/torch_save/flatten.hpp>
#include <cairn/format/torch_save/legacy_container.hpp>
#include <cairn/format/torch_save/zip_container.hpp>
#include <cairn/metadata/value.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::format::torch_save {

/// Finds out which kind of file it is.
/// @throws error errc::unsupported for another kind than those of torch.save
inline container read_container(const read_at& source, std::uint64_t length, std::size_t threads) {
    std::array<std::byte, 512> bytes{};
    auto const n = static_cast<std::size_t>(std::min<std::uint64_t>(length, bytes.size()));
    source(0, std::span(bytes).first(n));
    std::string_view const begin(reinterpret_cast<const char*>(bytes.data()), n);
    if (begin.starts_with("PK")) return read_zip(source, length, threads);
    if (begin.starts_with('\x80')) return legacy_file(source, length).read();
    error_context where{.expected = "a file of torch.save", .found = "something else"};
    if (n == 0) {
        where.found = "an empty file";
        throw error(errc::corrupt, std::move(where));
    }
    if (n > 262 && begin.substr(257, 5) == "ustar") {
        where.found = "a tar archive, as PyTorch before 0.1.10 wrote it";
        where.remedy = "load it with such a version and save it with a later one";
    } else if (begin.starts_with("GGUF")) {
        where.found = "a GGUF file";
    } else if (begin.starts_with("version https://git-lfs")) {
        where.found = "a pointer of Git LFS";
        where.remedy = "fetch the file itself: git lfs pull";
    }
    throw error(errc::unsupported, std::move(where));
}

/// A tensor that can be read: in its storage, which other tensors may share.
struct stored_tensor : torch::called_tensor {
    record at{};
};
/// A value that can be read.
struct stored_value {
    pickle::node_id node = 0;
    std::string opaque{};  ///< Why it is kept as it is stored; empty: it is plain.
};
/// Something that cannot be read.
struct refused {
    std::string why{};  ///< E.g. `a sparse tensor`.
};
struct entry {
    key_path path{};
    std::variant<stored_tensor, stored_value, refused> what{};
};

/// What a torch.save file holds. Nothing in it is executed: classes are recognised by name.
class content {
public:
    /// @param length   Of the file.
    /// @param threads  That call `source`; there is a small read for each storage of a zip.
    /// @throws error errc::corrupt, errc::checksum_mismatch; errc::unsupported for another kind of
    /// file, and for one that holds only an object of an unknown class
    content(const read_at& source, std::uint64_t length, std::size_t threads = 1)
        : c_(read_container(source, length, threads)),
          budget_(limit_of_names(c_.tree.source_bytes)), embedded_left_(length) {
        pickle::to_value plain(c_.tree);
        flattening flat(c_.tree, budget_);
        for (auto& [name, leaf] : flat()) {
            try {
                entries_.emplace(name, entry{std::move(leaf.path), classify(leaf.node, plain)});
            } catch (const error& e) {
                throw cairn::detail::completed(e, {.fqn = name});
            }
        }
        text_keys_ = std::move(flat.text_keys());
        if (entries_.size() != 1 || !entries_.begin()->second.path.empty()) return;
        // The only one: a module with all that it consists of, usually.
        if (auto const* v = std::get_if<stored_value>(&entries_.begin()->second.what);
            v != nullptr && !v->opaque.empty())
            throw error(errc::unsupported, {.expected = "a dict, list or tensor",
                                            .found = v->opaque,
                                            .remedy = "save a module's state_dict()"});
    }
    content(const content&) = delete;

    const std::map<std::string, entry>& entries() const noexcept { return entries_; }
    /// As of @ref metadata.
    const std::set<key_path>& text_keys() const noexcept { return text_keys_; }
    const container& parts() const noexcept { return c_; }

    /// Returns a value as DCP would hold it: a plain one, or the item of an opaque one with its
    /// storages.
    /// @throws error errc::checksum_mismatch
    value read_value(const stored_value& v, const read_at& source) const {
        if (v.opaque.empty()) return pickle::to_value(c_.tree)(v.node);
        unfolding budget(c_.tree.source_bytes);
        torch::value_pickler pickle;
        auto const keys = copy(v.node, budget, pickle);
        torch::archive item;
        item.add_preamble(pickle.out().finish(), c_.big_endian ? "big" : "little");
        for (std::size_t i = 0; i < keys.size(); ++i) {
            auto const& at = c_.storages.at(keys[i]);
            std::vector<std::byte> bytes(static_cast<std::size_t>(at.length));
            source(at.offset, bytes);
            if (at.crc != 0 && crc32(bytes) != at.crc)
                throw error(errc::checksum_mismatch,
                            {.expected = "storage '" + std::string(keys[i]) + "' as it was written",
                             .found = "other bytes"});
            item.add("data/" + std::to_string(i), bytes);
        }
        item.finish(torch::object_names_hash);
        return value::opaque_t{item.take(), v.opaque};
    }

private:
    std::variant<stored_tensor, stored_value, refused> classify(pickle::node_id i,
                                                                pickle::to_value& plain) {
        auto const& t = c_.tree;
        if (t.kind(i) == pickle::node_kind::persistent)
            return refused{"a storage without a tensor"};
        try {
            if (torch::tensor_call::is_one(t, i)) {
                stored_tensor s{torch::tensor_call(t, i).result()};
                if (!is_possible(s.shape))
                    throw error(
                        errc::corrupt,
                        {.expected = "at most " + std::to_string(most_elements) + " elements",
                         .found = "the shape " + to_string(s.shape)});
                s.at = c_.storages.at(s.storage);
                return s;
            }
            auto const v = plain(i);
            return stored_value{i, {}};
        } catch (const error& e) {
            if (e.code() != make_error_code(errc::unsupported)) throw;
            auto why = e.context().found;
            if (torch::tensor_call::is_one(t, i)) return refused{in_words(std::move(why))};
            return opaque(i, std::move(why));
        }
    }
    std::variant<stored_tensor, stored_value, refused> opaque(pickle::node_id i, std::string why) {
        std::vector<std::string_view> keys;
        try {
            torch::value_pickler nowhere;
            keys = copy(i, budget_, nowhere);
        } catch (const error& e) {
            if (e.code() != make_error_code(errc::unsupported)) throw;
            return refused{why + " (" + e.context().found + ")"};
        }
        if (!keys.empty()) why = "a tensor inside a value";
        std::uint64_t embedded = 0;  // each storage once: no more than the file
        for (auto const key : keys) embedded += c_.storages.at(key).length;
        if (embedded > embedded_left_)
            return refused{why + " (storages that many values share, of more bytes than the file)"};
        embedded_left_ -= embedded;
        return stored_value{i, why.find(' ') == why.npos ? "class " + why : why};
    }
    /// Writes a value with storages that are numbered in the order in which it names them, and
    /// returns their keys in the file.
    std::vector<std::string_view> copy(pickle::node_id i, unfolding& budget,
                                       torch::value_pickler& p) const {
        std::vector<std::string_view> keys;
        std::map<std::string_view, std::string> numbers;
        torch::copy_value(c_.tree, i, budget, p, [&](const torch::named_storage& s) {
            auto const [it, fresh] = numbers.try_emplace(s.key, std::to_string(keys.size()));
            if (fresh) keys.push_back(s.key);
            p.literal(it->second);
        });
        return keys;
    }
    /// What an unsupported tensor is, by the function that builds it.
    static std::string in_words(std::string function) {
        static constexpr std::array<std::pair<std::string_view, std::string_view>, 7> known{{
            {"_rebuild_sparse_tensor", "a sparse tensor"},
            {"_rebuild_qtensor", "a quantised tensor"},
            {"_rebuild_nested_tensor", "a nested tensor"},
            {"_rebuild_meta_tensor_no_storage", "a tensor without elements, on the device 'meta'"},
            {"_rebuild_wrapper_subclass", "a tensor that wraps others"},
            {"_rebuild_device_tensor_from_numpy", "a tensor of a device, as an array of NumPy"},
            {"_rebuild_device_tensor_from_cpu_tensor",
             "a tensor of a device, as a copy on the host"},
        }};
        for (auto const& [name, words] : known)
            if (function.ends_with(name)) return std::string(words);
        return function;
    }

    container c_;
    unfolding budget_;
    std::uint64_t embedded_left_;  ///< How many bytes of storages opaque values may have yet.
    std::map<std::string, entry> entries_{};
    std::set<key_path> text_keys_{};
};

}  // namespace cairn::format::torch_save

#endif
