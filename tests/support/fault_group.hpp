// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_FAULT_GROUP_HPP
#define CAIRN_TEST_SUPPORT_FAULT_GROUP_HPP

#include "fault_store.hpp"

#include <cairn/comm/thread_group.hpp>

#include <array>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace support {

/// How one call of a group fails: by an exception of the call or of its completion, without its
/// effect or although the other ranks saw it.
enum class call_fault { throws, throws_afterwards, fails, fails_afterwards };
inline constexpr std::array all_call_faults{call_fault::throws, call_fault::throws_afterwards,
                                            call_fault::fails, call_fault::fails_afterwards};

inline const char* name_of(call_fault f) {
    constexpr const char* names[] = {"throws", "throws afterwards", "fails with",
                                     "fails afterwards with"};
    return names[static_cast<int>(f)];
}

/// Which call of a group and of its duplicates fails, and how.
struct group_fault {
    int at = -1;  ///< The how-many-th call, from 0; none if negative.
    thrown what = thrown::cairn_error;
    call_fault how = call_fault::throws;
};

/// A member of a group of threads of which one call fails: of its own, or of a duplicate's. The end
/// of a duplicate tells the other ranks nothing, as long as the first of them lives.
class fault_group {
    struct state {
        group_fault f{};
        std::atomic<int> calls{0};
        std::mutex m{};
        std::string hit{};
        std::vector<std::unique_ptr<cairn::thread_group::member>> ended{};

        /// Whether this call is the one.
        bool here(const char* what) {
            if (calls++ != f.at) return false;
            std::lock_guard const lock(m);
            hit = what;
            return true;
        }
        [[noreturn]] void throw_now(const char* what) const { throw_it(f.what, what); }
        std::exception_ptr failure(const char* what) const {
            try {
                throw_now(what);
            } catch (...) {
                return std::current_exception();
            }
        }
    };

public:
    fault_group(cairn::thread_group::member& me, group_fault f)
        : me_(&me), s_(std::make_shared<state>()) {
        s_->f = f;
    }
    fault_group(fault_group&&) noexcept = default;
    fault_group& operator=(fault_group&& other) noexcept {
        std::swap(own_, other.own_);
        std::swap(me_, other.me_);
        std::swap(s_, other.s_);
        return *this;
    }
    ~fault_group() {
        if (!own_) return;
        std::lock_guard const lock(s_->m);
        s_->ended.push_back(std::move(own_));
    }

    /// Which call has failed; empty if none has.
    std::string hit() const {
        std::lock_guard const lock(s_->m);
        return s_->hit;
    }
    std::string words() const {
        return "call " + std::to_string(s_->f.at) + " (" + hit() + ") " + name_of(s_->f.how) + " " +
               name_of(s_->f.what);
    }

    int rank() const {
        if (s_->here("rank")) s_->throw_now("rank");
        return me().rank();
    }
    int size() const {
        if (s_->here("size")) s_->throw_now("size");
        return me().size();
    }
    void gather(cairn::message m, int root, cairn::deadline d,
                cairn::completion<std::vector<cairn::message>> done) {
        call("gather", std::move(done),
             [&](auto to) { me().gather(std::move(m), root, d, std::move(to)); });
    }
    void scatter(std::vector<cairn::message> ms, int root, cairn::deadline d,
                 cairn::completion<cairn::message> done) {
        call("scatter", std::move(done),
             [&](auto to) { me().scatter(std::move(ms), root, d, std::move(to)); });
    }
    void broadcast(cairn::message m, int root, cairn::deadline d,
                   cairn::completion<cairn::message> done) {
        call("broadcast", std::move(done),
             [&](auto to) { me().broadcast(std::move(m), root, d, std::move(to)); });
    }
    void all_gather(cairn::message m, cairn::deadline d,
                    cairn::completion<std::vector<cairn::message>> done) {
        call("all_gather", std::move(done),
             [&](auto to) { me().all_gather(std::move(m), d, std::move(to)); });
    }
    void duplicate(cairn::deadline d, cairn::completion<fault_group> done) {
        call("duplicate", std::move(done), [&](cairn::completion<fault_group> to) {
            auto const kept = std::make_shared<cairn::completion<fault_group>>(std::move(to));
            me().duplicate(d, cairn::completion<cairn::thread_group::member>(
                                  [kept, s = s_](std::exception_ptr e,
                                                 std::optional<cairn::thread_group::member> m) {
                                      if (e) return kept->fail(e);
                                      (*kept)(fault_group(std::move(*m), s));
                                  }));
        });
    }
    void share(std::shared_ptr<const cairn::activity> a) {
        bool const fails = s_->here("share");
        if (!fails || is_afterwards()) me().share(std::move(a));
        if (fails) s_->throw_now("share");
    }
    void cancel() noexcept { me().cancel(); }

private:
    fault_group(cairn::thread_group::member own, std::shared_ptr<state> s)
        : own_(std::make_unique<cairn::thread_group::member>(std::move(own))), me_(own_.get()),
          s_(std::move(s)) {}

    cairn::thread_group::member& me() const { return *me_; }
    bool is_afterwards() const {
        return s_->f.how == call_fault::throws_afterwards ||
               s_->f.how == call_fault::fails_afterwards;
    }
    template <class T, class Start>
    void call(const char* what, cairn::completion<T> done, Start&& start) {
        if (!s_->here(what)) return start(std::move(done));
        switch (s_->f.how) {
            case call_fault::throws: s_->throw_now(what);
            case call_fault::throws_afterwards: start(std::move(done)); s_->throw_now(what);
            case call_fault::fails: return done.fail(s_->failure(what));
            case call_fault::fails_afterwards: break;
        }
        auto const kept = std::make_shared<cairn::completion<T>>(std::move(done));
        start(cairn::completion<T>(
            [kept, e = s_->failure(what)](std::exception_ptr, std::optional<T> r) {
                if constexpr (std::is_same_v<T, fault_group>)
                    if (r) r->own_.reset();  // nobody else can end it
                kept->fail(e);
            }));
    }

    std::unique_ptr<cairn::thread_group::member> own_{};  ///< Of a duplicate.
    cairn::thread_group::member* me_;
    std::shared_ptr<state> s_;
};
static_assert(cairn::BackgroundCommunicator<fault_group>);

}  // namespace support

#endif
