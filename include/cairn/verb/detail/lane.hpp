// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_DETAIL_LANE_HPP
#define CAIRN_VERB_DETAIL_LANE_HPP

#include <cairn/comm/deadline.hpp>
#include <cairn/completion.hpp>
#include <cairn/detail/or_cancel.hpp>
#include <cairn/verb/detail/part_call.hpp>
#include <cairn/verb/detail/parts.hpp>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace cairn::detail {

/// The lane of an asynchronous verb: a duplicate of a communicator, or data plane, that the caller
/// lent and continues to use.
/// @tparam Ref  `communicator_ref` or `data_plane_ref`.
template <class Part, template <class> class Ref>
class lane {
public:
    lane() = default;
    lane(lane&&) = delete;

    /// Duplicates `of` and calls `then` on the executor, with the failure if there is one. `then`
    /// keeps this alive.
    void open(Part& of, const boost::asio::any_io_executor& on, deadline by,
              std::function<void(std::exception_ptr)> then) {
        call_part<Part>(
            on, [&](completion<Part> done) { duplicate(of, by, std::move(done)); },
            [this, rank = rank_of(of), then = std::move(then)](call_result<Part> r) {
                if (r.failure) return then(error_of(r.failure, rank));
                part_.emplace(std::move(*r.value));
                ref_.emplace(*part_);
                then(nullptr);
            });
    }
    /// Null until it is open.
    Ref<Part>* erased() noexcept { return ref_ ? &*ref_ : nullptr; }

private:
    /// Duplicates `of`, and cancels it if that fails, because the other ranks must not wait. It
    /// does so inside this call only: after it, what was lent may end before its duplicate is made.
    /// A call that throws before that has failed: if its duplicate is made later, that is cancelled
    /// too, because other ranks may hold theirs.
    static void duplicate(Part& of, deadline by, completion<Part> done) {
        enum { under_way, made, failed, thrown };
        struct call {
            explicit call(completion<Part> d) : done(std::move(d)) {}
            completion<Part> done;
            std::atomic<int> state{under_way};
        };
        auto const c = or_cancel(of, [&] { return std::make_shared<call>(std::move(done)); });
        try {
            of.duplicate(by, completion<Part>([c](std::exception_ptr e, std::optional<Part> p) {
                             int before = under_way;
                             c->state.compare_exchange_strong(before, e ? failed : made);
                             if (before == thrown && p) return p->cancel();  // drops `done`
                             e ? c->done.fail(std::move(e)) : c->done(std::move(*p));
                         }));
            if (c->state == failed) of.cancel();
        } catch (...) {
            int before = under_way;
            c->state.compare_exchange_strong(before, thrown);
            if (before != made) of.cancel();  // a result stands, see `call_part`
            throw;
        }
    }

    std::optional<Part> part_{};
    std::optional<Ref<Part>> ref_{};
};

/// Stands for the lane of a part that was moved in, or not passed.
struct no_lane {
    template <class... Args>
    static void open(Args&&...) = delete;
    static std::nullptr_t erased() noexcept { return nullptr; }
};

template <const auto& Is, template <class> class Ref, class... Parts>
using lane_of = std::conditional_t<std::is_lvalue_reference_v<part_of<Is, Parts...>>,
                                   lane<std::remove_cvref_t<part_of<Is, Parts...>>, Ref>, no_lane>;

/// Opens the lane, if one is needed, and calls `then`: inside this call if none is.
template <const auto& Is, class Lane, class... Parts>
void open_lane(Lane& l, std::tuple<Parts...>& parts, const boost::asio::any_io_executor& on,
               deadline by, std::function<void(std::exception_ptr)> then) {
    if constexpr (std::is_same_v<Lane, no_lane>)
        then(nullptr);
    else
        l.open(std::get<index_of<Is, Parts...>()>(parts), on, by, std::move(then));
}

}  // namespace cairn::detail

#endif
