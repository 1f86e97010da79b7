// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_PARTS_HPP
#define CAIRN_LOAD_PARTS_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/data_plane.hpp>
#include <cairn/memory/concepts.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/observe/concepts.hpp>
#include <cairn/planner/concepts.hpp>
#include <cairn/storage/concepts.hpp>

#include <concepts>
#include <type_traits>

namespace cairn {

class mapping;

/// A part of a load besides its state; parts may be passed in any order.
template <class T>
concept LoadPart =
    Communicator<std::remove_cvref_t<T>> || LoadPlanner<std::remove_cvref_t<T>> ||
    StorageReader<std::remove_cvref_t<T>> || ObjectStore<std::remove_cvref_t<T>> ||
    DataPlane<std::remove_cvref_t<T>> || MemorySpace<std::remove_cvref_t<T>> ||
    EventSink<std::remove_cvref_t<T>> || std::same_as<std::remove_cvref_t<T>, mapping>;

}  // namespace cairn

#endif
