// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_FINDINGS_HPP
#define CAIRN_TEST_SIMULATION_FINDINGS_HPP

#include <functional>
#include <string>
#include <utility>

namespace simulation {

/// What the rules of one story have found: only the first of it says something.
struct findings {
    std::string broken{};                           ///< The first rule that does not hold.
    std::function<void(const std::string&)> say{};  ///< Told of each change; may be empty.
    /// Two publishers of a storage that cannot compare and replace in one step: one of them may
    /// replace what the other one has just published.
    bool may_lose_updates = false;
    /// Hosts see names late.
    bool cached_names = false;
    /// Something has happened that the documentation excludes: nothing is certain from here on.
    bool over = false;

    void require(bool ok, const std::string& what) {
        if (!ok && broken.empty() && !over) broken = what;
    }
    /// @param why  What the documentation says of it.
    void excuse(const std::string& why) {
        if (say) say("from here on nothing is certain: " + why);
        over = true;
    }
    void note(const std::string& what) const {
        if (say) say(what);
    }
};

}  // namespace simulation

#endif
