// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_INTERRUPTED_STORE_HPP
#define CAIRN_TEST_SUPPORT_INTERRUPTED_STORE_HPP

#include "forwarding_store.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace support {

/// A store that calls a function once, just before it publishes the intent of a save or removal:
/// whoever publishes it has looked at the place by then.
template <cairn::ObjectStore Store>
class interrupted_store : public forwarding_store<Store> {
public:
    interrupted_store(Store s, std::function<void()> f)
        : interrupted_store(std::move(s), std::make_shared<std::function<void()>>(std::move(f))) {}
    interrupted_store at(const std::string& id) const { return {this->store_.at(id), before_}; }
    auto create(std::string_view n, std::uint64_t size) { return this->store_.create(n, size); }
    void publish(std::string_view n, cairn::byte_span b, std::optional<cairn::object_tag> m) {
        if (n.starts_with(".saving."))
            if (auto const f = std::exchange(*before_, nullptr)) f();
        this->store_.publish(n, b, std::move(m));
    }

private:
    interrupted_store(Store s, std::shared_ptr<std::function<void()>> f)
        : forwarding_store<Store>(std::move(s)), before_(std::move(f)) {}

    std::shared_ptr<std::function<void()>> before_;
};

}  // namespace support

#endif
