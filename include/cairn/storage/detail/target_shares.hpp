// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_TARGET_SHARES_HPP
#define CAIRN_STORAGE_DETAIL_TARGET_SHARES_HPP

#include <cairn/detail/counted.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/error.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/format/target_file.hpp>
#include <cairn/metadata/detail/codec.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/storage/detail/box_runs.hpp>
#include <cairn/tensor/box.hpp>
#include <cairn/tensor/dtype.hpp>

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Several ranks write files in which every byte has its place beforehand. A rank writes what it
/// may directly; the rest goes into a side file of its own, from which the coordinator completes
/// the files: bytes of files in the order of its items, then for each item the CRC-32 of its bytes
/// there and that of each run that it holds, then that of these checksums.
namespace cairn::detail {

/// A stretch of bytes of a file.
struct file_range {
    std::uint64_t begin = 0, end = 0;
    std::uint64_t length() const noexcept { return end - begin; }
};

/// Where the elements of one item go.
struct item_share {
    enum class way : std::uint8_t {
        none,  ///< Nowhere: they are empty, left out, or those of another name.
        runs,  ///< Into the file, run by run, as far as the rank may; otherwise aside.
        box    ///< Aside, as they are in memory.
    };
    way how = way::none;
    std::uint32_t file = 0;       ///< Number in the rank's files.
    std::uint64_t offset = 0;     ///< Of the tensor, in the file.
    dtype type = dtype::float32;  ///< Of the elements in the file.
};

/// What one rank does; travels as the `storage_data` of its plan.
struct rank_share {
    /// Which bytes of the files it writes itself.
    enum class access : std::uint8_t {
        none,
        pages,  ///< Those of long runs that nobody else holds a byte of, as whole pages.
        all
    } direct = access::none;
    /// Never has writers on two hosts: what the page cache of any of the ranks' hosts reads and
    /// writes as a whole.
    std::uint64_t page = least_page;
    std::uint32_t plan_crc = 0;  ///< @ref crc_of the plan that it was made for.
    std::vector<std::string> files{};
    std::vector<item_share> items{};

    /// Returns what a local plan tells the coordinator as its `storage_data`: the size of a page of
    /// the rank's host.
    static std::string told_page() { return std::to_string(::sysconf(_SC_PAGESIZE)); }
    /// The size of the largest page of any rank's host; of one that does not tell, the largest.
    static std::uint64_t page_of(std::span<const save_plan> locals) {
        auto largest = least_page;
        for (auto const& plan : locals) {
            auto const& told = plan.storage_data;
            std::uint64_t size = long_run;
            auto const* const end = told.data() + told.size();
            bool const whole = std::from_chars(told.data(), end, size).ptr == end;
            if (!whole || !std::has_single_bit(size)) size = long_run;  // others added something
            largest = std::max(largest, size);
        }
        return std::min(largest, long_run);
    }
    /// Returns the CRC-32 of the names and boxes of a plan's items, in their order.
    static std::uint32_t crc_of(const save_plan& plan) {
        wire_writer w;
        for (auto const& item : plan.items) {
            w.string(item.fqn);
            put(w, item.region);
        }
        return format::crc32(w.written());
    }
    std::string encode() const {
        wire_writer w;
        w.u8(static_cast<std::uint8_t>(direct));
        w.varint(page);
        w.u32(plan_crc);
        put(w, files);
        w.varint(items.size());
        for (auto const& i : items) {
            w.u8(static_cast<std::uint8_t>(i.how));
            w.varint(i.file);
            w.varint(i.offset);
            w.u8(static_cast<std::uint8_t>(i.type));
        }
        auto const b = w.written();
        return {reinterpret_cast<const char*>(b.data()), b.size()};
    }
    /// @throws error errc::invalid_plan unless it is one for the items of this plan
    static rank_share decode(const save_plan& plan) {
        wire_reader r(std::as_bytes(std::span(plan.storage_data)));
        rank_share s;
        s.direct = static_cast<access>(r.u8());
        s.page = r.varint();
        if (s.page < least_page || s.page > long_run) wire_reader::fail("a page of another size");
        s.plan_crc = r.u32();
        s.files = get_strings(r);
        for (auto n = r.count(4); n > 0; --n) {
            item_share i;
            i.how = static_cast<item_share::way>(r.u8());
            i.file = static_cast<std::uint32_t>(r.varint());
            i.offset = r.varint();
            auto const type = r.u8();
            if (type >= dtype_count) wire_reader::fail("a dtype of an unknown number");
            i.type = static_cast<dtype>(type);
            if (i.file >= s.files.size()) wire_reader::fail("a file that is not listed");
            s.items.push_back(i);
        }
        bool const is_as_long = s.items.size() == plan.items.size();
        if (!is_as_long || s.plan_crc != crc_of(plan))
            throw error(errc::invalid_plan,
                        {.expected = "the " + counted(s.items.size(), "item") +
                                     " that the global plan has for this rank, in its order",
                         .found = is_as_long ? "others, or another order"
                                             : std::to_string(plan.items.size()),
                         .remedy = "finish_save_plan must keep the items and their order"});
        return s;
    }
    /// Returns a plan with the dtypes of the files; nothing if it has them.
    std::optional<save_plan> as_written(const save_plan& plan) const {
        std::optional<save_plan> out;
        for (std::size_t i = 0; i < items.size(); ++i) {
            if (plan.items[i].type == items[i].type) continue;
            if (!out) out = plan;
            out->items[i].type = items[i].type;
        }
        return out;
    }
    /// The number of each item's file.
    std::vector<std::uint32_t> file_of_each() const {
        std::vector<std::uint32_t> out;
        for (auto const& i : items) out.push_back(i.file);
        return out;
    }
    /// The part of a run that the rank writes itself; what is before and behind it goes aside.
    file_range direct_part(file_range run) const noexcept {
        if (direct == access::all) return run;
        if (direct == access::none || run.length() < long_run) return {run.begin, run.begin};
        return {(run.begin + page - 1) / page * page, run.end / page * page};
    }

