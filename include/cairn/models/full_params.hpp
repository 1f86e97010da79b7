// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_FULL_PARAMS_HPP
#define CAIRN_MODELS_FULL_PARAMS_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/models/gather.hpp>
#include <cairn/models/model.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace cairn {

/// Provides a model's tensors whole, on every rank, while this object lives; FSDP's
/// `summon_full_params`.
///
///     {
///         cairn::full_params whole(model, ranks);
///         print(whole.at("net1.weight").as<float>());
///     }
///
/// A collective object: all ranks construct one at the same time. Its destructor copies the rank's
/// own shards back, unless `writeback` is off, so changes to the whole tensors, made alike on all
/// ranks, reach the model. Buffers that represent a @ref converted number are not copied back. A
/// tied weight is one tensor, under the first of its names; `at` takes each of them. The model must
/// outlive this object.
class full_params {
public:
    /// @throws error on all ranks if shards contradict each other or do not cover the whole, or if
    /// a tensor that is to be written back cannot be written to.
    template <Model M, Communicator Comm>
    full_params(M& model, Comm& comm, bool writeback = true, gather_options options = {},
                const fqn_rules& names = {})
        : writeback_(writeback) {
        options.root = -1;
        detail::communicator_ref ranks(comm);
        gather(
            ranks, [&] { return tensors_of(model, names); }, options);
    }
    full_params(full_params&&) = delete;
    ~full_params();

    /// @throws error errc::missing_key
    host_tensor& at(std::string_view fqn);
    auto begin() { return whole_.begin(); }  ///< Pairs of FQN and `host_tensor`.
    auto end() { return whole_.end(); }
    std::size_t size() const noexcept { return whole_.size(); }

private:
    void gather(detail::erased_communicator& ranks, const std::function<model_tensors()>& visit,
                const gather_options& options);

    model_tensors model_;
    bool writeback_;
    std::map<std::string, host_tensor, std::less<>> whole_;
    std::map<std::string, std::string, std::less<>> first_name_;  ///< Of tied weights.
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/models/impl/full_params.ipp>
#endif

#endif
