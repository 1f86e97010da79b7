// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_COUNTING_STORE_HPP
#define CAIRN_TEST_SUPPORT_COUNTING_STORE_HPP

#include <cairn/object_store/concepts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace support {

/// A store that counts how often each byte of each object was read, over all copies, and can be
/// told to do something before an object is opened, or all are listed.
template <cairn::ObjectStore Store>
class counting_store {
    struct state {
        std::mutex m{};
        std::map<std::string, std::vector<int>> counts{};
        std::map<std::string, int> calls{};
        std::function<void(std::string_view)> on_open{};
        std::function<void()> on_list{};
    };

public:
    explicit counting_store(Store s) : store_(std::move(s)), s_(std::make_shared<state>()) {}
    counting_store at(std::string id) const {
        counting_store c(*this);
        c.store_ = store_.at(std::move(id));
        return c;
    }
    /// @param f  Called with the object's name, on the thread of whoever opens it.
    void on_open(std::function<void(std::string_view)> f) { s_->on_open = std::move(f); }
    void on_list(std::function<void()> f) { s_->on_list = std::move(f); }
    /// Fewest and most reads of a byte of `[at, at + n)`.
    std::pair<int, int> reads(const std::string& object, std::uint64_t at, std::uint64_t n) {
        std::lock_guard const lock(s_->m);
        auto const& c = s_->counts[object];
        std::pair<int, int> out{1 << 30, 0};
        for (auto i = at; i < at + n; ++i) {
            int const k = i < c.size() ? c[static_cast<std::size_t>(i)] : 0;
            out = {std::min(out.first, k), std::max(out.second, k)};
        }
        return out;
    }

    /// How many reads of the object there were.
    int calls(const std::string& object) {
        std::lock_guard const lock(s_->m);
        return s_->calls[object];
    }

    template <class Handle>
    struct reader {
        Handle h;
        std::shared_ptr<state> s;
        std::string name;
        void read(std::uint64_t at, std::span<std::byte> into) {
            h.read(at, into);
            std::lock_guard const lock(s->m);
            ++s->calls[name];
            auto& c = s->counts[name];
            auto const first = static_cast<std::size_t>(at);
            if (c.size() < first + into.size()) c.resize(first + into.size());
            for (std::size_t i = 0; i < into.size(); ++i) ++c[first + i];
        }
        std::uint64_t size() { return h.size(); }
    };
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    void publish(std::string_view n, cairn::byte_span b, std::optional<cairn::object_tag> m) {
        store_.publish(n, b, std::move(m));
    }
    auto open(std::string_view n) {
        if (s_->on_open) s_->on_open(n);
        using handle = decltype(store_.open(n));
        return reader<handle>{store_.open(n), s_, std::string(n)};
    }
    cairn::object_tag tag(std::string_view n) { return store_.tag(n); }
    std::vector<cairn::object_info> list() {
        if (s_->on_list) s_->on_list();
        return store_.list();
    }
    void remove(std::string_view n) { store_.remove(n); }
    void sync() { store_.sync(); }
    std::string describe(std::string_view n) { return store_.describe(n); }

private:
    Store store_;
    std::shared_ptr<state> s_;
};

}  // namespace support

#endif
