// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_IMPL_NUMBERS_IPP
#define CAIRN_STATE_IMPL_NUMBERS_IPP

#include <cairn/state/detail/numbers.hpp>

#include <cairn/error.hpp>
#include <cairn/state/converted.hpp>
#include <cairn/tensor/convert.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>

namespace cairn::detail {

inline bool is_number(dtype type) {
    auto const kind = info(type).kind;
    return kind == dtype_class::boolean || kind == dtype_class::integer ||
           kind == dtype_class::floating;
}
template <class To>
To element_as(dtype type, const std::byte* at, dtype wanted) {
    To t{};
    convert_elements(const_tensor_view(type, {}, at), tensor_view(wanted, {}, &t));
    return t;
}
/// @pre `is_number(type)`
inline value number_at(dtype type, const std::byte* at) {
    if (info(type).kind == dtype_class::boolean) return std::to_integer<int>(*at) != 0;
    if (info(type).kind == dtype_class::floating)
        return element_as<double>(type, at, dtype::float64);
    if (type == dtype::uint64) return element_as<std::uint64_t>(type, at, dtype::uint64);
    return element_as<std::int64_t>(type, at, dtype::int64);
}
/// @throws error errc::kind_mismatch or errc::value_mismatch if the type does not hold the number
inline void set_number(dtype type, std::byte* to, const value& v) {
    alignas(16) std::byte element[16]{};
    auto const put = [&]<class From>(From number, dtype wide) {
        convert_elements(const_tensor_view(wide, {}, &number), tensor_view(type, {}, element));
    };
    auto const refuse = [&] {
        throw error(errc::value_mismatch,
                    {.expected = "a number that " + std::string(name_of(type)) + " can hold",
                     .found = shown(v)});
    };
    if (info(type).kind == dtype_class::boolean) {
        element[0] = std::byte{v.as<bool>()};
    } else if (info(type).kind == dtype_class::floating) {
        auto const as_kept = [&](double n) {
            put(n, dtype::float64);
            return element_as<double>(type, element, dtype::float64);
        };
        auto const number = v.as<double>();
        // A number that is too large converts to what infinity converts to: infinity, NaN or the
        // largest number.
        auto const most = as_kept(std::numeric_limits<double>::infinity());
        auto const kept = as_kept(number);
        if (std::isfinite(number) &&
            (!std::isfinite(kept) || (std::isfinite(most) && std::abs(number) > most) ||
             (number < 0 && kept > 0)))
            refuse();
    } else if (type == dtype::uint64) {
        put(v.as<std::uint64_t>(), dtype::uint64);
    } else {
        auto const number = v.as<std::int64_t>();
        put(number, dtype::int64);
        if (number_at(type, element) != value(number)) refuse();
    }
    std::copy_n(element, size_of(type), to);
}
/// Returns the shard of a tensor that is one number, in host memory of this rank; null for others.
inline const shard* only_element(const tensor_leaf& t) {
    if (!is_number(t.type) || t.global_shape.product() != 1 || t.shards.size() != 1) return nullptr;
    auto const& s = t.shards.front();
    return s.region.volume() == 1 && is_host(s.view.device.kind) ? &s : nullptr;
}

CAIRN_DECL std::optional<value> number_in(const tensor_leaf& t) {
    auto const* s = only_element(t);
    if (s == nullptr) return {};
    return number_at(t.type, s->view.data);
}

CAIRN_DECL std::optional<tensor_leaf> number_as_tensor(const value_leaf& v, dtype type,
                                                       const index_vector& shape) {
    if (!is_number(type) || shape.product() != 1) return {};
    conversion how;
    how.set = [v, type](const std::byte* from) -> std::function<void()> {
        auto const loaded = number_at(type, from);
        auto before = v.get ? v.get() : value();
        try {
            v.set(loaded);
        } catch (const error& e) {
            // A count may be stored as a float although the program keeps it in an integer.
            auto const* d = loaded.get_if<double>();
            constexpr double beyond = 9007199254740992;  // up to there, every whole number is exact
            if (e.code() != make_error_code(errc::value_mismatch) || d == nullptr ||
                std::trunc(*d) != *d || std::abs(*d) > beyond)
                throw;
            v.set(static_cast<std::int64_t>(*d));
        }
        return [v, before] { v.set(before); };
    };
    auto leaf = show(std::make_shared<const conversion>(std::move(how)), type);
    leaf.per_rank = v.per_rank;
    leaf.global_shape = shape;
    leaf.shards.clear();
    leaf.shards.emplace_back(box::whole(shape),
                             tensor_view(type, shape, leaf.number->memory.data()));
    return leaf;
}

CAIRN_DECL void expect_number(flat_leaf& leaf) {
    auto const* t = leaf.tensor();
    // No number fills all 16 bytes, so whatever is loaded differs.
    if (leaf.own && t != nullptr && t->number) t->number->known.fill(std::byte{0xff});
}

CAIRN_DECL std::optional<value_leaf> tensor_as_number(const tensor_leaf& t) {
    auto const* s = only_element(t);
    if (s == nullptr || !t.writable || !s->writable) return {};
    value_leaf leaf;
    leaf.get = [t] { return *number_in(t); };
    leaf.check = [type = t.type, number = t.number](const value& v) {
        alignas(16) std::byte element[16]{};
        set_number(type, element, v);
        if (number && number->how->check) number->how->check(element);
    };
    leaf.set = [t](const value& v) {
        set_number(t.type, t.shards.front().target_view().data, v);
        if (t.number) (void)give_back(t.number);
    };
    leaf.per_rank = t.per_rank;
    return leaf;
}

}  // namespace cairn::detail

#endif
