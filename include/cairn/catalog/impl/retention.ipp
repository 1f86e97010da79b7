// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_IMPL_RETENTION_IPP
#define CAIRN_CATALOG_IMPL_RETENTION_IPP

#include <cairn/catalog/retention.hpp>

#include <cairn/error.hpp>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace cairn {
namespace detail {

inline void check_rule(bool good, const char* expected, const std::string& found) {
    if (!good) throw error(errc::invalid_argument, {.expected = expected, .found = found});
}

}  // namespace detail

CAIRN_DECL retention::retention() noexcept = default;
CAIRN_DECL retention::retention(detail::keep_rule rule) {
    rules_.push_back(std::move(rule));
}
CAIRN_DECL retention::retention(const retention& other) = default;
CAIRN_DECL retention::retention(retention&& other) noexcept = default;
CAIRN_DECL retention& retention::operator=(const retention& other) = default;
CAIRN_DECL retention& retention::operator=(retention&& other) noexcept = default;
CAIRN_DECL retention::~retention() = default;

CAIRN_DECL retention operator|(retention a, const retention& b) {
    if (a.keeps_all() || b.keeps_all()) return {};
    a.rules_.insert(a.rules_.end(), b.rules_.begin(), b.rules_.end());
    return a;
}

CAIRN_DECL retention last(int count) {
    detail::check_rule(count >= 1, "last: a count of at least 1", std::to_string(count));
    return retention(detail::keep_last{static_cast<std::size_t>(count)});
}
CAIRN_DECL retention every(std::int64_t steps) {
    detail::check_rule(steps >= 1, "every: a number of steps of at least 1", std::to_string(steps));
    return retention(detail::keep_every{steps});
}
CAIRN_DECL retention best(int count, std::string metric, better which) {
    detail::check_rule(count >= 1, "best: a count of at least 1", std::to_string(count));
    detail::check_rule(!metric.empty(), "best: the name of a metric", "an empty name");
    return retention(detail::keep_best{static_cast<std::size_t>(count), std::move(metric), which});
}
CAIRN_DECL retention younger_than(std::chrono::nanoseconds age) {
    detail::check_rule(age.count() >= 0, "younger_than: a time that is not negative",
                       std::to_string(age.count()) + " ns");
    return retention(detail::keep_younger{age});
}
CAIRN_DECL retention protect(std::vector<checkpoint_id> ids) {
    return retention(detail::keep_ids{std::move(ids)});
}

namespace detail {

CAIRN_DECL bool is_older(const commit_record& a, const commit_record& b) {
    // Equal only if two jobs have saved here at one time.
    return std::tie(a.sequence, a.committed, a.save_id) <
           std::tie(b.sequence, b.committed, b.save_id);
}

/// Marks what one rule keeps.
class keeping {
public:
    /// @param all     The oldest first.
    /// @param loaded  The one that the run may have to go back to; `all.size()`: none.
    keeping(const std::vector<kept_or_not>& all, std::size_t loaded, std::vector<bool>& kept,
            std::int64_t now)
        : all_(all), loaded_(loaded), kept_(kept), now_(now) {}

    void operator()(const keep_last& r) const {
        auto left = loaded_ < all_.size() ? r.count - 1 : r.count;
        for (auto i = all_.size(); i-- > 0 && left > 0;) {
            if (i == loaded_) continue;
            kept_[i] = true;
            --left;
        }
    }
    void operator()(const keep_every& r) const {
        keep_if([&](const kept_or_not& c) { return c.record.step % r.steps == 0; });
    }
    void operator()(const keep_best& r) const {
        std::vector<std::pair<double, std::size_t>> values;
        for (std::size_t i = 0; i < all_.size(); ++i) {
            auto const it = all_[i].record.metrics.find(r.metric);
            if (it == all_[i].record.metrics.end() || std::isnan(it->second)) continue;
            values.emplace_back(r.which == better::lower ? it->second : -it->second, i);
        }
        std::sort(values.begin(), values.end(), [](auto const& a, auto const& b) {
            return a.first != b.first ? a.first < b.first : a.second > b.second;
        });
        for (std::size_t k = 0; k < std::min(r.count, values.size()); ++k)
            kept_[values[k].second] = true;
    }
    void operator()(const keep_younger& r) const {
        auto const age = std::chrono::duration_cast<std::chrono::milliseconds>(r.age).count();
        keep_if([&](const kept_or_not& c) { return c.record.committed > now_ - age; });
    }
    void operator()(const keep_ids& r) const {
        keep_if([&](const kept_or_not& c) {
            return std::find(r.ids.begin(), r.ids.end(), c.id) != r.ids.end();
        });
    }

private:
    template <class F>
    void keep_if(F&& f) const {
        for (std::size_t i = 0; i < all_.size(); ++i)
            if (f(all_[i])) kept_[i] = true;
    }

    const std::vector<kept_or_not>& all_;
    std::size_t loaded_;
    std::vector<bool>& kept_;
    std::int64_t now_;
};

/// Returns the checkpoint that was read last, of those after which the run has not yet saved
/// enough: a run that goes back reads an older one. `all.size()`: none.
inline std::size_t needed_again(const retention& keep, const std::vector<kept_or_not>& all) {
    std::size_t enough = 1;
    for (auto const& rule : keep.rules())
        if (auto const* last = std::get_if<keep_last>(&rule))
            enough = std::max(enough, last->count);
    auto last = all.size();
    for (std::size_t i = 0; i < all.size(); ++i)
        if (all[i].read != 0 && all[i].since < enough &&
            (last == all.size() || all[i].read > all[last].read))
            last = i;
    return last;
}

CAIRN_DECL std::vector<kept_or_not> not_kept(const retention& keep, std::vector<kept_or_not> all,
                                             std::int64_t now) {
    if (keep.keeps_all() || all.empty()) return {};
    std::sort(all.begin(), all.end(), [](const kept_or_not& a, const kept_or_not& b) {
        return is_older(a.record, b.record);
    });
    std::vector<bool> kept(all.size());
    auto const loaded = needed_again(keep, all);
    if (loaded < all.size()) kept[loaded] = true;
    for (auto const& rule : keep.rules()) std::visit(keeping(all, loaded, kept, now), rule);
    kept.back() = true;
    // Its number may be too low, if others commit here too, or could not be listed.
    for (std::size_t i = 0; i < all.size(); ++i)
        if (all[i].own) kept[i] = true;
    std::vector<kept_or_not> out;
    for (std::size_t i = 0; i < all.size(); ++i)
        if (!kept[i]) out.push_back(std::move(all[i]));
    return out;
}

}  // namespace detail
}  // namespace cairn

#endif
