// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CONVERT_IMPL_CONVERSION_PLANNER_IPP
#define CAIRN_CONVERT_IMPL_CONVERSION_PLANNER_IPP

#include <cairn/convert/detail/conversion_planner.hpp>
#include <cairn/detail/counted.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/error.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/format/quantised/tensors.hpp>
#include <cairn/metadata/detail/codec.hpp>
#include <cairn/metadata/detail/scales.hpp>
#include <cairn/metadata/stored_bytes.hpp>
#include <cairn/storage/detail/quantisation_config.hpp>
#include <cairn/tensor/convert.hpp>
#include <cairn/tensor/mesh.hpp>
#include <cairn/tensor/sharded_tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace cairn::detail {

CAIRN_DECL conversion_planner::conversion_planner(convert_source from, convert_options options,
                                                  int ranks, std::shared_ptr<const mapping> names)
    : from_(std::move(from)), options_(std::move(options)), ranks_(ranks),
      names_(names ? std::optional(*names) : std::nullopt) {}
CAIRN_DECL conversion_planner::conversion_planner(conversion_planner&&) noexcept = default;
CAIRN_DECL conversion_planner& conversion_planner::operator=(conversion_planner&&) noexcept =
    default;
CAIRN_DECL conversion_planner::~conversion_planner() = default;

CAIRN_DECL void conversion_planner::set_up_save(const flat_state&, int rank, bool coordinator) {
    rank_ = rank;
    coordinator_ = coordinator;
    check_floats_as(options_.floats_as);
    pieces_ = std::make_unique<source_pieces>(
        from_.store, from_.id, options_.dequantise, names_,
        options_.map_back ? mapping_direction::to_stored : mapping_direction::to_state,
        options_.announce && coordinator);
    check_stored_bytes(pieces_->stored(), [&](std::string_view fqn) {
        return names_.has_value() || options_.converts(fqn);
    });
    if (options_.floats_as || !pieces_->stored().stored_as.empty())
        for (auto const& [fqn, entry] : pieces_->meta().entries)
            if (converts(fqn)) pieces_->add_stored_names(fqn, used_);
    check_no_codes_are_cast();
    if (options_.floats_as) check_codes_stay();
    for (auto const& [fqn, form] : changed_forms())
        if (pieces_->stored().tensor(fqn)->type == dtype::float4_e2m1fn_x2)
            throw error(errc::unsupported,
                        {.fqn = fqn,
                         .file = from_.id,
                         .expected = "a last dimension of whole bytes, as the target has it",
                         .found = form,
                         .remedy = "leave the tensor out"});
    auto const& m = pieces_->meta();
    for (auto const& unmade : m.unmade)
        if (options_.converts(unmade.first)) m.check_made(unmade.first);
    check_something_is_converted();
}

/// An empty target would take the place of what is there.
/// @throws error errc::unsupported if what is wanted cannot be read; errc::invalid_argument
CAIRN_DECL void conversion_planner::check_something_is_converted() const {
    auto const& m = pieces_->meta();
    if (m.entries.empty() && m.unsupported.empty()) return;
    for (auto const& e : m.entries)
        if (converts(e.first)) return;
    for (auto const& [fqn, t] : m.unsupported)
        if (options_.converts(fqn))
            throw error(errc::unsupported, {.fqn = fqn,
                                            .file = from_.id,
                                            .expected = "a tensor or value that can be converted",
                                            .found = t.type,
                                            .remedy = "the target would be empty"});
    throw error(errc::invalid_argument,
                {.file = from_.id,
                 .expected = "a tensor or value that is converted",
                 .found = "none of " + std::to_string(m.entries.size() + m.unsupported.size()) +
                          " is wanted",
                 .remedy = "look at the names, as `cairn ls` prints them: the target would be "
                           "empty"});
}

/// @throws error errc::dtype_mismatch if a mapping makes weights of codes without their scales
CAIRN_DECL void conversion_planner::check_no_codes_are_cast() const {
    auto const& m = pieces_->meta();
    for (auto const& [fqn, codes] : m.codes) {
        auto const type = m.tensor(fqn)->type;
        if (!converts(fqn) || !holds_weights(type)) continue;
        throw error(errc::dtype_mismatch,
                    {.fqn = fqn,
                     .file = from_.id,
                     .expected = "weights that a mapping may cast to " + std::string(name_of(type)),
                     .found = std::string(name_of(codes.type)) + " codes with scales, '" +
                              codes.scales + "'",
                     .remedy = "use dequantise in the mapping, or leave the cast out"});
    }
}

