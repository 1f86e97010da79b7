// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_STATE_CHANGE_HPP
#define CAIRN_MODELS_STATE_CHANGE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/models/given_state.hpp>
#include <cairn/models/match_groups.hpp>
#include <cairn/models/visited_state.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The numbers among given tensors, as they are before a visit. A visitor that first writes a
/// number into memory of the same optimizer would overwrite what a load has put there.
class numbers_before_visit {
public:
    explicit numbers_before_visit(const leaves_by_name& given);
    /// @throws error errc::invalid_state naming one that is another now
    void check(const char* of_what) const;

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
                 const visit_function& visit, bool strict, const char* of_what, bool to_come);
    state_change(state_change&&) = delete;
    /// Takes back what was set, unless the tensors followed.
    ~state_change();

    /// Hyperparameters, values and numbers that are kept in another type: the user's code may
    /// refuse them. Whatever is thrown, destroying this takes all of them back.
    void set_values();
    /// From here on nothing is taken back.
    void keep_values() noexcept { undo_.clear(); }
    void copy_tensors();

private:
    template <class F>
    static void named(const std::string& name, F&& f);
    template <class Get, class Set>
    void set(const std::string& name, const Get& get, const Set& set_to, const value& v);

    /// Finds tensors that each visit makes anew: what is copied into them is lost.
    void find_transient(const visit_function& visit, bool to_come);
    [[noreturn]] static void refuse_transient(const assignment& a);

    std::shared_ptr<const leaves_by_name> given_;
    std::vector<assignment> pairs_;
    std::vector<new_value> values_;
    std::vector<const assignment*> transient_;
    std::vector<std::function<void()>> undo_;
};

/// One of the state dicts that are set together, on its way.
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

#ifdef CAIRN_HEADER_ONLY
#include <cairn/models/impl/state_change.ipp>
#endif

#endif
