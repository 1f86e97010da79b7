// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_DETAIL_READ_ONCE_SHARED_READS_HPP
#define CAIRN_LOAD_DETAIL_READ_ONCE_SHARED_READS_HPP

#include <cairn/load/detail/read_once/shared_items.hpp>
#include <cairn/planner/detail/item_bytes.hpp>
#include <cairn/planner/report.hpp>

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
    /// Open windows: on the reader, from when it has read them until they have been sent.
    std::vector<std::pair<read_item, tensor_view>> held{};
    bool again = false;  ///< Its reader has not kept it, and reads it again to send it.
};

/// Determines what one rank reads and sends in each turn: all ranks take the same turns, decided
/// from what the coordinator sent and all have agreed on. No I/O.
class shared_reads {
public:
    /// The maximum number of bytes that are kept in stored form, beside the state, until they are
    /// sent.
    static constexpr std::uint64_t most_kept_bytes = std::uint64_t{32} << 20;

    /// Whether this is the turn in which ranks read: the first one.
    bool reading() const noexcept { return !broadcasting_; }
    /// Whether no turn follows this one.
    bool last() const { return broadcasting_ || !any_; }
    bool none() const noexcept { return parts_.empty(); }

    /// Called when the coordinator's plan has arrived.
    /// @param rank  On the data plane.
    /// @throws error errc::corrupt for parts that are not in `m`
    void reset(shared_plan shared, const load_plan& sent, const metadata& m, int rank) {
        parts_.clear();
        by_part_.clear();
        report_ = {};
        kept_ = 0;
        any_ = shared.any;
        rank_ = rank;
        broadcasting_ = false;
        report_.shared_bytes = shared.bytes;
        for (auto const& s : shared.items) {
            auto const& item = sent.items[s.item];
            shared_part p;
            p.bytes = bytes_of(item, m.tensor(item.fqn));
            if (p.bytes == 0) wire_reader::fail("a shared part that the checkpoint does not have");
            p.shape = item.shape;
            p.type = m.tensor(item.fqn)->type;
            p.reader = static_cast<int>(s.reader);
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

    /// Items that this rank reads: for all, or for itself.
    load_plan items_to_read(const load_plan& plan) const {
        load_plan out;
        out.storage_data = plan.storage_data;
        for (auto const& i : plan.items)
            if (auto const* p = find(i); p == nullptr || p->reader == rank_) out.items.push_back(i);
        return out;
    }
    /// Whether `hold` will keep the item. Thread-safe.
    bool will_hold(const read_item& i) const {
        auto const* p = find(i);
        return p != nullptr && !p->again;
    }
    /// Whether this rank keeps what it reads for all in memory beside the state, because it
    /// converts it for itself. From then on `hold` refuses an item that it does not keep.
    /// Thread-safe, for different items.
    /// @pre will_hold(i)
    bool keep_beside(const read_item& i) {
        auto* p = find(i);
        if (p->items.size() != 1) return true;
        std::lock_guard const lock(m_);
        p->again = kept_ + p->bytes > most_kept_bytes;
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
    /// Returns the parts to broadcast, in the same order on all ranks.
    std::vector<shared_part*> to_send() {
        std::vector<shared_part*> out;
        for (auto& p : parts_)
            if (!p.items.empty()) out.push_back(&p);
        return out;
    }

    /// Called when all ranks have completed this turn.
    /// @return Whether there is another turn.
    bool advance() {
        if (broadcasting_)
            for (auto const* p : to_send()) report_.once_bytes += p->bytes;
        if (last()) return false;
        return broadcasting_ = true;
    }
    const read_once_report& report() const noexcept { return report_; }

private:
    shared_part* find(const read_item& i) {
        return const_cast<shared_part*>(std::as_const(*this).find(i));
    }
    const shared_part* find(const read_item& i) const {
        if (i.kind == item_kind::value || by_part_.empty()) return nullptr;
        auto const it = by_part_.find(wanted_part::of(i));
        return it == by_part_.end() ? nullptr : &parts_[it->second];
    }

    int rank_ = 0;
    bool any_ = false;  ///< Whether any plane of the job broadcasts.
    bool broadcasting_ = false;
    std::vector<shared_part> parts_{};
    std::map<wanted_part, std::size_t> by_part_{};
    read_once_report report_{};
    std::mutex m_{};
    std::uint64_t kept_ = 0;  ///< Bytes beside the state.
};

}  // namespace cairn::detail

#endif
