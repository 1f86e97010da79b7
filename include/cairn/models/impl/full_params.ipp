// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_IMPL_FULL_PARAMS_IPP
#define CAIRN_MODELS_IMPL_FULL_PARAMS_IPP

#include <cairn/models/full_params.hpp>

#include <cairn/state/detail/copy_leaf.hpp>
#include <cairn/tensor/layout.hpp>

#include <utility>
#include <vector>

namespace cairn {

CAIRN_DECL void full_params::gather(detail::erased_communicator& ranks,
                                    const std::function<model_tensors()>& visit,
                                    const gather_options& options) {
    auto const look = [&] {
        model_ = visit();
        std::vector<detail::named_leaf> mine;
        for (auto const& e : model_.entries()) {
            auto const& own = e.what.as_tensor();
            mine.push_back({e.fqn, &own});
            if (writeback_ && own.writable && !own.number) detail::check_target(e.fqn, own);
        }
        return mine;
    };
    for (auto& [fqn, t] : detail::gather_whole(ranks, look, options))
        whole_.emplace(fqn, std::move(t));
    for (auto const& [fqn, t] : whole_) {
        auto first = fqn;
        for (auto& other : model_.other_names(fqn))
            if (other < first && whole_.count(other) != 0) first = std::move(other);
        if (first != fqn) first_name_.emplace(fqn, std::move(first));
    }
    for (auto const& [fqn, first] : first_name_) whole_.erase(fqn);
}

CAIRN_DECL full_params::~full_params() {
    if (!writeback_) return;
    for (auto const& e : model_.entries()) {
        auto const& own = e.what.as_tensor();
        if (!own.writable || own.number) continue;
        auto const whole = at(e.fqn).view();
        for (auto const& s : own.shards) copy_elements(subview(whole, s.region), s.target_view());
    }
}

CAIRN_DECL host_tensor& full_params::at(std::string_view fqn) {
    auto const tied = first_name_.find(fqn);
    auto const it = whole_.find(tied == first_name_.end() ? fqn : std::string_view(tied->second));
    if (it != whole_.end()) return it->second;
    throw error(errc::missing_key, {.fqn = std::string(fqn)});
}

}  // namespace cairn

#endif
