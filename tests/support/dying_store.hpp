// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_DYING_STORE_HPP
#define CAIRN_TEST_SUPPORT_DYING_STORE_HPP

#include <cairn/object_store/concepts.hpp>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace support {

/// How a child process ended.
enum class ended { well, badly, killed };

/// Runs `f` in a process of its own.
template <class F>
ended in_process(F&& f) {
    std::cout.flush();
    auto const pid = ::fork();
    if (pid < 0) return ended::badly;
    if (pid == 0) {
        // Boost.Test would go on with the next test.
        for (int s : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTERM}) ::signal(s, SIG_DFL);
        int code = 1;
        try {
            f();
            code = 0;
        } catch (const std::exception& e) {
            std::cout << "    in a child: " << e.what() << std::endl;
        }
        ::_exit(code);
    }
    int status = 0;
    if (::waitpid(pid, &status, 0) != pid) return ended::badly;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return ended::killed;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? ended::well : ended::badly;
}

/// A store that kills its process before the n-th operation that changes something, of all its
/// copies and handles together; or in the middle of it, where there is one.
template <cairn::ObjectStore Store>
class dying_store {
    struct state {
        std::atomic<int> calls{0};
        int die_at = -1;
        void step() {
            if (calls++ == die_at) ::raise(SIGKILL);
        }
    };

public:
    dying_store(Store s, int die_at) : store_(std::move(s)), s_(std::make_shared<state>()) {
        s_->die_at = die_at;
    }
    dying_store at(std::string id) const {
        dying_store d(*this);
        d.store_ = store_.at(std::move(id));
        return d;
    }

    template <class Handle>
    struct writer {
        Handle h;
        std::shared_ptr<state> s;
        void write(std::uint64_t at, cairn::byte_span b) {
            s->step();
            h.write(at, b.first(b.size() / 2));
            s->step();
            h.write(at + b.size() / 2, b.subspan(b.size() / 2));
        }
        void finish(bool durable) {
            s->step();
            h.finish(durable);
        }
    };
    auto create(std::string_view n, std::uint64_t size) {
        s_->step();
        using handle = decltype(store_.create(n, size));
        return writer<handle>{store_.create(n, size), s_};
    }
    void publish(std::string_view n, cairn::byte_span b, std::optional<cairn::object_tag> m) {
        s_->step();
        store_.publish(n, b, std::move(m));
        s_->step();
    }
    auto open(std::string_view n) { return store_.open(n); }
    cairn::object_tag tag(std::string_view n) { return store_.tag(n); }
    std::vector<cairn::object_info> list() { return store_.list(); }
    std::vector<std::string> places() { return store_.places(); }
    void remove_place(const std::string& id) {
        s_->step();
        store_.remove_place(id);
    }
    void remove(std::string_view n) {
        s_->step();
        store_.remove(n);
    }
    void sync() {
        s_->step();
        store_.sync();
    }
    std::string describe(std::string_view n) { return store_.describe(n); }

private:
    Store store_;
    std::shared_ptr<state> s_;
};

}  // namespace support

#endif
