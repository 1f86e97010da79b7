// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_ITEM_HPP
#define CAIRN_FORMAT_TORCH_ITEM_HPP

#include <cairn/format/torch/parse_item.hpp>
#include <cairn/format/torch/tensor_item.hpp>
#include <cairn/format/torch/value_item.hpp>

#endif
