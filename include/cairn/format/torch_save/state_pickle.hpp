// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_SAVE_STATE_PICKLE_HPP
#define CAIRN_FORMAT_TORCH_SAVE_STATE_PICKLE_HPP

#include <cairn/error.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/format/pickle/reader.hpp>
#include <cairn/format/torch/copy_value.hpp>
#include <cairn/format/torch/tensor_call.hpp>
#include <cairn/format/torch/tensor_pickle.hpp>
#include <cairn/format/torch/value_item.hpp>
#include <cairn/format/torch/value_pickler.hpp>
#include <cairn/format/torch_save/container.hpp>
#include <cairn/format/torch_save/flatten.hpp>
#include <cairn/format/torch_save/nesting.hpp>
#include <cairn/format/torch_save/new_entry.hpp>
#include <cairn/format/torch_save/ties.hpp>
#include <cairn/format/torch_save/weights_only.hpp>
#include <cairn/format/unfolding.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::format::torch_save {

/// A storage of a new file.
struct new_storage {
    std::uint64_t bytes = 0;
    /// The position of the entry that it is named after, a tensor without `tied_to`. None: it is
    /// part of a value.
    std::optional<std::size_t> entry{};
    std::vector<std::byte> content{};  ///< Of part of a value.
};

/// Pickles a state of tensors and values, as torch.save does: the record data.pkl, and the storages
/// in the order in which the pickle names them, which is that of their keys and of their records.
class state_pickle {
public:
    /// @throws error naming the entry that cannot be written; errc::unsupported for what could not
    /// be read again
    state_pickle(const new_entries& entries, const key_paths& paths,
                 const std::set<key_path>& text_keys = {})
        : entries_(entries), text_keys_(text_keys), owners_(owners_of_storages(entries)),
          keys_(entries.size()) {
        nesting const tree(entries, paths);
        write(tree.root());
        bytes_ = p_.out().finish();
        check_readable();
    }
    state_pickle(const state_pickle&) = delete;