    /// The bytes of a run from which on it is written by itself: at least a page.
    static constexpr std::uint64_t long_run = std::uint64_t{64} << 10;
    static constexpr std::uint64_t least_page = 4096;
};

/// Passes each run of an item, with its range in the file: `f(k, range)`.
template <class F>
void for_each_run(const write_item& item, const item_share& share, F&& f) {
    box_runs const runs(item.region, item.global_shape, size_of(item.type));
    for (std::size_t k = 0; k < runs.count(); ++k) {
        auto const begin = share.offset + runs.at(k);
        f(k, file_range{begin, begin + runs.length()});
    }
}

/// The layout of a rank's side file.
struct side_layout {
    std::vector<std::uint64_t> at{};    ///< Where each item's bytes begin.
    std::vector<std::size_t> crc_at{};  ///< The number of the checksum of these bytes.
    std::uint64_t elements = 0;         ///< Bytes before the checksums.
    std::size_t crcs = 0;

    side_layout(const save_plan& plan, const rank_share& share) {
        for (std::size_t i = 0; i < plan.items.size(); ++i) {
            at.push_back(elements);
            crc_at.push_back(crcs++);
            auto const& item = plan.items[i];
            if (share.items[i].how == item_share::way::box) elements += item.content_bytes();
            if (share.items[i].how != item_share::way::runs) continue;
            for_each_run(item, share.items[i], [&](std::size_t, file_range run) {
                elements += run.length() - share.direct_part(run).length();
                ++crcs;
            });
        }
    }
    std::uint64_t size() const noexcept { return elements + 4 * (std::uint64_t{crcs} + 1); }
    /// How the checksums stand in the file, with their own.
    static byte_vector encode_crcs(std::span<const std::uint32_t> crcs) {
        wire_writer w;
        w.u32s(crcs);
        w.u32(format::crc32(w.written()));
        return w.take();
    }
    /// @return Nothing for other bytes.
    static std::optional<std::vector<std::uint32_t>> decode_crcs(byte_span b) {
        std::vector<std::uint32_t> crcs(b.size() / 4);
        wire_reader(b).u32s(crcs);
        if (crcs.empty() || crcs.back() != format::crc32(b.first(b.size() - 4))) return {};
        crcs.pop_back();
        return crcs;
    }
    static std::string name(std::size_t rank) { return "side." + std::to_string(rank); }
};

/// What becomes of values, and of the names of tied tensors, in a format.
enum class value_policy : std::uint8_t {
    refused,  ///< It has none: they are errors. A tied tensor has one name.
    skipped,  ///< They are left out.
    kept      ///< It has them, and every name of a tied tensor.
};

/// What the ranks of a save write, as tensors of a format.
class planned_tensors {
public:
    /// @throws error errc::unsupported for a value that is refused, naming it and what skips it;
    /// errc::invalid_argument if all is skipped
    /// @param prefers  Of tied names, the first for which it returns true is stored; without one,
    ///                 or if it is empty, the first name of the state is.
    planned_tensors(std::span<const save_plan> plans, value_policy values,
                    const std::function<bool(std::string_view fqn)>& prefers = {})
        : values_(values) {
        for (auto const& plan : plans)
            for (auto const& item : plan.items) add(item);
        if (all_.empty() && skipped_ != 0)
            throw error(errc::invalid_argument,
                        {.expected = "a tensor",
                         .found = "only values, e.g. '" + first_skipped_ +
                                  "', which skip_values leaves out",
                         .remedy = "save them in another format: nothing would be stored"});
        std::map<std::string_view, std::string_view> preferred;  // by the first name
        for (auto& [fqn, t] : all_) {
            t.stored_as = root_of(fqn);
            if (prefers && prefers(fqn)) preferred.try_emplace(t.stored_as, fqn);
        }
        for (auto& [fqn, t] : all_)
            if (auto const at = preferred.find(t.stored_as); at != preferred.end())
                t.stored_as = at->second;
    }
    /// Those that are stored, in the order of their names.
    std::vector<format::target_tensor> stored() const {
        std::vector<format::target_tensor> out;
        for (auto const& [fqn, t] : all_)
            if (t.stored_as == fqn) out.push_back({std::string(fqn), t.type, *t.shape, 0});
        return out;
    }
    /// Passes each name, in their order, with that of the tensor that it is stored as:
    /// `f(fqn, type, shape, stored_as)`.
    template <class F>
    void for_each(F&& f) const {
        for (auto const& [fqn, t] : all_) f(fqn, t.type, *t.shape, t.stored_as);
    }
    /// Makes each rank's share, for files with these tensors.
    /// @param plans        With what the ranks have told.
    /// @param coordinator  Writes all of what it holds itself.
    /// @param others       What the others write themselves.
    std::vector<rank_share> shares(std::span<const save_plan> plans,
                                   std::span<const format::target_file* const> files,
                                   std::size_t coordinator, rank_share::access others) {
        for (std::uint32_t f = 0; f < files.size(); ++f)
            for (auto const& t : files[f]->tensors) {
                auto& known = all_.at(t.fqn);
                known.file = f;
                known.offset = t.offset;
            }
        auto const page = rank_share::page_of(plans);
        std::vector<rank_share> out;
        for (std::size_t rank = 0; rank < plans.size(); ++rank) {
            auto& share = out.emplace_back();
            share.direct = rank == coordinator ? rank_share::access::all : others;
            share.page = page;
            share.plan_crc = rank_share::crc_of(plans[rank]);
            std::map<std::uint32_t, std::uint32_t> numbers;
            for (auto const& item : plans[rank].items) {
                auto& s = share.items.emplace_back();
                auto const* const t = find(item);
                auto const file = t == nullptr ? 0 : t->file;
                auto const [at, fresh] =
                    numbers.try_emplace(file, static_cast<std::uint32_t>(numbers.size()));
                if (fresh) share.files.push_back(files[file]->name);
                s.file = at->second;
                s.type = item.type;
                if (t == nullptr) continue;
                s.offset = t->offset;
                if (t->stored_as == item.fqn && !item.region.empty())
                    s.how = t->short_runs ? item_share::way::box : item_share::way::runs;
            }
        }
        return out;
    }
    /// Sentences about what is not stored under its name.
    std::vector<std::string> warnings() const {
        std::vector<std::string> out;
        for (auto const& [fqn, t] : all_)
            if (t.stored_as != fqn && values_ != value_policy::kept)
                out.push_back("'" + std::string(fqn) + "' is not stored: it is tied to '" +
                              std::string(t.stored_as) + "', which is");
        if (skipped_ != 0)
            out.push_back(std::to_string(skipped_) + " values are not stored, e.g. '" +
                          first_skipped_ + "': skip_values is on");
        return out;
    }

private:
    struct tensor {
        dtype type;
        const index_vector* shape;
        std::string_view stored_as{};
        std::string_view tied_to{};  ///< On every rank.
        bool tied = true;
        /// A box of it consists of several runs that are short.
        bool short_runs = false;
        std::uint32_t file = 0;
        std::uint64_t offset = 0;
    };

