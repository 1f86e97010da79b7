// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_VALUE_HPP
#define CAIRN_METADATA_VALUE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/metadata/big_int.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace cairn {

/// Any content of a checkpoint that is not a tensor: Python's plain values.
///
/// Owns its content. A dict keeps its insertion order; its keys are values too (Python allows
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
        bool is_torch_size = false;  ///< A `torch.Size`, which equals the tuple of its numbers.
        friend bool operator==(const tuple_t&, const tuple_t&);
    };
    struct dict_t {
        std::vector<std::pair<value, value>> items;
        /// Returns the value under a string key, or null.
        value* find(std::string_view key);
        const value* find(std::string_view key) const;
        friend bool operator==(const dict_t&, const dict_t&);
    };
    /// A value of a kind that cairn does not know, as it is stored: a Python object of another
    /// class, or one beyond cairn's limits. Loaded, and saved again unchanged, as an entry of its
    /// own.
    class opaque_t {
    public:
        opaque_t(bytes_t item, std::string what)
            : content_(std::make_shared<content>(content{std::move(item), std::move(what)})) {}
        // Only copied: a moved-from value would have no content.
        opaque_t(const opaque_t&) noexcept = default;
        opaque_t& operator=(const opaque_t&) noexcept = default;

        /// The whole stored item, as `torch.save` wrote it.
        const bytes_t& item() const noexcept { return content_->item; }
        /// Why it is opaque, for messages, e.g. `class datetime.timedelta`.
        const std::string& what() const noexcept { return content_->what; }
        friend bool operator==(const opaque_t& a, const opaque_t& b) {
            return a.item() == b.item();
        }

    private:
        struct content {
            bytes_t item;
            std::string what;
        };
        std::shared_ptr<const content> content_;  // a value stays small
    };
    using storage = std::variant<none_t, bool, std::int64_t, big_int, double, std::string, bytes_t,
                                 list_t, tuple_t, dict_t, opaque_t>;

    value() noexcept;
    value(const value& other);
    value(value&& other) noexcept;
    value& operator=(const value& other);
    value& operator=(value&& other) noexcept;
    ~value();
    value(std::nullptr_t) : value() {}
    value(std::same_as<bool> auto b) : value(scalar(), b) {}
    template <std::integral Integer>
        requires(!std::same_as<Integer, bool>)
    value(Integer i)
        : value(scalar(),
                static_cast<
                    std::conditional_t<std::unsigned_integral<Integer> && sizeof(Integer) == 8,
                                       std::uint64_t, std::int64_t>>(i)) {}
    /// Stored as a plain integer if it fits in 64 bits, so that equal numbers compare equal.
    value(const big_int& i);
    template <std::floating_point Real>
        requires(!std::same_as<Real, long double>)
    value(Real d) : value(scalar(), static_cast<double>(d)) {}
    value(std::string s) : v_(std::move(s)) {}
    value(std::string_view s) : value(std::string(s)) {}
    value(const char* s) : value(std::string(s)) {}
    value(bytes_t b) : v_(std::move(b)) {}
    value(list_t l) : v_(std::move(l)) {}
    value(tuple_t t) : v_(std::move(t)) {}
    value(dict_t d) : v_(std::move(d)) {}
    value(opaque_t o) : v_(std::move(o)) {}

    static value list(std::vector<value> items) { return list_t(std::move(items)); }
    static value tuple(std::vector<value> items) { return tuple_t{std::move(items)}; }
    static value dict(std::vector<std::pair<value, value>> items) {
        return dict_t{std::move(items)};
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
    /// Whether Python accepts it as a dict key: it contains no list or dict, and is not opaque.
    bool is_hashable() const noexcept;

    /// Returns the value as a C++ type: bool, an integer in its range, a float (integers convert),
    /// std::string, bytes_t, list_t, tuple_t, dict_t or value.
    /// @throws error naming what is held: errc::value_mismatch for a number that does not fit,
    /// errc::kind_mismatch for another kind of value, errc::unsupported for an opaque one.
    template <class T>
    T as() const;

    /// Returns Python's name of the kind: `"int"`, `"str"`, ….
    std::string_view kind_name() const noexcept { return kind_name(v_.index()); }

    const storage& raw() const noexcept { return v_; }
    storage& raw() noexcept { return v_; }
    /// Floats compare by bits, so that a NaN equals itself.
    friend bool operator==(const value& a, const value& b);

private:
    struct scalar {};
    value(scalar, bool b) : v_(b) {}
    value(scalar, std::int64_t i) : v_(i) {}
    value(scalar, std::uint64_t i);
    value(scalar, double d) : v_(d) {}

    bool is_number() const noexcept { return is<std::int64_t>() || is<big_int>() || is<double>(); }
    [[noreturn]] void mismatch(std::string wanted, bool wants_number = false) const;
    /// @param wanted  The position of an alternative.
    [[noreturn]] void mismatch(std::size_t wanted) const;
    static std::string_view kind_name(std::size_t index) noexcept;
    template <class T, class... Ts>
    static constexpr std::size_t index_of(const std::variant<Ts...>*) {
        std::size_t i = 0;
        (void)((std::same_as<T, Ts> || (++i, false)) || ...);
        return i;
    }

    storage v_;
};

namespace detail {

/// Formats a value for messages: a number in full, the beginning of a str, otherwise the size.
CAIRN_DECL std::string shown(const value& v);

/// Describes the integers of a type, e.g. `an integer from -128 to 127 (int8)`.
template <std::integral T>
std::string integers() {
    return "an integer from " + std::to_string(std::numeric_limits<T>::min()) + " to " +
           std::to_string(std::numeric_limits<T>::max()) +
           (std::signed_integral<T> ? " (int" : " (uint") + std::to_string(8 * sizeof(T)) + ")";
}

}  // namespace detail

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
                // A 64-bit number has a ninth byte for its sign.
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
        mismatch(index_of<T>(&v_));
    }
}

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/metadata/impl/value.ipp>
#endif

#endif
