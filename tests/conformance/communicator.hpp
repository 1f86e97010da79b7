// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_CONFORMANCE_COMMUNICATOR_HPP
#define CAIRN_TEST_CONFORMANCE_COMMUNICATOR_HPP

#include <cairn/comm/concepts.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace cairn::conformance {

/// What a Communicator promises beyond its syntax, run by every rank of a group at once. Throws
/// std::runtime_error on the rank that saw a promise broken.
template <Communicator Comm>
void check_communicator(Comm& c) {
    int const me = c.rank(), n = c.size();
    auto const expect = [&](bool ok, const char* what) {
        if (!ok) throw std::runtime_error("rank " + std::to_string(me) + ": " + what);
    };
    auto const bytes_of = [](int rank, int round, std::size_t size) {
        message m(size);
        for (std::size_t i = 0; i < size; ++i)
            m[i] = static_cast<std::byte>(static_cast<std::size_t>(rank * 7 + round) + i);
        return m;
    };
    expect(me >= 0 && me < n, "a rank outside of the group");
    for (int round = 0; round < 20; ++round) {
        int const root = round % n;
        std::size_t const size =
            round == 7 ? std::size_t{3} << 20 : static_cast<std::size_t>(round * 97);
        auto const gathered = await_completion<std::vector<message>>([&](auto done) {
            c.gather(bytes_of(me, round, size), root, no_deadline, std::move(done));
        });
        expect(gathered.size() == (me == root ? static_cast<std::size_t>(n) : 0u),
               "gather: a wrong number");
        for (std::size_t r = 0; r < gathered.size(); ++r)
            expect(gathered[r] == bytes_of(static_cast<int>(r), round, size),
                   "gather: wrong bytes");

        std::vector<message> out;
        if (me == root)
            for (int r = 0; r < n; ++r) out.push_back(bytes_of(r, round + 1, size));
        expect(await_completion<message>([&](auto done) {
                   c.scatter(std::move(out), root, no_deadline, std::move(done));
               }) == bytes_of(me, round + 1, size),
               "scatter: wrong bytes");
        expect(await_completion<message>([&](auto done) {
                   c.broadcast(bytes_of(me, round, size), root, no_deadline, std::move(done));
               }) == bytes_of(root, round, size),
               "broadcast: wrong bytes");
        auto const all = await_completion<std::vector<message>>(
            [&](auto done) { c.all_gather(bytes_of(me, round, 5), no_deadline, std::move(done)); });
        expect(all.size() == static_cast<std::size_t>(n), "all_gather: a wrong number");
        for (int r = 0; r < n; ++r)
            expect(all[static_cast<std::size_t>(r)] == bytes_of(r, round, 5),
                   "all_gather: wrong bytes");
        (void)await_completion<done_t>([&](auto done) { c.barrier(no_deadline, std::move(done)); });
    }
    bool refused = false;
    try {
        (void)await_completion<message>(
            [&](auto done) { c.broadcast({}, n, no_deadline, std::move(done)); });
    } catch (const error& e) {
        refused = e.code() == make_error_code(errc::invalid_argument);
    }
    expect(refused, "a root outside of the group is not refused");
}

}  // namespace cairn::conformance

#endif
