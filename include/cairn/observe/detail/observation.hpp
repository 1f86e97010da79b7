// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBSERVE_DETAIL_OBSERVATION_HPP
#define CAIRN_OBSERVE_DETAIL_OBSERVATION_HPP

#include <cairn/detail/config.hpp>
#include <cairn/observe/detail/erased_sink.hpp>

#include <cstdint>
#include <exception>
#include <mutex>
#include <string_view>
#include <vector>

namespace cairn::detail {

/// Notifies sinks of what one operation does, in order, and shields the operation from their
/// exceptions. Threads: any.
class observation {
public:
    CAIRN_DECL explicit observation(const erased_sinks& sinks);

    /// @param verb  A string literal.
    /// @param id    Valid until `end`.
    CAIRN_DECL void begin(const char* verb, std::string_view id, int rank, int ranks) noexcept;
    /// Begins a phase, after the previous one was left.
    /// @param phase  A string literal.
    CAIRN_DECL void enter(const char* phase) noexcept;
    /// Adds to the totals that the phase will move.
    CAIRN_DECL void expect(std::uint64_t bytes, std::uint64_t items) noexcept;
    CAIRN_DECL void moved(std::uint64_t bytes) noexcept;
    /// Reports that everything that was expected has moved, whether its bytes were reported or not.
    CAIRN_DECL void moved_rest() noexcept;
    CAIRN_DECL void leave() noexcept;
    /// Notifies the sinks for the last time and releases them.
    /// @pre the last phase was left
    CAIRN_DECL void end(const std::exception_ptr& failure) noexcept;

private:
    struct told {
        std::shared_ptr<erased_sink> sink;
        bool has_thrown = false;
    };
    // With the mutex locked:
    void add(std::uint64_t bytes) noexcept;
    void tell(verb_event::kind what) noexcept;

    std::mutex m_{};  ///< Protects all others.
    std::vector<told> sinks_{};
    verb_event::clock::time_point began_{};  ///< The verb.
    verb_event now_{};
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/observe/impl/observation.ipp>
#endif

#endif
