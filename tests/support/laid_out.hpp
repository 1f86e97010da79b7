// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_LAID_OUT_HPP
#define CAIRN_TEST_SUPPORT_LAID_OUT_HPP

#include <cairn/format/crc.hpp>
#include <cairn/format/torch_save/layout.hpp>
#include <cairn/format/zip/reader.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

/// Files of torch.save that are laid out, with elements that are a pattern, as those of
/// golden/make/torch_save.py.
namespace laid_out {

namespace ts = cairn::format::torch_save;

inline std::uint64_t length_of(const cairn::format::target_tensor& t) {
    return static_cast<std::uint64_t>(t.shape.product()) * cairn::size_of(t.type);
}
inline std::string pattern(const cairn::format::target_tensor& t) {
    std::string s(static_cast<std::size_t>(length_of(t)), '\0');
    std::size_t const most = t.type == cairn::dtype::boolean ? 2 : 251;
    for (std::size_t i = 0; i < s.size(); ++i) s[i] = static_cast<char>((31 * i + s.size()) % most);
    return s;
}
inline std::uint32_t crc_of(const std::string& s) {
    return cairn::format::crc32(std::as_bytes(std::span(s)));
}

/// Returns the whole file. Bytes that nobody places are `?`.
/// @param elements  Returns those of a tensor.
template <class Elements = std::string (*)(const cairn::format::target_tensor&)>
std::string fill(const ts::layout& l, Elements elements = pattern) {
    std::string file(static_cast<std::size_t>(l.file().size), '?');
    auto const place = [&](std::uint64_t at, const auto& bytes) {
        std::transform(bytes.begin(), bytes.end(), file.begin() + static_cast<std::ptrdiff_t>(at),
                       [](auto b) { return static_cast<char>(b); });
    };
    std::vector<std::uint32_t> crcs;
    for (auto const& p : l.fixed()) place(p.offset, p.bytes);
    for (auto const& t : l.file().tensors) {
        auto const bytes = elements(t);
        if (bytes.size() != length_of(t)) throw std::logic_error("elements of another length");
        place(t.offset, bytes);
        crcs.push_back(crc_of(bytes));
    }
    for (auto const& p : l.rest(crcs)) place(p.offset, p.bytes);
    return file;
}

/// The file as bytes at offsets: elements are 0, and their checksums too.
class without_elements {
public:
    explicit without_elements(const ts::layout& l) {
        for (auto const& p : l.fixed()) add(p);
        for (auto const& p : l.rest(std::vector<std::uint32_t>(l.file().tensors.size()))) add(p);
    }
    /// Bytes that follow one another are together.
    const std::map<std::uint64_t, std::vector<std::byte>>& stretches() const { return stretches_; }
    /// @pre the file outlives what is returned
    cairn::format::read_at reader() const {
        return [this](std::uint64_t at, std::span<std::byte> into) {
            std::fill(into.begin(), into.end(), std::byte{0});
            auto it = stretches_.upper_bound(at);
            if (it != stretches_.begin()) --it;
            for (; it != stretches_.end() && it->first < at + into.size(); ++it) {
                auto const begin = std::max(at, it->first);
                auto const end = std::min(at + into.size(), it->first + it->second.size());
                if (begin < end)
                    std::memcpy(into.data() + (begin - at), it->second.data() + (begin - it->first),
                                static_cast<std::size_t>(end - begin));
            }
        };
    }

private:
    void add(const cairn::format::placed_bytes& p) {
        auto it = stretches_.emplace(p.offset, p.bytes).first;
        if (it != stretches_.begin()) join(std::prev(it), it);
        it = std::prev(stretches_.upper_bound(p.offset));
        if (auto const next = std::next(it); next != stretches_.end()) join(it, next);
    }
    using place = std::map<std::uint64_t, std::vector<std::byte>>::iterator;
    void join(place a, place b) {
        if (a->first + a->second.size() != b->first) return;
        a->second.insert(a->second.end(), b->second.begin(), b->second.end());
        stretches_.erase(b);
    }

    std::map<std::uint64_t, std::vector<std::byte>> stretches_{};
};

/// Collects what a file has.
class state {
public:
    state& tensor(cairn::key_path path, cairn::dtype type, cairn::index_vector shape,
                  std::string tied_to = {}, bool requires_grad = false) {
        return add(std::move(path),
                   ts::new_tensor{type, std::move(shape), requires_grad, std::move(tied_to)});
    }
    state& value(cairn::key_path path, cairn::value v) {
        return add(std::move(path), std::move(v));
    }
    ts::layout file(const std::string& name) const { return {name, entries, paths}; }

    ts::new_entries entries{};
    ts::key_paths paths{};

private:
    template <class T>
    state& add(cairn::key_path path, T what) {
        std::string fqn;
        for (auto const& step : path) {
            auto const* key = std::get_if<std::string>(&step);
            fqn += (fqn.empty() ? "" : ".") +
                   (key != nullptr ? *key : std::to_string(std::get<std::int64_t>(step)));
        }
        paths.emplace(fqn, std::move(path));
        entries.push_back({std::move(fqn), std::move(what)});
        return *this;
    }
};

inline cairn::value bytes(std::string_view s) {
    auto const b = std::as_bytes(std::span(s));
    return cairn::value::bytes_t(b.begin(), b.end());
}
inline cairn::value torch_size(std::vector<cairn::value> numbers) {
    return cairn::value::tuple_t{std::move(numbers), true};
}

/// `simple()` of golden/make/torch_save.py.
inline state simple() {
    using cairn::dtype;
    using cairn::value;
    state s;
    s.tensor({"model", "weight"}, dtype::f32, {2, 3})
        .tensor({"model", "bias"}, dtype::bf16, {3})
        .tensor({"model", "tied"}, dtype::f32, {3, 2}, "model.weight")
        .tensor({"model", "scalar"}, dtype::i64, {})
        .tensor({"model", "empty"}, dtype::f32, {0, 4})
        .tensor({"model", "float8"}, dtype::float8_e4m3fn, {5})
        .tensor({"model", "flags"}, dtype::boolean, {3})
        .tensor({"optim", "state", "0", "step"}, dtype::f32, {})
        .tensor({"optim", "state", "0", "exp_avg"}, dtype::f32, {2, 3})
        .tensor({"optim", "state", "1", "step"}, dtype::f32, {})
        .tensor({"optim", "state", "1", "exp_avg"}, dtype::bf16, {3})
        .value({"optim", "param_groups", 0, "lr"}, 0.1)
        .value({"optim", "param_groups", 0, "betas"}, value::tuple({0.9, 0.999}))
        .value({"optim", "param_groups", 0, "params"}, value::list({0, 1}));
    for (std::int64_t i = 0; i < 3; ++i) s.tensor({"list", i}, dtype::u8, {i + 1});
    s.value({"epoch"}, 3)
        .value({"step"}, 70000)
        .value({"none"}, value())
        .value({"done"}, false)
        .value({"name"}, "run")
        .value({"0"}, bytes("a\xff"))
        .value({"size"}, torch_size({2, 3}))
        .tensor({"trained"}, dtype::f16, {2}, {}, true);
    return s;
}

}  // namespace laid_out

#endif
