// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_S3_SERVER_HPP
#define CAIRN_TEST_SUPPORT_S3_SERVER_HPP

#include "support/s3/connection.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address_v4.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/socket_base.hpp>

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace s3_server {

/// An S3 server on the loopback, in memory, with an empty bucket named `bucket`. Everything in it
/// can be called from any thread. It ends in its destructor, whatever its clients do.
class server {
public:
    explicit server(options o = {})
        : shared_(std::move(o)), acceptor_(io_, {boost::asio::ip::address_v4::loopback(), 0}),
          port_(acceptor_.local_endpoint().port()), accepting_([this] { accept(); }) {
        add_bucket("bucket");
    }
    ~server() {
        shared_.stop();
        {
            std::lock_guard const lock(m_);
            stopping_ = true;
            ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
            for (auto& p : peers_)
                if (p.open) ::shutdown(p.socket.native_handle(), SHUT_RDWR);
        }
        accepting_.join();
        for (auto& p : peers_) p.thread.join();
    }
    server(const server&) = delete;
    server& operator=(const server&) = delete;

    unsigned short port() const { return port_; }
    std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port_); }

    /// Calls `f` with the options, which hold from the next request on.
    template <class F>
    void change(F&& f) {
        shared_.with_world([&](world& w) { f(w.how); });
    }
    void deny(right r) {
        change([&](options& o) { o.denied.insert(r); });
    }
    void allow(right r) {
        change([&](options& o) { o.denied.erase(r); });
    }

    /// @name What goes wrong
    /// @param nth  Of the requests that the fault applies to, from 0.
    /// @{
    void fail(fault f, std::size_t nth) { shared_.fail(std::move(f), {}, nth); }
    void fail(fault f, kind only, std::size_t nth) {
        shared_.fail(
            std::move(f), [only](const request& r) { return r.what() == only; }, nth);
    }
    void fail(fault f, plan::predicate which, std::size_t nth) {
        shared_.fail(std::move(f), std::move(which), nth);
    }
    /// Each request that `which` chooses; all if it is empty.
    void fail_each(fault f, plan::predicate which = {}) {
        shared_.fail(std::move(f), std::move(which), {});
    }
    std::size_t faults_happened() { return shared_.faults_happened(); }
    bool fault_happened() { return faults_happened() != 0; }
    /// @}

    /// @name What has happened
    /// @{
    std::vector<log_entry> log() { return shared_.log(); }
    std::size_t count() { return log().size(); }
    std::size_t count(kind k) {
        std::size_t n = 0;
        for (auto const& e : log())
            if (e.is == k) ++n;
        return n;
    }
    /// Connections that were accepted.
    std::size_t connections() {
        std::lock_guard const lock(m_);
        return accepted_;
    }
    /// Requests that were under way at the same time.
    std::size_t most_at_once() { return shared_.most_at_once(); }
    /// @}

    /// @name What is stored, past HTTP
    /// @{
    void add_bucket(const std::string& name) {
        shared_.with_world([&](world& w) { w.buckets.try_emplace(name); });
    }
    void put(const std::string& in, const std::string& key, std::string content) {
        request r;
        r.body = std::make_shared<std::string>(std::move(content));
        shared_.with_world([&](world& w) {
            w.buckets[in].objects.insert_or_assign(key, object_of(r));
            w.remember();
        });
    }
    /// Empty if there is no such object.
    std::optional<std::string> content(const std::string& in, const std::string& key) {
        return shared_.with_world([&](world& w) -> std::optional<std::string> {
            auto const o = find(w.buckets[in], key);
            if (o == nullptr) return {};
            return *o->content;
        });
    }
    std::vector<std::string> keys(const std::string& in) {
        return shared_.with_world([&](world& w) {
            std::vector<std::string> r;
            for (auto const& [key, o] : w.buckets[in].objects) r.push_back(key);
            return r;
        });
    }
    /// Everything that is there becomes so much older.
    void age(std::chrono::seconds by) {
        shared_.with_world([&](world& w) {
            for (auto& [name, b] : w.buckets) {
                for (auto& [key, o] : b.objects) o.modified -= by.count();
                for (auto& [key, u] : b.uploads) u.initiated -= by.count();
            }
        });
    }
    /// The keys of unfinished uploads.
    std::vector<std::string> uploads(const std::string& in) {
        return shared_.with_world([&](world& w) {
            std::vector<std::string> r;
            for (auto const& [name, u] : w.buckets[in].uploads) r.push_back(name.first);
            return r;
        });
    }
    /// @}

private:
    using tcp = boost::asio::ip::tcp;
    struct peer {
        tcp::socket socket;
        std::thread thread{};
        bool open = true;  ///< Afterwards the thread does nothing more.
    };

    void accept() {
        for (;;) {
            tcp::socket s(io_);
            boost::system::error_code e;
            acceptor_.accept(s, e);
            // Aborted before it was accepted, or no descriptors for the moment.
            if (e && shared_.wait(std::chrono::milliseconds(1))) return;
            std::lock_guard const lock(m_);
            if (stopping_) return;
            reap();
            if (e) continue;
            s.set_option(tcp::no_delay(true), e);
            ++accepted_;
            auto& p = peers_.emplace_back(peer{std::move(s)});
            p.thread = std::thread([this, &p] { serve(p); });
        }
    }
    void serve(peer& p) {
        auto const how = connection(shared_, p.socket, endpoint()).run();
        std::lock_guard const lock(m_);
        boost::system::error_code e;
        // Many servers one after the other would use the ports up otherwise.
        if (how == connection::end::reset || stopping_)
            p.socket.set_option(boost::asio::socket_base::linger(true, 0), e);
        p.socket.close(e);
        p.open = false;
    }
    /// Under the lock: forgets connections that have ended.
    void reap() {
        for (auto it = peers_.begin(); it != peers_.end();) {
            if (it->open) {
                ++it;
                continue;
            }
            it->thread.join();
            it = peers_.erase(it);
        }
    }

    shared shared_;
    boost::asio::io_context io_{};
    tcp::acceptor acceptor_;
    unsigned short port_;
    std::mutex m_{};
    std::list<peer> peers_{};
    bool stopping_ = false;
    std::size_t accepted_ = 0;
    std::thread accepting_;  ///< The last member: it uses all others.
};

}  // namespace s3_server

#endif
