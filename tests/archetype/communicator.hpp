// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_ARCHETYPE_COMMUNICATOR_HPP
#define CAIRN_TESTS_ARCHETYPE_COMMUNICATOR_HPP

#include "stingy.hpp"

#include <cairn/comm/thread_group.hpp>

#include <exception>
#include <memory>
#include <optional>
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
    void share(std::shared_ptr<const activity>&& a) { inner_.share(std::move(a)); }
    void cancel() noexcept { inner_.cancel(); }

protected:
    thread_group::member inner_;
};
static_assert(Communicator<communicator> && !BackgroundCommunicator<communicator>);

/// The same for `BackgroundCommunicator`.
class background_communicator : public communicator {
public:
    using communicator::communicator;
    void duplicate(deadline d, completion<background_communicator>&& done) {
        auto const to = std::make_shared<completion<background_communicator>>(std::move(done));
        inner_.duplicate(d, completion<thread_group::member>(
                                [to](std::exception_ptr e, std::optional<thread_group::member> m) {
                                    if (e) return to->fail(e);
                                    (*to)(background_communicator(std::move(*m)));
                                }));
    }
};
static_assert(BackgroundCommunicator<background_communicator>);

// Each hides one member: it is missing there, or of another type.
struct communicator_immovable : communicator {
    communicator_immovable(communicator_immovable&&) = delete;
};
struct communicator_without_rank : communicator {
    void rank() = delete;
};
struct communicator_rank_not_const : communicator {
    int rank();
};
struct communicator_rank_is_long : communicator {
    long rank() const;
};
struct communicator_without_size : communicator {
    void size() = delete;
};
struct communicator_size_is_unsigned : communicator {
    unsigned size() const;
};
struct communicator_without_gather : communicator {
    void gather() = delete;
};
struct communicator_gather_returns : communicator {
    int gather(message, int, deadline, completion<std::vector<message>>);
};
struct communicator_gather_completes_with_one : communicator {
    void gather(message, int, deadline, completion<message>);
};
struct communicator_without_scatter : communicator {
    void scatter() = delete;
};
struct communicator_scatter_of_one : communicator {
    void scatter(message, int, deadline, completion<message>);
};
struct communicator_without_broadcast : communicator {
    void broadcast() = delete;
};
struct communicator_broadcast_without_deadline : communicator {
    void broadcast(message, int, completion<message>);
};
struct communicator_without_all_gather : communicator {
    void all_gather() = delete;
};
struct communicator_all_gather_with_root : communicator {
    void all_gather(message, int, deadline, completion<std::vector<message>>);
};
struct communicator_without_share : communicator {
    void share() = delete;
};
struct communicator_without_cancel : communicator {
    void cancel() = delete;
};
struct communicator_cancel_may_throw : communicator {
    void cancel();
};
struct communicator_is_private : private communicator {};

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
static_assert(!Communicator<communicator_without_share>);
static_assert(!Communicator<communicator_without_cancel>);
static_assert(!Communicator<communicator_cancel_may_throw>);
static_assert(!Communicator<communicator_is_private>);
struct background_without_duplicate : background_communicator {
    void duplicate() = delete;
};
struct background_duplicate_of_another_type : background_communicator {
    void duplicate(deadline, completion<communicator>);
};
struct background_duplicate_returns : background_communicator {
    background_duplicate_returns duplicate(deadline, completion<background_duplicate_returns>);
};
struct background_duplicate_without_deadline : background_communicator {
    void duplicate(completion<background_duplicate_without_deadline>);
};
struct background_move_may_throw : background_communicator {
    background_move_may_throw(background_move_may_throw&& other) noexcept(false);
    background_move_may_throw& operator=(background_move_may_throw&&) = default;
    void duplicate(deadline, completion<background_move_may_throw>);
};
static_assert(Communicator<background_move_may_throw> &&
              !BackgroundCommunicator<background_move_may_throw>);
static_assert(!BackgroundCommunicator<background_without_duplicate>);
static_assert(!BackgroundCommunicator<background_duplicate_of_another_type>);
static_assert(!BackgroundCommunicator<background_duplicate_returns>);
static_assert(!BackgroundCommunicator<background_duplicate_without_deadline>);
// References are not parts; what is held is.
static_assert(!Communicator<communicator&> && !Communicator<const communicator>);

}  // namespace cairn::archetype

#endif
