// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_IMPL_FULL_PARAMS_IPP
#define CAIRN_MODELS_IMPL_FULL_PARAMS_IPP

#include <cairn/models/full_params.hpp>

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
        for (auto const& e : model_.entries()) mine.push_back({e.fqn, &e.what.as_tensor()});
        return mine;
    };
    for (auto& [fqn, t] : detail::gather_whole(ranks, look, options))
        whole_.emplace(fqn, std::move(t));
}

CAIRN_DECL full_params::~full_params() {
    if (!writeback_) return;
    for (auto const& e : model_.entries()) {
        auto const& own = e.what.as_tensor();
        if (!own.writable || own.number) continue;
        auto const whole = whole_.at(e.fqn).view();
        for (auto const& s : own.shards) copy_elements(subview(whole, s.region), s.target_view());
    }
}

CAIRN_DECL host_tensor& full_params::at(std::string_view fqn) {
    if (auto const it = whole_.find(fqn); it != whole_.end()) return it->second;
    throw error(errc::missing_key, {.fqn = std::string(fqn)});
}

}  // namespace cairn

#endif
