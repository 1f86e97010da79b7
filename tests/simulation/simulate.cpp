// SPDX-License-Identifier: Apache-2.0
// Whole jobs in one thread, in simulated time, each decided by its seed.
//
//     simulate [--seeds N] [--from S] [--ranks N] [--trace]
//
// The last line is `N seeds, M failures`; a failing seed replays alone with `--from S --seeds 1`.
#include "job.hpp"

#include "support/fault_store.hpp"
#include "support/whole.hpp"

#include <cairn/object_store/memory.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace simulation {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

/// What goes wrong in a save.
enum class trouble { none, killed, hung, late, store, cancelled };
constexpr const char* names[] = {"nothing",     "a rank killed", "a rank hung",
                                 "a rank late", "the store",     "cancelled"};

struct wrong : std::runtime_error {
    using std::runtime_error::runtime_error;
};
void require(bool ok, const std::string& what) {
    if (!ok) throw wrong(what);
}

/// The version that stands at `id`: every element of it is that version's. 0: none.
int standing(const cairn::memory_store& base, int saved_by) {
    auto const w = support::load_whole(base, "c");
    float replica = 0;
    std::memcpy(&replica, w.tensors.at("replica").bytes.data(), sizeof replica);
    auto const version = static_cast<int>(replica);
    auto const& rows = w.tensors.at("rows");
    require(rows.shape == cairn::index_vector{saved_by, 4}, "rows of another shape");
    for (int i = 0; i < saved_by * 4; ++i) {
        float x = 0;
        std::memcpy(&x, rows.bytes.data() + static_cast<std::size_t>(i) * sizeof x, sizeof x);
        require(x == static_cast<float>(version * 1000 + i), "a checkpoint of two versions");
    }
    return version;
}

struct told {
    std::vector<std::shared_ptr<ending>> ends{};
    std::uint64_t trace = 0;
    bool hung = false;  ///< A rank did not end.

    bool all(const std::vector<std::size_t>& ranks, auto f) const {
        return std::all_of(ranks.begin(), ranks.end(), [&](auto r) { return f(*ends[r]); });
    }
};

struct plan {
    trouble what = trouble::none;
    int who = 0;
    world::duration when{0};
    support::fault fault{};
    bool staged = false;
};

/// All ranks save; what happens on the way is planned.
template <class Store>
told save(std::uint64_t seed, int ranks, int version, Store store, const plan& p) {
    told t;
    world w(seed);
    {
        network net(w, ranks, ranks > 64 ? 16 : 3);
        std::vector<std::unique_ptr<content>> state;
        std::vector<std::shared_ptr<rank<Store>>> all;
        cairn::save_options options;
        options.exchange_timeout = seconds(30);
        for (int r = 0; r < ranks; ++r) {
            state.push_back(std::make_unique<content>(r, ranks, version));
            all.push_back(std::make_shared<rank<Store>>(w, net, r, store));
            t.ends.push_back(all.back()->ended);
        }
        for (int r = 0; r < ranks; ++r) {
            auto const at = static_cast<std::size_t>(r);
            auto const delay = p.what == trouble::late && r == p.who ? p.when : world::duration(1);
            w.after(delay, r, [&, at] { all[at]->save(*state[at], "c", options, all[at]); });
        }
        auto const who = static_cast<std::size_t>(p.who);
        w.after(p.when, world::nobody, [&] {
            if (p.what == trouble::killed) net.kill(p.who);
            if (p.what == trouble::hung) w.hang(p.who);
            if (p.what == trouble::cancelled) all[who]->cancel();
        });
        // What is staged may change at once.
        auto const spoil = [&] {
            for (std::size_t r = 0; r < t.ends.size(); ++r)
                if (t.ends[r]->staged) std::fill(state[r]->row.begin(), state[r]->row.end(), -1.0f);
        };
        auto const over = [&] {
            spoil();
            for (int r = 0; r < ranks; ++r)
                if (!t.ends[static_cast<std::size_t>(r)]->over && !w.dead(r) && !w.hung(r))
                    return false;
            return true;
        };
        t.hung = !w.run(over, minutes(30));
        t.trace = w.trace();
        all.clear();
    }
    return t;
}

