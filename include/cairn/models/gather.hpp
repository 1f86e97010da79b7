// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_GATHER_HPP
#define CAIRN_MODELS_GATHER_HPP

#include <cairn/comm/detail/erased_communicator.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/models/detail/named_leaf.hpp>
#include <cairn/models/options.hpp>
#include <cairn/state/detail/make_leaf.hpp>
#include <cairn/tensor/host_tensor.hpp>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cairn {
namespace detail {

/// Gathers the tensors of all ranks whole: on every rank, or at the root and nothing elsewhere.
/// Needs memory for one piece of each rank besides the result.
/// @param look  Returns this rank's tensors, which may differ from rank to rank. An exception from
///              it fails all ranks.
/// @throws error on all ranks, with every failed rank's own error.
CAIRN_DECL std::vector<std::pair<std::string, host_tensor>> gather_whole(
    erased_communicator& comm, const std::function<std::vector<named_leaf>()>& look,
    const gather_options& options);

}  // namespace detail

/// Gathers a sharded tensor; DTensor's `full_tensor`. Every rank calls it with its own shards.
///
/// @return The whole on every rank, or at `options.root` and an empty tensor elsewhere.
/// @throws error on all ranks if the shards contradict each other or do not cover the whole.
template <class T, Communicator Comm>
    requires(Tensor<T> || Sharded<T>)
host_tensor full_tensor(T&& t, Comm& comm, const gather_options& options = {}) {
    std::shared_ptr<tensor_leaf> leaf;
    detail::communicator_ref ranks(comm);
    auto whole = detail::gather_whole(
        ranks,
        [&] {
            leaf = detail::make_leaf(std::forward<T>(t));
            if (leaf->number) detail::refresh(*leaf->number);
            return std::vector<detail::named_leaf>{{"the tensor", leaf.get()}};
        },
        options);
    return whole.empty() ? host_tensor() : std::move(whole.front().second);
}

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/models/impl/gather.ipp>
#endif

#endif
