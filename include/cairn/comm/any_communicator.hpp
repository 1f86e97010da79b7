// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_ANY_COMMUNICATOR_HPP
#define CAIRN_COMM_ANY_COMMUNICATOR_HPP

#include <cairn/activity.hpp>
#include <cairn/comm/concepts.hpp>
#include <cairn/comm/detail/erased_communicator.hpp>
#include <cairn/detail/config.hpp>

#include <concepts>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn {

class solo;

/// A communicator whose type is chosen at run time; owns it and makes the same guarantees. Made
/// only from a `BackgroundCommunicator`, because `async_save` could not check that here. Empty
/// after a move: it can then only be assigned to or destroyed.
class any_communicator {
    struct base : detail::erased_communicator {
        virtual ~base() = default;
        virtual void duplicate(deadline, completion<any_communicator>) = 0;
    };
    template <BackgroundCommunicator Comm>
    struct holder final : detail::communicator_forwarder<Comm, base> {
        explicit holder(Comm c)
            : detail::communicator_forwarder<Comm, base>(c_), c_(std::move(c)) {}
        void duplicate(deadline d, completion<any_communicator> done) override {
            auto const to = std::make_shared<completion<any_communicator>>(std::move(done));
            c_.duplicate(d, completion<Comm>([to](std::exception_ptr e, std::optional<Comm> c) {
                             if (e) return to->fail(std::move(e));
                             try {
                                 (*to)(any_communicator(std::move(*c)));
                             } catch (...) {  // no memory
                                 to->fail(std::current_exception());
                             }
                         }));
        }
        Comm c_;
    };

public:
    // The order matters: whether erased forms of this class, and tuples of it, are movable depends
    // on this constructor.
    template <class Comm>
        requires(!std::same_as<std::remove_cvref_t<Comm>, any_communicator> &&
                 !std::is_lvalue_reference_v<Comm> && requires(Comm& c) { c.cancel(); } &&
                 !std::derived_from<std::remove_cvref_t<Comm>, detail::erased_communicator> &&
                 BackgroundCommunicator<std::remove_cvref_t<Comm>>)
    any_communicator(Comm&& c)
        : c_(std::make_unique<holder<std::remove_cvref_t<Comm>>>(std::forward<Comm>(c))) {}

    CAIRN_DECL any_communicator(solo alone);

    int rank() const { return c_->rank(); }
    int size() const { return c_->size(); }
    void gather(message m, int root, deadline d, completion<std::vector<message>> done) {
        c_->gather(std::move(m), root, d, std::move(done));
    }
    void scatter(std::vector<message> ms, int root, deadline d, completion<message> done) {
        c_->scatter(std::move(ms), root, d, std::move(done));
    }
    void broadcast(message m, int root, deadline d, completion<message> done) {
        c_->broadcast(std::move(m), root, d, std::move(done));
    }
    void all_gather(message m, deadline d, completion<std::vector<message>> done) {
        c_->all_gather(std::move(m), d, std::move(done));
    }
    void duplicate(deadline d, completion<any_communicator> done) {
        c_->duplicate(d, std::move(done));
    }
    void cancel() noexcept {
        if (c_) c_->cancel();
    }
    void share(std::shared_ptr<const activity> a) { c_->share(std::move(a)); }

private:
    std::unique_ptr<base> c_;
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/comm/impl/solo.ipp>
#endif

#endif
