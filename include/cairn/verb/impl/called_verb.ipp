// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_IMPL_CALLED_VERB_IPP
#define CAIRN_VERB_IMPL_CALLED_VERB_IPP

#include <cairn/verb/detail/called_verb.hpp>

#include <cairn/error.hpp>

#include <string>

namespace cairn::detail {

CAIRN_DECL void put_call(wire_writer& w, called_verb mine, const checkpoint_id& id) {
    w.u8(static_cast<std::uint8_t>(mine));
    w.string(id);
}

CAIRN_DECL checkpoint_id get_call(wire_reader& r, called_verb mine) {
    auto const name = [](called_verb v) {
        return std::string(v == called_verb::save ? "save" : "load");
    };
    auto const theirs = static_cast<called_verb>(r.u8());
    if (theirs != called_verb::save && theirs != called_verb::load)
        wire_reader::fail("a verb that does not exist");
    if (theirs != mine)
        throw error(errc::invalid_argument,
                    {.expected = "a " + name(theirs) + ", which the coordinator has called",
                     .found = "a " + name(mine),
                     .remedy = "make every call on every rank, in the same order"});
    return r.string();
}

CAIRN_DECL void check_same_id(const checkpoint_id& mine, const checkpoint_id& coordinators) {
    if (mine == coordinators) return;
    throw error(errc::invalid_argument,
                {.expected = "the coordinator's checkpoint id '" + coordinators + "'",
                 .found = "'" + mine + "'",
                 .remedy = "give all ranks the same id"});
}

}  // namespace cairn::detail

#endif