/// Codes and scales of another dtype would pass for weights, or be rounded ones.
/// @throws error errc::invalid_argument if some would become that
CAIRN_DECL void conversion_planner::check_codes_stay() const {
    auto const& stored = pieces_->stored();
    auto const change = [&](const std::string& name) {
        auto const* t = stored.tensor(name);
        return t != nullptr && options_.type_of(t->type) != t->type && used_.contains(name);
    };
    // Where nothing can be codes, nobody needs the configuration, or the right to read it.
    auto const widest = format::quantised::floating_parts(stored, {.method = "?"});
    if (std::none_of(widest.begin(), widest.end(), change)) return;
    auto const said = read_quantisation_config(from_.store, from_.id, stored.is_file);
    bool const is_known = format::quantised::is_known_form(said);
    for (auto const& name : format::quantised::floating_parts(stored, said)) {
        if (!change(name)) continue;
        std::string found = "codes or scales of a quantised weight";
        if (!is_known)
            found += " ('" +
                     (format::quantised::is_known_form({.method = said.method}) ? said.algorithm
                                                                                : said.method) +
                     "', by the configuration beside it)";
        throw error(errc::invalid_argument,
                    {.fqn = name,
                     .file = from_.id,
                     .expected = "floating-point numbers that may become " +
                                 std::string(name_of(*options_.floats_as)),
                     .found = std::move(found),
                     .remedy = is_known && !options_.dequantise
                                   ? "pass dequantise too (cairn convert --dequantise), which "
                                     "knows FP8, MXFP4 and NVFP4, or no dtype"
                                   : "pass no dtype, or leave them out"});
    }
}

/// Of what is converted, tensors that get another dtype or shape than they have in their file.
CAIRN_DECL std::map<std::string, std::string, std::less<>> conversion_planner::changed_forms()
    const {
    auto all = pieces_->stored().stored_as;
    std::erase_if(all, [&](auto const& e) {
        return pieces_->stored().tensor(e.first) == nullptr || !used_.contains(e.first);
    });
    return all;
}

CAIRN_DECL bool conversion_planner::converts(const std::string& fqn) const {
    return options_.converts(fqn) && !pieces_->meta().if_asked.contains(fqn);
}

/// The file where the elements of a tensor begin, the item there, and the byte in it: names of a
/// tied weight have the same. Without a file in formats that have no ties, and for what is computed
/// of stored tensors: it has no layout, and other scales may make another weight of the same ones.
using stored_place = std::tuple<std::string, std::uint64_t, std::uint64_t>;
inline stored_place place_of(const metadata& m, const tensor_metadata& t) {
    if (m.format == checkpoint_format::safetensors || t.chunks.size() == 0) return {};
    auto const at = t.chunks.location(0);
    if (!at.layout) return {};
    return {at.file, at.offset, at.layout->payload_offset};
}
/// Whether two names are one weight.
inline bool are_tied(const tensor_metadata& a, const tensor_metadata& b) {
    return a.type == b.type && a.shape == b.shape && a.requires_grad == b.requires_grad &&
           a.chunks == b.chunks;
}

CAIRN_DECL save_plan conversion_planner::create_local_save_plan() {
    auto const& m = pieces_->meta();
    save_plan plan;
    for (auto const& [fqn, t] : m.unsupported)
        if (options_.converts(fqn)) left_out_.push_back(fqn);
    for (auto const& name : pieces_->hidden())
        if (options_.converts(name)) left_out_.push_back(name);
    wire_writer names;
    std::map<stored_place, std::pair<const std::string*, int>> first;
    int turn = 0;
    for (auto const& [fqn, entry] : m.entries) {
        if (!converts(fqn)) continue;
        auto usual_rank = turn++ % ranks_;
        auto const* t = std::get_if<tensor_metadata>(&entry);
        names.string(fqn);
        if (t != nullptr) put(names, options_.type_of(t->type));
        if (t == nullptr) {
            if (coordinator_) plan.items.emplace_back().fqn = fqn;  // a layout may need all
            continue;
        }
        std::string tied_to;
        if (auto const place = place_of(m, *t); !std::get<0>(place).empty()) {
            auto const [known, fresh] = first.try_emplace(place, &fqn, usual_rank);
            auto const* other = fresh ? nullptr : m.tensor(*known->second.first);
            if (other != nullptr && are_tied(*other, *t)) {
                tied_to = *known->second.first;
                usual_rank = known->second.second;
            }
        }
        plan_tensor(plan, fqn, *t, tied_to, usual_rank);
    }
    for (auto const& path : m.paths)
        if (options_.converts(path.first)) plan.paths.push_back(path);
    plan.planner_data = what_was_read() + "; " + counted(static_cast<std::uint64_t>(turn), "name") +
                        " (CRC " + std::to_string(format::crc32(names.written())) +
                        "), cut along dimension " + std::to_string(options_.dim);
    return plan;
}

