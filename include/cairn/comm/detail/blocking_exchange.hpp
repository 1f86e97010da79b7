// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_BLOCKING_EXCHANGE_HPP
#define CAIRN_COMM_DETAIL_BLOCKING_EXCHANGE_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/detail/erased_communicator.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/detail/or_cancel.hpp>
#include <cairn/error.hpp>

#include <chrono>
#include <exception>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Exchanges that block the calling thread; each rank's failures travel with its data. Unless a
/// member says otherwise, an exception from it is an @ref error, of the exchange itself; since
/// other ranks may have succeeded, and must not wait for this one, the group is cancelled.
class blocking_exchange {
public:
    /// @param timeout  For each exchange.
    blocking_exchange(erased_communicator& comm, int root, std::chrono::milliseconds timeout)
        : comm_(comm), rank_(or_cancel(comm, [&] { return comm.rank(); })),
          size_(or_cancel(comm, rank_, [&] { return comm.size(); })), root_(root),
          timeout_(timeout) {}
    blocking_exchange(blocking_exchange&&) = delete;

    int rank() const noexcept { return rank_; }
    int size() const noexcept { return size_; }
    bool coordinator() const noexcept { return rank_ == root_; }

    /// Returns all ranks' outcomes, in rank order, on the coordinator; empty elsewhere.
    std::vector<outcome> gather(const outcome& mine) {
        return alone([&] {
            return decode_outcomes(await_completion<std::vector<message>>([&](auto done) {
                comm_.gather(encode_outcome(mine.failures, mine.payload), root_, by(),
                             std::move(done));
            }));
        });
    }
    /// Returns the coordinator's outcome, on every rank.
    outcome broadcast(const outcome& mine) {
        return alone([&] {
            message m;
            if (coordinator()) m = encode_outcome(mine.failures, mine.payload);
            return decode_outcome(await_completion<message>(
                [&](auto done) { comm_.broadcast(std::move(m), root_, by(), std::move(done)); }));
        });
    }
    /// Returns all ranks' outcomes, on every rank.
    std::vector<outcome> all_gather(const outcome& mine) {
        return alone([&] {
            return decode_outcomes(await_completion<std::vector<message>>([&](auto done) {
                comm_.all_gather(encode_outcome(mine.failures, mine.payload), by(),
                                 std::move(done));
            }));
        });
    }

    /// Gives all ranks what `f` returns on the coordinator, or the failures of what it throws: all
    /// that it names.
    template <class F>
    outcome told(F&& f) {
        outcome o;
        if (coordinator())
            alone([&] {
                try {
                    o.payload = std::forward<F>(f)();
                } catch (...) {
                    o.failures = failures_of(std::current_exception(), rank());
                }
            });
        return broadcast(o);
    }
    /// Likewise, without failures.
    /// @throws error with them, on all ranks; the group goes on
    template <class F>
    outcome answered(F&& f) {
        auto o = told(std::forward<F>(f));
        if (!o.failures.empty()) throw error(std::move(o.failures), false);
        return o;
    }

    template <class F>
    outcome attempt(F&& f) {
        return detail::attempt(rank(), std::forward<F>(f));
    }
    /// Runs a step of which the other ranks learn nothing. If it fails, the group is cancelled.
    template <class F>
    std::invoke_result_t<F> alone(F&& f) {
        return or_cancel(comm_, rank_, std::forward<F>(f));
    }

private:
    deadline by() const { return deadline_after(timeout_); }

    erased_communicator& comm_;
    int rank_, size_;  ///< Asked only once: a user's group may throw.
    int root_;
    std::chrono::milliseconds timeout_;
};

}  // namespace cairn::detail

#endif
