// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CHECKPOINTER_DETAIL_RENDEZVOUS_HPP
#define CAIRN_CHECKPOINTER_DETAIL_RENDEZVOUS_HPP

#include <cairn/checkpointer/detail/schedule.hpp>
#include <cairn/checkpointer/detail/signal_watch.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cairn::detail {

/// The call of a checkpointer that meets the other ranks: the same on all of them.
enum class checkpointer_call : std::uint8_t {
    maybe_save,
    save_now,
    wait,
    load,
    plan,
    latest,
    join
};

/// The message of a rank at a rendezvous.
struct rank_report {
    checkpointer_call call = checkpointer_call::maybe_save;
    std::int64_t step = 0;
    earlier_save earlier = earlier_save::none;
    bool heeds_signals = false;
    signal_set signals = 0;
    std::int64_t stall = 0;  ///< Of the earlier save on this rank, in ns, if it was overlapped.
    std::vector<rank_failure> failures{};         ///< Of the earlier save, if it failed here.
    earlier_save upload = earlier_save::none;     ///< The oldest one that is not settled, …
    std::vector<rank_failure> upload_failures{};  ///< … and why it has failed here.
};
CAIRN_DECL std::vector<std::byte> encode(const rank_report& r);
CAIRN_DECL rank_report decode_rank_report(std::span<const std::byte> b);

/// The coordinator's answer to all ranks.
struct rendezvous_answer {
    checkpoint_schedule::decision decided{};
    bool overlapped = false;  ///< The call returns before the copies are complete.
    signal_set signals = 0;   ///< That have asked for the save, if there is one.
    std::int64_t next = checkpoint_schedule::next_call;
    std::vector<rank_failure> failures{};        ///< Of the earlier save, if `decided` is to fail.
    bool upload = false;                         ///< The save that is decided on is to be uploaded.
    earlier_save uploaded = earlier_save::none;  ///< How the oldest upload has ended.
    std::vector<rank_failure> upload_failures{};  ///< Why it has failed.
    std::vector<std::string> removed{};  ///< Saves whose checkpoints the coordinator has removed.
};
CAIRN_DECL std::vector<std::byte> encode(const rendezvous_answer& a);
CAIRN_DECL rendezvous_answer decode_rendezvous_answer(std::span<const std::byte> b);

/// The messages of all ranks, joined.
struct joint_report {
    earlier_save earlier = earlier_save::none;
    bool heeds_signals = false;
    signal_set signals = 0;
    std::int64_t stall = 0;  ///< The longest.
    std::vector<rank_failure> failures{};
    earlier_save upload = earlier_save::none;
    std::vector<rank_failure> upload_failures{};
};
/// @param reports  In rank order.
/// @throws error errc::invalid_argument with each rank that makes another call, or the same with
/// another step, than the coordinator
CAIRN_DECL joint_report join_reports(const std::vector<rank_report>& reports,
                                     std::size_t coordinator);

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/checkpointer/impl/rendezvous.ipp>
#endif

#endif
