// SPDX-License-Identifier: Apache-2.0
// Ranks that share memory: processes forked by one process. They see each other's state, so a
// waiting rank detects which ranks are late, have left, or have died.
#ifndef OWN_COMMUNICATOR_HPP
#define OWN_COMMUNICATOR_HPP

#include <cairn/comm/concepts.hpp>

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

/// State shared by one group; created before the processes are forked.
class shared_world {
public:
    static constexpr int most = 16;
    struct slot {
        bool here = false, left = false, told = false;
        int kind = 0, root = 0;
    };
    struct state {
        pthread_mutex_t mutex;
        pthread_cond_t changed;
        pthread_mutex_t alive[most];  ///< Locked by its rank while that lives.
        slot ranks[most];
        int arrived = 0, to_read = 0;
        int failure = 0;  ///< A cairn::errc; 0: none.
        int failed_rank = -1;
        char text[256] = {};
    };

    explicit shared_world(int size) : size_(size) {
        void* const memory = ::mmap(nullptr, sizeof(state), PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED || size > most) throw std::bad_alloc();
        all_ = new (memory) state;
        pthread_mutexattr_t m;
        ::pthread_mutexattr_init(&m);
        ::pthread_mutexattr_setpshared(&m, PTHREAD_PROCESS_SHARED);
        ::pthread_mutexattr_setrobust(&m, PTHREAD_MUTEX_ROBUST);
        ::pthread_mutex_init(&all_->mutex, &m);
        for (auto& a : all_->alive) ::pthread_mutex_init(&a, &m);
        pthread_condattr_t c;
        ::pthread_condattr_init(&c);
        ::pthread_condattr_setpshared(&c, PTHREAD_PROCESS_SHARED);
        ::pthread_condattr_setclock(&c, CLOCK_MONOTONIC);
        ::pthread_cond_init(&all_->changed, &c);
        for (int r = 0; r < size; ++r) boxes_.push_back(::memfd_create("messages of a rank", 0));
    }
    shared_world(shared_world&&) = delete;

private:
    friend class shared_ranks;
    int size_;
    state* all_ = nullptr;
    std::vector<int> boxes_{};  ///< A file in memory for each rank's messages.
};

/// One rank. Exchanges block the calling thread, and complete inside the call; so this is not a
/// BackgroundCommunicator, and `async_save` refuses it.
class shared_ranks {
public:
    shared_ranks(shared_world& w, int rank) : w_(&w), rank_(rank) {
        ::pthread_mutex_lock(&w_->all_->alive[rank_]);
    }
    shared_ranks(shared_ranks&& other) noexcept
        : w_(std::exchange(other.w_, nullptr)), rank_(other.rank_) {}
    shared_ranks& operator=(shared_ranks&& other) noexcept {
        std::swap(w_, other.w_);
        std::swap(rank_, other.rank_);
        return *this;
    }
    ~shared_ranks() {
        if (w_ == nullptr) return;
        locked const lock(*this);
        me().left = true;
        fail(cairn::errc::rank_failed, rank_, "rank " + std::to_string(rank_) + " left");
    }

    int rank() const { return rank_; }
    int size() const { return w_->size_; }

    void gather(cairn::message m, int root, cairn::deadline d,
                cairn::completion<std::vector<cairn::message>> done) {
        end(done, [&] {
            std::vector<cairn::message> all;
            exchange(1, root, {std::move(m)}, d, [&] {
                for (int r = 0; rank_ == root && r < size(); ++r) all.push_back(read(r, 0));
            });
            return all;
        });
    }
    void scatter(std::vector<cairn::message> ms, int root, cairn::deadline d,
                 cairn::completion<cairn::message> done) {
        end(done, [&] {
            cairn::message mine;
            bool const short_of = rank_ == root && static_cast<int>(ms.size()) != size();
            exchange(2, short_of ? -1 : root, std::move(ms), d,
                     [&] { mine = read(root, static_cast<std::size_t>(rank_)); });
            return mine;
        });
    }
    void broadcast(cairn::message m, int root, cairn::deadline d,
                   cairn::completion<cairn::message> done) {
        end(done, [&] {
            cairn::message roots;
            exchange(3, root, {std::move(m)}, d, [&] { roots = read(root, 0); });
            return roots;
        });
    }
    void all_gather(cairn::message m, cairn::deadline d,
                    cairn::completion<std::vector<cairn::message>> done) {
        end(done, [&] {
            std::vector<cairn::message> all;
            exchange(4, 0, {std::move(m)}, d, [&] {
                for (int r = 0; r < size(); ++r) all.push_back(read(r, 0));
            });
            return all;
        });
    }
    void share(std::shared_ptr<const cairn::activity>) {}  // deadlines are never extended
    void cancel() noexcept {
        locked const lock(*this);
        fail(cairn::errc::cancelled, rank_, "rank " + std::to_string(rank_) + " cancelled");
    }

private:
    using state = shared_world::state;
    /// The state's lock, whose owner may have died.
    struct locked {
        explicit locked(const shared_ranks& r) : s(*r.w_->all_) {
            if (::pthread_mutex_lock(&s.mutex) == EOWNERDEAD) ::pthread_mutex_consistent(&s.mutex);
        }
        locked(locked&&) = delete;
        ~locked() { ::pthread_mutex_unlock(&s.mutex); }
        state& s;
    };
    shared_world::slot& me() { return w_->all_->ranks[rank_]; }

    template <class T, class F>
    static void end(cairn::completion<T>& done, F f) {
        std::optional<T> result;
        try {
            result.emplace(f());
        } catch (...) {
            return done.fail(std::current_exception());
        }
        done(std::move(*result));
    }