    const std::vector<std::byte>& bytes() const noexcept { return bytes_; }
    std::vector<new_storage>& storages() noexcept { return storages_; }
    /// By entry: the classes without which `torch.load` refuses the file, unless it is told to
    /// trust it.
    const std::map<std::string, std::set<std::string>>& to_trust() const noexcept {
        return to_trust_;
    }

private:
    void check_readable() const {
        if (bytes_.size() > most_pickle_bytes)
            throw error(errc::unsupported,
                        {.fqn = entries_[largest_.second].fqn,
                         .expected = "names and values of at most " +
                                     std::to_string(most_pickle_bytes) + " bytes together",
                         .found = std::to_string(bytes_.size()) + " bytes, of which this has " +
                                  std::to_string(largest_.first),
                         .remedy = "leave it out, or use several files, or PyTorch's DCP"});
        auto const t = pickle::reader::read(bytes_);
        auto limit = limit_of_names(bytes_.size());
        (void)flattening(t, limit)();
    }
    void write(const nesting::node& n) {
        if (auto const* const* d = std::get_if<nesting::dict*>(&n)) {
            auto const& items = (*d)->order;
            return p_.dict(items.size(), [&](std::size_t i) {
                path_.emplace_back(items[i]->first);
                write_key(items[i]->first);
                write(items[i]->second);
                path_.pop_back();
            });
        }
        if (auto const* const* l = std::get_if<nesting::list*>(&n)) {
            auto const& items = (*l)->items;
            return p_.list(items.size(), [&](std::size_t i) {
                path_.emplace_back(static_cast<std::int64_t>(i));
                write(items[i]);
                path_.pop_back();
            });
        }
        auto const* entry = std::get_if<std::size_t>(&n);
        if (entry == nullptr) return p_.out().none();
        auto const begin = p_.out().size();
        try {
            if (auto const* t = std::get_if<new_tensor>(&entries_[*entry].what))
                tensor(*entry, *t);
            else
                write(*entry, std::get<value>(entries_[*entry].what));
        } catch (const error& e) {
            throw cairn::detail::completed(
                e, {.fqn = entries_[*entry].fqn, .remedy = "leave the value out, or change it"});
        }
        largest_ = std::max(largest_, {p_.out().size() - begin, *entry});
    }
    /// Writes the key of a dict, the last step of the path.
    void write_key(const std::string& text) {
        if (text_keys_.empty() || text_keys_.count(path_) == 0) return p_.literal(text);
        if (text == "None") return p_.out().none();
        if (text == "True" || text == "False") return p_.out().boolean(text == "True");
        std::int64_t number = 0;
        auto const [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (failure != std::errc() || end != text.data() + text.size()) return p_.literal(text);
        p_.out().integer(number);
    }
    void tensor(std::size_t entry, const new_tensor& t) {
        auto const elements = static_cast<std::uint64_t>(t.shape.product());
        auto& key = keys_[owners_[entry]];
        if (!key) {
            key = storages_.size();
            storages_.push_back({elements * size_of(t.type), owners_[entry]});
        }
        torch::write_tensor(p_, {t.type, t.shape, row_major_strides(t.shape), elements},
                            t.requires_grad && can_require_grad(t.type),
                            [&] { write_number(*key); });
    }
    /// A file in which any other tensor does is not loaded.
    static bool can_require_grad(dtype d) {
        auto const kind = info(d).kind;
        return kind == dtype_class::floating || kind == dtype_class::complex;
    }
    /// The number of a storage is a str of its own in PyTorch, whatever else is written so.
    void write_number(std::size_t number) {
        auto const key = std::to_string(number);
        p_.once(written_keys_, key, [&] { p_.out().string(key); });
    }
    void write(std::size_t entry, const value& v) {
        auto const* o = v.get_if<value::opaque_t>();
        if (o == nullptr) return p_.write(v);
        auto const item = torch::reading(o->item());
        auto const r = torch::item_records::read(item, o->item().size(), o->item().size());
        auto const t = pickle::reader::read(r.pickle);
        if (auto classes = classes_to_trust(t); !classes.empty())
            to_trust_.emplace(entries_[entry].fqn, std::move(classes));
        std::map<std::string_view, const zip::entry*> records;
        for (auto const& e : r.entries) records.emplace(e.name, &e);
        std::map<std::string_view, std::size_t> keys;  // of the item → of the file
        unfolding budget(t.source_bytes);
        auto const write_key = [&](const torch::named_storage& named) {
            auto const [it, fresh] = keys.try_emplace(named.key, storages_.size());
            if (fresh) {
                auto const record = records.find("data/" + std::string(named.key));
                if (record == records.end() || record->second->size != named.bytes)
                    zip::malformed("no record 'data/" + std::string(named.key) + "' of " +
                                   std::to_string(named.bytes) + " bytes");
                storages_.push_back(stored(*record->second, r, item));
            }
            write_number(it->second);
        };
        torch::copy_value(t, t.root, budget, p_, write_key);
    }
    /// A storage of an item.
    static new_storage stored(const zip::entry& e, const torch::item_records& r,
                              const read_at& item) {
        if (r.big_endian && e.size != 0)
            throw error(errc::unsupported,
                        {.expected = "a value of a little-endian computer",
                         .found = "a tensor within a value of a big-endian one",
                         .remedy = "save it again with PyTorch on this computer"});
        new_storage n{e.size, {}, std::vector<std::byte>(static_cast<std::size_t>(e.size))};
        item(e.data, n.content);
        if (r.checked && crc32(n.content) != e.crc)
            throw error(
                errc::checksum_mismatch,
                {.expected = "record '" + e.name + "' as it was written", .found = "other bytes"});
        return n;
    }

    const new_entries& entries_;
    const std::set<key_path>& text_keys_;
    key_path path_{};  ///< Of what is written.
    std::vector<std::size_t> owners_;
    std::vector<std::optional<std::size_t>> keys_;  ///< By owner.
    torch::value_pickler p_{true};
    torch::value_pickler::memo written_keys_{};
    std::vector<new_storage> storages_{};
    std::pair<std::size_t, std::size_t> largest_{};  ///< Bytes of an entry, and its position.
    std::map<std::string, std::set<std::string>> to_trust_{};
    std::vector<std::byte> bytes_{};
};

}  // namespace cairn::format::torch_save

#endif
