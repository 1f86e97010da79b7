// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_IMPL_MAPPED_READS_IPP
#define CAIRN_STORAGE_IMPL_MAPPED_READS_IPP

#include <cairn/error.hpp>
#include <cairn/storage/detail/mapped_reads.hpp>
#include <cairn/storage/detail/region_asked_for.hpp>
#include <cairn/tensor/convert.hpp>
#include <cairn/tensor/layout.hpp>

#include <span>

namespace cairn::detail {

CAIRN_DECL mapped_reads::mapped_reads(const metadata& shown, const mapped_metadata& m, bool finer,
                                      load_plan plan)
    : shown_(shown), m_(m), finer_(finer), asked_(std::move(plan)) {
    for (auto const& item : asked_.items) add(item);
}

CAIRN_DECL void mapped_reads::add(const read_item& item) {
    auto& w = wanted_.emplace_back();
    w.item = &item;
    if (item.kind == item_kind::value)
        add_value(item, w);
    else
        add_tensor(item, w);
}
CAIRN_DECL auto mapped_reads::new_part(wanted& w, read_item stored) -> part& {
    stored.leaf = static_cast<std::uint32_t>(parts_.size());
    plan_.items.push_back(std::move(stored));
    auto& p = parts_.emplace_back();
    p.of = &w;
    ++w.left;
    return p;
}
CAIRN_DECL void mapped_reads::add_value(const read_item& item, wanted& w) {
    auto stored = item;
    auto const* const v = m_.value(item.fqn);
    if (v != nullptr) stored.fqn = v->from;
    (void)new_part(w, stored);
    if (v == nullptr) return;
    for (auto const& name : v->equals) {
        stored.fqn = name;
        (void)new_part(w, stored);
    }
}
CAIRN_DECL void mapped_reads::add_tensor(const read_item& item, wanted& w) {
    w.region = region_asked_for(shown_.tensor(item.fqn), item);
    if (m_.is_stored(item.fqn)) {
        auto stored = item;
        stored.fqn = m_.stored_name(item.fqn);
        auto& p = new_part(w, std::move(stored));
        p.type = shown_.tensor(item.fqn)->type;
        return;
    }
    w.made = m_.tensor(item.fqn);
    m_.for_each_part(
        *w.made, w.region, finer_,
        [&](read_item stored, const map::detail::piece_box& b, const finer_dims* dims) {
            auto const type = m_.stored().tensor(stored.fqn)->type;
            w.casts = w.casts || type != w.made->type;
            auto& p = new_part(w, std::move(stored));
            p.at = b;
            if (dims) p.dims = std::make_unique<const finer_dims>(*dims);
            p.type = type;
        },
        [&](const map::detail::piece& p) { w.constants.push_back(p); });
    if (w.made->equals.empty()) return;
    add_number(w, w.made->source_name());  // once more: the window may have another dtype
    for (auto const& name : w.made->equals) add_number(w, name);
}
CAIRN_DECL void mapped_reads::add_number(wanted& w, const std::string& name) {
    auto const* const t = m_.stored().tensor(name);
    if (t == nullptr || t->shape.product() != 1 || t->chunks.size() != 1)
        throw error(errc::kind_mismatch,
                    {.fqn = name,
                     .expected = "a single number, as '" + w.item->fqn + "' is",
                     .found = t == nullptr ? "no tensor" : "shape " + to_string(t->shape)});
    auto& e = w.equals.emplace_back(same_number{name, {t->type}});
    read_item stored;
    stored.fqn = name;
    stored.kind = item_kind::shard;
    stored.source_offsets = stored.target_offsets = index_vector(t->shape.size(), 0);
    stored.shape = t->shape;
    auto& p = new_part(w, std::move(stored));
    p.type = t->type;
    p.equal = &e;
    p.at.region = box::whole(t->shape);
}

CAIRN_DECL const read_target& mapped_reads::begin(std::string storage_data,
                                                  const read_target& target) {
    plan_.storage_data = std::move(storage_data);
    target_ = &target;
    stored_target_.resolve_converted = [this](const read_item& i) {
        return window_of(parts_[i.leaf]);
    };
    stored_target_.resolve_tensor = [this](const read_item& i) {
        auto& p = parts_[i.leaf];
        auto const to = window_of(p);
        if (to.type == p.type) return to;
        p.beside = std::make_unique<std::byte[]>(static_cast<std::size_t>(i.shape.product()) *
                                                 size_of(p.type));
        return tensor_view(p.type, i.shape, p.beside.get());
    };
    stored_target_.commit_tensor = [this](const read_item& i, const tensor_view& v) {
        auto& p = parts_[i.leaf];
        if (p.beside != nullptr) {
            convert_elements(v, window_of(p));
            p.beside.reset();
        }
        part_read(*p.of);
    };
    stored_target_.load_value = [this](const read_item& i, value v) {
        value_read(*parts_[i.leaf].of, i.fqn, std::move(v));
    };
    stored_target_.finer = [this](const read_item& i) { return parts_[i.leaf].dims.get(); };
    for (auto& w : wanted_) {
        if (w.left != 0) continue;
        open(w);
        target.commit_tensor(*w.item, w.window);
    }
    return stored_target_;
}

CAIRN_DECL void mapped_reads::open(wanted& w) {
    std::call_once(w.opened, [&] {
        w.window = w.casts ? target_->resolve_tensor(*w.item) : target_->resolve_converted(*w.item);
        check_window(*w.item, w.window);
        w.filled = w.window;
        if (w.casts && w.window.type != w.made->type) {
            w.rounded = std::make_unique<std::byte[]>(
                static_cast<std::size_t>(w.window.elements()) * size_of(w.made->type));
            w.filled = tensor_view(w.made->type, w.window.shape, w.rounded.get());
        }
        for (auto const& c : w.constants) {
            map::detail::constant_element const element(c.value, w.made->type);
            for_each_box(c, map::detail::side::target, [&](const map::detail::piece_box& b) {
                auto const into = subview(w.filled, relative_to(b.region, w.region));
                convert_elements(element.view(into.shape), into);
            });
        }
    });
}
CAIRN_DECL tensor_view mapped_reads::window_of(const part& p) {
    if (p.equal != nullptr) return {p.type, p.at.region.shape, p.equal->stored.bytes.data()};
    open(*p.of);
    if (p.of->made == nullptr) return p.of->filled;
    return p.at.view(p.of->filled, p.of->region.offsets);
}

CAIRN_DECL void mapped_reads::part_read(wanted& w) {
    if (w.left.fetch_sub(1) != 1) return;
    for (auto const& e : w.equals)
        if (auto const& first = w.equals.front(); !are_same(first.stored, e.stored))
            throw error(
                errc::value_mismatch,
                {.fqn = w.item->fqn,
                 .expected = "one number: '" + first.name + "' and '" + e.name + "' become one",
                 .found = "different numbers",
                 .remedy = "give '" + w.item->fqn + "' an expression of its own"});
    if (w.rounded != nullptr) convert_elements(w.filled, w.window);
    w.rounded.reset();
    target_->commit_tensor(*w.item, w.window);
}
CAIRN_DECL void mapped_reads::value_read(wanted& w, const std::string& name, value v) {
    w.values.emplace_back(name, std::move(v));
    if (w.left.fetch_sub(1) != 1) return;
    auto const& first = w.values.front();
    for (auto const& other : w.values)
        if (!(other.second == first.second))
            throw error(errc::value_mismatch,
                        {.fqn = w.item->fqn,
                         .expected = "one value: '" + first.first + "' and '" + other.first +
                                     "' become one",
                         .found = "different values",
                         .remedy = "give '" + w.item->fqn + "' an expression of its own"});
    target_->load_value(*w.item, std::move(w.values.front().second));
}

}  // namespace cairn::detail

#endif
