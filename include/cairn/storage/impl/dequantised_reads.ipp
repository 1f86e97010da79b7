// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_IMPL_DEQUANTISED_READS_IPP
#define CAIRN_STORAGE_IMPL_DEQUANTISED_READS_IPP

#include <cairn/format/quantised/elements.hpp>
#include <cairn/planner/reshard.hpp>
#include <cairn/storage/detail/dequantised_reads.hpp>
#include <cairn/storage/detail/region_asked_for.hpp>
#include <cairn/tensor/convert.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/flat_range.hpp>
#include <cairn/tensor/layout.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace cairn::detail {

/// Elements of a piece; bytes that are read for it; bytes of the pieces that are read together.
inline constexpr std::int64_t dequantised_piece = std::int64_t{1} << 18;
inline constexpr std::size_t dequantised_piece_bytes = std::size_t{4} << 20,
                             dequantised_at_a_time = std::size_t{32} << 20;

/// The stored tensors that a piece needs, by their roles: elements, scales, the scale of all.
struct needed_tensor {
    const std::string* name;
    const tensor_metadata* tensor;
    box region;
};
inline std::vector<needed_tensor> needed_tensors(const metadata& stored,
                                                 const format::quantised::recipe& r,
                                                 const box& region) {
    auto const* const elements = stored.tensor(r.elements);
    auto const* const scales = stored.tensor(r.scales);
    std::vector<needed_tensor> all{
        {&r.elements, elements, elements_for(r, region, elements->shape)},
        {&r.scales, scales, scales_for(r, region, scales->shape)}};
    if (r.scale.empty()) return all;
    auto const* const scale = stored.tensor(r.scale);
    all.push_back({&r.scale, scale, box::whole(scale->shape)});
    return all;
}
/// Returns the region of the weight that an item asks for.
inline box region_asked_for(const quantised_metadata& m, const read_item& item) {
    auto const weight = m.weights.find(item.fqn);
    return region_asked_for(weight == m.weights.end() ? nullptr : &weight->second, item);
}

CAIRN_DECL std::vector<read_item> stored_items_of(const quantised_metadata& m,
                                                  std::span<const read_item> items) {
    std::vector<read_item> all;
    for (auto const& item : items) {
        auto const how = m.recipes.find(item.fqn);
        if (how == m.recipes.end()) {
            all.push_back(item);
            continue;
        }
        for (auto const& part : needed_tensors(m.stored, how->second, region_asked_for(m, item)))
            for (auto& stored :
                 create_read_items(*part.name, item.leaf, part.tensor->chunks,
                                   m.orders.at(*part.name), std::span(&part.region, 1)))
                all.push_back(std::move(stored));
    }
    return all;
}

CAIRN_DECL dequantised_reads::dequantised_reads(const quantised_metadata& m,
                                                checkpoint_reader& reader,
                                                checkpoint_reader& pieces_reader,
                                                const load_plan& plan, const read_target& target,
                                                completion<read_result> done)
    : m_(m), reader_(reader), pieces_reader_(pieces_reader), target_(target),
      done_(std::move(done)) {
    plan_.storage_data = plan.storage_data;
    for (auto const& item : plan.items) {
        auto const how = m.recipes.find(item.fqn);
        if (how == m.recipes.end()) {
            plan_.items.push_back(item);
            continue;
        }
        auto w = std::make_unique<wanted>();
        w->item = &item;
        w->how = &how->second;
        wanted_.push_back(std::move(w));
    }
    parts_target_.resolve_tensor = parts_target_.resolve_converted = [this](const read_item& i) {
        auto const& part = pieces_[i.leaf / 3]->parts[i.leaf % 3];
        return subview(part, box(i.target_offsets, i.shape));
    };
    parts_target_.commit_tensor = [this](const read_item& i, const tensor_view&) {
        part_read(*pieces_[i.leaf / 3]);
    };
}

CAIRN_DECL void dequantised_reads::run(const std::shared_ptr<dequantised_reads>& self) {
    do {
        phase_ = phase::calling;
        failure_ = nullptr;
        result_.reset();
        std::exception_ptr thrown;
        bool asked = false;  // A completion exists, which is called in any case.
        try {
            if (!as_stored_) next_pieces();
            completion<read_result> ended([self](std::exception_ptr e,
                                                 std::optional<read_result> r) {
                self->failure_ = std::move(e);
                self->result_ = std::move(r);
                if (self->phase_.exchange(phase::completed) == phase::waiting && self->step_ended())
                    self->run(self);
            });
            asked = true;
            if (as_stored_)
                reader_.read_data(plan_, target_, std::move(ended));
            else
                pieces_reader_.read_data(plan_, parts_target_, std::move(ended));
        } catch (...) {
            thrown = std::current_exception();
        }
        if (thrown && !asked) phase_ = phase::completed;
        if (thrown && phase_ == phase::completed && !result_) failure_ = std::move(thrown);
        if (phase_.exchange(phase::waiting) != phase::completed) return;
    } while (step_ended());
}

