// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_FULL_PARAMS_HPP
#define CAIRN_MODELS_FULL_PARAMS_HPP

#include <cairn/models/gather.hpp>
#include <cairn/state/copy_leaf.hpp>
#include <cairn/models/model.hpp>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

/// A model's tensors whole, on every rank, while this object lives; FSDP's `summon_full_params`.
///
///     {
///         cairn::full_params whole(model, ranks);
///         print(whole.at("net1.weight").as<float>());
///     }
///
/// All ranks make one at the same time. Each rank copies its own shards back when it goes, unless
/// `writeback` is off: what was changed in the whole tensors, alike on all ranks, is then in the
/// model. Buffers that show a @ref converted number are not copied back. The model must outlive it.
class full_params {
public:
    /// @throws error on all ranks when shards contradict each other or do not make a whole.
    template <Model M, Communicator Comm>
    full_params(M& model, Comm& comm, bool writeback = true, gather_options options = {},
                const fqn_rules& names = {})
        : writeback_(writeback) {
        options.root = -1;
        auto const look = [&] {
            model_ = tensors_of(model, names);
            std::vector<detail::named_leaf> mine;
            for (auto const& e : model_.entries()) mine.push_back({e.fqn, &e.what.as_tensor()});
            return mine;
        };
        detail::communicator_ref ranks(comm);
        for (auto& [fqn, t] : detail::gather_whole(ranks, look, options))
            whole_.emplace(fqn, std::move(t));
    }
    full_params(full_params&&) = delete;
    ~full_params() {
        if (!writeback_) return;
        for (auto const& e : model_.entries()) {
            auto const& own = e.what.as_tensor();
            if (!own.writable || own.number) continue;
            auto const whole = whole_.at(e.fqn).view();
            for (auto const& s : own.shards)
                copy_elements(subview(whole, s.where), s.target_view());
        }
    }

    /// @throws error errc::missing_key
    host_tensor& at(std::string_view fqn) {
        if (auto const it = whole_.find(fqn); it != whole_.end()) return it->second;
        throw error(errc::missing_key, {.fqn = std::string(fqn)});
    }
    auto begin() { return whole_.begin(); }  ///< Pairs of FQN and `host_tensor`.
    auto end() { return whole_.end(); }
    std::size_t size() const noexcept { return whole_.size(); }

private:
    model_tensors model_;
    bool writeback_;
    std::map<std::string, host_tensor, std::less<>> whole_;
};

}  // namespace cairn

#endif
