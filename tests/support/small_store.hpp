// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_SMALL_STORE_HPP
#define CAIRN_TEST_SUPPORT_SMALL_STORE_HPP

#include "forwarding_store.hpp"

#include <cairn/object_store/concepts.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace support {

/// A store on a disk with room for so many bytes more, shared by all copies; what is removed gives
/// none back.
template <cairn::ObjectStore Store>
class small_store : public forwarding_store<Store> {
    using base = forwarding_store<Store>;
    using base::store_;

public:
    small_store(Store s, std::int64_t room)
        : base(std::move(s)), room_(std::make_shared<std::atomic<std::int64_t>>(room)) {}
    small_store at(std::string id) const {
        small_store s(*this);
        s.store_ = store_.at(std::move(id));
        return s;
    }
    /// Bytes still free; negative when something did not fit.
    std::int64_t room() const { return *room_; }

    template <class Handle>
    struct writer {
        Handle h;
        std::shared_ptr<std::atomic<std::int64_t>> room;
        std::string name;
        void write(std::uint64_t at, cairn::byte_span b) {
            take(*room, b.size(), name);
            h.write(at, b);
        }
        void finish(bool durable) { h.finish(durable); }
    };
    auto create(std::string_view n, std::uint64_t size) {
        using handle = decltype(store_.create(n, size));
        return writer<handle>{store_.create(n, size), room_, store_.describe(n)};
    }
    void publish(std::string_view n, cairn::byte_span b, std::optional<cairn::object_tag> m) {
        take(*room_, b.size(), store_.describe(n));
        store_.publish(n, b, std::move(m));
    }

private:
    static void take(std::atomic<std::int64_t>& room, std::size_t n, const std::string& what) {
        if ((room -= static_cast<std::int64_t>(n)) < 0)
            throw cairn::error(cairn::errc::io, {.file = what, .found = "No space left on device"});
    }
    std::shared_ptr<std::atomic<std::int64_t>> room_;
};

}  // namespace support

#endif