CAIRN_DECL bool dequantised_reads::step_ended() {
    if (std::exchange(as_stored_, false) && result_) of_stored_ = *result_;
    if (failure_) {
        done_.fail(std::move(failure_));
        return false;
    }
    if (next_ != wanted_.size()) return true;
    auto& lines = result_->unverified;
    for (auto& line : of_stored_.unverified)
        if (std::find(lines.begin(), lines.end(), line) == lines.end())
            lines.push_back(std::move(line));
    done_(std::move(*result_));
    return false;
}

CAIRN_DECL void dequantised_reads::next_pieces() {
    plan_.items.clear();
    pieces_.clear();
    for (std::size_t taken = 0; taken < dequantised_at_a_time && next_ != wanted_.size();) {
        auto& w = *wanted_[next_];
        if (w.given_out == 0) {
            w.region = region_asked_for(m_, *w.item);
            w.left = w.region.volume();
            w.window = target_.resolve_converted(*w.item);
            check_window(*w.item, w.window);
        }
        auto const all = w.region.volume();
        auto const n = std::min(dequantised_piece, all - w.given_out);
        for (auto& run : boxes_of_flat_range(w.region.shape, w.given_out, w.given_out + n)) {
            for (std::size_t d = 0; d < run.rank(); ++d) run.offsets[d] += w.region.offsets[d];
            taken += add_piece(w, std::move(run));
        }
        w.given_out += n;
        if (w.given_out == all) ++next_;
    }
}

CAIRN_DECL std::size_t dequantised_reads::add_piece(wanted& w, box region) {
    auto p = std::make_unique<piece>();
    p->of = &w;
    auto const parts = needed_tensors(m_.stored, *w.how, region);
    std::array<std::size_t, 3> at{};
    std::size_t bytes = 0;
    constexpr std::size_t alignment = 16;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        auto const n =
            static_cast<std::size_t>(parts[i].region.volume()) * size_of(parts[i].tensor->type);
        at[i] = std::exchange(bytes, bytes + (n + alignment - 1) / alignment * alignment);
    }
    // Columns of few elements may need whole groups, or a scale each.
    auto const longest = static_cast<std::size_t>(
        std::max_element(region.shape.begin(), region.shape.end()) - region.shape.begin());
    if (bytes > dequantised_piece_bytes && region.volume() > 1) {
        auto other = region;
        region.shape[longest] /= 2;
        other.offsets[longest] += region.shape[longest];
        other.shape[longest] -= region.shape[longest];
        bytes = add_piece(w, std::move(region));
        return bytes + add_piece(w, std::move(other));
    }
    p->region = std::move(region);
    p->memory.resize(bytes);
    auto const first = static_cast<std::uint32_t>(3 * pieces_.size());
    auto const before = plan_.items.size();
    for (std::size_t i = 0; i < parts.size(); ++i) {
        p->parts[i] =
            tensor_view(parts[i].tensor->type, parts[i].region.shape, p->memory.data() + at[i]);
        for (auto& item : create_read_items(*parts[i].name, first + static_cast<std::uint32_t>(i),
                                            parts[i].tensor->chunks, m_.orders.at(*parts[i].name),
                                            std::span(&parts[i].region, 1)))
            plan_.items.push_back(std::move(item));
    }
    p->left = plan_.items.size() - before;
    pieces_.push_back(std::move(p));
    return bytes;
}

CAIRN_DECL void dequantised_reads::part_read(piece& p) {
    if (p.left.fetch_sub(1) != 1) return;
    compute(p);
    p.memory = {};
    auto& w = *p.of;
    auto const n = p.region.volume();
    if (w.left.fetch_sub(n) == n) target_.commit_tensor(*w.item, w.window);
}

CAIRN_DECL void dequantised_reads::compute(const piece& p) const {
    using format::quantised::recipe;
    auto const& how = *p.of->how;
    auto const floats_of = [](const tensor_view& v) {
        std::vector<float> all(static_cast<std::size_t>(v.elements()));
        convert_elements(v, tensor_view(dtype::float32, v.shape, all.data()));
        return all;
    };
    format::quantised::parts from;
    std::vector<float> elements;
    if (how.elements_are == recipe::kind::floats) {
        elements = floats_of(p.parts[0]);
        from.floats = elements;
    } else {
        elements.resize(static_cast<std::size_t>(p.region.volume()));
        from.nibbles = {p.parts[0].data, static_cast<std::size_t>(p.parts[0].elements())};
    }
    auto scales_view = p.parts[1];
    // MXFP4's are exponents.
    if (scales_view.type == dtype::uint8) scales_view.type = dtype::float8_e8m0fnu;
    auto const scales = floats_of(scales_view);
    from.scales = scales;
    if (!how.scale.empty()) from.scale = floats_of(p.parts[2])[0];
    dequantise(how, p.region, from, m_.stored.tensor(how.scales)->shape, elements);
    auto const& w = *p.of;
    tensor_view computed(dtype::float32, p.region.shape, elements.data());
    auto const to = subview(w.window, relative_to(p.region, w.region));
    std::vector<std::byte> rounded;
    if (m_.type != dtype::float32 && to.type != m_.type) {
        rounded.resize(elements.size() * size_of(m_.type));
        tensor_view const r(m_.type, p.region.shape, rounded.data());
        convert_elements(computed, r);
        computed = r;
    }
    convert_elements(computed, to);
}

}  // namespace cairn::detail

#endif
