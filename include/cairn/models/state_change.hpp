// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_STATE_CHANGE_HPP
#define CAIRN_MODELS_STATE_CHANGE_HPP

#include <cairn/models/given_state.hpp>
#include <cairn/models/match_groups.hpp>
#include <cairn/state/converted.hpp>
#include <cairn/state/copy_leaf.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// What one visit of a model or of optimizers found: where a state dict goes.
struct visited_state {
    leaves_by_name wanted;
    /// Which names may be given without being wanted.
    std::function<bool(const std::string&)> known;
    std::vector<optimizer_group> groups{};
};
using visit_function = std::function<std::unique_ptr<visited_state>()>;

/// The numbers among given tensors, as they are before a visit. A visitor that first writes a
/// number into memory of the same optimizer would overwrite what a load has put there.
class numbers_before_visit {
public:
    explicit numbers_before_visit(const leaves_by_name& given) {
        for (auto const& [name, leaf] : given.by_name) {
            auto const* t = leaf->tensor();
            if (t == nullptr || t->number || t->shards.size() != 1) continue;
            auto const& v = t->shards[0].view;
            if (v.elements() == 1 && v.where.kind != memory_kind::cuda && v.data != nullptr)
                numbers_.push_back({&name, v.data, {v.data, v.data + v.bytes()}});
        }
    }
    /// @throws error errc::invalid_state naming one that is another now
    void check(const char* of_what) const {
        for (auto const& n : numbers_) {
            if (std::equal(n.before.begin(), n.before.end(), n.data)) continue;
            throw error(errc::invalid_state,
                        {.fqn = *n.name,
                         .expected = std::string("visits of the ") + of_what +
                                     " to change nothing",
                         .found = "that visiting overwrites the number that was given",
                         .remedy = "show a number that is kept in another type as "
                                   "cairn::converted<float>(number)"});
        }
    }

private:
    struct number {
        const std::string* name;
        const std::byte* data;
        std::vector<std::byte> before;
    };
    std::vector<number> numbers_;
};

/// A state dict on its way into a model or into optimizers. Making one checks all of it and changes
/// nothing; what may still be refused is set next, all or none; tensors come last and cannot fail.
class state_change {
public:
    /// @param target    Outlives this.
    /// @param visit     For a second look: is memory still where it was?
    /// @param to_come   Given tensors of more than one element are the target's own memory, which
    ///                  rank 0 will fill.
    state_change(std::shared_ptr<const leaves_by_name> given, const visited_state& target,
                 const visit_function& visit, bool strict, const char* of_what, bool to_come)
        : given_(std::move(given)),
          pairs_(pair_up(target.wanted, *given_, strict, of_what, target.known)) {
        check_tied(pairs_);
        if (!target.groups.empty()) values_ = match_groups(target.groups, *given_, strict);
        find_transient(visit, to_come);
    }
    state_change(state_change&&) = delete;
    /// Takes back what was set, unless the tensors followed.
    ~state_change() {
        for (; !undo_.empty(); undo_.pop_back()) {
            try {
                undo_.back()();
            } catch (...) {  // no more can be done, and the first failure is on its way already
            }
        }
    }

    /// Hyperparameters, values and numbers that are kept in another type: the user's code may
    /// refuse them. Whatever is thrown, destroying this takes all of them back.
    void set_values() {
        undo_.reserve(values_.size() + pairs_.size());  // nothing is set that cannot be noted
        for (auto const* a : transient_) {
            if (!same_content(*a->from->tensor(), *a->to->tensor())) refuse_transient(*a);
        }
        for (auto const& [h, v] : values_)
            set("hyperparameter '" + h->name + "'", h->get, h->set, v);
        for (auto const& a : pairs_) {
            if (auto const* o = a.to->value()) {
                if (o->set) set(a.to->fqn, o->get, o->set, a.from->value()->get());
            } else if (auto const& number = a.to->tensor()->number) {
                named(a.to->fqn, [&] {
                    copy_leaf(a.to->fqn, *a.from->tensor(), *a.to->tensor());
                    if (auto undo = give_back(number)) undo_.push_back(std::move(undo));
                });
            }
        }
    }
    /// From here on nothing is taken back.
    void keep_values() noexcept { undo_.clear(); }
    void copy_tensors() {
        keep_values();
        for (auto const& a : pairs_) {
            auto const* to = a.to->tensor();
            if (to != nullptr && !to->number) copy_leaf(a.to->fqn, *a.from->tensor(), *to);
        }
    }

private:
    template <class F>
    static void named(const std::string& name, F&& f) {
        try {
            f();
        } catch (const error& e) {
            auto where = e.context();
            where.fqn = name;
            throw error(e.code(), std::move(where));
        }
    }
    template <class Get, class Set>
    void set(const std::string& name, const Get& get, const Set& set_to, const value& v) {
        named(name, [&] {
            // Before it is set: one that fails half-way is taken back too.
            undo_.push_back([&set_to, before = get()] { set_to(before); });
            set_to(v);
        });
    }

    /// Finds tensors that each visit makes anew: what is copied into them is lost.
    void find_transient(const visit_function& visit, bool to_come) {
        auto const suspect = [&](const assignment& a) {
            auto const* to = a.to->tensor();
            return to != nullptr && to->keep != nullptr && !to->number &&
                   to->global_shape.product() != 0 &&
                   (to_come || !same_memory(*a.from->tensor(), *to));
        };
        if (std::none_of(pairs_.begin(), pairs_.end(), suspect)) return;
        auto const again = visit();
        for (auto const& a : pairs_) {
            if (!suspect(a)) continue;
            auto const* leaf = again->wanted.find(a.to->fqn);
            if (leaf != nullptr && leaf->tensor() != nullptr &&
                same_memory(*leaf->tensor(), *a.to->tensor()))
                continue;
            if (to_come && same_memory(*a.from->tensor(), *a.to->tensor())) refuse_transient(a);
            transient_.push_back(&a);
        }
    }
    [[noreturn]] static void refuse_transient(const assignment& a) {
        throw error(errc::invalid_state,
                    {.fqn = a.to->fqn,
                     .expected = "memory that stays where it is, to be filled",
                     .found = "a tensor that each visit makes anew: what it is given would be lost",
                     .remedy = "show a number that is kept in another type as "
                               "cairn::converted<float>(number)"});
    }

    std::shared_ptr<const leaves_by_name> given_;
    std::vector<assignment> pairs_;
    std::vector<new_value> values_;
    std::vector<const assignment*> transient_;
    std::vector<std::function<void()>> undo_;
};

/// One of the state dicts that are set together.
struct given_part {
    const state_dict* given;
    visit_function visit;
    const char* of_what;  ///< "model"
};

/// The same on its way.
struct part_on_its_way {
    const given_part* part = nullptr;
    std::shared_ptr<const leaves_by_name> whole{};  ///< Null: not this rank's to look at.
    std::unique_ptr<visited_state> target{};
    std::unique_ptr<state_change> change{};
};

/// Visits for all parts, and checks that this did not overwrite what is given.
/// @throws error errc::invalid_state
template <class Parts>
void visit_all(Parts& all) {
    std::vector<std::pair<const char*, numbers_before_visit>> numbers;
    for (auto const& p : all)
        if (p.whole) numbers.emplace_back(p.part->of_what, *p.whole);
    for (auto& p : all) p.target = p.part->visit();
    for (auto const& [of_what, n] : numbers) n.check(of_what);
}

}  // namespace cairn::detail

#endif
