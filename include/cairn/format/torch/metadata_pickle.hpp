// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_METADATA_PICKLE_HPP
#define CAIRN_FORMAT_TORCH_METADATA_PICKLE_HPP

#include <cairn/format/torch/read_metadata.hpp>
#include <cairn/format/torch/write_metadata.hpp>

#endif
