// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_ARCHETYPE_COMMUNICATOR_HPP
#define CAIRN_TESTS_ARCHETYPE_COMMUNICATOR_HPP

#include "stingy.hpp"

#include <cairn/comm/thread_group.hpp>

#include <utility>
#include <vector>

/// The least that `Communicator` asks for, and types that miss one requirement each.
namespace cairn::archetype {

/// One rank of a thread group; everything given is taken as an rvalue or by value.
class communicator : stingy_part {
public:
    explicit communicator(thread_group::member m) : stingy_part(0), inner_(std::move(m)) {}

    int rank() const { return inner_.rank(); }
    int size() const { return inner_.size(); }
    void gather(message&& m, int root, deadline d, completion<std::vector<message>>&& done) {
        inner_.gather(std::move(m), root, d, std::move(done));
    }
    void scatter(std::vector<message>&& ms, int root, deadline d, completion<message>&& done) {
        inner_.scatter(std::move(ms), root, d, std::move(done));
    }
    void broadcast(message&& m, int root, deadline d, completion<message>&& done) {
        inner_.broadcast(std::move(m), root, d, std::move(done));
    }
    void all_gather(message&& m, deadline d, completion<std::vector<message>>&& done) {
        inner_.all_gather(std::move(m), d, std::move(done));
    }
    void barrier(deadline d, completion<done_t>&& done) { inner_.barrier(d, std::move(done)); }
    void cancel() noexcept { inner_.cancel(); }

private:
    thread_group::member inner_;
};
static_assert(Communicator<communicator>);

// Each hides one member: it is missing there, or of another type.
struct communicator_immovable : communicator {
    communicator_immovable(communicator_immovable&&) = delete;
};
struct communicator_without_rank : communicator { void rank() = delete; };
struct communicator_rank_not_const : communicator { int rank(); };
struct communicator_rank_is_long : communicator { long rank() const; };
struct communicator_without_size : communicator { void size() = delete; };
struct communicator_size_is_unsigned : communicator { unsigned size() const; };
struct communicator_without_gather : communicator { void gather() = delete; };
struct communicator_gather_returns : communicator {
    int gather(message, int, deadline, completion<std::vector<message>>);
};
struct communicator_gather_completes_with_one : communicator {
    void gather(message, int, deadline, completion<message>);
};
struct communicator_without_scatter : communicator { void scatter() = delete; };
struct communicator_scatter_of_one : communicator {
    void scatter(message, int, deadline, completion<message>);
};
struct communicator_without_broadcast : communicator { void broadcast() = delete; };
struct communicator_broadcast_without_deadline : communicator {
    void broadcast(message, int, completion<message>);
};
struct communicator_without_all_gather : communicator { void all_gather() = delete; };
struct communicator_all_gather_with_root : communicator {
    void all_gather(message, int, deadline, completion<std::vector<message>>);
};
struct communicator_without_barrier : communicator { void barrier() = delete; };
struct communicator_without_cancel : communicator { void cancel() = delete; };
struct communicator_cancel_may_throw : communicator { void cancel(); };
struct communicator_barrier_is_private : private communicator {};

static_assert(!Communicator<communicator_immovable>);
static_assert(!Communicator<communicator_without_rank>);
static_assert(!Communicator<communicator_rank_not_const>);
static_assert(!Communicator<communicator_rank_is_long>);
static_assert(!Communicator<communicator_without_size>);
static_assert(!Communicator<communicator_size_is_unsigned>);
static_assert(!Communicator<communicator_without_gather>);
static_assert(!Communicator<communicator_gather_returns>);
static_assert(!Communicator<communicator_gather_completes_with_one>);
static_assert(!Communicator<communicator_without_scatter>);
static_assert(!Communicator<communicator_scatter_of_one>);
static_assert(!Communicator<communicator_without_broadcast>);
static_assert(!Communicator<communicator_broadcast_without_deadline>);
static_assert(!Communicator<communicator_without_all_gather>);
static_assert(!Communicator<communicator_all_gather_with_root>);
static_assert(!Communicator<communicator_without_barrier>);
static_assert(!Communicator<communicator_without_cancel>);
static_assert(!Communicator<communicator_cancel_may_throw>);
static_assert(!Communicator<communicator_barrier_is_private>);
// References are not parts; what is held is.
static_assert(!Communicator<communicator&> && !Communicator<const communicator>);

}  // namespace cairn::archetype

#endif
