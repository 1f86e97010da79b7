// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_ANY_COMMUNICATOR_HPP
#define CAIRN_COMM_ANY_COMMUNICATOR_HPP

#include <cairn/activity.hpp>
#include <cairn/comm/concepts.hpp>

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn {

/// A communicator whose kind is chosen at run time; owns it. What it promises is what the one
/// inside promises. One that is `blocking_only` is refused: `async_save` could not see it here.
/// Empty after it was moved from: then it can only be assigned to or destroyed.
class any_communicator {
    struct base {
        virtual ~base() = default;
        virtual int rank() const = 0;
        virtual int size() const = 0;
        virtual void gather(message, int, deadline, completion<std::vector<message>>) = 0;
        virtual void scatter(std::vector<message>, int, deadline, completion<message>) = 0;
        virtual void broadcast(message, int, deadline, completion<message>) = 0;
        virtual void all_gather(message, deadline, completion<std::vector<message>>) = 0;
        virtual void barrier(deadline, completion<done_t>) = 0;
        virtual void cancel() noexcept = 0;
        virtual void share(std::shared_ptr<const activity>) = 0;
    };
    template <Communicator Comm>
    struct holder final : base {
        explicit holder(Comm c) : c_(std::move(c)) {}
        int rank() const override { return c_.rank(); }
        int size() const override { return c_.size(); }
        void gather(message m, int root, deadline d,
                    completion<std::vector<message>> done) override {
            c_.gather(std::move(m), root, d, std::move(done));
        }
        void scatter(std::vector<message> ms, int root, deadline d,
                     completion<message> done) override {
            c_.scatter(std::move(ms), root, d, std::move(done));
        }
        void broadcast(message m, int root, deadline d, completion<message> done) override {
            c_.broadcast(std::move(m), root, d, std::move(done));
        }
        void all_gather(message m, deadline d, completion<std::vector<message>> done) override {
            c_.all_gather(std::move(m), d, std::move(done));
        }
        void barrier(deadline d, completion<done_t> done) override {
            c_.barrier(d, std::move(done));
        }
        void cancel() noexcept override { c_.cancel(); }
        void share(std::shared_ptr<const activity> a) override {
            if constexpr (requires { c_.share(std::move(a)); }) c_.share(std::move(a));
        }
        Comm c_;
    };

    template <class Comm>
    static constexpr bool any_thread() {
        if constexpr (requires { { Comm::blocking_only } -> std::convertible_to<bool>; })
            return !Comm::blocking_only;
        return true;
    }

public:
    template <class Comm>
        requires(!std::same_as<std::remove_cvref_t<Comm>, any_communicator> &&
                 !std::is_lvalue_reference_v<Comm> && Communicator<std::remove_cvref_t<Comm>> &&
                 any_thread<std::remove_cvref_t<Comm>>())
    any_communicator(Comm&& c)
        : c_(std::make_unique<holder<std::remove_cvref_t<Comm>>>(std::forward<Comm>(c))) {}

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
    void barrier(deadline d, completion<done_t> done) { c_->barrier(d, std::move(done)); }
    void cancel() noexcept { c_->cancel(); }
    void share(std::shared_ptr<const activity> a) { c_->share(std::move(a)); }

private:
    std::unique_ptr<base> c_;
};
static_assert(Communicator<any_communicator>);

}  // namespace cairn

#endif
