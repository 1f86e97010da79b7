// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_VALUE_HPP
#define CAIRN_STATE_VALUE_HPP

#include <cairn/detail/utf8.hpp>
#include <cairn/error.hpp>
#include <cairn/state/big_int.hpp>

#include <array>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cairn {

/// Whatever a checkpoint holds besides tensors: Python's plain values.
///
/// Owns all of it. A dict keeps its insertion order; its keys are values too (Python allows
/// integers and more), though a state dict's own levels are named by strings.
class value {
public:
    struct none_t {
        friend bool operator==(none_t, none_t) = default;
    };
    using bytes_t = std::vector<std::byte>;
    using list_t = std::vector<value>;
    struct tuple_t {
        std::vector<value> items;
        friend bool operator==(const tuple_t&, const tuple_t&);
    };
    struct dict_t {
        std::vector<std::pair<value, value>> items;
        /// The value under a string key, or null.
        value* find(std::string_view key);
        const value* find(std::string_view key) const;
        friend bool operator==(const dict_t&, const dict_t&);
    };
    using storage = std::variant<none_t, bool, std::int64_t, big_int, double, std::string, bytes_t,
                                 list_t, tuple_t, dict_t>;

    value() = default;
    value(std::nullptr_t) {}
    value(std::same_as<bool> auto b) : v_(b) {}
    template <std::integral Integer>
        requires(!std::same_as<Integer, bool>)
    value(Integer i) {
        if constexpr (std::unsigned_integral<Integer> && sizeof(Integer) == 8) {
            if (i > static_cast<Integer>(INT64_MAX)) {
                v_ = big_int(static_cast<std::uint64_t>(i));
                return;
            }
        }
        v_ = static_cast<std::int64_t>(i);
    }
    /// Kept as a plain integer when it fits in 64 bits, so that equal numbers compare equal.
    value(const big_int& i) {
        if (auto fits = i.as_int64())
            v_ = *fits;
        else
            v_ = i;
    }
    value(std::floating_point auto d) : v_(static_cast<double>(d)) {}
    value(std::string s) : v_(std::move(s)) {}
    value(std::string_view s) : v_(std::string(s)) {}
    value(const char* s) : v_(std::string(s)) {}
    value(bytes_t b) : v_(std::move(b)) {}
    value(list_t l) : v_(std::move(l)) {}
    value(tuple_t t) : v_(std::move(t)) {}
    value(dict_t d) : v_(std::move(d)) {}

    static value list(std::vector<value> items) { return value(list_t(std::move(items))); }
    static value tuple(std::vector<value> items) { return value(tuple_t{std::move(items)}); }
    static value dict(std::vector<std::pair<value, value>> items) {
        return value(dict_t{std::move(items)});
    }

    template <class T>
    bool is() const noexcept {
        return std::holds_alternative<T>(v_);
    }
    template <class T>
    T* get_if() noexcept {
        return std::get_if<T>(&v_);
    }
    template <class T>
    const T* get_if() const noexcept {
        return std::get_if<T>(&v_);
    }
    bool is_none() const noexcept { return is<none_t>(); }
    /// Whether Python can have it as a key of a dict: no list or dict is in it.
    bool is_hashable() const noexcept;

    /// The value as a C++ type: bool, an integer in its range, a float (integers convert),
    /// std::string, bytes_t, list_t, tuple_t, dict_t or value.
    /// @throws error saying what is held: errc::value_mismatch for a number that does not fit,
    /// errc::kind_mismatch for another kind of value.
    template <class T>
    T as() const;

    /// `"int"`, `"str"`, … as Python calls it.
    std::string_view kind_name() const noexcept {
        constexpr std::string_view names[] = {"None", "bool",  "int",  "int",   "float",
                                              "str",  "bytes", "list", "tuple", "dict"};
        return names[v_.index()];
    }

    const storage& raw() const noexcept { return v_; }
    storage& raw() noexcept { return v_; }
    /// Floats compare by bits, so that a NaN equals itself.
    friend bool operator==(const value& a, const value& b) {
        if (auto const* x = a.get_if<double>())
            if (auto const* y = b.get_if<double>()) return std::memcmp(x, y, sizeof *x) == 0;
        return a.v_ == b.v_;
    }

private:
    bool is_number() const noexcept {
        return is<std::int64_t>() || is<big_int>() || is<double>();
    }
    [[noreturn]] void mismatch(std::string wanted, bool wants_number = false) const;

    storage v_;
};

