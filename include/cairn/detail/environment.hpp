// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_ENVIRONMENT_HPP
#define CAIRN_DETAIL_ENVIRONMENT_HPP

#include <cairn/detail/forks.hpp>

#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Reads an environment variable; one that is empty counts as not set.
using environment = std::function<std::optional<std::string>(const char*)>;

inline std::optional<std::string> read_environment(const char* name) {
    auto const* const v = std::getenv(name);
    if (v == nullptr || *v == '\0') return {};
    return v;
}

/// A copy of the environment, made in the call that starts an operation. While one lives, `read`
/// uses the latest copy: no other thread may read the environment itself, because the program may
/// change it meanwhile.
class noted_environment {
public:
    noted_environment() noexcept {
        auto& n = of_process();
        std::lock_guard const lock(n.m);
        ++n.living;
        try {
            std::vector<std::string> now;
            for (auto const* const* v = ::environ; v != nullptr && *v != nullptr; ++v)
                now.emplace_back(*v);
            n.variables = std::move(now);
        } catch (const std::exception&) {  // no memory: the copy of an earlier call is used
        }
    }
    noted_environment(noted_environment&&) = delete;
    ~noted_environment() {
        if (!home_.is_this()) return;
        auto& n = of_process();
        std::lock_guard const lock(n.m);
        if (--n.living == 0) n.variables.clear();
    }

    /// An `environment` that an operation may call on any thread.
    static std::optional<std::string> read(const char* name) {
        auto& n = of_process();
        std::lock_guard const lock(n.m);
        if (n.living == 0) return read_environment(name);
        for (std::string_view const v : n.variables) {
            auto const end = v.find('=');
            if (end == v.npos || v.substr(0, end) != name) continue;
            auto const value = v.substr(end + 1);
            return value.empty() ? std::nullopt : std::optional(std::string(value));
        }
        return {};
    }

private:
    struct notes {
        std::mutex m{};
        int living = 0;
        std::vector<std::string> variables{};
    };
    static notes& of_process() {
        static per_process<notes> one;
        return one.get();
    }

    home_process home_{};
};

}  // namespace cairn::detail

#endif
