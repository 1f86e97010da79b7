// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_DECLARING_CLASS_HPP
#define CAIRN_DETAIL_DECLARING_CLASS_HPP

#include <cairn/detail/cxx20.hpp>

#include <type_traits>

namespace cairn::detail {

/// The class that declares a member function: of an inherited one, the base. Only for `decltype`.
template <class C, class R, class... A>
std::type_identity<C> declaring_class(R (C::*)(A...));
template <class C, class R, class... A>
std::type_identity<C> declaring_class(R (C::*)(A...) const);
template <class C, class R, class... A>
std::type_identity<C> declaring_class(R (C::*)(A...) noexcept);
template <class C, class R, class... A>
std::type_identity<C> declaring_class(R (C::*)(A...) const noexcept);

}  // namespace cairn::detail

#endif
