// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_MANY_GROUPS_HPP
#define CAIRN_TEST_SUPPORT_MANY_GROUPS_HPP

#include <cairn/comm/tcp_group.hpp>
#include <cairn/comm/thread_group.hpp>

#include <cstddef>
#include <deque>
#include <mutex>
#include <vector>

namespace support {

/// One group after the other, of the same threads, as a suite asks for them.
class many_thread_groups {
public:
    explicit many_thread_groups(int n) : n_(n), next_(static_cast<std::size_t>(n)) {}
    cairn::thread_group::member next(int rank) {
        std::lock_guard const lock(m_);
        auto const i = next_[static_cast<std::size_t>(rank)]++;
        while (all_.size() <= i) all_.emplace_back(n_);
        return all_[i].rank(rank);
    }

private:
    int n_;
    std::mutex m_{};
    std::vector<std::size_t> next_;
    std::deque<cairn::thread_group> all_{};
};

/// The same over TCP.
class many_tcp_groups {
public:
    many_tcp_groups(int n, cairn::tcp_options o)
        : n_(n), options_(std::move(o)), next_(static_cast<std::size_t>(n)) {}
    cairn::tcp_group next(int rank) {
        cairn::tcp_id id;
        {
            std::lock_guard const lock(m_);
            auto const i = next_[static_cast<std::size_t>(rank)]++;
            while (all_.size() <= i) all_.push_back(cairn::tcp_group::unique_id(options_));
            id = all_[i];
        }
        return {id, rank, n_, options_};
    }

private:
    int n_;
    cairn::tcp_options options_;
    std::mutex m_{};
    std::vector<std::size_t> next_;
    std::deque<cairn::tcp_id> all_{};
};

}  // namespace support

#endif
