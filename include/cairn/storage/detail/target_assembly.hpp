// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_TARGET_ASSEMBLY_HPP
#define CAIRN_STORAGE_DETAIL_TARGET_ASSEMBLY_HPP

#include <cairn/completion.hpp>
#include <cairn/detail/parallel.hpp>
#include <cairn/error.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/format/target_file.hpp>
#include <cairn/metadata/chunk_order.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/detail/heeded_stop.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/storage/chunk_reader.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/box_runs.hpp>
#include <cairn/storage/detail/read_flat_range.hpp>
#include <cairn/storage/detail/target_shares.hpp>
#include <cairn/tensor/box.hpp>
#include <cairn/tensor/layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The coordinator's last part of files that several ranks write: what they have put aside.
class target_assembly {
public:
    using tensor_crcs = std::map<std::string, std::uint32_t, std::less<>>;
    /// Writes bytes of a file: `put(name, offset, bytes)`. Called by several threads at a time.
    using put_bytes = std::function<void(const std::string&, std::uint64_t, byte_span)>;

    /// @param aside, files, plans, shares, me  Outlive this.
    /// @param in_order  Each file is written from its beginning to its end, except boxes.
    target_assembly(any_store& aside, std::span<const format::target_file* const> files,
                    std::span<const save_plan> plans, std::span<const rank_share> shares,
                    const storage_setup& me, std::size_t threads, bool in_order = false)
        : aside_(aside), files_(files), plans_(plans), shares_(shares), me_(me), threads_(threads),
          in_order_(in_order) {}

    /// Returns the CRC-32 of each tensor.
    /// @throws error errc::corrupt for a side file that is not what its rank wrote, and for
    /// elements that no rank wrote; errc::checksum_mismatch for bytes in one that have changed
    tensor_crcs complete(const put_bytes& put) {
        sides_.resize(plans_.size());
        for_each_in_parallel(threads_, plans_.size(), [&](std::size_t rank) {
            heeded_stop const heeded(me_.stop);
            take(rank, put);
        });
        if (in_order_) move_in_order(put);
        tensor_crcs out;
        for (auto const* f : files_)
            for (auto const& t : f->tensors) out[t.fqn] = crc_of(t);
        if (!boxed_.entries.empty()) gather_boxes(put, out);
        return out;
    }
    /// The bytes that were put aside as boxes.
    std::uint64_t boxed_bytes() const noexcept { return boxed_bytes_; }
    /// The name of a tensor of these.
    std::string a_boxed_tensor() const {
        return boxed_.entries.empty() ? std::string() : boxed_.entries.begin()->first;
    }

private:
    static constexpr std::uint64_t piece = std::uint64_t{8} << 20;

    /// Bytes of a side file that belong into a file as they are.
    struct stretch {
        const std::string* file;
        std::uint64_t aside, at, length;
    };
    struct later {
        std::size_t rank;
        stretch what;
    };
    struct run {
        file_range in_tensor;
        std::uint32_t crc;
    };
    /// The bytes of one item in a side file, which are read front to back.
    struct aside_item {
        std::uint64_t begin, left;    ///< Where they begin; how many were not read yet.
        std::uint32_t wanted, found;  ///< The CRC-32 of all, and of those that were read.
    };
    /// An item that lies aside as a box.
    struct boxed {
        std::size_t rank, item;
        box_runs runs;
    };

