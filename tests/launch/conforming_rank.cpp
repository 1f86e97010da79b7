// SPDX-License-Identifier: Apache-2.0
// The Communicator suite on one of a launcher's processes:  conforming_rank FAN_IN LARGEST
#include "conformance/communicator.hpp"

#include <cairn/comm/tcp_group.hpp>

#include <cstdio>
#include <cstdlib>
#include <exception>

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    cairn::tcp_options o;
    o.fan_in = std::atoi(argv[1]);
    auto const largest = static_cast<std::size_t>(std::atoll(argv[2]));
    namespace suite = cairn::conformance;
    try {
        auto group = [&] { return cairn::tcp_group::from_environment(o); };
        auto all = group(), other = group();
        suite::check_communicator(all, std::size_t{1} << 20);
        suite::check_interleaved(all, other);
        auto const sent = suite::detail::sample(all.size() - 1, 1, largest);
        auto const got = suite::detail::blocking<cairn::tcp_group>{all}.broadcast(
            all.rank() == all.size() - 1 ? sent : cairn::message(), all.size() - 1);
        suite::detail::expect(got == sent, all.rank(), "a long message");
        {
            auto broken = group();
            suite::check_wrong_root(broken);
        }
        if (all.size() > 1) {
            auto broken = group();
            suite::check_mismatch(broken);
        }
        suite::detail::blocking<cairn::tcp_group>{all}.barrier();
        std::printf("rank %d keeps its word\n", all.rank());
        return 0;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
