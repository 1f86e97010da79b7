// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CHECKPOINTER_IMPL_RENDEZVOUS_IPP
#define CAIRN_CHECKPOINTER_IMPL_RENDEZVOUS_IPP

#include <cairn/checkpointer/detail/rendezvous.hpp>

#include <cairn/detail/failures.hpp>
#include <cairn/detail/fold_failures.hpp>
#include <cairn/detail/wire.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace cairn::detail {

inline void put_failures(wire_writer& w, const std::vector<rank_failure>& failures) {
    w.varint(failures.size());
    for (auto const& f : failures) encode(w, f);
}
inline std::vector<rank_failure> get_failures(wire_reader& r) {
    std::vector<rank_failure> failures;
    for (auto n = r.count(); n-- > 0;) failures.push_back(decode_failure(r));
    return failures;
}
/// @throws error errc::corrupt for a number above the last enumerator
template <class Enum>
Enum get_enum(wire_reader& r, Enum last) {
    auto const n = r.u8();
    if (n > static_cast<std::uint8_t>(last)) wire_reader::fail("a number of no meaning");
    return static_cast<Enum>(n);
}

CAIRN_DECL std::vector<std::byte> encode(const rank_report& r) {
    wire_writer w;
    w.u8(static_cast<std::uint8_t>(r.call));
    w.svarint(r.step);
    w.u8(static_cast<std::uint8_t>(r.earlier));
    w.u8(r.heeds_signals ? 1 : 0);
    w.varint(r.signals);
    w.svarint(r.stall);
    put_failures(w, r.failures);
    w.u8(static_cast<std::uint8_t>(r.upload));
    put_failures(w, r.upload_failures);
    return w.take();
}
CAIRN_DECL rank_report decode_rank_report(std::span<const std::byte> b) {
    wire_reader r(b);
    rank_report out;
    out.call = get_enum(r, checkpointer_call::join);
    out.step = r.svarint();
    out.earlier = get_enum(r, earlier_save::writing);
    out.heeds_signals = r.u8() != 0;
    out.signals = r.varint();
    out.stall = r.svarint();
    out.failures = get_failures(r);
    out.upload = get_enum(r, earlier_save::writing);
    out.upload_failures = get_failures(r);
    return out;
}

CAIRN_DECL std::vector<std::byte> encode(const rendezvous_answer& a) {
    wire_writer w;
    w.u8(static_cast<std::uint8_t>(a.decided.what));
    w.u8(a.decided.settled ? 1 : 0);
    w.u8(a.decided.postponed ? 1 : 0);
    w.u8(a.overlapped ? 1 : 0);
    w.varint(a.signals);
    w.svarint(a.next);
    put_failures(w, a.failures);
    w.u8(a.upload ? 1 : 0);
    w.u8(static_cast<std::uint8_t>(a.uploaded));
    put_failures(w, a.upload_failures);
    w.varint(a.removed.size());
    for (auto const& id : a.removed) w.string(id);
    return w.take();
}
CAIRN_DECL rendezvous_answer decode_rendezvous_answer(std::span<const std::byte> b) {
    wire_reader r(b);
    rendezvous_answer a;
    a.decided.what = get_enum(r, checkpoint_schedule::action::fail);
    a.decided.settled = r.u8() != 0;
    a.decided.postponed = r.u8() != 0;
    a.overlapped = r.u8() != 0;
    a.signals = r.varint();
    a.next = r.svarint();
    a.failures = get_failures(r);
    a.upload = r.u8() != 0;
    a.uploaded = get_enum(r, earlier_save::failed);
    a.upload_failures = get_failures(r);
    for (auto n = r.count(); n-- > 0;) a.removed.push_back(r.string());
    return a;
}

inline std::string call_of(const rank_report& r) {
    switch (r.call) {
        case checkpointer_call::maybe_save: return "maybe_save of step " + std::to_string(r.step);
        case checkpointer_call::save_now: return "save_now of step " + std::to_string(r.step);
        case checkpointer_call::wait: return "wait";
        case checkpointer_call::load: return "load";
        case checkpointer_call::plan: return "plan";
        case checkpointer_call::latest: return "latest or load_latest";
        case checkpointer_call::join: return "replace_group, or the constructor";
    }
    return {};
}

CAIRN_DECL joint_report join_reports(const std::vector<rank_report>& reports,
                                     std::size_t coordinator) {
    auto const& first = reports.at(coordinator);
    failure_folder different, failed, not_uploaded;
    bool same = true;
    joint_report all;
    for (std::size_t r = 0; r < reports.size(); ++r) {
        auto const& one = reports[r];
        if (one.call != first.call || one.step != first.step) {
            same = false;
            different.add(
                error(errc::invalid_argument,
                      {.rank = static_cast<int>(r),
                       .expected = call_of(first) + ", as on rank " + std::to_string(coordinator),
                       .found = call_of(one),
                       .remedy = "call the members of a checkpointer in the same order, with the "
                                 "same steps, on all ranks"})
                    .as_failure(static_cast<int>(r)));
        }
        all.earlier = std::max(all.earlier, one.earlier);
        all.heeds_signals = all.heeds_signals || one.heeds_signals;
        all.signals |= one.signals;
        all.stall = std::max(all.stall, one.stall);
        for (auto const& f : one.failures) failed.add(f);
        all.upload = std::max(all.upload, one.upload);
        for (auto const& f : one.upload_failures) not_uploaded.add(f);
    }
    if (!same) throw error(different.take(), false);
    all.failures = failed.take();
    all.upload_failures = not_uploaded.take();
    return all;
}

}  // namespace cairn::detail

#endif
