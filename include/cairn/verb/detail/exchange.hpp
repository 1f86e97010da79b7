// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_DETAIL_EXCHANGE_HPP
#define CAIRN_VERB_DETAIL_EXCHANGE_HPP

#include <cairn/activity.hpp>
#include <cairn/comm/concepts.hpp>
#include <cairn/comm/deadline.hpp>
#include <cairn/comm/detail/erased_communicator.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/detail/forks.hpp>
#include <cairn/verb/detail/part_call.hpp>
#include <cairn/verb/detail/surroundings.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The exchanges of one save or load; each rank's failures travel with its data. A failure in a
/// result is one of the exchange itself. No thread waits: results are passed on by the executor.
class exchange {
public:
    template <class T>
    using then = std::function<void(call_result<T>)>;

    /// @param comm      Outlives this, and so do the surroundings. Results must keep this alive.
    /// @param timeout   For each exchange.
    /// @param activity  What this rank works on, for groups that report it to the others.
    exchange(const surroundings& in, erased_communicator& comm, int root,
             std::chrono::milliseconds timeout, const std::shared_ptr<cairn::activity>& activity)
        : in_(in), comm_(comm), rank_(comm.rank()), size_(comm.size()), root_(root),
          timeout_(timeout) {
        comm_.share(activity);
    }
    exchange(exchange&&) = delete;
    ~exchange() {
        if (!home_.is_this()) return;  // the parent goes on with it
        try {
            comm_.share(nullptr);
        } catch (...) {  // e.g. no memory: the activity is shared longer
        }
    }

    int rank() const noexcept { return rank_; }
    int size() const noexcept { return size_; }
    bool coordinator() const noexcept { return rank_ == root_; }

    /// Cancels the group on all ranks: after a fatal error the others must not wait for this rank.
    void cancel() noexcept { comm_.cancel(); }

    /// Passes `f` all ranks' outcomes, in rank order, on the coordinator; none elsewhere.
    void gather(const outcome& mine, then<std::vector<outcome>> f) {
        call_part<std::vector<message>>(
            in_.executor,
            [&](auto done) { comm_.gather(encoded(mine), root_, by(), std::move(done)); },
            decoding(std::move(f), coordinator()));
    }
    /// Passes `f` all ranks' outcomes, on every rank.
    void all_gather(const outcome& mine, then<std::vector<outcome>> f) {
        call_part<std::vector<message>>(
            in_.executor,
            [&](auto done) { comm_.all_gather(encoded(mine), by(), std::move(done)); },
            decoding(std::move(f), true));
    }
    /// Passes `f` the coordinator's outcome, on every rank.
    void broadcast(const outcome& mine, then<outcome> f) {
        call_part<message>(
            in_.executor,
            [&](auto done) {
                comm_.broadcast(coordinator() ? encoded(mine) : message(), root_, by(),
                                std::move(done));
            },
            [f = std::move(f)](call_result<message> r) {
                f(decoded<outcome>(std::move(r),
                                   [](const message& m) { return decode_outcome(m); }));
            });
    }
    /// Passes `f` the coordinator's payload for this rank or, if there is none, the failures, which
    /// are sent to all ranks as one message.
    /// @param failures  The coordinator's; ignored elsewhere.
    /// @param payloads  One per rank on the coordinator if there are no failures; ignored
    ///                  otherwise.
    void scatter(const std::vector<rank_failure>& failures,
                 const std::vector<std::vector<std::byte>>& payloads, then<outcome> f) {
        std::vector<message> ms;
        if (coordinator()) {
            for (int r = 0; r < size(); ++r)
                ms.push_back(failures.empty()
                                 ? encode_outcome({}, payloads[static_cast<std::size_t>(r)])
                                 : encode_failures_follow());
        }
        call_part<message>(
            in_.executor,
            [&](auto done) { comm_.scatter(std::move(ms), root_, by(), std::move(done)); },
            [this, failures, f = std::move(f)](call_result<message> r) {
                auto mine = decoded<outcome>(std::move(r),
                                             [](const message& m) { return decode_outcome(m); });
                if (mine.failure || !mine.value->failures_follow) return f(std::move(mine));
                try {
                    receive_failures(failures, f);
                } catch (...) {
                    f({std::current_exception(), {}});
                }
            });
    }

private:
    void receive_failures(const std::vector<rank_failure>& failures, const then<outcome>& f) {
        broadcast({failures, {}}, [f](call_result<outcome> told) {
            f(decoded<outcome>(std::move(told), [](outcome o) {
                if (o.failures.empty()) wire_reader::fail("no failure where some were announced");
                return o;
            }));
        });
    }
    static message encoded(const outcome& o) { return encode_outcome(o.failures, o.payload); }
    template <class To, class From, class Decode>
    static call_result<To> decoded(call_result<From> r, Decode decode) noexcept {
        call_result<To> to;
        to.failure = std::move(r.failure);
        if (to.failure) return to;
        try {
            to.value = decode(std::move(*r.value));
        } catch (...) {
            to.failure = std::current_exception();
        }
        return to;
    }
    /// @param here  Whether this rank receives the messages.
    then<std::vector<message>> decoding(then<std::vector<outcome>> f, bool here) const {
        auto const ranks = here ? static_cast<std::size_t>(size_) : 0;
        return [f = std::move(f), ranks](call_result<std::vector<message>> r) {
            f(decoded<std::vector<outcome>>(std::move(r), [ranks](std::vector<message> all) {
                if (ranks != 0 && all.size() != ranks)
                    throw error(errc::invalid_argument,
                                {.expected = std::to_string(ranks) + " messages, one per rank",
                                 .found = std::to_string(all.size()),
                                 .remedy = "correct the gather of the Communicator"});
                return decode_outcomes(std::move(all));
            }));
        };
    }
    deadline by() const { return deadline_after(timeout_, in_.now()); }

    const surroundings& in_;
    erased_communicator& comm_;
    int rank_, size_;  ///< Asked for only once: a user's group may throw.
    int root_;
    std::chrono::milliseconds timeout_;
    home_process home_{};
};

}  // namespace cairn::detail

#endif
