// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_SOLO_HPP
#define CAIRN_COMM_SOLO_HPP

#include <cairn/comm/concepts.hpp>

#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

/// A group of one process: every exchange is with itself and completes at once. DCP's `no_dist`.
///
/// A verb that is called without a communicator uses one, except in a process that a launcher
/// started as one of several: there it is an error unless `cairn::solo()` is passed explicitly.
class solo {
public:
    solo() = default;
    solo(solo&& other) noexcept : cancelled_(other.cancelled_.load()) {}
    solo& operator=(solo&& other) noexcept {
        cancelled_ = other.cancelled_.load();
        return *this;
    }

    int rank() const noexcept { return 0; }
    int size() const noexcept { return 1; }

    void gather(message m, int root, deadline, completion<std::vector<message>> done) {
        if (!valid(root, done)) return;
        std::vector<message> all;
        all.push_back(std::move(m));
        done(std::move(all));
    }
    void scatter(std::vector<message> ms, int root, deadline, completion<message> done) {
        if (!valid(root, done)) return;
        if (ms.size() != 1)
            return done.fail(std::make_exception_ptr(
                error(errc::invalid_argument,
                      {.expected = "one message per rank", .found = std::to_string(ms.size())})));
        done(std::move(ms.front()));
    }
    void broadcast(message m, int root, deadline, completion<message> done) {
        if (valid(root, done)) done(std::move(m));
    }
    void all_gather(message m, deadline d, completion<std::vector<message>> done) {
        gather(std::move(m), 0, d, std::move(done));
    }
    void duplicate(deadline, completion<solo> done) {
        if (!cancelled(done)) done(solo());
    }
    void share(const std::shared_ptr<const activity>&) noexcept {}
    void cancel() noexcept { cancelled_ = 1; }

private:
    template <class T>
    bool cancelled(completion<T>& done) {
        int const before = cancelled_;
        if (before == 0) return false;
        auto const code = before == 1 ? errc::cancelled : errc::poisoned;
        cancelled_ = 2;
        done.fail(std::make_exception_ptr(error(code, {.rank = 0, .remedy = "make a new group"})));
        return true;
    }
    template <class T>
    bool valid(int root, completion<T>& done) {
        if (cancelled(done)) return false;
        if (root == 0) return true;
        done.fail(std::make_exception_ptr(
            error(errc::invalid_argument,
                  {.expected = "root 0, the only rank", .found = std::to_string(root)})));
        return false;
    }

    std::atomic<int> cancelled_{0};  ///< 1: the next call fails; 2: one has failed.
};
static_assert(BackgroundCommunicator<solo>);

}  // namespace cairn

#endif