/// Other ranks load what stands, in another number.
template <class Store>
void load(std::uint64_t seed, int ranks, int saved_by, int version, Store store) {
    world w(seed);
    network net(w, ranks);
    std::vector<std::unique_ptr<content>> state;
    std::vector<std::shared_ptr<ending>> ends;
    std::vector<std::vector<float>> rows;
    for (int r = 0; r < ranks; ++r) {
        state.push_back(std::make_unique<content>(r, ranks, 0));
        auto& s = *state.back();
        // Each has its share of the columns.
        auto const from = 4 * r / ranks, to = 4 * (r + 1) / ranks;
        rows.emplace_back(static_cast<std::size_t>(saved_by * std::max(1, to - from)));
        cairn::sharded_view share{{saved_by, 4}, cairn::dtype::f32, {}};
        if (to > from) {
            auto const shape = cairn::index_vector{saved_by, to - from};
            share.shards.emplace_back(
                cairn::box({0, from}, shape),
                cairn::tensor_view(cairn::dtype::f32, shape, rows.back().data()));
        }
        s.state["rows"] = share;
        auto const one = std::make_shared<rank<Store>>(w, net, r, store);
        ends.push_back(one->ended);
        one->load(s, "c", {}, one);
    }
    bool const ended = w.run(
        [&] { return std::all_of(ends.begin(), ends.end(), [](auto& e) { return e->over; }); },
        minutes(30));
    require(ended, "a load hangs");
    for (int r = 0; r < ranks; ++r) {
        auto const at = static_cast<std::size_t>(r);
        require(!ends[at]->failure, "a load fails: " + ends[at]->text());
        require(state[at]->step == version, "a value of another version");
        require(state[at]->replica.back() == static_cast<float>(version), "a replica of another");
        auto const from = 4 * r / ranks, to = 4 * (r + 1) / ranks;
        for (int i = 0; i < saved_by; ++i)
            for (int k = from; k < to; ++k)
                require(rows[at][static_cast<std::size_t>(i * (to - from) + k - from)] ==
                            static_cast<float>(version * 1000 + i * 4 + k),
                        "an element of another version");
    }
}

