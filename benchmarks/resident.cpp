// SPDX-License-Identifier: Apache-2.0
// Measures how much memory a save and a load take beyond the state itself.
//
//     resident DIR [--ranks N] [--mib M]
//
// N ranks are threads of this process; each holds M MiB, most of them in one tensor. One line of
// JSON for each case: `beyond_mib` is how many MiB more were resident at the peak than before, for
// each rank, and `state_mib` what a rank holds. The cases: a save; a load; a load that converts to
// another dtype; of a tied weight that is stored twice; of what all ranks hold, read once and
// broadcast, as it is and converted.
#include "gpt2/groups.hpp"

#include <cairn/cairn.hpp>
#include <cairn/comm/thread_group.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

/// A figure of /proc/self/status, in MiB.
double status(std::string_view name) {
    std::ifstream in("/proc/self/status");
    for (std::string line; std::getline(in, line);)
        if (line.starts_with(name)) return std::atof(line.c_str() + name.size() + 1) / 1024;
    throw std::runtime_error("/proc/self/status has no " + std::string(name));
}
/// Resets the peak.
void forget_peak() {
    std::ofstream out("/proc/self/clear_refs");
    out << "5\n";
    if (!out.flush()) throw std::runtime_error("/proc/self/clear_refs cannot be written");
}

struct arguments {
    std::string dir{};
    int ranks = 4;
    int mib = 256;
};

using ranks_of = cairn::thread_group::member;

/// Element `i` of a tensor: the same in every dtype below.
float content(std::size_t i) {
    return static_cast<float>(i % 251);
}

/// Rows of a tensor of `columns` each, of one rank or of all.
template <class T>
struct rows {
    static constexpr std::int64_t columns = 1024;

    rows(std::int64_t mine, std::int64_t first, std::int64_t all, bool filled)
        : memory(static_cast<std::size_t>(mine * columns)) {
        cairn::box const where({first, 0}, {mine, columns});
        cairn::tensor_view const v(type(), where.shape,
                                   reinterpret_cast<std::byte*>(memory.data()));
        view = {{all, columns}, type(), {cairn::shard(where, v)}};
        auto const before = static_cast<std::size_t>(first * columns);
        for (std::size_t i = 0; i < memory.size(); ++i)
            memory[i] = filled ? as_stored(content(before + i)) : T{};
    }
    static cairn::dtype type() {
        return sizeof(T) == 4 ? cairn::dtype::float32 : cairn::dtype::bfloat16;
    }
    /// Whole numbers of at most 8 bits: exact in bfloat16, whose bits are float's upper half.
    static T as_stored(float v) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, &v, sizeof bits);
        if constexpr (sizeof(T) == 4)
            return v;
        else
            return static_cast<T>(bits >> 16);
    }
    bool right(std::int64_t first) const {
        auto const before = static_cast<std::size_t>(first * columns);
        for (std::size_t i = 0; i < memory.size(); ++i)
            if (memory[i] != as_stored(content(before + i))) return false;
        return true;
    }

    std::vector<T> memory;
    cairn::sharded_view view;
};

/// Runs `f(ranks)` on each, and prints the memory that it took.
template <class Before, class F>
void measured(const char* name, const arguments& a, double state_mib, Before before, F f) {
    double start = 0, peak = 0;
    cairn::run_ranks(a.ranks, [&](ranks_of& ranks) {
        auto mine = before(ranks);
        // Runs `then()` on rank 0 while the others wait.
        auto const together = [&](auto then) {
            (void)cairn::await_completion<std::vector<cairn::message>>(
                [&](auto done) { ranks.gather({}, 0, cairn::no_deadline, std::move(done)); });
            if (ranks.rank() == 0) then();
            gpt2::wait_for_all(ranks);
        };
        together([&] {
            forget_peak();
            start = status("VmRSS:");
        });
        f(ranks, mine);
        together([&] { peak = status("VmHWM:"); });
    });
    std::printf("{\"case\": \"%s\", \"ranks\": %d, \"state_mib\": %.0f, \"beyond_mib\": %.1f}\n",
                name, a.ranks, state_mib, (peak - start) / a.ranks);
    std::fflush(stdout);
}

void run(const arguments& a) {
    auto const per_rank = std::int64_t{a.mib} * (1 << 20) / 4 / rows<float>::columns;
    auto const all = per_rank * a.ranks;
    auto const first = [&](auto& ranks) { return ranks.rank() * per_rank; };
    auto const right = [](bool ok, const char* what) {
        if (!ok) throw std::runtime_error(std::string(what) + ": what was loaded is wrong");
    };
    auto const named = [](auto& t) { return cairn::state_dict{{"weight", t.view}}; };
    auto const sharded = [&](bool filled) {
        return [&, filled](auto& r) { return rows<float>(per_rank, first(r), all, filled); };
    };
    auto const whole = [&](auto&) { return rows<float>(per_rank, 0, per_rank, false); };
    auto const by_rows = a.dir + "/by_rows", tied = a.dir + "/tied", replicated = a.dir + "/whole";

    measured("save", a, a.mib, sharded(true), [&](auto& ranks, auto& t) {
        auto sd = named(t);
        cairn::save(sd, by_rows, {}, ranks);
    });
    measured("load", a, a.mib, sharded(false), [&](auto& ranks, auto& t) {
        auto sd = named(t);
        cairn::load(sd, by_rows, {}, ranks);
        right(t.right(first(ranks)), "load");
    });
    cairn::load_options converting;
    converting.planner.dtypes = cairn::dtype_policy::convert;
    measured(
        "load, converted", a, a.mib / 2.0,
        [&](auto& ranks) { return rows<std::uint16_t>(per_rank, first(ranks), all, false); },
        [&](auto& ranks, auto& t) {
            auto sd = named(t);
            cairn::load(sd, by_rows, converting, ranks);
            right(t.right(first(ranks)), "converted");
        });
    {
        rows<float> t(per_rank, 0, per_rank, true);
        auto sd = named(t);
        cairn::save(sd, replicated);
    }
    auto once = converting;
    once.read_once_from = 0;
    auto const read_once = [&](auto& ranks, auto& t) {
        cairn::communicator_data_plane plane(ranks);
        auto sd = named(t);
        cairn::load(sd, replicated, once, ranks, plane);
        right(t.right(0), "read once");
    };
    measured("load, read once", a, a.mib, whole, read_once);
    measured(
        "load, read once, converted", a, a.mib / 2.0,
        [&](auto&) { return rows<std::uint16_t>(per_rank, 0, per_rank, false); }, read_once);
}

}  // namespace

int main(int argc, char** argv) {
    arguments a;
    for (int i = 1; i < argc; ++i) {
        std::string_view const word = argv[i];
        if (word == "--ranks" && i + 1 < argc)
            a.ranks = std::atoi(argv[++i]);
        else if (word == "--mib" && i + 1 < argc)
            a.mib = std::atoi(argv[++i]);
        else if (a.dir.empty() && !word.starts_with("--"))
            a.dir = word;
        else
            a.ranks = 0;
    }
    if (a.dir.empty() || a.ranks < 1 || a.mib < 1) {
        std::fputs("usage: resident DIR [--ranks N] [--mib M]\n", stderr);
        return 2;
    }
    try {
        run(a);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "resident: %s\n", e.what());
        return 1;
    }
}