    void add(const write_item& item) {
        if (item.kind == item_kind::value) {
            if (values_ == value_policy::kept) return;
            if (values_ == value_policy::refused)
                throw error(errc::unsupported,
                            {.fqn = item.fqn,
                             .expected = "a tensor, because the format has nothing else",
                             .found = "a value",
                             .remedy = "save only tensors, or leave values out (skip_values)"});
            if (skipped_++ == 0) first_skipped_ = item.fqn;
            return;
        }
        auto const [at, fresh] = all_.try_emplace(item.fqn, tensor{item.type, &item.global_shape});
        auto& t = at->second;
        if (item.region.empty()) {
            // A rank that holds nothing of a tensor may not know its dtype.
            if (!fresh || item.shard_index == write_item::no_shard) return;
        } else {
            t.type = item.type;
            t.shape = &item.global_shape;
            box_runs const runs(item.region, item.global_shape, size_of(item.type));
            t.short_runs =
                t.short_runs || (runs.count() > 1 && runs.length() < rank_share::long_run);
        }
        if (t.tied_to.empty()) t.tied_to = item.tied_to;
        t.tied = t.tied && !item.tied_to.empty() && t.tied_to == item.tied_to;
    }
    std::string_view root_of(std::string_view fqn) const {
        for (std::size_t steps = 0; steps <= all_.size(); ++steps) {
            auto const& t = all_.find(fqn)->second;
            auto const to = t.tied ? all_.find(t.tied_to) : all_.end();
            if (to == all_.end() || to->second.type != t.type || *to->second.shape != *t.shape)
                return fqn;
            fqn = to->first;
        }
        return fqn;
    }
    /// The tensor that an item's elements are part of; null: it is a value.
    const tensor* find(const write_item& item) const {
        if (item.kind == item_kind::value) return nullptr;
        return &all_.find(all_.find(item.fqn)->second.stored_as)->second;
    }

    value_policy values_;
    std::map<std::string_view, tensor, std::less<>> all_{};  ///< Refers to the plans.
    std::size_t skipped_ = 0;
    std::string first_skipped_{};
};

}  // namespace cairn::detail

#endif
