// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_CRASH_HOSTED_STORE_HPP
#define CAIRN_TEST_CRASH_HOSTED_STORE_HPP

#include "recorder.hpp"

#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/storage/detail/data_names.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace crash {

/// The file store as one host uses it.
class hosted_store {
public:
    /// @param committed  Called when a publishing of `.metadata` has returned; may be empty.
    hosted_store(cairn::file_store s, int host, std::function<void()> committed)
        : store_(std::move(s)), host_(host), committed_(std::move(committed)) {}

    class writer {
    public:
        writer(cairn::file_store::writer h, int host)
            : handle_(std::make_unique<cairn::file_store::writer>(std::move(h))), host_(host) {}
        writer(writer&&) = default;
        writer& operator=(writer&&) = delete;
        ~writer() {
            on_host const here(host_);
            handle_.reset();
        }
        void write(std::uint64_t at, cairn::byte_span b) {
            on_host const here(host_);
            handle_->write(at, b);
        }
        void finish(bool durable) {
            on_host const here(host_);
            handle_->finish(durable);
        }

    private:
        std::unique_ptr<cairn::file_store::writer> handle_;
        int host_;
    };

    hosted_store at(const std::string& id) const { return {store_.at(id), host_, committed_}; }
    writer create(std::string_view n, std::uint64_t size, bool durable = true) {
        on_host const here(host_);
        return {store_.create(n, size, durable), host_};
    }
    void publish(std::string_view n, cairn::byte_span b, std::optional<cairn::object_tag> m) {
        on_host const here(host_);
        store_.publish(n, b, std::move(m));
        if (committed_ && n == cairn::detail::metadata_name) committed_();
    }
    cairn::file_store::reader open(std::string_view n) { return store_.open(n); }
    cairn::object_tag tag(std::string_view n) { return store_.tag(n); }
    std::vector<cairn::object_info> list() { return store_.list(); }
    void remove(std::string_view n) {
        on_host const here(host_);
        store_.remove(n);
    }
    void sync() {
        on_host const here(host_);
        store_.sync();
    }
    std::string describe(std::string_view n) { return store_.describe(n); }

private:
    cairn::file_store store_;
    int host_;
    std::function<void()> committed_;
};
static_assert(cairn::RelocatableStore<hosted_store>);

}  // namespace crash

#endif
