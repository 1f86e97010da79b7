// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_REGISTERED_ID_HPP
#define CAIRN_OBJECT_STORE_DETAIL_REGISTERED_ID_HPP

#include <cairn/detail/forks.hpp>

#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::detail {

/// Registers an id in this process, for its lifetime. Several may register the same one. In a
/// forked child none of the parent's is registered.
/// @tparam Registry  A type of its own for each registry.
template <class Registry>
class registered_id {
public:
    explicit registered_id(std::string id) : id_(std::move(id)) {
        auto& r = registry();
        std::lock_guard const lock(r.m);
        r.ids.insert(id_);
    }
    registered_id(registered_id&&) = delete;
    ~registered_id() {
        auto& r = registry();
        std::lock_guard const lock(r.m);
        if (auto const it = r.ids.find(id_); it != r.ids.end()) r.ids.erase(it);
    }

    static bool is(std::string_view id) {
        auto& r = registry();
        std::lock_guard const lock(r.m);
        return r.ids.find(id) != r.ids.end();
    }

private:
    struct all {
        std::mutex m{};
        std::multiset<std::string, std::less<>> ids{};
    };
    static all& registry() {
        static per_process<all> r;  // a save or load may still run while the program exits
        return r.get();
    }
    std::string id_;
};

}  // namespace cairn::detail

#endif