namespace detail {

/// For messages: numbers as they are, the beginning of a str, of all else how much there is.
inline std::string shown(const value& v) {
    auto const of = [](std::size_t n, std::string_view what) {
        return std::string(what) + " of " + std::to_string(n);
    };
    if (auto const* b = v.get_if<bool>()) return *b ? "True" : "False";
    if (auto const* i = v.get_if<std::int64_t>()) return std::to_string(*i);
    if (auto const* i = v.get_if<big_int>())
        return i->bytes().size() <= 32 ? i->to_string()
                                       : of(i->bytes().size() * 8, "an int") + " bits";
    if (auto const* d = v.get_if<double>()) {
        std::array<char, 32> digits{};
        auto const end = std::to_chars(digits.data(), digits.data() + digits.size(), *d).ptr;
        return std::string(digits.data(), end) + " (float)";
    }
    if (auto const* s = v.get_if<std::string>()) {
        auto const text = clipped(*s, 40);
        return "'" + printable(text) + (s->size() > text.size() ? "...' (str)" : "' (str)");
    }
    if (auto const* b = v.get_if<value::bytes_t>()) return of(b->size(), "bytes");
    if (auto const* l = v.get_if<value::list_t>()) return of(l->size(), "a list");
    if (auto const* t = v.get_if<value::tuple_t>()) return of(t->items.size(), "a tuple");
    if (auto const* d = v.get_if<value::dict_t>()) return of(d->items.size(), "a dict");
    return "None";
}

/// `an integer from -128 to 127 (int8)`
template <std::integral T>
std::string integers() {
    return "an integer from " + std::to_string(std::numeric_limits<T>::min()) + " to " +
           std::to_string(std::numeric_limits<T>::max()) +
           (std::signed_integral<T> ? " (int" : " (uint") + std::to_string(8 * sizeof(T)) + ")";
}

}  // namespace detail

inline void value::mismatch(std::string wanted, bool wants_number) const {
    throw error(wants_number && is_number() ? errc::value_mismatch : errc::kind_mismatch,
                {.expected = std::move(wanted), .found = detail::shown(*this)});
}

inline bool operator==(const value::tuple_t& a, const value::tuple_t& b) {
    return a.items == b.items;
}
inline bool operator==(const value::dict_t& a, const value::dict_t& b) {
    return a.items == b.items;
}

inline bool value::is_hashable() const noexcept {
    if (is<list_t>() || is<dict_t>()) return false;
    if (auto const* t = get_if<tuple_t>())
        for (auto const& x : t->items)
            if (!x.is_hashable()) return false;
    return true;
}

inline value* value::dict_t::find(std::string_view key) {
    for (auto& [k, v] : items)
        if (auto const* s = k.get_if<std::string>(); s != nullptr && *s == key) return &v;
    return nullptr;
}
inline const value* value::dict_t::find(std::string_view key) const {
    return const_cast<dict_t*>(this)->find(key);
}

template <class T>
T value::as() const {
    if constexpr (std::same_as<T, value>) {
        return *this;
    } else if constexpr (std::same_as<T, bool>) {
        if (auto const* b = get_if<bool>()) return *b;
        mismatch("a bool");
    } else if constexpr (std::integral<T>) {
        if (auto const* i = get_if<std::int64_t>()) {
            if (std::in_range<T>(*i)) return static_cast<T>(*i);
        } else if (auto const* big = get_if<big_int>()) {
            if constexpr (std::unsigned_integral<T> && sizeof(T) == 8) {
                // A number of 64 bits has a ninth byte for its sign.
                auto const& bytes = big->bytes();
                if (bytes.size() < 9 ? !big->negative() : bytes.size() == 9 && bytes[8] == 0) {
                    std::uint64_t v = 0;
                    for (std::size_t n = 0; n < bytes.size() && n < 8; ++n)
                        v |= std::uint64_t{bytes[n]} << (8 * n);
                    return v;
                }
            }
        } else if (auto const* b = get_if<bool>()) {
            return static_cast<T>(*b);
        }
        mismatch(detail::integers<T>(), true);
    } else if constexpr (std::floating_point<T>) {
        if (auto const* d = get_if<double>()) {
            constexpr auto most = std::numeric_limits<T>::max();
            bool const finite = *d - *d == 0;
            if (!finite || (*d <= most && *d >= -most)) return static_cast<T>(*d);
            mismatch("a float of " + std::to_string(8 * sizeof(T)) + " bits", true);
        }
        if (auto const* i = get_if<std::int64_t>()) return static_cast<T>(*i);
        mismatch("a float", true);
    } else {
        if (auto const* t = get_if<T>()) return *t;
        value wanted;
        wanted.v_.template emplace<T>();
        mismatch("a value of kind " + std::string(wanted.kind_name()));
    }
}

}  // namespace cairn

#endif