    /// Moves what a rank has put aside, except boxes.
    void take(std::size_t rank, const put_bytes& put) {
        auto const& plan = plans_[rank];
        auto const& share = shares_[rank];
        side_layout const layout(plan, share);
        auto const name = side_layout::name(rank);
        auto side = open_side(rank, name, layout);
        byte_vector b(static_cast<std::size_t>(layout.size() - layout.elements));
        side.read(layout.elements, b);
        auto const crcs = side_layout::decode_crcs(b);
        if (!crcs) throw bad_side(rank, name, "checksums with their own", "other bytes");
        std::vector<stretch> stretches;
        for (std::size_t i = 0; i < plan.items.size(); ++i) {
            auto const& item = plan.items[i];
            auto const& s = share.items[i];
            auto const end = i + 1 < layout.at.size() ? layout.at[i + 1] : layout.elements;
            sides_[rank].push_back(
                {layout.at[i], end - layout.at[i], (*crcs)[layout.crc_at[i]], 0});
            if (s.how == item_share::way::none) continue;
            std::lock_guard const lock(m_);
            if (s.how == item_share::way::box) {
                add_box(item, name, layout.at[i]);
                boxes_[item.fqn].push_back(
                    {rank, i, box_runs(item.region, item.global_shape, size_of(item.type))});
                continue;
            }
            auto const* const file = &share.files[s.file];
            auto at = layout.at[i];
            auto& runs = runs_[item.fqn];
            for_each_run(item, s, [&](std::size_t k, file_range r) {
                auto const direct = share.direct_part(r);
                for (auto const part :
                     {file_range{r.begin, direct.begin}, file_range{direct.end, r.end}}) {
                    add(stretches, {file, at, part.begin, part.length()});
                    at += part.length();
                }
                runs.push_back(
                    {{r.begin - s.offset, r.end - s.offset}, (*crcs)[layout.crc_at[i] + 1 + k]});
            });
        }
        if (in_order_) {
            std::lock_guard const lock(m_);
            for (auto const& s : stretches) later_[*s.file].push_back({rank, s});
            return;
        }
        for (auto const& s : stretches) move(rank, side, s, put, b);
    }
    void move(std::size_t rank, any_store::reader& side, const stretch& s, const put_bytes& put,
              byte_vector& b) {
        heed();
        b.resize(static_cast<std::size_t>(s.length));
        side.read(s.aside, b);
        check(rank, s.aside, b);
        put(*s.file, s.at, b);
        advance(b.size());
    }
    /// A store that sends an object in parts holds each until it is complete.
    void move_in_order(const put_bytes& put) {
        std::vector<std::vector<later>*> all;
        for (auto& [file, stretches] : later_) all.push_back(&stretches);
        for_each_in_parallel(threads_, all.size(), [&](std::size_t i) {
            heeded_stop const heeded(me_.stop);
            std::sort(all[i]->begin(), all[i]->end(),
                      [](const later& a, const later& b) { return a.what.at < b.what.at; });
            std::map<std::size_t, any_store::reader> sides;
            byte_vector b;
            for (auto const& l : *all[i]) {
                auto side = sides.find(l.rank);
                if (side == sides.end())
                    side = sides.emplace(l.rank, aside_.open(side_layout::name(l.rank))).first;
                move(l.rank, side->second, l.what, put, b);
            }
        });
    }
    /// Checks bytes of a side file, which may be those of several items.
    void check(std::size_t rank, std::uint64_t at, byte_span b) {
        auto const& all = sides_[rank];
        while (!b.empty()) {
            auto const next = std::ranges::upper_bound(all, at, {}, &aside_item::begin);
            auto const i = static_cast<std::size_t>(next - all.begin() - 1);
            auto const end = next == all.end() ? at + b.size() : next->begin;
            auto const n = static_cast<std::size_t>(std::min<std::uint64_t>(b.size(), end - at));
            check_item(rank, i, b.first(n));
            at += n;
            b = b.subspan(n);
        }
    }
    /// @param b  The next bytes of the item.
    void check_item(std::size_t rank, std::size_t i, byte_span b) {
        auto& item = sides_[rank][i];
        item.found = format::crc32(b, item.found);
        item.left -= b.size();
        if (item.left != 0 || item.found == item.wanted) return;
        throw error(errc::checksum_mismatch,
                    {.rank = static_cast<int>(rank),
                     .fqn = plans_[rank].items[i].fqn,
                     .file = aside_.describe(side_layout::name(rank)),
                     .expected = "the bytes that this rank has put aside",
                     .found = "others: their checksum differs",
                     .remedy = "do not change tensors while they are saved; otherwise save again, "
                               "and look for what changes files there"});
    }
    error bad_side(std::size_t rank, const std::string& name, std::string expected,
                   std::string found) {
        return error(errc::corrupt, {.rank = static_cast<int>(rank),
                                     .file = aside_.describe(name),
                                     .expected = std::move(expected),
                                     .found = std::move(found),
                                     .remedy = "all ranks must see the same directory"});
    }
    any_store::reader open_side(std::size_t rank, const std::string& name,
                                const side_layout& layout) {
        try {
            auto side = aside_.open(name);
            if (auto const size = side.size(); size != layout.size())
                throw bad_side(rank, name, std::to_string(layout.size()) + " bytes",
                               std::to_string(size));
            return side;
        } catch (const error& e) {
            if (e.code() != make_error_code(errc::not_found)) throw;
            throw bad_side(rank, name, "what this rank has put aside", "no such file");
        }
    }
    /// Adjacent ones are moved together, large ones in pieces.
    static void add(std::vector<stretch>& all, stretch s) {
        if (s.length == 0) return;
        if (!all.empty()) {
            auto& last = all.back();
            if (last.file == s.file && last.length + s.length <= piece &&
                last.aside + last.length == s.aside && last.at + last.length == s.at) {
                last.length += s.length;
                return;
            }
        }
        for (; s.length > piece; s.aside += piece, s.at += piece, s.length -= piece)
            all.push_back({s.file, s.aside, s.at, piece});
        all.push_back(s);
    }
    void add_box(const write_item& item, const std::string& side, std::uint64_t at) {
        auto const [entry, fresh] = boxed_.entries.try_emplace(item.fqn, tensor_metadata());
        auto& t = std::get<tensor_metadata>(entry->second);
        t.type = item.type;
        t.shape = item.global_shape;
        auto const n = item.content_bytes();
        boxed_bytes_ += n;
        t.chunks.push_back(
            {item.region,
             {side, at, n, {}, item_layout{0, n, 0, 0, row_major_strides(item.region.shape)}}});
    }

