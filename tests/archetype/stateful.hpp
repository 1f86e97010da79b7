// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_ARCHETYPE_STATEFUL_HPP
#define CAIRN_TESTS_ARCHETYPE_STATEFUL_HPP

#include "tensor.hpp"

#include <cairn/state/savable.hpp>
#include <cairn/state/state_dict.hpp>
#include <cairn/state/stateful.hpp>

#include <utility>
#include <vector>

/// The least that `Stateful` asks for, and types that miss one requirement each.
namespace cairn::archetype {

/// Only its conversion is a state dict.
class dict_maker : stingy {
public:
    explicit dict_maker(cairn::state_dict d) : d_(std::move(d)) {}
    operator cairn::state_dict() const { return d_; }

private:
    cairn::state_dict d_;
};

/// A tensor and a count. Movable once made, and nothing else.
class stateful : stingy {
public:
    explicit stateful(std::vector<float> values) : weight_(std::move(values)) {}

    dict_maker state_dict() {
        ++asked;
        cairn::state_dict d;
        d["weight"] = weight_;
        d["step"] = std::ref(step);
        return dict_maker(std::move(d));
    }
    // What it returns is nobody's business.
    stingy load_state_dict(const cairn::state_dict& d) {
        told += d.size() == 2;
        return {};
    }
    tensor& weight() { return weight_; }

    std::int64_t step = 0;
    int asked = 0;
    int told = 0;

private:
    tensor weight_;
};
static_assert(Stateful<stateful> && Stateful<stateful&> && !Tensor<stateful>);

struct without_state_dict {
    void load_state_dict(const cairn::state_dict&);
};
struct state_dict_is_void {
    void state_dict();
    void load_state_dict(const cairn::state_dict&);
};
struct state_dict_is_number {
    int* state_dict();
    void load_state_dict(const cairn::state_dict&);
};
struct state_dict_with_argument {
    cairn::state_dict state_dict(int);
    void load_state_dict(const cairn::state_dict&);
};
struct without_load_state_dict {
    cairn::state_dict state_dict();
};
struct load_changes_the_dict {
    cairn::state_dict state_dict();
    void load_state_dict(cairn::state_dict&);
};
struct load_without_dict {
    cairn::state_dict state_dict();
    void load_state_dict();
};

static_assert(!Stateful<without_state_dict> && !Stateful<state_dict_is_void>);
static_assert(!Stateful<state_dict_is_number> && !Stateful<state_dict_with_argument>);
static_assert(!Stateful<without_load_state_dict> && !Stateful<load_changes_the_dict>);
static_assert(!Stateful<load_without_dict> && !Stateful<cairn::state_dict> && !Stateful<int>);
static_assert(Savable<stateful> && Savable<stateful&> && Savable<const cairn::state_dict&>);
static_assert(!Savable<without_load_state_dict> && !Savable<dict_maker> && !Savable<tensor>);

}  // namespace cairn::archetype

#endif
