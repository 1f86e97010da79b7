// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_DETAIL_LOAD_PROBLEMS_HPP
#define CAIRN_PLANNER_DETAIL_LOAD_PROBLEMS_HPP

#include <cairn/error.hpp>
#include <cairn/metadata/detail/nearest_name.hpp>
#include <cairn/metadata/metadata.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The reasons why a state cannot be loaded: the first few problems, and their number.
class load_problems {
public:
    static constexpr std::size_t most_shown = 4;

    bool empty() const noexcept { return count_ == 0; }
    void clear() { *this = {}; }

    void add(errc code, error_context where) {
        if (shown_.size() < most_shown) shown_.emplace_back(code, std::move(where));
        ++count_;
    }
    /// @param saved_ranks  For a per-rank entry: one more than the highest rank that saved one.
    void add_missing(const std::string& name, int saved_ranks, const metadata& stored) {
        error_context where{.fqn = name};
        if (auto const u = stored.unmade.find(name); u != stored.unmade.end()) {
            where.expected = u->second.of + ", of which the mapping makes it";
            where.found = u->second.found;
            where.remedy = "set load_options::planner.partial, or correct the mapping";
        } else if (saved_ranks != 0)
            where.remedy =
                (saved_ranks == 1 ? "rank 0"
                                  : "some of ranks 0 to " + std::to_string(saved_ranks - 1)) +
                " saved one: choose one with load_options::"
                "planner.per_rank_source, or set planner.partial";
        else if (shown_.size() < most_shown)  // searches all keys
            where.remedy = "set load_options::planner.partial, or correct the name" +
                           nearest_name(name, stored.entries);
        add(errc::missing_key, std::move(where));
    }

    /// @pre `!empty()`
    /// @throws error with the code of the first problem
    [[noreturn]] void refuse() {
        auto const all = std::exchange(*this, {});
        auto const& [code, context] = all.shown_.front();
        auto first = context;
        auto const add = [&](const std::string& text) {
            first.remedy += (first.remedy.empty() ? "" : "; ") + text;
        };
        for (std::size_t i = 1; i < all.shown_.size(); ++i)
            add("also " + std::string(error(all.shown_[i].first, all.shown_[i].second).what()));
        if (all.count_ > all.shown_.size())
            add("and " + std::to_string(all.count_ - all.shown_.size()) + " more");
        throw error(code, std::move(first));
    }

private:
    std::vector<std::pair<errc, error_context>> shown_{};
    std::size_t count_ = 0;
};

}  // namespace cairn::detail

#endif