    /// Combines the checksums of a tensor's runs, which must be all of it.
    std::uint32_t crc_of(const format::target_tensor& t) {
        if (boxed_.entries.contains(t.fqn)) return 0;
        std::uint64_t at = 0;
        std::uint32_t crc = 0;
        auto& runs = runs_[t.fqn];
        std::sort(runs.begin(), runs.end(),
                  [](const run& a, const run& b) { return a.in_tensor.begin < b.in_tensor.begin; });
        for (auto const& r : runs) {
            if (r.in_tensor.begin != at) break;
            crc = format::crc32_combine(crc, r.crc, r.in_tensor.length());
            at = r.in_tensor.end;
        }
        auto const bytes = static_cast<std::uint64_t>(t.shape.product()) * size_of(t.type);
        if (at != bytes) throw incomplete(t.fqn, bytes, at);
        return crc;
    }
    static error incomplete(const std::string& fqn, std::uint64_t bytes, std::uint64_t at) {
        return error(errc::invalid_plan,
                     {.fqn = fqn,
                      .expected = "each of its " + std::to_string(bytes) + " bytes once",
                      .found = "a gap or an overlap at byte " + std::to_string(at),
                      .remedy = "the ranks' shards must cover the tensor"});
    }

    /// Reads tensors that lie aside as boxes, piece by piece, in the order of their file.
    void gather_boxes(const put_bytes& put, tensor_crcs& crcs) {
        chunk_reader reader(aside_, {}, static_cast<int>(threads_));
        reader.set_up_reader(boxed_, me_);
        for (auto const* f : files_)
            for (auto const& t : f->tensors) {
                auto const at = boxed_.entries.find(t.fqn);
                if (at == boxed_.entries.end()) continue;
                crcs[t.fqn] =
                    gather(reader, std::get<tensor_metadata>(at->second), t, f->name, put);
            }
    }
    std::uint32_t gather(chunk_reader& reader, const tensor_metadata& stored,
                         const format::target_tensor& t, const std::string& file,
                         const put_bytes& put) {
        std::uint64_t const element = size_of(t.type);
        auto const all = static_cast<std::uint64_t>(t.shape.product());
        auto const at_once = piece / element;
        byte_vector b(static_cast<std::size_t>(std::min(all, at_once) * element));
        chunk_order const order(stored.chunks);
        std::uint32_t crc = 0;
        for (std::uint64_t at = 0; at < all; at += at_once) {
            heed();
            auto const n = std::min(at_once, all - at);
            auto const into = std::span(b).first(static_cast<std::size_t>(n * element));
            try {
                read_flat_range(t.fqn, stored.chunks, order, box::whole(t.shape), t.type,
                                at * element, into,
                                [&](const load_plan& plan, const read_target& target) {
                                    (void)await_completion<read_result>([&](auto done) {
                                        reader.read_data(plan, target, std::move(done));
                                    });
                                });
            } catch (const error& e) {
                if (e.code() != make_error_code(errc::missing_key)) throw;
                throw incomplete(t.fqn, all * element, at * element);
            }
            check_boxes(boxes_.find(t.fqn)->second, at * element, into);
            crc = format::crc32(into, crc);
            put(file, t.offset + at * element, into);
            advance(into.size());
        }
        return crc;
    }
    /// Checks a piece of a tensor whose boxes lie aside: the elements of each are in its order.
    void check_boxes(std::vector<boxed>& all, std::uint64_t begin, byte_span b) {
        for (auto& x : all)
            while (auto const left = sides_[x.rank][x.item].left) {
                auto const done = x.runs.count() * x.runs.length() - left;
                auto const in_run = done % x.runs.length();
                auto const k = static_cast<std::size_t>(done / x.runs.length());
                auto const at = x.runs.at(k) + in_run - begin;
                if (at >= b.size()) break;
                auto const n = std::min<std::uint64_t>(x.runs.length() - in_run, b.size() - at);
                check_item(x.rank, x.item,
                           b.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(n)));
            }
    }
    void heed() const {
        if (me_.stop.stop_requested()) throw error(errc::cancelled, {.rank = me_.rank});
    }
    void advance(std::uint64_t bytes) const {
        if (me_.activity) me_.activity->advance(bytes);
    }

    any_store& aside_;
    std::span<const format::target_file* const> files_;
    std::span<const save_plan> plans_;
    std::span<const rank_share> shares_;
    const storage_setup& me_;
    std::size_t threads_;
    bool in_order_;
    std::vector<std::vector<aside_item>> sides_{};  ///< By rank; of each item, one thread's.
    std::mutex m_{};                                ///< Protects the rest.
    std::map<std::string_view, std::vector<later>> later_{};       ///< By file.
    std::map<std::string, std::vector<run>, std::less<>> runs_{};  ///< By tensor.
    metadata boxed_{};
    std::map<std::string, std::vector<boxed>, std::less<>> boxes_{};  ///< By tensor.
    std::uint64_t boxed_bytes_ = 0;
};

}  // namespace cairn::detail

#endif
