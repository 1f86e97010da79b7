// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_DECLARING_CLASS_HPP
#define CAIRN_DETAIL_DECLARING_CLASS_HPP

#include <cairn/detail/cxx20.hpp>

#include <type_traits>

namespace cairn::detail {

/// The class that declares a member, a function with any qualifiers or a callable: of an inherited
/// one, the base. Only for `decltype`.
template <class C, class M>
std::type_identity<C> declaring_class(M C::*);

}  // namespace cairn::detail

#endif
