// SPDX-License-Identifier: Apache-2.0
// A view that makes its elements one at a time refers to memory that the next one replaces.
// expect: a view whose elements may end with its iterators
#include <cairn/state/state_dict.hpp>

#include <cstddef>
#include <iterator>
#include <ranges>
#include <vector>

struct made_one_at_a_time : std::ranges::view_base {
    struct iterator {
#ifdef BASELINE
        using iterator_concept = std::forward_iterator_tag;
#else
        using iterator_concept = std::input_iterator_tag;
#endif
        using value_type = std::vector<float>;
        using difference_type = std::ptrdiff_t;
        std::vector<float>& operator*() const { return *at; }
        iterator& operator++() { return ++at, *this; }
        iterator operator++(int) { return {at++}; }
        friend bool operator==(const iterator&, const iterator&) = default;

        std::vector<float>* at = nullptr;
    };
    iterator begin() const { return {first}; }
    iterator end() const { return {last}; }

    std::vector<float>*first = nullptr, *last = nullptr;
};

cairn::state_dict f(made_one_at_a_time& layers) {
    return {{"layers", layers}};
}
