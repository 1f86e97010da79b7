// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_ARCHETYPE_STINGY_HPP
#define CAIRN_TESTS_ARCHETYPE_STINGY_HPP

#include <memory>
#include <utility>

namespace cairn::archetype {

/// Takes away what generic code may not rely on.
struct stingy {
    stingy() = default;
    stingy(stingy&&) = default;
    stingy& operator=(stingy&&) = delete;
    void operator&() const = delete;
    template <class T>
    void operator,(T&&) const = delete;
};

/// The same for what concepts ask to be movable.
struct stingy_part {
    explicit stingy_part(int) {}  // no default constructor
    stingy_part(stingy_part&&) = default;
    stingy_part& operator=(stingy_part&&) = default;
    void operator&() const = delete;
    template <class T>
    void operator,(T&&) const = delete;
};

/// A parameter that can be given as a const lvalue and as nothing else.
template <class T>
class const_lvalue {
public:
    const_lvalue(const T& t) : t_(std::addressof(t)) {}
    const_lvalue(T&) = delete;
    const_lvalue(const T&&) = delete;
    const T& get() const { return *t_; }

private:
    const T* t_;
};

}  // namespace cairn::archetype

#endif
