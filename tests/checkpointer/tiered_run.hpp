// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_CHECKPOINTER_TIERED_RUN_HPP
#define CAIRN_TEST_CHECKPOINTER_TIERED_RUN_HPP

#include "checkpointed_ranks.hpp"

#include <cairn/object_store/detail/exists.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace checkpointed_ranks {

/// A run with a second place, of which each rank has a view with a control of its own.
struct tiered_run : run {
    explicit tiered_run(int ranks) : run(ranks) {
        for (int r = 0; r < n; ++r) far_controls.push_back(std::make_shared<control>());
    }
    cairn::any_store far_of(const rank& me) {
        return cairn::any_store(
            controlled_store(far, far_controls[static_cast<std::size_t>(me.number)]));
    }
    cairn::checkpointer_options options(const rank& me, int every = 1) {
        cairn::checkpointer_options o{.every = cairn::steps(1)};
        o.upload = cairn::upload_options{.to = far_of(me), .every = every};
        return o;
    }
    bool is_durable(const std::string& id) {
        auto place = far.at(id);
        return cairn::detail::exists(place, ".metadata");
    }
    bool exists_far(const std::string& id) { return !far.at(id).list().empty(); }
    float durable_value(const std::string& id) {
        return support::only_number(support::load_whole(far, id).tensors.at("w"));
    }

    cairn::memory_store far{};
    std::vector<std::shared_ptr<control>> far_controls{};
};

inline void save_step(rank& me, cairn::checkpointer& ckpt, int step) {
    me.train(step);
    BOOST_TEST(ckpt.maybe_save(step, me).saved);
}
/// Saves steps 1, 2 and 3 in both places.
inline void save_three(tiered_run& r) {
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer(r.options(me));
        for (int step = 1; step <= 3; ++step) {
            save_step(me, ckpt, step);
            (void)ckpt.wait();
        }
    });
}
inline std::string uploaded_of(const cairn::checkpointer& ckpt) {
    return ckpt.uploaded() ? ckpt.uploaded()->id : "none";
}
inline cairn::latest_options quietly(std::atomic<int>* told = nullptr) {
    return {cairn::verify_level::metadata, false, [told](const std::string&) {
                if (told != nullptr) ++*told;
            }};
}
template <class Store>
std::vector<std::string> places_of(Store s) {
    return s.places();
}

}  // namespace checkpointed_ranks

#endif
