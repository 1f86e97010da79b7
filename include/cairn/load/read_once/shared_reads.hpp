// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_READ_ONCE_SHARED_READS_HPP
#define CAIRN_LOAD_READ_ONCE_SHARED_READS_HPP

#include <cairn/load/read_once/shared_items.hpp>
#include <cairn/planner/item_bytes.hpp>
#include <cairn/planner/report.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace cairn::detail {

/// A part that all ranks of a data plane need, on one of them.
struct shared_part {
    std::vector<std::uint32_t> items{};  ///< Items of the finished plan that need it.
    index_vector shape{};
    dtype type = dtype::float32;
    std::uint64_t bytes = 0;
    int reader = 0;  ///< A rank of the plane.
    sharing how = sharing::once;
    /// Open windows: on the reader, from when it has read them until they have been sent.
    std::vector<std::pair<read_item, tensor_view>> held{};
    bool again = false;  ///< Its reader has not kept it, and reads it again as it is sent.
};

/// Determines what one rank reads and sends in each turn: all ranks take the same turns, decided
/// from what the coordinator sent and all have agreed on. No I/O.
class shared_reads {
public:
    /// So many bytes are kept beside the state as they are stored until they are sent.
    static constexpr std::uint64_t most_kept_bytes = std::uint64_t{32} << 20;

    /// Read, broadcast, read the rest, broadcast the rest; empty turns are skipped.
    enum class turn { read, broadcast, read_rest, broadcast_rest, over };
    /// What each rank measures.
    enum trial { each_read, once_read, once_sent };
    using times = std::array<std::chrono::microseconds, 3>;
    /// Bytes covered by the trials in which every rank reads, and in which one rank does.
    using tries = std::array<std::uint64_t, 2>;

    turn current() const noexcept { return turn_; }
    /// Whether no turn follows this one.
    bool last() const { return after(turn_) == turn::over; }
    bool none() const noexcept { return parts_.empty(); }
    times& spent() noexcept { return spent_; }

    /// Called when the coordinator's plan has arrived.
    /// @param rank  On the data plane.
    /// @throws error errc::corrupt for parts that are not in `m`
    void reset(shared_plan shared, const load_plan& sent, const metadata& m, int rank) {
        parts_.clear();
        by_part_.clear();
        spent_ = slowest_ = {};
        report_ = {};
        tried_ = {};
        kept_ = rest_bytes_ = 0;
        once_ = shared.once;
        later_ = shared.later;
        rank_ = rank;
        turn_ = turn::read;
        rest_once_ = false;
        report_.shared_bytes = shared.bytes;
        for (auto const& s : shared.items) {
            auto const& item = sent.items[s.item];
            shared_part p;
            p.bytes = bytes_of(item, m);
            if (p.bytes == 0) wire_reader::fail("a shared part that the checkpoint does not have");
            p.shape = item.shape;
            p.type = m.tensor(item.fqn)->type;
            p.reader = static_cast<int>(s.reader);
            p.how = s.how;
            if (p.how == sharing::later && p.reader == rank_) rest_bytes_ += p.bytes;
            if (!by_part_.emplace(wanted_part::of(item), parts_.size()).second)
                wire_reader::fail("a shared part twice");
            parts_.push_back(std::move(p));
        }
    }
    /// Called with the planner's final plan.
    /// @return Indices of the parts that the plan no longer needs.
    std::vector<std::uint32_t> match(const load_plan& finished) {
        for (std::uint32_t i = 0; i < finished.items.size(); ++i)
            if (auto* p = find(finished.items[i])) p->items.push_back(i);
        std::vector<std::uint32_t> lacking;
        for (std::uint32_t k = 0; k < parts_.size(); ++k)
            if (parts_[k].items.empty()) lacking.push_back(k);
        return lacking;
    }
    /// Parts that some rank of the plane no longer needs are read by each rank itself.
    void drop(const std::vector<std::uint32_t>& parts) {
        for (auto k : parts)
            if (k < parts_.size()) parts_[k].items.clear();
        std::erase_if(by_part_, [this](auto const& e) { return parts_[e.second].items.empty(); });
        if (by_part_.empty()) parts_.clear();
    }

