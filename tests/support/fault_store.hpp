// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_FAULT_STORE_HPP
#define CAIRN_TEST_SUPPORT_FAULT_STORE_HPP

#include <cairn/object_store/concepts.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace support {

/// A store that counts its operations and fails the n-th one with errc::io.
template <cairn::ObjectStore Store>
class fault_store {
    struct state {
        std::atomic<int> calls{0};
        int fail_at = -1;
        void step(const char* what) {
            if (calls++ == fail_at)
                throw cairn::error(cairn::errc::io,
                                   {.found = std::string("injected into ") + what});
        }
    };

public:
    fault_store(Store s, int fail_at) : store_(std::move(s)), s_(std::make_shared<state>()) {
        s_->fail_at = fail_at;
    }
    fault_store at(std::string id) const {
        fault_store f(*this);
        f.store_ = store_.at(std::move(id));
        return f;
    }
    int calls() const { return s_->calls; }

    template <class Handle>
    struct writer {
        Handle h;
        std::shared_ptr<state> s;
        void write(std::uint64_t at, cairn::byte_span b) {
            s->step("write");
            h.write(at, b);
        }
        void finish(bool durable) {
            s->step("finish");
            h.finish(durable);
        }
    };
    template <class Handle>
    struct reader {
        Handle h;
        std::shared_ptr<state> s;
        void read(std::uint64_t at, std::span<std::byte> into) {
            s->step("read");
            h.read(at, into);
        }
        std::uint64_t size() { return h.size(); }
    };
    auto create(std::string_view n, std::uint64_t size) {
        s_->step("create");
        using handle = decltype(store_.create(n, size));
        return writer<handle>{store_.create(n, size), s_};
    }
    void publish(std::string_view n, cairn::byte_span b, std::optional<cairn::object_tag> m) {
        s_->step("publish");
        store_.publish(n, b, std::move(m));
    }
    auto open(std::string_view n) {
        s_->step("open");
        using handle = decltype(store_.open(n));
        return reader<handle>{store_.open(n), s_};
    }
    cairn::object_tag tag(std::string_view n) { return store_.tag(n); }
    std::vector<cairn::object_info> list() {
        s_->step("list");
        return store_.list();
    }
    void remove(std::string_view n) { store_.remove(n); }
    void sync() {
        s_->step("sync");
        store_.sync();
    }
    std::string describe(std::string_view n) { return store_.describe(n); }

private:
    Store store_;
    std::shared_ptr<state> s_;
};

}  // namespace support

#endif
