// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_PLAN_CACHE_HPP
#define CAIRN_SAVE_PLAN_CACHE_HPP

#include <cairn/detail/config.hpp>

#include <memory>

namespace cairn {

namespace detail {
class plan_slot;
}

/// Keeps the plan of a save for the next one: while only contents change, ranks neither send nor
/// make plans again.
///
/// A part of `save` and `async_save`; a `checkpointer` has one of its own. Each rank has its own,
/// and passes it to every save of the same state. A change on any rank is noticed, and all is
/// planned again: names, shapes, dtypes, regions, ties, the number of ranks, options; a rank that
/// was restarted, or that does not know that the earlier save was committed.
/// `save_report::plan_reused` says whether an earlier plan was used.
///
/// Works with a planner that has `plan_key` (@ref KeyedSavePlanner) and a writer that has
/// `name_files` (@ref NamingWriter), such as the default ones; with others it has no effect.
///
/// **Memory**: on each rank about 400 bytes for each of its items; on the coordinator, in addition,
/// about 100 bytes for each item of any rank, or 700 with a planner that is not the default one.
///
/// **Copies** share the kept plan. Threads: any; several saves may use one cache.
class plan_cache {
public:
    CAIRN_DECL plan_cache();

    /// Drops the plan: the next save is planned again, on all ranks, even if a save in the
    /// background ends before it.
    CAIRN_DECL void clear();

    /// Whether a plan is kept.
    CAIRN_DECL bool empty() const;

    /// For the implementation of verbs.
    const std::shared_ptr<detail::plan_slot>& slot() const noexcept { return slot_; }

private:
    std::shared_ptr<detail::plan_slot> slot_;
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/save/impl/plan_cache.ipp>
#endif

#endif
