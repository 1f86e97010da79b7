// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_NODE_HPP
#define CAIRN_STATE_NODE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/state/bytes_value.hpp>
#include <cairn/state/detail/make_leaf.hpp>
#include <cairn/state/flat_state.hpp>
#include <cairn/state/per_rank.hpp>
#include <cairn/state/stateful.hpp>
#include <cairn/state/value_traits.hpp>

#include <concepts>
#include <functional>
#include <iterator>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace cairn {

class node;
class state_dict;

/// A list of a state dict: nodes by position.
using state_list = std::vector<node>;

namespace detail {

/// A value of the state, owned here or held by reference.
struct value_node {
    value owned{};
    value* tree = nullptr;  ///< The value itself, if it exists as a `value`.
    std::function<value()> get{};
    std::function<void(const value&)> set{};    ///< Empty: read-only.
    std::function<void(const value&)> check{};  ///< Throws what `set` would; changes nothing.
    bool per_rank = false;
    bool optional = false;  ///< A checkpoint need not have it.
};
/// A Stateful of the user's, borrowed.
struct stateful_node {
    std::function<state_dict()> get;
    std::function<void(const state_dict&)> put;
};

template <class R>
concept NamedRange = requires(R& r) {
    { std::begin(r)->first } -> std::convertible_to<std::string>;
    std::begin(r)->second;
};
template <class T>
concept StateElement = Tensor<T> || Sharded<T> || std::same_as<std::remove_cvref_t<T>, state_dict>;
template <class R>
concept ElementRange = requires(R& r) { requires StateElement<decltype(*std::begin(r))>; };

/// A range whose constness is that of its elements, as a container's is. Elements that a range only
/// refers to stay mutable.
template <class R>
concept DeeplyConst = requires(const R& r) {
    requires std::is_const_v<std::remove_reference_t<decltype(*std::begin(r))>>;
};

/// Whether the elements that a range refers to are borrowed. Those that it makes are owned.
template <class T>
constexpr bool lends_elements() {
    using plain = std::remove_cvref_t<T>;
    constexpr bool is_view = std::ranges::enable_view<plain>;
    constexpr bool refers =
        std::is_lvalue_reference_v<decltype(*std::begin(std::declval<plain&>()))>;
    constexpr bool lends =
        std::is_lvalue_reference_v<T> || (is_view && std::ranges::enable_borrowed_range<plain>);
    static_assert(lends || !refers || (!is_view && DeeplyConst<plain>),
                  "cairn: a temporary range that may own its elements, which would end with it, or "
                  "refer to others': pass the container, or the range as an lvalue");
    // An iterator that is only an input iterator may hold its element.
    static_assert(
        !refers || !is_view || !std::ranges::input_range<T> || std::ranges::forward_range<T>,
        "cairn: a view whose elements may end with its iterators: pass a container of them");
    return lends;
}

template <class T>
inline constexpr bool is_reference_wrapper = false;
template <class T>
inline constexpr bool is_reference_wrapper<std::reference_wrapper<T>> = true;
template <class T>
inline constexpr bool is_per_rank = false;
template <class T>
inline constexpr bool is_per_rank<per_rank_t<T>> = true;
template <class T>
inline constexpr bool is_bytes_reference = false;
template <class T>
inline constexpr bool is_bytes_reference<bytes_reference<T>> = true;

}  // namespace detail

/// One entry of a state dict: a nested dict, a list, a tensor, a value, or a Stateful.
///
/// Constructed from anything that a state may hold. Tensors, sharded tensors and Statefuls that are
/// lvalues are borrowed and must outlive the verb; rvalues are moved in. So are the elements of a
/// range; a borrowed view, such as `std::span`, lends those that it refers to, and a temporary that
/// may do either does not compile. Values are copied; pass a
/// variable that a load should write into as `std::ref(step)`, a struct as `cairn::as_bytes(rng)`.
/// Copies of a node share its content.
class node {
public:
    using content =
        std::variant<std::monostate, std::shared_ptr<state_dict>, std::shared_ptr<state_list>,
                     std::shared_ptr<tensor_leaf>, std::shared_ptr<detail::value_node>,
                     std::shared_ptr<detail::stateful_node>>;

    node() noexcept;
    node(const node& other);
    node(node&& other) noexcept;
    node& operator=(const node& other);
    node& operator=(node&& other) noexcept;
    ~node();
    template <class T>
        requires(!std::same_as<std::remove_cvref_t<T>, node>)
    node(T&& t) : node(make(std::forward<T>(t))) {
        static_assert(!detail::AmbiguousVariable<T>,
                      "cairn: a mutable variable is ambiguous: pass std::ref(x) to load into it, "
                      "cairn::value(x) to save its current value");
    }

    /// Constructs a node from a tensor whose traits were read already.
    node(std::shared_ptr<tensor_leaf> leaf);

    bool is_dict() const noexcept { return c_.index() == 1; }
    bool is_list() const noexcept { return c_.index() == 2; }
    bool is_tensor() const noexcept { return c_.index() == 3; }
    bool is_value() const noexcept { return c_.index() == 4; }

    /// @throws error errc::kind_mismatch if it is something else
    state_dict& as_dict() const;
    state_list& as_list() const;
    /// Returns the tensor; a number kept in another type is refreshed first.
    const tensor_leaf& as_tensor() const;
    /// Returns the current value; after a load, the loaded one.
    value as_value() const;
    /// Sets the value held or referred to.
    /// @throws error errc::invalid_state if it can only be saved
    void assign(const value& v) const;

    /// Throws what @ref assign would throw, as far as that can be checked in advance, and changes
    /// nothing.
    void check(const value& v) const;

    /// Keys to look up if a checkpoint lacks the entry's own: those of a weight tied to this one,
    /// and of the optimizer state kept for it.
    std::span<const std::string> other_keys() const noexcept {
        return others_ ? std::span<const std::string>(*others_) : std::span<const std::string>();
    }
    void set_other_keys(std::vector<std::string> keys);
    /// Lets a load accept a checkpoint that lacks this value, which is then left as it is.
    /// @throws error errc::kind_mismatch if it is not a value
    void set_optional();

    const content& raw() const noexcept { return c_; }

private:
    template <class Pointer>
    const Pointer& held(const char* wanted) const;

    template <class T>
    static node make(T&& t);
    static node of(std::shared_ptr<state_dict> d);
    static node of(std::shared_ptr<state_list> l);
    static node of(std::shared_ptr<detail::value_node> o);
    static node of(std::shared_ptr<detail::stateful_node> s);
    static node of_owned(value v);
    /// @throws error errc::invalid_state if `inner` cannot be per rank
    static node of_each_rank(node inner);
    template <class T>
    static std::shared_ptr<detail::value_node> make_reference(T& t);

    content c_;
    std::shared_ptr<const std::vector<std::string>> others_{};
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/state/impl/node.ipp>
#endif

#endif
