// SPDX-License-Identifier: Apache-2.0
// What `s3_store` sends requests by, in simulated time. It stands in place of cairn's own header:
// everything above it is cairn's: what is sent, when it is sent again, what is made of the answers.
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_HTTP_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_HTTP_HPP

#include "../storage_client.hpp"

#include <cairn/object_store/detail/s3/request.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace simulation {
/// Of the process whose store is made now …
inline storage_client* making_store = nullptr;
/// … and that of the process that has sent the last request, in the fiber that runs now.
inline storage_client* last_sender = nullptr;
}  // namespace simulation

namespace cairn::detail::s3 {

struct proxies {
    std::string http{}, https{}, none_for{};
};
struct http_options {
    std::chrono::milliseconds connect_timeout{};
    std::chrono::seconds stall_timeout{};
    std::string ca_file{};
    proxies by{};
};
struct http_result {
    response got{};
    std::string failure{};
    bool not_sent = false, resent = false, hopeless = false, not_http = false, stopped = false,
         too_long = false;
};

class http {
public:
    explicit http(const http_options&) : by_(*simulation::making_store) {}
    struct terms {
        std::size_t most_body = 0;
        const std::atomic<bool>* stop = nullptr;
        std::chrono::milliseconds timeout{0};
        std::chrono::seconds stall_timeout{0};
        std::uint64_t least_rate = 1;
        bool past_proxies = false, once = false;
    };
    http_result send(const request& r, const terms& t);

private:
    simulation::storage_client& by_;
};

}  // namespace cairn::detail::s3

#endif
