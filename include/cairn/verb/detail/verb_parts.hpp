// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_DETAIL_VERB_PARTS_HPP
#define CAIRN_VERB_DETAIL_VERB_PARTS_HPP

#include <cairn/comm/detail/erased_communicator.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/observe/detail/erased_sink.hpp>
#include <cairn/verb/detail/state_devices.hpp>

#include <memory>
#include <optional>

namespace cairn {
class mapping;
}

namespace cairn::detail {

/// The parts that a save and a load have in common. Null: the default.
struct verb_parts {
    erased_communicator* ranks = nullptr;
    bool alone = false;                ///< A `solo` was passed explicitly.
    std::optional<any_store> store{};  ///< For the default writer or reader.
    erased_sinks sinks{};
    std::shared_ptr<const mapping> names{};    ///< Null: those of the state, or of the checkpoint.
    std::shared_ptr<void> owner{};             ///< Of parts that are not borrowed from the caller.
    std::shared_ptr<state_devices> devices{};  ///< Fenced. Null: no memory spaces.
};

}  // namespace cairn::detail

#endif
