// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_MEDDLING_STORE_HPP
#define CAIRN_TEST_SUPPORT_MEDDLING_STORE_HPP

#include "forwarding_store.hpp"

#include <cairn/object_store/file.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace support {

/// Called with the path of an object, as its store describes it.
using meddler = std::function<void(const std::string& path)>;
struct meddlers {
    meddler before_open{}, before_publish{}, before_remove{};
};

/// A store where something happens before certain calls.
template <cairn::ObjectStore Store>
class meddling_store : public forwarding_store<Store> {
    using base = forwarding_store<Store>;
    using base::store_;

public:
    meddling_store(Store s, meddlers m)
        : base(std::move(s)), m_(std::make_shared<meddlers>(std::move(m))) {}

    meddling_store at(const std::string& id) const {
        meddling_store s(*this);
        s.store_ = store_.at(id);
        return s;
    }
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    auto open(std::string_view n) {
        call(m_->before_open, n);
        return store_.open(n);
    }
    void publish(std::string_view n, cairn::byte_span b, std::optional<cairn::object_tag> m) {
        call(m_->before_publish, n);
        store_.publish(n, b, std::move(m));
    }
    void remove(std::string_view n) {
        call(m_->before_remove, n);
        store_.remove(n);
    }

    /// Its store in memory notices no changes in a place: here the metadata's tag tells.
    std::vector<cairn::place_info> all_places() {
        if constexpr (requires { store_.all_places(); }) {
            return store_.all_places();
        } else {
            std::vector<cairn::place_info> all;
            for (auto& id : store_.places()) {
                auto const tag = std::hash<std::string>()(store_.at(id).tag(".metadata").text);
                all.push_back({std::move(id), static_cast<std::int64_t>(tag | 1)});
            }
            return all;
        }
    }

private:
    void call(const meddler& m, std::string_view name) {
        if (m) m(store_.describe(name));
    }
    std::shared_ptr<meddlers> m_;
};
static_assert(cairn::BrowsableStore<meddling_store<cairn::file_store>>);

/// Does something so many times, before the calls on certain objects.
/// @param end  Of their paths.
template <class F>
meddler at_most(int times, std::string end, F f) {
    return [left = std::make_shared<int>(times), end = std::move(end),
            f = std::move(f)](const std::string& path) {
        if (path.ends_with(end) && (*left)-- > 0) f(path);
    };
}
/// Throws so many times.
inline meddler failing(int times, std::string end, cairn::errc code) {
    return at_most(times, std::move(end),
                   [code](const std::string& path) { throw cairn::error(code, {.file = path}); });
}

/// Does something once, before the intent of a save or removal is published: whoever publishes it
/// has looked at the place by then.
template <class F>
meddler before_the_intent(F f) {
    return [left = std::make_shared<int>(1), f = std::move(f)](const std::string& path) {
        if (path.find(".saving.") != path.npos && (*left)-- > 0) f();
    };
}

}  // namespace support

#endif
