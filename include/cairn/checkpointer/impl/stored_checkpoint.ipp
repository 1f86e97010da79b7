// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CHECKPOINTER_IMPL_STORED_CHECKPOINT_IPP
#define CAIRN_CHECKPOINTER_IMPL_STORED_CHECKPOINT_IPP

#include <cairn/checkpointer/stored_checkpoint.hpp>

#include <cairn/checkpointer/detail/recovery.hpp>
#include <cairn/comm/detail/erased_communicator.hpp>
#include <cairn/comm/solo.hpp>
#include <cairn/load/detail/run_load.hpp>
#include <cairn/mapping/mapping.hpp>
#include <cairn/storage/dequantising_reader.hpp>
#include <cairn/storage/mapped.hpp>
#include <cairn/verb/detail/flattened_or_error.hpp>
#include <cairn/verb/detail/given_devices.hpp>

#include <exception>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

namespace cairn {

CAIRN_DECL stored_checkpoint::stored_checkpoint(checkpoint_id id, const metadata& content,
                                                any_store store,
                                                std::vector<any_memory_space> spaces,
                                                std::shared_ptr<const mapping> names)
    : id_(std::move(id)), content_(&content), store_(std::move(store)), spaces_(std::move(spaces)),
      names_(std::move(names)) {
    if (!names_) return;
    try {
        if (!names_->dequantises()) {
            mapped_ = mapped(content, *names_);
            return;
        }
        dequantising_reader reader(store_);
        reader.reset(id_);
        mapped_ = mapped(reader.read_metadata(), *names_);
    } catch (const error& e) {
        unmapped_ = std::current_exception();
        if (detail::tells_of_this_copy(e.as_failure(0))) damage_ = unmapped_;
    } catch (...) {
        unmapped_ = std::current_exception();
    }
}

CAIRN_DECL void stored_checkpoint::read(state_dict what) const {
    try {
        detail::flattened_or_error flat(what);
        solo alone;
        detail::communicator_ref<solo> ranks(alone);
        detail::load_parts given;
        given.ranks = &ranks;
        given.alone = true;
        given.store = store_;
        given.names = names_;
        given.some_names = true;
        std::tuple<> none;
        given.devices =
            detail::devices_of<detail::space_holder::operation>(flat.leaves(), none, spaces_);
        (void)detail::run_load(flat, id_, {}, std::move(given));
    } catch (const error& e) {
        if (detail::tells_of_this_copy(e.as_failure(0))) damage_ = std::current_exception();
        throw;
    }
}

}  // namespace cairn

#endif
