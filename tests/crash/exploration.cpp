// SPDX-License-Identifier: Apache-2.0
#include "exploration.hpp"

#include "recovery.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace crash {

counts& counts::operator+=(const counts& c) {
    operations += c.operations;
    points += c.points;
    states += c.states;
    distinct += c.distinct;
    kinds += c.kinds;
    recoveries += c.recoveries;
    crashed_again += c.crashed_again;
    states_again += c.states_again;
    return *this;
}
std::string counts::text() const {
    auto const n = [](std::uint64_t x) { return std::to_string(x); };
    return n(operations) + " operations, " + n(points) + " points, " + n(states) + " states, " +
           n(distinct) + " distinct; of " + n(kinds) + " kinds " + n(recoveries) +
           " recovered; of these " + n(crashed_again) + " crashed again, " + n(states_again) +
           " states";
}

namespace {

std::string open_text(const disk::units& open, const std::vector<std::size_t>& chosen) {
    std::string t;
    for (std::size_t i = 0; i < open.size(); ++i) {
        if (chosen[i] == open[i].highest) continue;
        auto const& u = open[i];
        t += "\n    old: ";
        if (u.what == disk::unit::kind::entry) t += "entry " + u.name;
        if (u.what == disk::unit::kind::size) t += "size of file " + std::to_string(u.file);
        if (u.what == disk::unit::kind::page)
            t += "page " + std::to_string(u.at) + " of file " + std::to_string(u.file);
    }
    return t;
}
std::size_t choices(const disk::units& open, std::size_t most) {
    std::size_t n = 1;
    for (auto const& u : open)
        if (n <= most) n *= u.highest - u.lowest + 1;
    return n;
}

}  // namespace

void exploration::run() {
    disk d(r_.beginning);
    int promised = r_.checkpoints.begins_empty ? -1 : 0, renamed = promised;
    counts_.operations += r_.all.size();
    auto const most = bounds_.first.all_up_to;
    for (std::size_t i = 0;; ++i) {
        // What a change leaves includes all that was possible before it.
        bool covered = false;
        if (i < r_.all.size() && !r_.all[i].changes_nothing_yet()) {
            auto next = d;
            next.apply(r_.all[i]);
            covered = choices(next.open_after(disk::every_host), most) <= most;
        }
        bool const end = i == r_.all.size();
        if (!covered)
            at_point(d, promised,
                     end ? "the end" : "call " + std::to_string(i) + ", " + r_.all[i].text());
        if (end) return recover_some();
        auto const& o = r_.all[i];
        d.apply(o);
        if (o.what == operation::kind::rename && o.new_name == ".metadata") ++renamed;
        if (o.what == operation::kind::promise) promised = renamed;
    }
}

void exploration::run_at_end(int oldest, int newest) {
    counts_.operations += r_.all.size();
    newest_ = newest;
    at_point(r_.end, oldest, "the end");
    recover_some();
}

void exploration::at_point(const disk& d, int promised, const std::string& point) {
    auto const open = d.open_after(disk::every_host);
    ++counts_.points;
    auto const seed = seed_ + counts_.points;
    for_each_choice(open, bounds_.first, seed, [&](const std::vector<std::size_t>& chosen) {
        ++counts_.states;
        auto const how = [&] { return "\n    at " + point + open_text(open, chosen); };
        try {
            look_at(d.after_crash(open, chosen), promised, how);
        } catch (const std::exception& e) {
            throw wrong(e.what() + how());
        }
        return true;
    });
}

void exploration::look_at(const image& left, int promised,
                          const std::function<std::string()>& how) {
    // What is promised decides too what may stand.
    if (!seen_.insert(left.hash() + static_cast<std::uint64_t>(promised)).second) return;
    ++counts_.distinct;
    int const standing = r_.checkpoints.standing(left, promised);
    if (standing > newest_)
        throw wrong("a checkpoint stands of which a rank was told that it failed");
    if (!keys_.insert(recovery_key(left, r_.checkpoints, standing)).second) return;
    ++counts_.kinds;
    kinds_.push_back({left, standing, how()});
}

/// As many as the bounds allow, from all points.
void exploration::recover_some() {
    auto const n = kinds_.size();
    auto const some = std::min(n, bounds_.recoveries);
    for (std::size_t i = 0; i < some; ++i) {
        auto const& k = kinds_[n - 1 - i * n / some];
        try {
            recover(k);
        } catch (const std::exception& e) {
            throw wrong(e.what() + k.how);
        }
    }
}

void exploration::recover(const kind& k) {
    ++counts_.recoveries;
    require_usable(k.left, r_.checkpoints, k.standing);
    auto const recovery = collect(k.left);
    if (counts_.crashed_again < bounds_.crashed_again) crash_recovery(recovery);
}

/// The recovery is a save like any other, which begins where the first crash has ended.
void exploration::crash_recovery(const recording& recovery) {
    ++counts_.crashed_again;
    bounds b = bounds_;
    b.first = bounds_.again;
    b.recoveries = 1;
    b.crashed_again = 0;
    exploration again(recovery, b, seed_ + 1);
    again.run();
    counts_.states_again += again.found().states;
}

}  // namespace crash
