// SPDX-License-Identifier: Apache-2.0
// A communicator that does not say that it may be used in the background.
#ifndef CAIRN_TESTS_COMPILE_FAIL_FOREGROUND_RANKS_HPP
#define CAIRN_TESTS_COMPILE_FAIL_FOREGROUND_RANKS_HPP

#include <cairn/comm/solo.hpp>

#include <memory>
#include <utility>
#include <vector>

struct foreground_ranks {
    int rank() const { return 0; }
    int size() const { return 1; }
    void gather(cairn::message m, int root, cairn::deadline d,
                cairn::completion<std::vector<cairn::message>> done) {
        inner.gather(std::move(m), root, d, std::move(done));
    }
    void scatter(std::vector<cairn::message> ms, int root, cairn::deadline d,
                 cairn::completion<cairn::message> done) {
        inner.scatter(std::move(ms), root, d, std::move(done));
    }
    void broadcast(cairn::message m, int root, cairn::deadline d,
                   cairn::completion<cairn::message> done) {
        inner.broadcast(std::move(m), root, d, std::move(done));
    }
    void all_gather(cairn::message m, cairn::deadline d,
                    cairn::completion<std::vector<cairn::message>> done) {
        inner.all_gather(std::move(m), d, std::move(done));
    }
    void share(std::shared_ptr<const cairn::activity>) {}
    void cancel() noexcept { inner.cancel(); }
    cairn::solo inner{};
};

#endif
