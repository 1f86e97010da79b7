// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_SOURCE_DATA_HPP
#define CAIRN_STORAGE_DETAIL_SOURCE_DATA_HPP

#include <cairn/detail/config.hpp>
#include <cairn/metadata/value.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/storage/detail/source_pieces.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <deque>
#include <map>
#include <string>
#include <utility>

namespace cairn::detail {

/// The data of a save whose state is another checkpoint. What it returns refers to this object,
/// and to the pieces.
class source_data {
public:
    CAIRN_DECL item_data resolve(source_pieces& from, const write_item& item);

private:
    std::deque<tensor_source> sources_{};
    /// By name and offsets of the box, for tied tensors.
    std::map<std::pair<std::string, index_vector>, const tensor_source*> by_box_{};
    std::deque<value> values_{};
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/storage/impl/source_data.ipp>
#endif

#endif