/// Returns which checkpoint this rank has found at the source.
CAIRN_DECL std::string conversion_planner::what_was_read() const {
    auto const& m = pieces_->stored();
    if (!m.save_id.empty()) return "save " + m.save_id;
    return "metadata with CRC " + std::to_string(format::crc32(format::native::encode_metadata(m)));
}

/// @param usual_rank  Writes a tensor that is not cut.
CAIRN_DECL void conversion_planner::plan_tensor(save_plan& plan, const std::string& fqn,
                                                const tensor_metadata& t,
                                                const std::string& tied_to, int usual_rank) const {
    bool const is_cut = ranks_ > 1 && static_cast<std::size_t>(options_.dim) < t.shape.size();
    if (!is_cut && usual_rank != rank_) return;
    write_item i;
    i.fqn = fqn;
    i.kind = is_cut ? item_kind::shard : item_kind::tensor;
    i.type = options_.type_of(t.type);
    i.requires_grad = t.requires_grad;
    i.global_shape = t.shape;
    i.tied_to = tied_to;
    i.region =
        is_cut
            ? boxes_of(t.shape, device_mesh::line(ranks_), {shard_along{options_.dim}}, rank_).at(0)
            : box::whole(t.shape);
    plan.items.push_back(std::move(i));
}

CAIRN_DECL std::pair<std::vector<save_plan>, metadata> conversion_planner::create_global_save_plan(
    std::vector<save_plan> all) {
    auto const here = all.at(static_cast<std::size_t>(rank_)).planner_data;
    auto const source = [](std::string_view told) { return told.substr(0, told.find(';')); };
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        auto const read = std::exchange(all[rank].planner_data, {});
        if (read == here) continue;
        bool const is_replaced = source(read) != source(here);
        throw error(
            is_replaced ? errc::concurrent_save : errc::invalid_argument,
            {.rank = static_cast<int>(rank),
             .file = from_.store.describe(from_.id.empty() ? "." : from_.id),
             .expected = "what the coordinator converts: " + here,
             .found = read,
             .remedy = is_replaced
                           ? "it was replaced meanwhile: convert again when nothing saves there"
                           : "give all ranks the same convert_options"});
    }
    auto out = usual_.create_global_save_plan(std::move(all));
    out.second.foreign = pieces_->meta().foreign;
    out.first.at(0).text_keys = pieces_->meta().text_keys;
    return out;
}

CAIRN_DECL item_data conversion_planner::resolve_data(const write_item& item) {
    return data_.resolve(*pieces_, item);
}

CAIRN_DECL void conversion_planner::report(convert_report& to) const {
    if (!pieces_) return;
    to.unverified = pieces_->unverified();
    if (auto const idle = pieces_->idle_lines(); coordinator_ && !idle.empty())
        to.saved.warnings.push_back("these lines of the mapping match nothing that is stored: " +
                                    idle);
    to.left_out = left_out_;
    if (coordinator_)
        for (auto const& [fqn, form] : changed_forms()) {
            auto const& now = *pieces_->stored().tensor(fqn);
            to.saved.warnings.push_back("'" + fqn + "' was " + form + "; its bytes are copied as " +
                                        std::string(name_of(now.type)) + " " +
                                        to_string(now.shape));
        }
    if (!coordinator_) return;
    for (auto& text : pieces_->moved_codes()) to.saved.warnings.push_back(std::move(text));
    auto const& m = pieces_->meta();
    for (auto const& [fqn, codes] : m.codes)
        if (converts(fqn) && scales_of(m, fqn).empty())
            to.saved.warnings.push_back("'" + fqn + "' has codes whose scales are called '" +
                                        codes.scales + "': use dequantise, or set a line for them");
}

}  // namespace cairn::detail

#endif
