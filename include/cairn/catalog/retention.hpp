// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_RETENTION_HPP
#define CAIRN_CATALOG_RETENTION_HPP

#include <cairn/detail/config.hpp>
#include <cairn/metadata/commit_record.hpp>
#include <cairn/storage/concepts.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace cairn {

/// Which of two values of a metric is better.
enum class better : std::uint8_t { lower, higher };

namespace detail {

struct keep_last {
    std::size_t count;
};
struct keep_every {
    std::int64_t steps;
};
struct keep_best {
    std::size_t count;
    std::string metric;
    better which;
};
struct keep_younger {
    std::chrono::nanoseconds age;
};
struct keep_ids {
    std::vector<checkpoint_id> ids;
};
using keep_rule = std::variant<keep_last, keep_every, keep_best, keep_younger, keep_ids>;

}  // namespace detail

/// Rules that say which checkpoints of a directory or store are kept. Made by @ref last, @ref
/// every, @ref best, @ref younger_than and @ref protect, and combined with `|`: what any rule keeps
/// is kept. By default all are.
///
/// Whatever the rules, the newest checkpoint is kept. So is the last checkpoint that this run has
/// read while the process that coordinates now did, until it has saved `n` complete ones after it:
/// it counts as one of the `last(n)`, where `n` is 1 without that rule. *Newest* is by the order of
/// commits, not by times, nor by steps, which go back if training does.
class retention {
public:
    retention() noexcept;
    CAIRN_DECL explicit retention(detail::keep_rule rule);
    retention(const retention& other);
    retention(retention&& other) noexcept;
    retention& operator=(const retention& other);
    retention& operator=(retention&& other) noexcept;
    ~retention();

    bool keeps_all() const noexcept { return rules_.empty(); }
    const std::vector<detail::keep_rule>& rules() const noexcept { return rules_; }

    CAIRN_DECL friend retention operator|(retention a, const retention& b);

private:
    std::vector<detail::keep_rule> rules_{};
};

/// Keeps the `count` newest checkpoints.
/// @throws error errc::invalid_argument for less than one
CAIRN_DECL retention last(int count);
/// Keeps each checkpoint whose step is a multiple of `steps`.
/// @throws error errc::invalid_argument for less than one
CAIRN_DECL retention every(std::int64_t steps);
/// Keeps the `count` best checkpoints by a metric that was passed when they were saved
/// (`save_notes`). Those without it, or with a NaN, are not among the best; of equal ones, the
/// newer.
/// @throws error errc::invalid_argument for a count of less than one, or an empty name
CAIRN_DECL retention best(int count, std::string metric, better which = better::lower);
/// Keeps checkpoints that were committed less than this time ago, by the coordinator's clock.
/// @throws error errc::invalid_argument for a negative time
CAIRN_DECL retention younger_than(std::chrono::nanoseconds age);
/// Keeps these checkpoints. An id may be written in any way that names the place: `step_3`,
/// `./step_3`, its path, a link to it, what `latest` returns. An id that names none is a warning of
/// one save; the checkpoint is kept once it is saved.
CAIRN_DECL retention protect(std::vector<checkpoint_id> ids);

namespace detail {

/// A checkpoint that a rule may keep.
struct kept_or_not {
    checkpoint_id id{};
    commit_record record{};
    std::size_t read = 0;   ///< Its position among this run's successful reads; 0: none …
    std::size_t since = 0;  ///< … and in how many places later saves have been complete since.
    bool own = false;       ///< Of the current save, or held: never removed.
};

/// Whether the commit of `a` is older.
CAIRN_DECL bool is_older(const commit_record& a, const commit_record& b);

/// Returns the checkpoints that no rule keeps, the oldest first. Pure.
/// @param now  Milliseconds since 1970.
CAIRN_DECL std::vector<kept_or_not> not_kept(const retention& keep, std::vector<kept_or_not> all,
                                             std::int64_t now);

}  // namespace detail
}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/catalog/impl/retention.ipp>
#endif

#endif
