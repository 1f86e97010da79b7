// SPDX-License-Identifier: Apache-2.0
#include "every_order.hpp"
#include "job.hpp"
#include "simulate.hpp"
#include "small_job.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace simulation {
namespace {

/// All orders of one job with one trouble, for each event in which that may happen.
class family {
public:
    family(const small_job& first, const order_options& o) : job_(first), options_(o) {}

    /// @param most  Events of a run without trouble: no event is later.
    order_count run(const small_job::result& most) {
        auto const who = static_cast<std::size_t>(job_.who);
        switch (job_.what) {
            case trouble::none: explore(); break;
            case trouble::store_before:
            case trouble::store_after:
            case trouble::garbled:
                for (job_.at = 1; explore(); ++job_.at) ++points_;
                break;
            case trouble::cancelled:
            case trouble::dropped: explore_up_to(most.on_executor[who]); break;
            case trouble::late: explore_up_to(most.in_engine[who]); break;
            case trouble::killed:
                for (job_.then = 0; job_.then <= most.in_engine[who]; ++job_.then)
                    explore_up_to(most.on_executor[who]);
                break;
        }
        return count_;
    }
    void print() const {
        std::printf("%-20s", job_.name().c_str());
        if (job_.what != trouble::none) std::printf(" at %3d points:", points_);
        std::printf(" %llu orders of up to %zu events, ",
                    static_cast<unsigned long long>(count_.orders), longest_);
        if (options_.bound < 0)
            std::printf("all of them (%llu more cut short, as redundant)",
                        static_cast<unsigned long long>(redundant_));
        else
            std::printf("all with at most %d choices other than the first", options_.bound);
        std::printf(", %llu failures\n", static_cast<unsigned long long>(count_.failures));
        std::fflush(stdout);
    }
    /// Over all orders.
    const small_job::result& most() const { return most_; }

private:
    void explore_up_to(int last) {
        for (job_.at = 1; job_.at <= last; ++job_.at)
            if (explore()) ++points_;
    }
    /// @return Whether the trouble happened in any order.
    bool explore() {
        bool happened = false;
        every_order order(options_.bound);
        while (order.next()) {
            try {
                auto const r = job_.run(
                    order, [&] { order.freeze(); }, options_.trace);
                ++count_.orders;
                happened = happened || r.troubled;
                raise(most_.on_executor, r.on_executor);
                raise(most_.in_engine, r.in_engine);
            } catch (const redundant&) {
                ++redundant_;
            } catch (const std::exception& e) {
                ++count_.orders;
                happened = true;
                if (++count_.failures <= 20)
                    std::printf("FAILED order %s:%s: %s\n", job_.text().c_str(),
                                order.text().c_str(), e.what());
            }
            longest_ = std::max(longest_, order.events());
        }
        return happened;
    }
    static void raise(std::vector<int>& most, const std::vector<int>& seen) {
        most.resize(seen.size());
        for (std::size_t i = 0; i < seen.size(); ++i) most[i] = std::max(most[i], seen[i]);
    }

    small_job job_;
    order_options options_;
    order_count count_{};
    std::uint64_t redundant_ = 0;
    std::size_t longest_ = 0;
    int points_ = 0;
    small_job::result most_{};
};

order_count replay(const order_options& o) {
    auto const at = o.replay.rfind(':');
    require(at != std::string::npos, "an order is JOB:CHOICES");
    auto const job = small_job::parse(o.replay.substr(0, at));
    one_order order(o.replay.substr(at + 1));
    try {
        (void)job.run(
            order, [&] { order.freeze(); }, true);
        return {1, 0};
    } catch (const std::exception& e) {
        std::printf("FAILED order %s: %s\n", o.replay.c_str(), e.what());
        return {1, 1};
    }
}

}  // namespace

order_count run_orders(const order_options& o) {
    if (!o.replay.empty()) return replay(o);
    order_count all;
    small_job::result most;
    for (auto const& job : small_job::all(o.ranks)) {
        bool const wanted = job.name().starts_with(o.only);
        if (!wanted && job.what != trouble::none) continue;
        family f(job, o);
        auto const n = f.run(most);
        if (job.what == trouble::none) most = f.most();
        if (!wanted) continue;
        f.print();
        all.orders += n.orders;
        all.failures += n.failures;
    }
    return all;
}

}  // namespace simulation