    /// Whether all ranks of the data plane need what an item reads.
    bool has(const read_item& i) const { return find(i) != nullptr; }
    /// Items that no other rank needs, or that are not read once.
    load_plan own_items(const load_plan& plan) const {
        return filtered(plan, [this](const read_item& i) { return find(i) == nullptr; });
    }
    /// Shared items that every rank reads in this turn.
    load_plan each_items(const load_plan& plan) const {
        return filtered(plan, [this](const read_item& i) {
            auto const* p = find(i);
            return p != nullptr && in_turn(*p) && !is_sent(*p);
        });
    }
    /// Items that this rank reads for all in this turn.
    load_plan items_for_all(const load_plan& plan) const {
        return filtered(plan, [this](const read_item& i) {
            auto const* p = find(i);
            return p != nullptr && in_turn(*p) && is_sent(*p) && p->reader == rank_;
        });
    }
    /// Whether `hold` will keep the item. Thread-safe.
    bool will_hold(const read_item& i) const {
        auto const* p = find(i);
        return p != nullptr && is_sent(*p) && !p->again;
    }
    /// Whether this rank keeps what it reads for all in memory beside the state, because it
    /// converts it for itself. From then on `hold` refuses an item that it does not keep. If it
    /// cannot keep what comes later, it keeps nothing of the trial, which would mislead otherwise.
    /// Thread-safe, for different items.
    /// @pre will_hold(i)
    bool keep_beside(const read_item& i) {
        auto* p = find(i);
        if (p->items.size() != 1) return true;
        std::lock_guard const lock(m_);
        auto const to_keep =
            turn_ == turn::read ? std::max(rest_bytes_, kept_ + p->bytes) : kept_ + p->bytes;
        p->again = to_keep > most_kept_bytes;
        if (!p->again) kept_ += p->bytes;
        return !p->again;
    }
    /// Keeps data read for all until it has been sent. Thread-safe.
    /// @return Whether the item is shared.
    bool hold(const read_item& i, const tensor_view& v) {
        if (!will_hold(i)) return false;
        auto* p = find(i);
        std::lock_guard const lock(m_);
        p->held.emplace_back(i, v);
        return true;
    }
    /// Returns the parts broadcast in this turn, in the same order on all ranks.
    std::vector<shared_part*> to_send() {
        std::vector<shared_part*> out;
        for (auto& p : parts_)
            if (!p.items.empty() && in_turn(p) && is_sent(p)) out.push_back(&p);
        return out;
    }

    /// Returns this rank's message to the others: its plane's bytes, if it is the plane's rank 0.
    tries tried() const {
        tries bytes{};
        for (auto const& p : parts_)
            if (rank_ == 0 && !p.items.empty() && p.how != sharing::later)
                bytes[p.how == sharing::once] += p.bytes;
        return bytes;
    }
    /// Processes the times and bytes of any rank of any plane, so that all ranks decide alike.
    void learn(const times& t, const tries& bytes) {
        for (std::size_t k = 0; k < t.size(); ++k) slowest_[k] = std::max(slowest_[k], t[k]);
        for (std::size_t k = 0; k < bytes.size(); ++k) tried_[k] += bytes[k];
    }
    /// Called when all ranks have completed this turn and their messages were processed.
    /// @return Whether there is another turn.
    bool advance() {
        if (turn_ == turn::broadcast || turn_ == turn::broadcast_rest)
            for (auto const* p : to_send()) report_.once_bytes += p->bytes;
        if (turn_ == turn::broadcast && later_) decide();
        tried_ = {};
        kept_ = 0;
        turn_ = after(turn_);
        return turn_ != turn::over;
    }
    const read_once_report& report() const noexcept { return report_; }

private:
    template <class Keep>
    static load_plan filtered(const load_plan& plan, Keep keep) {
        load_plan out;
        out.storage_data = plan.storage_data;
        for (auto const& i : plan.items)
            if (keep(i)) out.items.push_back(i);
        return out;
    }
    shared_part* find(const read_item& i) {
        return const_cast<shared_part*>(std::as_const(*this).find(i));
    }
    const shared_part* find(const read_item& i) const {
        if (i.kind == item_kind::value || by_part_.empty()) return nullptr;
        auto const it = by_part_.find(wanted_part::of(i));
        return it == by_part_.end() ? nullptr : &parts_[it->second];
    }
    bool in_turn(const shared_part& p) const {
        bool const rest = turn_ == turn::read_rest || turn_ == turn::broadcast_rest;
        return rest == (p.how == sharing::later);
    }
    bool is_sent(const shared_part& p) const {
        return p.how == sharing::once || (p.how == sharing::later && rest_once_);
    }
    turn after(turn t) const {
        if (t == turn::read && once_) return turn::broadcast;
        if ((t == turn::read || t == turn::broadcast) && later_) return turn::read_rest;
        if (t == turn::read_rest && rest_once_) return turn::broadcast_rest;
        return turn::over;
    }
    void decide() {
        auto const rate = [](std::uint64_t n, std::chrono::microseconds t) {
            return static_cast<double>(n) * 1e6 /
                   static_cast<double>(std::max<std::int64_t>(1, t.count()));
        };
        report_.measured = true;
        report_.each_rate = rate(tried_[0], slowest_[each_read]);
        report_.once_rate = rate(tried_[1], slowest_[once_read] + slowest_[once_sent]);
        rest_once_ = report_.once_rate > report_.each_rate;
    }

    int rank_ = 0;
    turn turn_ = turn::read;
    bool once_ = false, later_ = false;
    bool rest_once_ = false;
    std::vector<shared_part> parts_{};
    std::map<wanted_part, std::size_t> by_part_{};
    times spent_{}, slowest_{};
    tries tried_{};
    read_once_report report_{};
    std::mutex m_{};
    std::uint64_t kept_ = 0;        ///< Beside the state, in this turn and the one before.
    std::uint64_t rest_bytes_ = 0;  ///< Of parts that this rank may read later.
};

}  // namespace cairn::detail

#endif
