// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_SOLO_HPP
#define CAIRN_COMM_SOLO_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/detail/config.hpp>

#include <atomic>
#include <memory>
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

    CAIRN_DECL void gather(message m, int root, deadline d, completion<std::vector<message>> done);
    CAIRN_DECL void scatter(std::vector<message> ms, int root, deadline d,
                            completion<message> done);
    CAIRN_DECL void broadcast(message m, int root, deadline d, completion<message> done);
    CAIRN_DECL void all_gather(message m, deadline d, completion<std::vector<message>> done);
    CAIRN_DECL void duplicate(deadline d, completion<solo> done);
    void share(const std::shared_ptr<const activity>&) noexcept {}
    void cancel() noexcept { cancelled_ = 1; }

private:
    template <class T>
    bool cancelled(completion<T>& done);
    template <class T>
    bool valid(int root, completion<T>& done);

    std::atomic<int> cancelled_{0};  ///< 1: the next call fails; 2: one has failed.
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/comm/impl/solo.ipp>
#endif

#endif
