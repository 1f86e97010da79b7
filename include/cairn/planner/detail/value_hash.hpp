// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_DETAIL_VALUE_HASH_HPP
#define CAIRN_PLANNER_DETAIL_VALUE_HASH_HPP

#include <cairn/metadata/value.hpp>

#include <bit>
#include <cstdint>
#include <string>

namespace cairn::detail {

/// A 64-bit hash of a value and its approximate size in bytes: shows whether two ranks hold the
/// same value without sending it. Equal values have equal hashes; a NaN equals itself by its bits.
class value_digest {
public:
    explicit value_digest(const value& v) { walk(v, 0); }
    std::uint64_t hash() const noexcept { return hash_; }
    std::uint64_t bytes() const noexcept { return bytes_; }

private:
    void mix(std::uint64_t v) {
        hash_ = (hash_ ^ v) * 0x9e3779b97f4a7c15ULL;
        hash_ ^= hash_ >> 29;
        hash_ *= 0xbf58476d1ce4e5b9ULL;
    }
    template <class Bytes>
    void mix_bytes(const Bytes& b) {
        mix(b.size());
        for (auto c : b) mix(static_cast<std::uint8_t>(c));
        bytes_ += b.size();
    }
    void walk(const value& v, int depth) {
        if (depth > 200)
            throw error(errc::invalid_state, {.expected = "a value nested at most 200 deep"});
        mix(v.raw().index());
        bytes_ += 8;
        if (auto const* b = v.get_if<bool>()) return mix(*b);
        if (auto const* i = v.get_if<std::int64_t>()) return mix(static_cast<std::uint64_t>(*i));
        if (auto const* i = v.get_if<big_int>()) return mix_bytes(i->bytes());
        if (auto const* d = v.get_if<double>()) return mix(std::bit_cast<std::uint64_t>(*d));
        if (auto const* s = v.get_if<std::string>()) return mix_bytes(*s);
        if (auto const* b = v.get_if<value::bytes_t>()) return mix_bytes(*b);
        if (auto const* o = v.get_if<value::opaque_t>()) return mix_bytes(o->item());
        if (auto const* l = v.get_if<value::list_t>()) {
            mix(l->size());
            for (auto const& x : *l) walk(x, depth + 1);
        } else if (auto const* t = v.get_if<value::tuple_t>()) {
            mix(t->items.size());
            for (auto const& x : t->items) walk(x, depth + 1);
        } else if (auto const* d = v.get_if<value::dict_t>()) {
            mix(d->items.size());
            for (auto const& [k, x] : d->items) {
                walk(k, depth + 1);
                walk(x, depth + 1);
            }
        }
    }

    std::uint64_t hash_ = 0x243f6a8885a308d3ULL;
    std::uint64_t bytes_ = 0;
};

}  // namespace cairn::detail

#endif
