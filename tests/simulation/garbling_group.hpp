// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_GARBLING_GROUP_HPP
#define CAIRN_TEST_SIMULATION_GARBLING_GROUP_HPP

#include "network.hpp"

#include <cairn/comm/detail/erased_communicator.hpp>
#include <cairn/completion.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace simulation {

/// A rank's group, in one exchange of which this rank gets something that it cannot read.
class garbling_group final : public cairn::detail::communicator_forwarder<network::group> {
    using base = cairn::detail::communicator_forwarder<network::group>;
    using message = cairn::message;
    template <class T>
    using completion = cairn::completion<T>;

public:
    using base::base;

    /// @param at  Which exchange from now on, counted from 1.
    void garble(int at) { left_ = at; }
    bool garbled() const { return left_ == 0; }

    void gather(message m, int root, cairn::deadline d,
                completion<std::vector<message>> done) override {
        base::gather(std::move(m), root, d, garbling(std::move(done)));
    }
    void scatter(std::vector<message> ms, int root, cairn::deadline d,
                 completion<message> done) override {
        base::scatter(std::move(ms), root, d, garbling(std::move(done)));
    }
    void broadcast(message m, int root, cairn::deadline d, completion<message> done) override {
        base::broadcast(std::move(m), root, d, garbling(std::move(done)));
    }
    void all_gather(message m, cairn::deadline d, completion<std::vector<message>> done) override {
        base::all_gather(std::move(m), d, garbling(std::move(done)));
    }

private:
    static void spoil(message& m) { m = {std::byte{0xff}}; }
    static void spoil(std::vector<message>& all) {
        for (auto& m : all) spoil(m);
    }
    template <class T>
    completion<T> garbling(completion<T> done) {
        if (left_ <= 0 || --left_ != 0) return done;
        auto const to = std::make_shared<completion<T>>(std::move(done));
        return completion<T>([to](std::exception_ptr e, std::optional<T> r) {
            if (e) return to->fail(std::move(e));
            spoil(*r);
            (*to)(std::move(*r));
        });
    }

    int left_ = -1;
};

}  // namespace simulation

#endif
