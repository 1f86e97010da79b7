// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_REPLACED_WHEN_OPENED_HPP
#define CAIRN_TEST_SUPPORT_REPLACED_WHEN_OPENED_HPP

#include "forwarding_store.hpp"

#include <cairn/object_store/memory.hpp>
#include <cairn/object_store/read_whole.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace support {

/// Memory in which an object is replaced by one of the same size after it was opened.
class replaced_when_opened : public forwarding_store<cairn::memory_store> {
public:
    /// @param times  How often that happens.
    replaced_when_opened(cairn::memory_store s, int times)
        : forwarding_store(std::move(s)), left_(std::make_shared<std::atomic<int>>(times)) {}
    replaced_when_opened at(const std::string& id) const {
        auto there = *this;
        there.store_ = store_.at(id);
        return there;
    }
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    auto open(std::string_view n) {
        auto opened = store_.open(n);
        if (left_->fetch_sub(1) > 0) store_.publish(n, cairn::read_whole(store_, n), std::nullopt);
        return opened;
    }

private:
    std::shared_ptr<std::atomic<int>> left_;
};

}  // namespace support

#endif
