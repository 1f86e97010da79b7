// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_HPP
#define CAIRN_MODELS_HPP

/// State of models and optimizers by name, as PyTorch names it.
#include <cairn/models/full_params.hpp>
#include <cairn/models/gather.hpp>
#include <cairn/models/get_state_dict.hpp>
#include <cairn/models/model.hpp>
#include <cairn/models/optimizer.hpp>
#include <cairn/models/set_state_dict.hpp>

#endif
