// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_CONVERTED_HPP
#define CAIRN_STATE_CONVERTED_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/state/flat_state.hpp>
#include <cairn/tensor/containers.hpp>
#include <cairn/tensor/traits.hpp>

#include <concepts>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace cairn {
namespace detail {

template <class T>
concept Arithmetic = std::is_arithmetic_v<T>;

/// Converts a number to another type: whole numbers exactly, to floating point with rounding.
/// Returns nullopt if it does not fit.
template <Arithmetic To, Arithmetic From>
std::optional<To> number_as(From from) {
    if constexpr (std::same_as<To, From>) {
        return from;
    } else if constexpr (std::same_as<From, bool>) {
        return static_cast<To>(from ? 1 : 0);
    } else if constexpr (std::same_as<To, bool>) {
        if (from == From{0}) return false;
        if (from == From{1}) return true;
        return std::nullopt;
    } else if constexpr (std::integral<To> && std::integral<From>) {
        if (!std::in_range<To>(from)) return std::nullopt;
        return static_cast<To>(from);
    } else if constexpr (std::integral<To>) {
        // 2^digits is exact in every floating-point type; the largest integer may not be.
        constexpr auto beyond = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * 2;
        constexpr auto least = std::signed_integral<To> ? -beyond : From{0};
        if (!(from >= least && from < beyond)) return std::nullopt;
        auto const to = static_cast<To>(from);
        if (static_cast<From>(to) != from) return std::nullopt;
        return to;
    } else if constexpr (std::integral<From>) {
        return static_cast<To>(from);
    } else {
        auto const size = from < 0 ? -from : from;
        if (size > std::numeric_limits<To>::max() && size <= std::numeric_limits<From>::max())
            return std::nullopt;
        return static_cast<To>(from);
    }
}

/// Returns the name of a number's type, e.g. `int64` or `float32`.
template <Arithmetic T>
std::string name_of_number_type() {
    if constexpr (std::same_as<T, bool>) return "bool";
    auto const bits = std::to_string(8 * sizeof(T));
    if constexpr (std::floating_point<T>)
        return "float" + bits;
    else
        return (std::signed_integral<T> ? "int" : "uint") + bits;
}
CAIRN_DECL std::string float_text(double number);
template <Arithmetic T>
std::string number_text(T number) {
    if constexpr (std::floating_point<T>)
        return float_text(static_cast<double>(number));
    else
        return std::to_string(number);
}

/// @throws error errc::dtype_mismatch
template <Arithmetic To, Arithmetic From>
To number_or_throw(From from, const char* whose) {
    if (auto const to = number_as<To>(from)) return *to;
    throw error(errc::dtype_mismatch,
                {.expected = "a number that the " + name_of_number_type<To>() + " of " + whose +
                             " can hold",
                 .found = number_text(from)});
}

/// Writes the current number into its tensor.
CAIRN_DECL void refresh(shown_number& n);

/// Creates a leaf for a number, with memory of its own.
CAIRN_DECL tensor_leaf show(std::shared_ptr<const conversion> how, dtype type);

/// Copies a loaded element to the number if it differs.
/// @return A function that restores the old number; empty if nothing changed.
CAIRN_DECL std::function<void()> give_back(const std::shared_ptr<shown_number>& n);

/// Copies the loaded elements to all numbers of a state that a load has filled.
/// @throws error naming the tensor
CAIRN_DECL void give_back(flat_state& state);

}  // namespace detail

/// A number that the program keeps in one type and checkpoints hold in another, as a 0-d tensor.
/// Created by @ref converted.
template <Element Shown>
class converted_number {
public:
    explicit converted_number(conversion how)
        : leaf_(detail::show(std::make_shared<const conversion>(std::move(how)), dtype_of<Shown>)) {
    }

    /// The tensor; `detail::refresh` brings its memory up to date.
    const tensor_leaf& leaf() const noexcept { return leaf_; }

private:
    tensor_leaf leaf_;
};

template <Element Shown>
struct tensor_traits<converted_number<Shown>> {
    static tensor_view view(const converted_number<Shown>& n) {
        detail::refresh(*n.leaf().number);
        return {dtype_of<Shown>, index_vector{}, n.leaf().number->memory.data()};
    }
    static bool writable(const converted_number<Shown>& n) { return n.leaf().writable; }
};

/// Stores a number as a 0-d tensor of another type: PyTorch keeps an optimizer's `step` as a
/// float32 tensor, and the number of batches that a norm has seen as an int64 one. For state dicts,
/// `v.buffer`, and the state passed to `v.parameter`.
///
///     v.parameter(*p.tensor, {{"step", cairn::converted<float>(p.step)}, {"exp_avg", p.m}});
///
/// The number is read when a verb begins, and written when a load or `set_state_dict` has a
/// different one. Only whole numbers within its range convert to an integer; conversion to floating
/// point rounds: float32 counts exactly to 2^24. A loaded number that does not fit is
/// errc::dtype_mismatch. One number may appear several times (a step for each parameter): it is
/// stored once, and tensors of a checkpoint that differ are errc::invalid_state, as for a tied
/// weight.
///
/// @tparam Shown  The element type in checkpoints.
/// @param kept    Must outlive the use of the state. A const number can only be saved.
template <Element Shown, detail::Arithmetic Kept>
    requires detail::Arithmetic<Shown>
converted_number<Shown> converted(Kept& kept) {
    using plain = std::remove_const_t<Kept>;
    conversion how;
    how.number = std::addressof(kept);
    how.get = [&kept](std::byte* to) {
        auto const shown = detail::number_or_throw<Shown>(plain{kept}, "the checkpoint");
        std::memcpy(to, &shown, sizeof shown);
    };
    if constexpr (!std::is_const_v<Kept>) {
        auto const loaded = [](const std::byte* from) {
            Shown shown{};
            std::memcpy(&shown, from, sizeof shown);
            return detail::number_or_throw<plain>(shown, "the program");
        };
        how.check = [loaded](const std::byte* from) { (void)loaded(from); };
        how.set = [&kept, loaded](const std::byte* from) -> std::function<void()> {
            auto const before = std::exchange(kept, loaded(from));
            return [&kept, before] { kept = before; };
        };
    }
    return converted_number<Shown>(std::move(how));
}
/// A temporary cannot be loaded into.
template <Element Shown, detail::Arithmetic Kept>
void converted(const Kept&&) = delete;

/// Overload with functions, for a number that is not a plain variable.
///
/// @param get  Returns the number as a `Shown`.
/// @param set  Called with a loaded `Shown` that differs from what `get` returned. Throws, and
///             changes nothing, if it does not fit. Called with the old value to undo the change
///             when something else fails.
template <Element Shown, std::invocable<> Get, std::invocable<Shown> Set>
    requires std::convertible_to<std::invoke_result_t<Get&>, Shown>
converted_number<Shown> converted(Get get, Set set) {
    conversion how;
    how.get = [get](std::byte* to) mutable {
        Shown const shown = get();
        std::memcpy(to, &shown, sizeof shown);
    };
    how.set = [get, set](const std::byte* from) mutable -> std::function<void()> {
        Shown const before = get();
        Shown shown{};
        std::memcpy(&shown, from, sizeof shown);
        set(shown);
        return [set, before]() mutable { set(before); };
    };
    return converted_number<Shown>(std::move(how));
}

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/state/impl/converted.ipp>
#endif

#endif
