// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_SOLO_HPP
#define CAIRN_COMM_SOLO_HPP

#include <cairn/comm/concepts.hpp>

#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

/// One process alone: every exchange is with itself and completes at once. DCP's `no_dist`.
class solo {
public:
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
                error(errc::invalid_argument, {.expected = "one message per rank",
                                               .found = std::to_string(ms.size())})));
        done(std::move(ms.front()));
    }
    void broadcast(message m, int root, deadline, completion<message> done) {
        if (valid(root, done)) done(std::move(m));
    }
    void all_gather(message m, deadline d, completion<std::vector<message>> done) {
        gather(std::move(m), 0, d, std::move(done));
    }
    void barrier(deadline, completion<done_t> done) { done(done_t{}); }

private:
    template <class T>
    static bool valid(int root, completion<T>& done) {
        if (root == 0) return true;
        done.fail(std::make_exception_ptr(
            error(errc::invalid_argument,
                  {.expected = "root 0, the only rank", .found = std::to_string(root)})));
        return false;
    }
};
static_assert(Communicator<solo>);

}  // namespace cairn

#endif
