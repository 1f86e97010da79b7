// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_MEDDLING_GROUP_HPP
#define CAIRN_TEST_SUPPORT_MEDDLING_GROUP_HPP

#include <cairn/comm/thread_group.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace support {

/// A member of a group of threads between which and its rank somebody stands.
class meddling_group {
public:
    /// Called with the exchange's number, from 0, and what this rank was sent in it; what it throws
    /// is all that the rank hears, though the others took part with it.
    using hook = std::function<void(int, std::vector<cairn::message>&)>;

    meddling_group(cairn::thread_group::member& me, hook received)
        : me_(&me), received_(std::move(received)) {}
    int rank() const { return me_->rank(); }
    int size() const { return me_->size(); }
    void gather(cairn::message m, int root, cairn::deadline d,
                cairn::completion<std::vector<cairn::message>> done) {
        me_->gather(std::move(m), root, d, seen(std::move(done)));
    }
    void scatter(std::vector<cairn::message> ms, int root, cairn::deadline d,
                 cairn::completion<cairn::message> done) {
        me_->scatter(std::move(ms), root, d, seen(std::move(done)));
    }
    void broadcast(cairn::message m, int root, cairn::deadline d,
                   cairn::completion<cairn::message> done) {
        me_->broadcast(std::move(m), root, d, seen(std::move(done)));
    }
    void all_gather(cairn::message m, cairn::deadline d,
                    cairn::completion<std::vector<cairn::message>> done) {
        me_->all_gather(std::move(m), d, seen(std::move(done)));
    }
    void share(std::shared_ptr<const cairn::activity> a) { me_->share(std::move(a)); }
    void cancel() noexcept { me_->cancel(); }

private:
    template <class T>
    cairn::completion<T> seen(cairn::completion<T> done) {
        auto const to = std::make_shared<cairn::completion<T>>(std::move(done));
        return cairn::completion<T>(
            [to, n = n_++, f = received_](std::exception_ptr e, std::optional<T> r) {
                if (e) return to->fail(e);
                try {
                    if constexpr (std::is_same_v<T, cairn::message>) {
                        std::vector<cairn::message> one{std::move(*r)};
                        f(n, one);
                        r = std::move(one[0]);
                    } else {
                        f(n, *r);
                    }
                } catch (...) {
                    return to->fail(std::current_exception());
                }
                (*to)(std::move(*r));
            });
    }
    cairn::thread_group::member* me_;
    hook received_;
    int n_ = 0;
};
static_assert(cairn::Communicator<meddling_group>);

/// What one rank was told.
struct told {
    std::optional<cairn::error> e{};
    bool raw = false;  ///< Something else than a cairn::error came through.

    bool ok() const { return !e && !raw; }
    bool is(cairn::errc c) const { return e && e->code() == make_error_code(c); }
};
inline std::string words(const std::vector<told>& all) {
    std::string s;
    for (auto const& t : all) s += "\n  " + (t.e ? t.e->what() : t.raw ? "RAW" : std::string("ok"));
    return s;
}

/// Runs `f(member, rank)` on threads. Nobody leaves the group before all have ended, so that a rank
/// that ends early is waited for, as where ranks are processes.
template <class F>
std::vector<told> on_ranks_that_stay(int n, F&& f) {
    cairn::thread_group group(n);
    std::vector<told> out(static_cast<std::size_t>(n));
    std::vector<cairn::thread_group::member> members;
    for (int r = 0; r < n; ++r) members.push_back(group.rank(r));
    std::vector<std::thread> threads;
    for (std::size_t r = 0; r < members.size(); ++r) {
        threads.emplace_back([&, r] {
            try {
                f(members[r], static_cast<int>(r));
            } catch (const cairn::error& e) {
                out[r].e = e;
            } catch (...) {
                out[r].raw = true;
            }
        });
    }
    for (auto& t : threads) t.join();
    return out;
}

}  // namespace support

#endif