    /// All ranks call it, or it fails on all. `take` reads the other ranks' messages.
    template <class Take>
    void exchange(int kind, int root, const std::vector<cairn::message>& mine, cairn::deadline by,
                  Take take) {
        locked const lock(*this);
        auto& s = lock.s;
        if (root < 0 || root >= size()) {
            fail(cairn::errc::invalid_argument, rank_, "a root that is not a rank");
            throw error(cairn::errc::invalid_argument, "a root that is not a rank");
        }
        refuse_if_failed();
        wait(by, [&] { return s.to_read == 0; });  // the previous exchange
        write(mine);
        me() = {true, false, false, kind, root};
        ++s.arrived;
        for (int r = 0; r < size(); ++r)
            if (s.ranks[r].here && (s.ranks[r].kind != kind || s.ranks[r].root != root))
                fail(cairn::errc::invalid_argument, r, "ranks called different exchanges");
        refuse_if_failed();  // the last one to arrive would end the exchange
        if (s.arrived == size()) {
            s.to_read = size();
            s.arrived = 0;
            for (auto& other : s.ranks) other.here = false;
            ::pthread_cond_broadcast(&s.changed);
        }
        wait(by, [&] { return s.to_read != 0 && !me().here; });
        take();
        if (--s.to_read == 0) ::pthread_cond_broadcast(&s.changed);
    }
    template <class Done>
    void wait(cairn::deadline by, Done over) {
        using namespace std::chrono;
        auto& s = *w_->all_;
        while (!over()) {
            refuse_if_failed();
            if (by != cairn::no_deadline && steady_clock::now() >= by)
                fail(cairn::errc::timed_out, -1, absent() + " did not arrive");
            look_for_dead();
            refuse_if_failed();
            auto const until = std::min(by, steady_clock::now() + milliseconds(100));
            auto const ns = duration_cast<nanoseconds>(until.time_since_epoch()).count();
            timespec const t{static_cast<time_t>(ns / 1000000000), ns % 1000000000};
            if (::pthread_cond_timedwait(&s.changed, &s.mutex, &t) == EOWNERDEAD)
                ::pthread_mutex_consistent(&s.mutex);
        }
    }

    cairn::error error(cairn::errc code, std::string found) const {
        return {code, {.rank = rank_, .found = std::move(found), .remedy = "make a new group"}};
    }
    /// Records the first failure and wakes all waiting ranks.
    void fail(cairn::errc code, int rank, const std::string& why) noexcept {
        auto& s = *w_->all_;
        if (s.failure == 0) {
            s.failure = static_cast<int>(code);
            s.failed_rank = rank;
            std::strncpy(s.text, why.c_str(), sizeof s.text - 1);
        }
        ::pthread_cond_broadcast(&s.changed);
    }
    void refuse_if_failed() {
        auto& s = *w_->all_;
        if (s.failure == 0) return;
        auto const code = static_cast<cairn::errc>(s.failure);
        // Reports the failure now, or in the next call if this rank did not cause it.
        bool const news = me().here || (code != cairn::errc::timed_out && !me().told);
        me().here = false;
        throw error(std::exchange(me().told, true) || !news ? cairn::errc::poisoned : code, s.text);
    }
    std::string absent() const {
        std::string names;
        for (int r = 0; r < size(); ++r)
            if (!w_->all_->ranks[r].here)
                names += (names.empty() ? "rank " : ", rank ") + std::to_string(r);
        return names;
    }
    void look_for_dead() {
        for (int r = 0; r < size(); ++r) {
            auto* const alive = &w_->all_->alive[r];
            int const got = r == rank_ ? EBUSY : ::pthread_mutex_trylock(alive);
            if (got == 0) ::pthread_mutex_unlock(alive);  // it has not started
            if (got != EOWNERDEAD) continue;
            ::pthread_mutex_consistent(alive);
            fail(cairn::errc::rank_failed, r, "rank " + std::to_string(r) + " died");
        }
    }

    /// Writes the number of messages, the size of each, and then all of them.
    void write(const std::vector<cairn::message>& ms) {
        std::vector<std::uint64_t> head{ms.size()};
        for (auto const& m : ms) head.push_back(m.size());
        transfer(::pwrite, w_->boxes_[index(rank_)], head.data(), 8 * head.size(), 0);
        auto at = 8 * head.size();
        for (auto const& m : ms) {
            transfer(::pwrite, w_->boxes_[index(rank_)], m.data(), m.size(), at);
            at += m.size();
        }
    }
    cairn::message read(int from, std::size_t which) {
        int const box = w_->boxes_[index(from)];
        std::uint64_t count = 0;
        transfer(::pread, box, &count, 8, 0);
        std::vector<std::uint64_t> sizes(count);
        transfer(::pread, box, sizes.data(), 8 * count, 8);
        auto at = 8 * (1 + count);
        for (std::size_t i = 0; i < which; ++i) at += sizes[i];
        cairn::message m(sizes.at(which));
        transfer(::pread, box, m.data(), m.size(), at);
        return m;
    }
    template <class Call, class Byte>
    void transfer(Call call, int box, Byte* bytes, std::size_t n, std::uint64_t at) {
        using pointer = std::conditional_t<std::is_const_v<Byte>, const char*, char*>;
        for (auto p = reinterpret_cast<pointer>(bytes); n > 0;) {
            auto const done = call(box, p, n, static_cast<off_t>(at));
            if (done <= 0) throw error(cairn::errc::io, std::strerror(errno));
            p += done;
            n -= static_cast<std::size_t>(done);
            at += static_cast<std::uint64_t>(done);
        }
    }
    static std::size_t index(int r) { return static_cast<std::size_t>(r); }

    shared_world* w_;
    int rank_;
};
static_assert(cairn::Communicator<shared_ranks>);
static_assert(!cairn::BackgroundCommunicator<shared_ranks>);

#endif
