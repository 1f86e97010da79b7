// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_IMPL_PIECEWISE_COPY_IPP
#define CAIRN_MEMORY_IMPL_PIECEWISE_COPY_IPP

#include <cairn/memory/piecewise_copy.hpp>

#include <cairn/error.hpp>
#include <cairn/tensor/detail/stream_copy.hpp>

#include <algorithm>
#include <string>

namespace cairn {

CAIRN_DECL piecewise_copy::piecewise_copy(const const_tensor_view& from, const tensor_view& to,
                                          std::size_t piece_bytes)
    : element_size_(size_of(to.type)),
      on_host_(is_host(from.device.kind) && is_host(to.device.kind)) {
    if (from.type != to.type)
        throw error(errc::dtype_mismatch, {.expected = std::string(name_of(to.type)),
                                           .found = std::string(name_of(from.type))});
    nest_ = detail::make_nest(from, to);
    if (!to.empty()) cut(static_cast<std::int64_t>(std::min(piece_bytes, largest_piece)));
}

CAIRN_DECL void piecewise_copy::copy(std::size_t k, store_hint hint) const {
    if (!on_host_)
        throw error(errc::invalid_argument,
                    {.expected = "host memory",
                     .found = "memory of a device",
                     .remedy = "copy with a queue of the device's memory space"});
    auto const n = piece(k);
    auto const& inner = n.loops.back();
    auto const size = static_cast<std::int64_t>(element_size_);
    if (hint == store_hint::cached || inner.from != size || inner.to != size)
        return detail::copy_nest(n, element_size_);
    n.for_each_row([&](const std::byte* f, std::byte* t, const detail::paired_loop& l) {
        detail::copy_streaming(t, f, static_cast<std::size_t>(l.count) * element_size_);
    });
    detail::finish_streaming();
}

CAIRN_DECL void piecewise_copy::append(std::size_t k, std::vector<pitched_copy>& out) const {
    auto n = piece(k);
    auto const size = static_cast<std::int64_t>(element_size_);
    auto width = size;
    if (n.loops.back().from == size && n.loops.back().to == size) {
        width *= n.loops.back().count;
        n.loops.pop_back();
    }
    // The longest loop that one call can take; the others are made of calls.
    auto const limit = static_cast<std::int64_t>(largest_pitch);
    detail::paired_loop rows{1, 0, 0};
    auto chosen = n.loops.end();
    for (auto l = n.loops.begin(); l != n.loops.end(); ++l)
        if (std::min(l->from, l->to) >= width && std::max(l->from, l->to) <= limit &&
            l->count > rows.count) {
            rows = *l;
            chosen = l;
        }
    if (chosen != n.loops.end()) n.loops.erase(chosen);
    n.loops.push_back({1, 0, 0});
    n.for_each_row([&](const std::byte* f, std::byte* t, const detail::paired_loop&) {
        out.push_back({f, t, static_cast<std::size_t>(width), static_cast<std::size_t>(rows.count),
                       static_cast<std::size_t>(rows.from), static_cast<std::size_t>(rows.to)});
    });
}

CAIRN_DECL std::size_t piecewise_copy::elements(const detail::paired_nest& n) {
    std::int64_t e = 1;
    for (auto const& l : n.loops) e *= l.count;
    return static_cast<std::size_t>(e);
}

CAIRN_DECL void piecewise_copy::cut(std::int64_t piece_bytes) {
    auto inner_bytes = static_cast<std::int64_t>(element_size_);  // of one round of `split_`
    split_ = nest_.loops.size() - 1;
    while (split_ > 0 && inner_bytes * nest_.loops[split_].count <= piece_bytes)
        inner_bytes *= nest_.loops[split_--].count;
    auto const count = nest_.loops[split_].count;
    rounds_ = std::clamp<std::int64_t>(piece_bytes / inner_bytes, 1, count);
    std::int64_t outer = 1;
    for (std::size_t d = 0; d < split_; ++d) outer *= nest_.loops[d].count;
    per_outer_ = (count + rounds_ - 1) / rounds_;
    if (outer > 1) {  // equal pieces: otherwise each round would end with a small one
        rounds_ = count / per_outer_;
        longer_ = count % per_outer_;
    }
    pieces_ = static_cast<std::size_t>(outer * per_outer_);
}

CAIRN_DECL detail::paired_nest piecewise_copy::piece(std::size_t k) const {
    detail::paired_nest n;
    auto const part = static_cast<std::int64_t>(k) % per_outer_;
    auto rest = static_cast<std::int64_t>(k) / per_outer_;
    auto const begin = part * rounds_ + std::min(part, longer_);
    auto const& cut_loop = nest_.loops[split_];
    std::int64_t from = begin * cut_loop.from, to = begin * cut_loop.to;
    for (std::size_t d = split_; d-- > 0;) {
        auto const at = rest % nest_.loops[d].count;
        rest /= nest_.loops[d].count;
        from += at * nest_.loops[d].from;
        to += at * nest_.loops[d].to;
    }
    n.from = nest_.from + from;
    n.to = nest_.to + to;
    n.loops.assign(nest_.loops.begin() + static_cast<std::ptrdiff_t>(split_), nest_.loops.end());
    n.loops.front().count = std::min(rounds_ + (part < longer_ ? 1 : 0), cut_loop.count - begin);
    return n;
}

CAIRN_DECL std::size_t piecewise_copy::bytes_of(std::size_t k) const {
    return elements(piece(k)) * element_size_;
}

}  // namespace cairn

#endif