/// One seed: a checkpoint, a save over it that meets trouble, and one that does not.
std::uint64_t run(std::uint64_t seed, int ranks, bool trace) {
    std::mt19937_64 chance(seed);
    auto const below = [&](std::uint64_t n) { return chance() % n; };
    if (ranks == 0)
        ranks = static_cast<int>(below(10) != 0   ? 2 + below(7)
                                 : below(20) != 0 ? 9 + below(24)
                                                  : 33 + below(32));
    cairn::memory_store base;
    auto const n = static_cast<std::size_t>(ranks);
    std::vector<std::size_t> everyone(n);
    for (std::size_t r = 0; r < n; ++r) everyone[r] = r;

    auto t = save(chance(), ranks, 1, base, {});
    require(!t.hung && t.all(everyone, [](auto& e) { return e.over && !e.failure; }),
            "a save without trouble fails: " + t.ends[0]->text());
    require(standing(base, ranks) == 1, "not what was saved");
    require(base.at("c").list().size() == n + 1, "leftovers of a save without trouble");

    plan p;
    p.what = static_cast<trouble>(below(std::size(names)));
    p.who = static_cast<int>(below(n));
    // A save takes about 10 ms.
    p.when = microseconds(below(below(4) != 0 ? 12'000 : 40'000));
    if (p.what == trouble::late) p.when = milliseconds(below(40'000));
    if (p.what == trouble::store)
        p.fault = {static_cast<int>(below(n * 8 + 30)), support::all_thrown[below(4)],
                   below(2) == 0};
    if (trace) {
        std::printf(
            "seed %llu: %d ranks, %s (rank %d at %lld us, operation %d)\n",
            static_cast<unsigned long long>(seed), ranks, names[static_cast<std::size_t>(p.what)],
            p.who, static_cast<long long>(std::chrono::duration_cast<microseconds>(p.when).count()),
            p.fault.at);
    }
    t = save(chance(), ranks, 2, support::fault_store(base, p.fault), p);
    if (trace)
        for (std::size_t r = 0; r < n; ++r)
            std::printf("  rank %zu: %s\n", r,
                        t.ends[r]->over ? t.ends[r]->text().c_str() : "never ended");
    require(!t.hung, "a save hangs");

    auto const now = standing(base, ranks);
    require(now == 1 || now == 2, "neither the old checkpoint nor the new one");
    bool any_success = false, all_cancelled = true;
    for (auto const& e : t.ends) {
        if (!e->over) continue;
        any_success = any_success || !e->failure;
        all_cancelled = all_cancelled && e->code() == make_error_code(cairn::errc::cancelled);
        bool const unknown = e->code() == make_error_code(cairn::errc::outcome_unknown);
        if (!e->failure) require(now == 2, "success, but the old checkpoint stands");
        if (e->failure && !unknown)
            require(now == 1, "a failure, but the new checkpoint stands: " + e->text());
    }
    bool const gone = p.what == trouble::killed || p.what == trouble::hung;
    if (p.what == trouble::none) require(any_success, "a save without trouble fails");
    if (p.what == trouble::cancelled) {
        require(any_success || all_cancelled, "cancelled on some ranks only");
        require(base.at("c").list().size() == n + 1, "leftovers of a cancelled save");
    }
    if (p.what == trouble::late && p.when < seconds(29))
        require(any_success, "a rank that was a little late: " + t.ends[0]->text());
    auto const trace_of_it = t.trace;

    // The next save needs no help.
    t = save(chance(), ranks, 3, base, {});
    require(!t.hung && t.all(everyone, [](auto& e) { return e.over && !e.failure; }),
            "the next save fails: " + t.ends[0]->text());
    require(standing(base, ranks) == 3, "the next save is not what stands");
    if (!gone && p.what != trouble::store)
        require(base.at("c").list().size() == n + 1, "leftovers after the next save");
    load(chance(), static_cast<int>(1 + below(6)), ranks, 3, base);
    return trace_of_it;
}

int main_of(int argc, char** argv) {
    std::uint64_t seeds = 100, from = 1;
    int ranks = 0;
    bool trace = false;
    for (int i = 1; i < argc; ++i) {
        std::string_view const a = argv[i];
        auto const number = [&] {
            return i + 1 < argc ? std::strtoull(argv[++i], nullptr, 10) : 0;
        };
        if (a == "--seeds")
            seeds = number();
        else if (a == "--from")
            from = number();
        else if (a == "--ranks")
            ranks = static_cast<int>(number());
        else if (a == "--trace")
            trace = true;
        else
            return std::fprintf(stderr, "simulate [--seeds N] [--from S] [--ranks N] [--trace]\n"),
                   2;
    }
    std::uint64_t failures = 0;
    for (auto seed = from; seed != from + seeds; ++seed) {
        try {
            auto const first = run(seed, ranks, trace);
            // A seed replays: the same events in the same order.
            if (seed == from)
                require(run(seed, ranks, false) == first, "a seed that does not replay");
        } catch (const std::exception& e) {
            ++failures;
            std::printf("FAILED seed %llu: %s\n", static_cast<unsigned long long>(seed), e.what());
        }
    }
    std::printf("%llu seeds, %llu failures\n", static_cast<unsigned long long>(seeds),
                static_cast<unsigned long long>(failures));
    return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace simulation

int main(int argc, char** argv) {
    return simulation::main_of(argc, argv);
}
