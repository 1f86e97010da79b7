// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_FAULT_STORE_HPP
#define CAIRN_TEST_SUPPORT_FAULT_STORE_HPP

#include <cairn/object_store/concepts.hpp>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace support {

/// What an injected fault throws: a user's store may throw anything.
enum class thrown { cairn_error, runtime_error, bad_alloc, number };
inline constexpr std::array all_thrown{thrown::cairn_error, thrown::runtime_error,
                                       thrown::bad_alloc, thrown::number};

inline const char* name_of(thrown t) {
    constexpr const char* names[] = {"cairn::error", "std::runtime_error", "std::bad_alloc", "42"};
    return names[static_cast<int>(t)];
}
[[noreturn]] inline void throw_it(thrown t, const std::string& into) {
    switch (t) {
        case thrown::cairn_error:
            throw cairn::error(cairn::errc::io, {.found = "injected into " + into});
        case thrown::runtime_error: throw std::runtime_error("injected into " + into);
        case thrown::bad_alloc: throw std::bad_alloc();
        case thrown::number: break;
    }
    throw 42;
}

/// One operation of a store or of its handles fails, before or after it takes effect.
struct fault {
    int at = -1;  ///< The how-many-th operation, from 0; none if negative.
    thrown what = thrown::cairn_error;
    bool afterwards = false;
};

/// What was failed, in words. @param hit  The operation's name.
inline std::string words(const fault& f, const std::string& hit) {
    return "operation " + std::to_string(f.at) + " (" + hit + ") throws " + name_of(f.what) +
           (f.afterwards ? " afterwards" : "");
}

/// A store that counts the operations of all its copies and handles, and fails one of them.
template <cairn::ObjectStore Store>
class fault_store {
    struct state {
        std::atomic<int> calls{0};
        fault f{};
        bool all = false;
        std::mutex m{};
        std::string hit{};

        template <class F>
        auto around(std::string_view what, F&& effect) {
            bool const here = calls++ == f.at;
            if (here) {
                std::lock_guard const lock(m);
                hit = what;
            }
            if (here && !f.afterwards) throw_it(f.what, std::string(what));
            if constexpr (std::is_void_v<decltype(effect())>) {
                effect();
                if (here) throw_it(f.what, std::string(what));
            } else {
                auto r = effect();
                if (here) throw_it(f.what, std::string(what));
                return r;
            }
        }
        /// An operation that counts only where all do.
        template <class F>
        auto around_if_all(std::string_view what, F&& effect) {
            if (all) return around(what, effect);
            return effect();
        }
    };

public:
    /// Fails an operation that moves bytes or names, with errc::io.
    fault_store(Store s, int fail_at) : store_(std::move(s)), s_(std::make_shared<state>()) {
        s_->f.at = fail_at;
    }
    /// Any operation, also those that only ask.
    fault_store(Store s, fault f) : store_(std::move(s)), s_(std::make_shared<state>()) {
        s_->f = f;
        s_->all = true;
    }
    fault_store at(std::string id) const {
        fault_store f(*this);
        f.store_ = store_.at(std::move(id));
        return f;
    }
    int calls() const { return s_->calls; }
    /// Which operation was failed; empty if none was.
    std::string hit() const {
        std::lock_guard const lock(s_->m);
        return s_->hit;
    }

    template <class Handle>
    struct writer {
        Handle h;
        std::shared_ptr<state> s;
        void write(std::uint64_t at, cairn::byte_span b) {
            s->around("write", [&] { h.write(at, b); });
        }
        void finish(bool durable) {
            s->around("finish", [&] { h.finish(durable); });
        }
    };
    template <class Handle>
    struct reader {
        Handle h;
        std::shared_ptr<state> s;
        void read(std::uint64_t at, std::span<std::byte> into) {
            s->around("read", [&] { h.read(at, into); });
        }
        std::uint64_t size() {
            return s->around_if_all("size", [&]() -> std::uint64_t { return h.size(); });
        }
    };
    /// One that fails afterwards leaves an object of zeros, as a store elsewhere would whose answer
    /// was lost.
    auto create(std::string_view n, std::uint64_t size) {
        using handle = decltype(store_.create(n, size));
        return s_->around("create", [&] {
            writer<handle> w{store_.create(n, size), s_};
            if (s_->f.afterwards && s_->calls == s_->f.at + 1) w.h.finish(false);
            return w;
        });
    }
    auto reopen(std::string_view n)
        requires cairn::SharedWriteStore<Store>
    {
        using handle = decltype(store_.reopen(n));
        return s_->around("reopen", [&] { return writer<handle>{store_.reopen(n), s_}; });
    }
    void publish(std::string_view n, cairn::byte_span b, std::optional<cairn::object_tag> m) {
        s_->around("publish", [&] { store_.publish(n, b, std::move(m)); });
    }
    auto open(std::string_view n) {
        using handle = decltype(store_.open(n));
        return s_->around("open", [&] { return reader<handle>{store_.open(n), s_}; });
    }
    cairn::object_tag tag(std::string_view n) {
        return s_->around_if_all("tag", [&] { return store_.tag(n); });
    }
    std::vector<cairn::object_info> list() {
        return s_->around("list", [&] { return store_.list(); });
    }
    std::vector<std::string> places()
        requires cairn::BrowsableStore<Store>
    {
        return s_->around_if_all("places", [&] { return store_.places(); });
    }
    void remove_place(const std::string& id)
        requires cairn::BrowsableStore<Store>
    {
        s_->around_if_all("remove_place", [&] { store_.remove_place(id); });
    }
    cairn::name_kind kind_of(std::string_view n)
        requires cairn::RenamingStore<Store>
    {
        return s_->around_if_all("kind_of", [&] { return store_.kind_of(n); });
    }
    void move(std::string_view from, std::string_view to)
        requires cairn::RenamingStore<Store>
    {
        s_->around("move", [&] { store_.move(from, to); });
    }
    void exchange(std::string_view a, std::string_view b)
        requires cairn::RenamingStore<Store>
    {
        s_->around("exchange", [&] { store_.exchange(a, b); });
    }
    std::vector<std::string> hidden_places()
        requires cairn::RenamingStore<Store>
    {
        return s_->around_if_all("hidden_places", [&] { return store_.hidden_places(); });
    }
    std::vector<std::string> others()
        requires cairn::RenamingStore<Store>
    {
        return s_->around_if_all("others", [&] { return store_.others(); });
    }
    void remove_tree(std::string_view n)
        requires cairn::RenamingStore<Store>
    {
        s_->around("remove_tree", [&] { store_.remove_tree(n); });
    }
    void remove(std::string_view n) {
        s_->around_if_all("remove", [&] { store_.remove(n); });
    }
    void sync() {
        s_->around("sync", [&] { store_.sync(); });
    }
    std::string describe(std::string_view n) {
        return s_->around_if_all("describe", [&] { return store_.describe(n); });
    }

private:
    Store store_;
    std::shared_ptr<state> s_;
};

}  // namespace support

#endif
