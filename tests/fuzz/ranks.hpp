// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_FUZZ_RANKS_HPP
#define CAIRN_TEST_FUZZ_RANKS_HPP

#include "message.hpp"
#include "support/write_results.hpp"

#include <cairn/comm/detail/tree/frame_assembler.hpp>
#include <cairn/load/detail/read_once/plane_groups.hpp>
#include <cairn/planner/detail/tabled_plans.hpp>
#include <cairn/planner/global_plan.hpp>
#include <cairn/planner/plan_codec.hpp>
#include <cairn/planner/results_codec.hpp>
#include <cairn/save/detail/place_results.hpp>
#include <cairn/verb/detail/phases.hpp>

#include <array>
#include <utility>

/// What processes send to each other: plans and results, frames of the groups, greetings, failures.
namespace fuzz {

namespace impl = cairn::detail;

/// A rank's local plan; ranks that send it contradict each other, or make a global plan.
inline void plan(bytes b) {
    reread<fidelity::exact, cairn::decode_save_plan, cairn::encode_save_plan>(b);
    auto p = cairn::decode_save_plan(b);
    for (int ranks : {1, 2}) {
        auto const values = impl::value_numbers_of(p);
        impl::plan_table t;
        for (int r = 0; r < ranks; ++r) t.add(b, values);
        t.number_items();
        try {
            (void)t.assign(cairn::replica_writer::least_loaded);
            t.check();
            (void)t.make_metadata();
            for (int r = 0; r < ranks; ++r)
                (void)impl::selected(p, t.selection_of(static_cast<std::size_t>(r)));
        } catch (const cairn::error&) {  // contradictions, holes, overlaps
        }
    }
    (void)cairn::create_global_metadata(std::vector<cairn::save_plan>{p});
}
inline input change_plan(bytes b, engine& e) {
    return varied<fidelity::none, cairn::decode_save_plan, cairn::encode_save_plan>(b, e);
}

/// What a rank is to read, and what of it is read once, as the coordinator sends it.
using sent_plan = std::pair<cairn::load_plan, impl::shared_plan>;
inline sent_plan decode_sent(bytes b) {
    impl::wire_reader r(b);
    sent_plan p;
    p.first = cairn::decode_load_plan(r.bytes());
    p.second = impl::get_shared(r, p.first, 4);
    return p;
}
inline input encode_sent(const sent_plan& p) {
    impl::wire_writer w;
    w.bytes(cairn::encode_load_plan(p.first));
    impl::put(w, p.second);
    return w.take();
}
inline void load(bytes b) {
    reread<fidelity::readable, decode_sent, encode_sent>(b);
}
inline input change_load(bytes b, engine& e) {
    return varied<fidelity::none, decode_sent, encode_sent>(b, e);
}

inline void results(bytes b) {
    reread<fidelity::exact, support::decode_write_results, cairn::encode_write_results>(b);
    // Into the metadata of whatever they say that they have written, and of something else.
    for (bool const planned : {true, false}) {
        cairn::save_plan plan;
        cairn::metadata m;
        for (auto const& i : support::decode_write_results(b).items) {
            auto& item = plan.items.emplace_back();
            item.fqn = std::to_string(plan.items.size());
            if (i.at.layout) {
                item.kind = cairn::item_kind::shard;
                item.region =
                    cairn::box::whole(cairn::index_vector(i.at.layout->strides.size(), 1));
                item.global_shape = item.region.shape;
            }
        }
        if (planned && !plan.items.empty()) m = cairn::create_global_metadata(std::vector{plan});
        impl::result_placer placer(m);
        placer.place(plan, b, 0);
        placer.check_all_placed();
        // As ranks have carried out a plan that was joined as a table, or changed it.
        impl::tabled_plans all(std::array{plan});
        auto& t = all.table;
        t.assign(cairn::replica_writer::least_loaded);
        t.check();
        for (int changed = 0; changed < 3; ++changed) {
            auto meta = t.make_metadata();
            impl::result_placer both(meta);
            if (changed == 1) both.place(plan, b, 0);
            both.place(t, b, 0);
            if (changed == 2) both.place(plan, b, 0);
            both.check_all_placed();
        }
    }
}
inline input change_results(bytes b, engine& e) {
    return varied<fidelity::exact, support::decode_write_results, cairn::encode_write_results>(b,
                                                                                               e);
}

inline impl::tree_frame decode_frame(bytes b) {
    return impl::decode_frame(b);
}
/// As it is sent; also in pieces, of which each but the first begins anywhere.
inline void frame(bytes b) {
    reread<fidelity::readable, decode_frame, impl::encode_frame>(b);
    auto const whole = impl::decode_frame(b);
    impl::wire_reader head(b);
    auto const first = impl::frame_head_bytes +
                       impl::decode_frame_head(b.first(impl::frame_head_bytes)).table_bytes();
    impl::frame_assembler a;
    std::optional<impl::tree_frame> again;
    for (std::size_t at = 0, n = first; at < b.size() && !again; at += n, n = 7) {
        n = std::min(n, b.size() - at);
        again = a.add(b.subspan(at, n));
    }
    if (!again || impl::encode_frame(*again) != impl::encode_frame(whole))
        throw support::finding("a frame in pieces is another one");
}
inline input change_frame(bytes b, engine& e) {
    auto f = impl::decode_frame(b);
    varier vary(e);
    for (auto n = 1 + e.below(3); n > 0; --n) vary(f);
    for (auto& x : f.entries)
        if (!x.bytes) x.bytes = std::make_shared<cairn::message>();
    return impl::encode_frame(f);
}

inline void hello(bytes b) {
    auto const head = impl::handshake_head_bytes;
    if (b.size() <= head) impl::wire_reader::fail("nothing");
    (void)impl::decode_handshake_head(b.first(head));
    impl::wire_reader body(b.subspan(head));
    auto const kind = static_cast<impl::handshake_kind>(body.u8());
    if (kind == impl::handshake_kind::join) (void)impl::decode_join(body);
    if (kind == impl::handshake_kind::answer) (void)impl::decode_answer(body);
}
inline input change_hello(bytes b, engine& e) {
    hello(b);
    impl::wire_reader body(b.subspan(impl::handshake_head_bytes));
    auto const kind = static_cast<impl::handshake_kind>(body.u8());
    varier vary(e);
    auto const changed = [&](auto x) {
        for (auto n = 1 + e.below(3); n > 0; --n) vary(x);
        return impl::with_handshake_head(impl::encode(x));
    };
    if (kind == impl::handshake_kind::join) return changed(impl::decode_join(body));
    if (kind == impl::handshake_kind::answer) return changed(impl::decode_answer(body));
    impl::wire_reader::fail("no names or numbers");
}

inline void outcome(bytes b) {
    auto const o = impl::decode_outcome(b);
    std::vector<impl::outcome> all{o, o};
    (void)impl::collect_failures(all);
    if (!o.failures_follow) {
        auto const written = impl::encode_outcome(o.failures, o.payload);
        if (impl::decode_outcome(written).failures.size() != o.failures.size())
            throw support::finding("an outcome loses failures");
    }
    impl::wire_reader phases(b);
    (void)impl::get_phases(phases);
    (void)impl::decode_missing(b);
}
inline input change_outcome(bytes b, engine& e) {
    auto o = impl::decode_outcome(b);
    varier vary(e);
    for (auto n = 1 + e.below(3); n > 0; --n) vary(o);
    return impl::encode_outcome(o.failures, o.payload);
}

/// What a rank is to carry out of a plan of eight items.
inline void selection(impl::wire_reader& r) {
    cairn::save_plan local;
    local.items.resize(8);
    auto const s = impl::get_selection(r, local.items.size());
    if (impl::selected(local, s).items.size() + s.dropped.size() != local.items.size())
        throw support::finding("a selection that does not fit its plan");
}

/// What the ranks of a checkpointer tell each other, what a rank carries out of its plan, and
/// replicas to be compared.
inline void report(bytes b) {
    if (b.empty()) impl::wire_reader::fail("nothing");
    auto const rest = b.subspan(1);
    impl::wire_reader r(rest);
    switch (static_cast<std::uint8_t>(b[0]) % 8) {
        case 0: {
            auto const written = impl::encode(impl::decode_rank_report(rest));
            if (impl::encode(impl::decode_rank_report(written)) != written)
                throw support::finding("a report changes");
            return;
        }
        case 1: (void)impl::encode(impl::decode_rendezvous_answer(rest)); return;
        case 2:
            return reread<fidelity::exact, impl::decode_checkpoint_plan,
                          static_cast<input (*)(const cairn::checkpoint_plan&)>(impl::encode)>(
                rest);
        case 3: (void)cairn::decode_save_plan(impl::decode_needs(rest).plan); return;
        case 4: (void)impl::decode_missing(rest); return;
        case 5: (void)impl::decode_held(r); return;
        case 6: return selection(r);
        default: (void)impl::plane_groups({impl::get_plane_place(r), impl::get_plane_place(r)});
    }
}
inline input change_report(bytes b, engine& e) {
    if (b.empty()) impl::wire_reader::fail("nothing");
    varier vary(e);
    auto const changed = [&](auto x) {
        for (auto n = 1 + e.below(3); n > 0; --n) vary(x);
        input out{b[0]};
        auto const said = impl::encode(x);
        out.insert(out.end(), said.begin(), said.end());
        return out;
    };
    switch (static_cast<std::uint8_t>(b[0]) % 8) {
        case 0: return changed(impl::decode_rank_report(b.subspan(1)));
        case 2: return changed(impl::decode_checkpoint_plan(b.subspan(1)));
        default: impl::wire_reader::fail("only its bytes are changed");
    }
}

}  // namespace fuzz

#endif
