// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_RUNNING_SAVES_HPP
#define CAIRN_STORAGE_RUNNING_SAVES_HPP

#include <cairn/detail/cxx20.hpp>

#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::detail {

/// Registers, for its lifetime, a rank of this process that may still write files of a save: that
/// save's files are not leftovers yet.
class running_save {
public:
    explicit running_save(std::string save_id) : id_(std::move(save_id)) {
        auto& r = registry();
        std::lock_guard const lock(r.m);
        r.ids.insert(id_);
    }
    running_save(running_save&&) = delete;
    ~running_save() {
        auto& r = registry();
        std::lock_guard const lock(r.m);
        if (auto const it = r.ids.find(id_); it != r.ids.end()) r.ids.erase(it);
    }

    static bool is(std::string_view save_id) {
        auto& r = registry();
        std::lock_guard const lock(r.m);
        return r.ids.find(save_id) != r.ids.end();
    }

private:
    struct all {
        std::mutex m{};
        std::multiset<std::string, std::less<>> ids{};  // once for each rank
    };
    /// Never destroyed: a save may still run while the program exits.
    static all& registry() {
        static all* const r = new all;
        return *r;
    }
    std::string id_;
};

}  // namespace cairn::detail

#endif
