// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_IMPL_SOLO_IPP
#define CAIRN_COMM_IMPL_SOLO_IPP

#include <cairn/comm/any_communicator.hpp>
#include <cairn/comm/solo.hpp>

#include <exception>
#include <memory>
#include <string>
#include <utility>

namespace cairn {

static_assert(BackgroundCommunicator<solo> && BackgroundCommunicator<any_communicator>);

template <class T>
bool solo::cancelled(completion<T>& done) {
    int const before = cancelled_;
    if (before == 0) return false;
    auto const code = before == 1 ? errc::cancelled : errc::poisoned;
    cancelled_ = 2;
    done.fail(std::make_exception_ptr(error(code, {.rank = 0, .remedy = "make a new group"})));
    return true;
}
template <class T>
bool solo::valid(int root, completion<T>& done) {
    if (cancelled(done)) return false;
    if (root == 0) return true;
    done.fail(
        std::make_exception_ptr(error(errc::invalid_argument, {.expected = "root 0, the only rank",
                                                               .found = std::to_string(root)})));
    return false;
}

CAIRN_DECL void solo::gather(message m, int root, deadline, completion<std::vector<message>> done) {
    if (!valid(root, done)) return;
    std::vector<message> all;
    all.push_back(std::move(m));
    done(std::move(all));
}
CAIRN_DECL void solo::scatter(std::vector<message> ms, int root, deadline,
                              completion<message> done) {
    if (!valid(root, done)) return;
    if (ms.size() != 1)
        return done.fail(std::make_exception_ptr(
            error(errc::invalid_argument,
                  {.expected = "one message per rank", .found = std::to_string(ms.size())})));
    done(std::move(ms.front()));
}
CAIRN_DECL void solo::broadcast(message m, int root, deadline, completion<message> done) {
    if (valid(root, done)) done(std::move(m));
}
CAIRN_DECL void solo::all_gather(message m, deadline d, completion<std::vector<message>> done) {
    gather(std::move(m), 0, d, std::move(done));
}
CAIRN_DECL void solo::duplicate(deadline, completion<solo> done) {
    if (!cancelled(done)) done(solo());
}

CAIRN_DECL any_communicator::any_communicator(solo alone)
    : c_(std::make_unique<holder<solo>>(std::move(alone))) {}

}  // namespace cairn

#endif
