// SPDX-License-Identifier: Apache-2.0
// An argument that models none of the concepts of a save's parts.
// expect: SavePart
#include <cairn/detail/parts.hpp>
#include <cairn/comm/solo.hpp>

struct stranger {};

#ifdef BASELINE
using part = cairn::solo;
#else
using part = stranger;
#endif

void use(cairn::SavePart auto&&) {}
void f() { use(part{}); }
