// SPDX-License-Identifier: Apache-2.0
// The Communicator suite on one of a launcher's processes:  conforming_rank FAN_IN LARGEST
#include <cairn/comm/tcp_group.hpp>
#include <cairn/testing/communicator.hpp>

#include <cstdio>
#include <cstdlib>
#include <exception>

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    cairn::tcp_options o;
    o.fan_in = std::atoi(argv[1]);
    auto const largest = static_cast<std::size_t>(std::atoll(argv[2]));
    namespace suite = cairn::testing;
    try {
        // Also one after the other: the launcher's address serves them all.
        auto all = cairn::tcp_group::from_environment(o);
        auto other = cairn::tcp_group::from_environment(o);
        suite::check_interleaved(all, other);
        auto const sent = suite::detail::sample(all.size() - 1, 1, largest);
        auto const got = suite::detail::blocking<cairn::tcp_group>{all}.broadcast(
            all.rank() == all.size() - 1 ? sent : cairn::message(), all.size() - 1);
        suite::detail::expect(got == sent, all.rank(), "a long message");
        auto const failures = suite::communicator_suite([&] {
            return cairn::await_completion<cairn::tcp_group>(
                [&](auto done) { all.duplicate(cairn::no_deadline, std::move(done)); });
        });
        for (auto const& f : failures) std::fprintf(stderr, "%s\n", f.c_str());
        if (!failures.empty()) return 1;
        std::printf("rank %d keeps its word\n", all.rank());
        return 0;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
