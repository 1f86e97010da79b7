// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_VALUE_PICKLER_HPP
#define CAIRN_FORMAT_TORCH_VALUE_PICKLER_HPP

#include <cairn/error.hpp>
#include <cairn/format/pickle/latin1.hpp>
#include <cairn/format/pickle/writer.hpp>
#include <cairn/metadata/value.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::format::torch {

/// Pickles a plain value as torch.save does: protocol 2, the bytes of CPython's C pickler.
///
/// CPython's memo is keyed by identity, and a value has none. Equal values are written once, with
/// references for later occurrences, where CPython has a single object: the empty str, a str of one
/// latin-1 character, bytes of length 0 and 1. The same holds, with some exceptions, for equal str
/// keys of dicts, which come from literals. All other values are written in full each time; if the
/// Python program shared them, its pickle is shorter than this one with the same content.
class value_pickler {
public:
    /// The numbers of what has been written once.
    using memo = std::map<std::string, std::uint32_t, std::less<>>;

    static std::vector<std::byte> pickle(const value& v) {
        value_pickler p;
        p.write(v);
        return p.w_.finish();
    }
    /// @param weights_only  Writes an empty bytes object in a form that `torch.load` accepts with
    ///                      `weights_only`, which it does not of torch.save's own.
    explicit value_pickler(bool weights_only = false) : weights_only_(weights_only) {}

    void write(const value& v, int depth = 0) {
        if (depth > 200)
            throw error(errc::invalid_state, {.expected = "a value nested at most 200 deep"});
        std::visit([&](auto const& x) { put(x, depth); }, v.raw());
    }
    /// Writes a list of `n` items, in CPython's batches.
    /// @param item  Is called to write each.
    template <class F>
    void list(std::size_t n, F&& item) {
        w_.op(']');
        w_.put();
        if (n == 1) {
            item(std::size_t{0});
            w_.op('a');
            return;
        }
        for (std::size_t at = 0; at < n; at += batch) {
            w_.mark();
            for (auto i = at; i < std::min(n, at + batch); ++i) item(i);
            w_.op('e');
        }
    }
    /// The same for a dict.
    /// @param item  Writes a key and a value.
    template <class F>
    void dict(std::size_t n, F&& item) {
        w_.op('}');
        w_.put();
        if (n == 0) return;
        if (n == 1) {
            item(std::size_t{0});
            w_.op('s');
            return;
        }
        // A dict whose size is a multiple of 1000 ends with an empty batch: the C pickler detects
        // the end only by trying to read on.
        for (std::size_t at = 0; at <= n; at += batch) {
            w_.mark();
            for (auto i = at; i < std::min(n, at + batch); ++i) item(i);
            w_.op('u');
        }
    }
    /// Writes a str that is a literal in Python, such as the key of a dict.
    void literal(const std::string& s) {
        once(is_singleton(s) ? singletons_ : literals_, s, [&] { text(s); });
    }
    void global(std::string_view module, std::string_view name) {
        once(globals_, std::string(module) + '.' + std::string(name),
             [&] { w_.global(module, name); });
    }
    /// Writes and memoizes a new value; otherwise writes a reference to it.
    template <class F>
    void once(memo& m, std::string_view what, F&& write_it) {
        auto const it = m.find(what);
        if (it != m.end()) return w_.get(it->second);
        write_it();
        m.emplace(std::string(what), w_.put());
    }
    /// What it writes to.
    pickle::writer& out() noexcept { return w_; }

private:
    void put(value::none_t, int) { w_.none(); }
    void put(bool b, int) { w_.boolean(b); }
    void put(std::int64_t i, int) { w_.integer(i); }
    void put(const big_int& b, int) { w_.big(b.bytes()); }
    void put(double d, int) { w_.real(d); }
    void put(const std::string& s, int) {
        if (is_singleton(s)) return once(singletons_, s, [&] { text(s); });
        text(s);
        w_.put();
    }
    void text(const std::string& s) {
        if (s.size() > UINT32_MAX)
            throw error(errc::invalid_state, {.expected = "a str or bytes below 4 GiB"});
        w_.string(s);
    }
    /// Whether equal strings of this content are the same object in CPython: those of at most one
    /// latin-1 character are.
    static bool is_singleton(std::string_view utf8) {
        if (utf8.size() <= 1) return true;
        auto const lead = static_cast<unsigned char>(utf8[0]);
        return utf8.size() == 2 && (lead == 0xc2 || lead == 0xc3);
    }
    void put(const value::bytes_t& b, int) {
        if (b.size() > 1) {
            bytes(b);
            return;
        }
        std::string_view const content(reinterpret_cast<const char*>(b.data()), b.size());
        auto const it = short_bytes_.find(content);
        if (it != short_bytes_.end()) return w_.get(it->second);
        auto const number = bytes(b);
        short_bytes_.emplace(std::string(content), number);
    }
    /// `_codecs.encode("…", "latin1")`; empty: `bytes()`. @return its number in the memo
    std::uint32_t bytes(const value::bytes_t& b) {
        if (b.empty() && !weights_only_) {
            global("__builtin__", "bytes");
            w_.op(')');
        } else {
            global("_codecs", "encode");
            put(pickle::latin1_text({reinterpret_cast<const char*>(b.data()), b.size()}), 0);
            literal("latin1");
            w_.op(0x86);
            w_.put();
        }
        w_.op('R');
        return w_.put();
    }
    void put(const value::list_t& l, int depth) {
        list(l.size(), [&](std::size_t i) { write(l[i], depth + 1); });
    }
    void put(const value::tuple_t& t, int depth) {
        if (t.is_torch_size) global("torch", "Size");
        w_.begin_tuple(t.items.size());
        for (auto const& i : t.items) write(i, depth + 1);
        if (w_.end_tuple(t.items.size())) w_.put();
        if (!t.is_torch_size) return;
        w_.op(0x85);
        w_.put();
        w_.op('R');
        w_.put();
    }
    void put(const value::opaque_t& o, int) {
        throw error(errc::invalid_state, {.expected = "an opaque value that is an entry of its own",
                                          .found = "one within another value (" + o.what() + ")"});
    }
    void put(const value::dict_t& d, int depth) {
        dict(d.items.size(), [&](std::size_t i) {
            auto const& [key, item] = d.items[i];
            if (!key.is_hashable())
                throw error(errc::invalid_state, {.expected = "keys of dicts that Python can hash",
                                                  .found = "a list or dict in a key"});
            if (auto const* s = key.get_if<std::string>())
                literal(*s);
            else
                write(key, depth + 1);
            write(item, depth + 1);
        });
    }

    static constexpr std::size_t batch = 1000;  ///< CPython's BATCHSIZE.
    pickle::writer w_;
    memo singletons_, short_bytes_, literals_, globals_;
    bool weights_only_;
};

}  // namespace cairn::format::torch

#endif
