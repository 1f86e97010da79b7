// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_IMPL_SET_STATE_DICT_IPP
#define CAIRN_MODELS_IMPL_SET_STATE_DICT_IPP

#include <cairn/models/set_state_dict.hpp>

#include <cairn/error.hpp>
#include <cairn/models/detail/broadcast_state.hpp>
#include <cairn/models/detail/given_state.hpp>
#include <cairn/models/detail/state_change.hpp>

#include <string>
#include <utility>

namespace cairn::detail {

CAIRN_DECL void set_state(const std::vector<given_part>& parts, const state_dict_options& options,
                          erased_communicator& comm) {
    if (options.broadcast_from_rank0 && !options.full_state_dict)
        throw error(errc::invalid_argument, {.expected = "full_state_dict",
                                             .found = "broadcast_from_rank0 without it",
                                             .remedy = "set both, as in DCP"});
    if (options.broadcast_from_rank0)
        return broadcast_state(comm, parts, options.gather, options.strict);
    std::vector<part_on_its_way> all;
    for (auto const& p : parts) all.push_back({&p, std::make_shared<leaves_by_name>(*p.given)});
    visit_all(all);
    for (auto& p : all)
        p.change = std::make_unique<state_change>(p.whole, *p.target, p.part->visit, options.strict,
                                                  p.part->of_what, false);
    copy_overwritten(all);
    for (auto& p : all) p.change->set_values();
    for (auto& p : all) p.change->copy_tensors();
}

CAIRN_DECL std::unique_ptr<visited_state> visited_model(const model_tensors& tensors) {
    name_set elsewhere(tensors.elsewhere().begin(), tensors.elsewhere().end());
    return std::unique_ptr<visited_state>(
        new visited_state{leaves_by_name(model_dict(tensors)),
                          [elsewhere = std::move(elsewhere)](const std::string& name) {
                              return lies_at_or_below(name, elsewhere);
                          }});
}

CAIRN_DECL std::unique_ptr<visited_state> visited_optimizers(const model_tensors& all,
                                                             const model_tensors& kept,
                                                             std::vector<optimizer_group> groups) {
    name_set others, mine;
    for (auto const& e : all.entries()) others.insert("state." + e.fqn);
    for (auto const& e : all.elsewhere()) others.insert("state." + e);
    for (auto& g : groups) {
        std::erase_if(g.parameters, [&](auto& p) { return kept.find(p.fqn) == nullptr; });
        for (auto const& p : g.parameters) {
            others.erase("state." + p.fqn);
            mine.insert("state." + p.fqn);
        }
    }
    auto const own = optimizer_dict(groups, kept, false);
    return std::unique_ptr<visited_state>(new visited_state{
        leaves_by_name(state_dict{{"state", own.at("state")}}),
        [others = std::move(others), mine = std::move(mine)](const std::string& name) {
            return name.starts_with("param_groups.") ||
                   (lies_at_or_below(name, others) && !lies_at_or_below(name, mine));
        },
        std::move(groups)});
}

}  // namespace cairn::detail

#endif
