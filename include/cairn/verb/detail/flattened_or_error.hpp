// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_DETAIL_FLATTENED_OR_ERROR_HPP
#define CAIRN_VERB_DETAIL_FLATTENED_OR_ERROR_HPP

#include <cairn/state/detail/naming.hpp>
#include <cairn/state/flatten.hpp>
#include <cairn/state/savable.hpp>
#include <cairn/verb/detail/shard_sources.hpp>

#include <exception>
#include <optional>
#include <utility>

namespace cairn::detail {

/// A state's leaves, or the exception from flattening it. A rank whose own state is unusable must
/// still take part in the first exchange, because the others wait for it.
struct flattened_or_error {
    template <Savable State>
    explicit flattened_or_error(State& state) {
        try {
            flat.emplace(flatten(state));
        } catch (...) {
            refused = std::current_exception();
        }
    }

    explicit flattened_or_error(std::exception_ptr why) : refused(std::move(why)) {}

    const flat_state& leaves() const noexcept { return flat ? flat->leaves : none; }
    flat_state& leaves() noexcept { return flat ? flat->leaves : none; }

    /// Copies every value now, so that no user code runs later on another thread.
    void freeze_values() {
        for (auto& leaf : leaves()) {
            if (auto* o = leaf.value(); o != nullptr && o->get && !refused) {
                try {
                    o->get = [v = naming(leaf.fqn, o->get)] { return v; };
                } catch (...) {
                    refused = std::current_exception();
                }
            }
        }
    }

    std::optional<flattened> flat;
    flat_state none;
    std::exception_ptr refused;
    /// Of a save with a mapping: leaves have their stored names, and are made of these.
    std::optional<shard_sources> mapped;
};

}  // namespace cairn::detail

#endif
