// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_ENDING_HPP
#define CAIRN_TEST_SIMULATION_ENDING_HPP

#include "content.hpp"

#include <cairn/detail/failures.hpp>
#include <cairn/error.hpp>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace simulation {

/// How one rank's verb has ended.
struct ending {
    bool over = false;
    std::exception_ptr failure{};
    std::size_t warnings = 0;
    std::function<void()> then{};  ///< Called when it has ended; may be empty.

    void end(std::exception_ptr f, std::size_t w) {
        require(!over, "a verb ends twice");
        over = true;
        failure = std::move(f);
        warnings = w;
        if (then) then();
    }

    cairn::error_code code() const {
        if (!failure) return {};
        try {
            std::rethrow_exception(failure);
        } catch (const boost::system::system_error& e) {
            return e.code();
        } catch (...) {
            return make_error_code(cairn::errc::rank_failed);
        }
    }
    bool well() const { return over && !failure; }
    /// Whether the user's state may have changed, after a failure of a load.
    bool modified() const {
        try {
            std::rethrow_exception(failure);
        } catch (const cairn::error& e) {
            return e.state_modified();
        } catch (...) {
            return true;
        }
    }
    std::string text() const {
        if (!over) return "never ended";
        if (!failure) return "well";
        return cairn::detail::text_of(failure);
    }
};

/// How a verb has ended on each rank.
struct endings : std::vector<std::shared_ptr<ending>> {
    explicit endings(int ranks) {
        for (int r = 0; r < ranks; ++r) push_back(std::make_shared<ending>());
    }
    bool all_well() const {
        return std::all_of(begin(), end(), [](auto& e) { return e->well(); });
    }
    bool any_well() const {
        return std::any_of(begin(), end(), [](auto& e) { return e->well(); });
    }
    bool all_cancelled() const {
        return std::all_of(begin(), end(), [](auto& e) {
            return e->code() == make_error_code(cairn::errc::cancelled);
        });
    }
    std::string text() const {
        std::string t;
        for (auto const& e : *this) t += "\n    " + e->text();
        return t;
    }
    /// What the ranks were told of a save of `next`, where `before` stood, agrees with what stands.
    void require_agreement(int now, int before, int next) const {
        require(now == before || now == next, "neither the old checkpoint nor the new one");
        for (auto const& e : *this) {
            if (!e->over) continue;
            bool const unknown = e->code() == make_error_code(cairn::errc::outcome_unknown);
            if (!e->failure) require(now == next, "success, but the old state stands");
            if (e->failure && !unknown)
                require(now == before, "a failure, but the new checkpoint stands: " + e->text());
        }
    }
};

}  // namespace simulation

#endif
