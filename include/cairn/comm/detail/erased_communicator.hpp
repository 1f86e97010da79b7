// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_ERASED_COMMUNICATOR_HPP
#define CAIRN_COMM_DETAIL_ERASED_COMMUNICATOR_HPP

#include <cairn/activity.hpp>
#include <cairn/comm/concepts.hpp>
#include <cairn/comm/deadline.hpp>
#include <cairn/completion.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace cairn::detail {

/// A type-erased communicator: one virtual call per exchange, so that code below the verb is
/// compiled once. Makes the guarantees of the `Communicator` that it refers to.
class erased_communicator {
public:
    erased_communicator() = default;
    erased_communicator(erased_communicator&&) = delete;

    virtual int rank() const = 0;
    virtual int size() const = 0;
    virtual void gather(message, int root, deadline, completion<std::vector<message>>) = 0;
    virtual void scatter(std::vector<message>, int root, deadline, completion<message>) = 0;
    virtual void broadcast(message, int root, deadline, completion<message>) = 0;
    virtual void all_gather(message, deadline, completion<std::vector<message>>) = 0;
    virtual void share(std::shared_ptr<const activity>) = 0;
    virtual void cancel() noexcept = 0;

protected:
    ~erased_communicator() = default;
};

/// Forwards to a communicator that outlives it.
/// @tparam Base  `erased_communicator` or a class derived from it.
template <Communicator Comm, class Base = erased_communicator>
class communicator_forwarder : public Base {
public:
    explicit communicator_forwarder(Comm& to) : to_(to) {}

    int rank() const override { return std::as_const(to_).rank(); }
    int size() const override { return std::as_const(to_).size(); }
    void gather(message m, int root, deadline d, completion<std::vector<message>> done) override {
        to_.gather(std::move(m), root, d, std::move(done));
    }
    void scatter(std::vector<message> ms, int root, deadline d, completion<message> done) override {
        to_.scatter(std::move(ms), root, d, std::move(done));
    }
    void broadcast(message m, int root, deadline d, completion<message> done) override {
        to_.broadcast(std::move(m), root, d, std::move(done));
    }
    void all_gather(message m, deadline d, completion<std::vector<message>> done) override {
        to_.all_gather(std::move(m), d, std::move(done));
    }
    void share(std::shared_ptr<const activity> a) override { to_.share(std::move(a)); }
    void cancel() noexcept override { to_.cancel(); }

protected:
    ~communicator_forwarder() = default;

private:
    Comm& to_;
};

/// The type-erased form of a communicator, valid while a verb runs.
template <Communicator Comm>
class communicator_ref final : public communicator_forwarder<Comm> {
public:
    using communicator_forwarder<Comm>::communicator_forwarder;
};
template <class Comm>
communicator_ref(Comm&) -> communicator_ref<Comm>;

}  // namespace cairn::detail

#endif
