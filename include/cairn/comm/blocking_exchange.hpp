// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_EXCHANGE_HPP
#define CAIRN_DETAIL_EXCHANGE_HPP

#include <cairn/activity.hpp>
#include <cairn/comm/concepts.hpp>
#include <cairn/comm/erased_communicator.hpp>
#include <cairn/detail/failures.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The exchanges of one save or load, blocking the calling thread; each rank's failures travel with
/// its data. An exception from a member is a failure of the exchange itself.
class exchange {
public:
    /// @param timeout  For each exchange.
    /// @param activity   What this rank works on, for groups that report it to the others.
    exchange(erased_communicator& comm, int root, std::chrono::milliseconds timeout,
             const std::shared_ptr<cairn::activity>& activity = nullptr)
        : comm_(comm), root_(root), timeout_(timeout) {
        comm_.share(activity);
    }
    exchange(exchange&&) = delete;
    ~exchange() { comm_.share(nullptr); }

    int rank() const { return comm_.rank(); }
    int size() const { return comm_.size(); }
    int root() const { return root_; }
    bool coordinator() const { return rank() == root_; }

    /// Cancels the group on all ranks: after a fatal error the others must not wait for this rank.
    void cancel() noexcept { comm_.cancel(); }

    /// Returns all ranks' outcomes, in rank order, on the coordinator; empty elsewhere.
    std::vector<outcome> gather(const outcome& mine) {
        return decode(await_completion<std::vector<message>>([&](auto done) {
            comm_.gather(encode_outcome(mine.failures, mine.payload), root_, by(), std::move(done));
        }));
    }
    /// Returns the coordinator's payload for this rank or, if there is none, the failures, which
    /// are sent to all ranks as one message.
    /// @param failures  The coordinator's; ignored elsewhere.
    /// @param payloads  One per rank on the coordinator if there are no failures; ignored
    ///                  otherwise.
    outcome scatter(const std::vector<rank_failure>& failures,
                    const std::vector<std::vector<std::byte>>& payloads) {
        std::vector<message> ms;
        if (coordinator()) {
            for (int r = 0; r < size(); ++r)
                ms.push_back(failures.empty()
                                 ? encode_outcome({}, payloads[static_cast<std::size_t>(r)])
                                 : encode_failures_follow());
        }
        auto mine = decode_outcome(await_completion<message>(
            [&](auto done) { comm_.scatter(std::move(ms), root_, by(), std::move(done)); }));
        if (!mine.failures_follow) return mine;
        mine = broadcast({failures, {}});
        if (mine.failures.empty()) wire_reader::fail("no failure where some were announced");
        return mine;
    }
    /// Returns the coordinator's outcome, on every rank.
    outcome broadcast(const outcome& mine) {
        message m;
        if (coordinator()) m = encode_outcome(mine.failures, mine.payload);
        return decode_outcome(await_completion<message>(
            [&](auto done) { comm_.broadcast(std::move(m), root_, by(), std::move(done)); }));
    }
    /// Returns all ranks' outcomes, on every rank.
    std::vector<outcome> all_gather(const outcome& mine) {
        return decode(await_completion<std::vector<message>>([&](auto done) {
            comm_.all_gather(encode_outcome(mine.failures, mine.payload), by(), std::move(done));
        }));
    }

    /// Runs this rank's share of a step; an exception becomes this rank's failure.
    template <class F>
    outcome attempt(F&& f) {
        outcome o;
        try {
            o.payload = f();
        } catch (...) {
            o.failures.push_back(failure_from(std::current_exception(), rank()));
        }
        return o;
    }

private:
    static std::vector<outcome> decode(const std::vector<message>& ms) {
        std::vector<outcome> out;
        for (auto const& m : ms) out.push_back(decode_outcome(m));
        return out;
    }

    deadline by() const { return deadline_after(timeout_); }

    erased_communicator& comm_;
    int root_;
    std::chrono::milliseconds timeout_;
};

}  // namespace cairn::detail

#endif
