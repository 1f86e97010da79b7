// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CHECKPOINTER_DETAIL_SHOWN_PHASE_HPP
#define CAIRN_CHECKPOINTER_DETAIL_SHOWN_PHASE_HPP

#include <cairn/activity.hpp>

namespace cairn::detail {

/// What a rank does in a call of a checkpointer, as the ranks that wait for it see it. Outside of
/// such calls it trains.
class shown_phase {
public:
    /// @param of     Outlives this.
    /// @param phase  A string literal.
    shown_phase(activity& of, const char* phase) noexcept : of_(of) { of_.enter(phase); }
    shown_phase(shown_phase&&) = delete;
    ~shown_phase() { of_.enter("training"); }

private:
    activity& of_;
};

}  // namespace cairn::detail

#endif
