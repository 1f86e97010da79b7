// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_DETAIL_STATE_CHANGE_HPP
#define CAIRN_MODELS_DETAIL_STATE_CHANGE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/models/detail/given_state.hpp>
#include <cairn/models/detail/match_groups.hpp>
#include <cairn/models/detail/visited_state.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The numbers among given tensors, as they were before a visit. A visitor that first writes a
/// number into memory of the same optimizer would overwrite a loaded one.
class numbers_before_visit {
public:
    explicit numbers_before_visit(const leaves_by_name& given);
    /// @throws error errc::invalid_state naming one that has changed
    void check(const char* of_what) const;

private:
    struct number {
        const std::string* name;
        const std::byte* data;
        std::vector<std::byte> before;
    };
    std::vector<number> numbers_;
};

/// Applies a state dict to a model or to optimizers. The constructor checks all of it and changes
/// nothing; `set_values` then sets everything that may still be refused, all or none;
/// `copy_tensors` is last and cannot fail.
class state_change {
public:
    /// @param target    Must outlive this.
    /// @param visit     For a second visit, which shows whether memory has moved.
    /// @param to_come   Given tensors of more than one element are the target's own memory, which
    ///                  rank 0 will fill.
    state_change(std::shared_ptr<const leaves_by_name> given, const visited_state& target,
                 const visit_function& visit, bool strict, const char* of_what, bool to_come);
    state_change(state_change&&) = delete;
    /// Restores what was set, unless the tensors were copied.
    ~state_change();

    /// Sets hyperparameters, values and numbers kept in another type, which the user's code may
    /// refuse. After an exception, the destructor restores all of them.
    void set_values();
    /// Commits the values: the destructor restores nothing.
    void keep_values() noexcept { undo_.clear(); }
    void copy_tensors();

private:
    template <class F>
    static void named(const std::string& name, F&& f);
    template <class Get, class Set>
    void set(const std::string& name, const Get& get, const Set& set_to, const value& v);

    /// Finds tensors that each visit creates anew: anything copied into them is lost.
    void find_transient(const visit_function& visit, bool to_come);
    [[noreturn]] static void refuse_transient(const assignment& a);

    std::shared_ptr<const leaves_by_name> given_;
    std::vector<assignment> pairs_;
    std::vector<new_value> values_;
    std::vector<const assignment*> transient_;
    std::vector<std::function<void()>> undo_;
};

/// One of the state dicts that are set together, while they are set.
struct part_on_its_way {
    const given_part* part = nullptr;
    std::shared_ptr<leaves_by_name> whole{};  ///< Null: not given on this rank.
    std::unique_ptr<visited_state> target{};
    std::unique_ptr<state_change> change{};
};

/// Visits for all given states, and checks that this did not overwrite what is given.
/// @throws error errc::invalid_state
template <class Parts>
void visit_all(Parts& all) {
    std::vector<std::pair<const char*, numbers_before_visit>> numbers;
    for (auto const& p : all)
        if (p.whole) numbers.emplace_back(p.part->of_what, *p.whole);
    for (auto& p : all) p.target = p.part->visit();
    for (auto const& [of_what, n] : numbers) n.check(of_what);
}

/// Copies the given tensors that lie in memory of targets, other than their own: the change would
/// overwrite some of them before it reads them.
/// @param all  Each given state with its targets. All of them are checked.
CAIRN_DECL void copy_overwritten(
    const std::vector<std::pair<leaves_by_name*, const leaves_by_name*>>& all);
template <class Parts>
void copy_overwritten(const Parts& all) {
    std::vector<std::pair<leaves_by_name*, const leaves_by_name*>> given;
    for (auto const& p : all)
        if (p.whole) given.emplace_back(p.whole.get(), &p.target->wanted);
    copy_overwritten(given);
}

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/models/impl/state_change.ipp>
#endif

#endif
