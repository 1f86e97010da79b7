// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTING_DETAIL_RANKS_HPP
#define CAIRN_TESTING_DETAIL_RANKS_HPP

#include <cairn/comm/concepts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace cairn::testing::detail {

/// The operations of one rank, as blocking calls.
template <Communicator Comm>
struct blocking {
    Comm& c;
    deadline by = no_deadline;

    std::vector<message> gather(message m, int root) {
        return await_completion<std::vector<message>>(
            [&](auto done) { c.gather(std::move(m), root, by, std::move(done)); });
    }
    message scatter(std::vector<message> ms, int root) {
        return await_completion<message>(
            [&](auto done) { c.scatter(std::move(ms), root, by, std::move(done)); });
    }
    message broadcast(message m, int root) {
        return await_completion<message>(
            [&](auto done) { c.broadcast(std::move(m), root, by, std::move(done)); });
    }
    std::vector<message> all_gather(message m) {
        return await_completion<std::vector<message>>(
            [&](auto done) { c.all_gather(std::move(m), by, std::move(done)); });
    }
    /// An empty broadcast: returns on no rank before all have called it.
    void meet() { (void)broadcast({}, 0); }
};

/// A message that another thread may deliver.
class pending_message {
public:
    cairn::completion<message> completion() {
        return cairn::completion<message>([this](std::exception_ptr e, std::optional<message> m) {
            if (e)
                result_.set_exception(std::move(e));
            else
                result_.set_value(std::move(*m));
        });
    }
    message wait() { return result_.get_future().get(); }

private:
    std::promise<message> result_{};
};

inline void expect(bool ok, int rank, const std::string& what) {
    if (!ok) throw std::runtime_error("rank " + std::to_string(rank) + ": " + what);
}

/// Bytes that identify their sender and round.
inline message sample(int rank, int round, std::size_t size) {
    constexpr std::size_t period = 65536;
    message m(size);
    for (std::size_t i = 0; i < size && i < period; ++i)
        m[i] = static_cast<std::byte>(static_cast<std::size_t>(rank * 7 + round) + i + i / 256);
    for (std::size_t have = period; have < size; have *= 2)
        std::memcpy(m.data() + have, m.data(), std::min(have, size - have));
    return m;
}

/// Returns the code of the error that `f` throws; no error if it throws none.
template <class F>
error_code code_of(F&& f, std::string* text = nullptr) {
    try {
        f();
    } catch (const error& e) {
        if (text != nullptr) *text = e.what();
        return e.code();
    }
    return {};
}

}  // namespace cairn::testing::detail

#endif
