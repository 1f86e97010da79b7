// SPDX-License-Identifier: Apache-2.0
// Parts of uploads are sent one after the other, by whoever writes them; in place of cairn's own
// header.
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_UPLOAD_POOL_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_UPLOAD_POOL_HPP

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace cairn::detail::s3 {

class upload_pool {
public:
    upload_pool(std::size_t, std::uint64_t) {}
    upload_pool(upload_pool&&) = delete;

    class buffer {
    public:
        buffer() = default;
        explicit buffer(std::size_t n) : memory_(std::make_unique<std::byte[]>(n)), size_(n) {}
        std::span<std::byte> bytes() const noexcept { return {memory_.get(), size_}; }
        void is_sent_soon() {}

    private:
        std::unique_ptr<std::byte[]> memory_{};
        std::size_t size_ = 0;
    };
    buffer take(std::size_t n) { return buffer(n); }
    void run(const std::function<void()>& job) { job(); }
    class user {
    public:
        explicit user(upload_pool&) {}
    };
};

}  // namespace cairn::detail::s3

#endif
