// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_FUZZ_FIELDS_HPP
#define CAIRN_TEST_FUZZ_FIELDS_HPP

#include <cairn/checkpointer/detail/rendezvous.hpp>
#include <cairn/checkpointer/plan.hpp>
#include <cairn/comm/detail/tcp/messages.hpp>
#include <cairn/comm/detail/tree/frame.hpp>
#include <cairn/comm/detail/tree/missing_rank.hpp>
#include <cairn/comm/liveness.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/format/native/footer.hpp>
#include <cairn/load/detail/read_once/shared_items.hpp>
#include <cairn/metadata/commit_record.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/save/detail/replicas.hpp>
#include <cairn/storage/detail/running_reads.hpp>
#include <cairn/storage/detail/save_intent.hpp>

#include <tuple>

/// The members of what a `varier` changes. CRCs are left out: they are made right.
namespace fuzz {

// Files.
inline auto fields(cairn::format::native::footer_item& i) {
    return std::tie(i.offset, i.length, i.payload_offset, i.payload_length, i.block_crcs);
}
inline auto fields(cairn::format::native::file_footer& f) {
    return std::tie(f.save_id, f.items, f.items, f.items);
}
inline auto fields(cairn::commit_record& r) {
    return std::tie(r.sequence, r.committed, r.step, r.metrics, r.save_id);
}
inline auto fields(cairn::detail::process_identity& p) {
    return std::tie(p.boot, p.pid_space, p.pid, p.started, p.run);
}
inline auto fields(cairn::detail::job_attempt& j) {
    return std::tie(j.job, j.attempt);
}
inline auto fields(cairn::detail::record_owner& o) {
    return std::tie(o.process, o.job, o.host);
}
inline auto fields(cairn::detail::save_intent& i) {
    return std::tie(i.save_id, i.began, i.owner, i.names, i.replaced_id, i.replaced);
}
inline auto fields(cairn::detail::read_notice& n) {
    return std::tie(n.began, n.owner);
}

// Metadata.
inline auto fields(cairn::box& b) {
    return std::tie(b.offsets, b.shape);
}
inline auto fields(cairn::item_layout& l) {
    return std::tie(l.payload_offset, l.payload_length, l.strides);
}
inline auto fields(cairn::storage_location& at) {
    return std::tie(at.file, at.offset, at.length, at.transforms, at.layout, at.layout);
}
inline auto fields(cairn::chunk& c) {
    return std::tie(c.region, c.at);
}
inline auto fields(cairn::tensor_metadata& t) {
    return std::tie(t.type, t.shape, t.requires_grad, t.chunks, t.chunks, t.chunks);
}
inline auto fields(cairn::value_metadata& v) {
    return std::tie(v.at);
}
inline auto fields(cairn::metadata& m) {
    return std::tie(m.entries, m.entries, m.entries, m.paths, m.save_id, m.file_sizes);
}

// Plans.
inline auto fields(cairn::write_item& i) {
    return std::tie(i.fqn, i.kind, i.type, i.requires_grad, i.global_shape, i.region, i.tied_to,
                    i.value_bytes, i.value_hash, i.leaf, i.shard_index);
}
inline auto fields(cairn::save_plan& p) {
    return std::tie(p.items, p.items, p.paths, p.storage_data, p.planner_data);
}
inline auto fields(cairn::read_item& i) {
    return std::tie(i.fqn, i.kind, i.leaf, i.shard_index, i.chunk, i.source_offsets,
                    i.target_offsets, i.shape);
}
inline auto fields(cairn::load_plan& p) {
    return std::tie(p.items, p.items, p.no_items, p.storage_data, p.planner_data);
}
inline auto fields(cairn::write_result& r) {
    return std::tie(r.item, r.at, r.at);
}
inline auto fields(cairn::write_results& r) {
    return std::tie(r.items, r.items, r.file_sizes, r.warnings);
}
inline auto fields(cairn::detail::shared_item& i) {
    return std::tie(i.item, i.reader);
}
inline auto fields(cairn::detail::shared_plan& p) {
    return std::tie(p.bytes, p.any, p.items, p.items);
}
inline auto fields(cairn::detail::held_replica& h) {
    return std::tie(h.item, h.holders, h.whole);
}

// Messages.
inline auto fields(cairn::detail::tree_frame::entry& x) {
    return std::tie(x.rank, x.bytes);
}
inline auto fields(cairn::detail::tree_frame& f) {
    return std::tie(f.what, f.kind, f.root, f.lane, f.round, f.note, f.entries, f.entries);
}
inline auto fields(cairn::tcp_address& a) {
    return std::tie(a.host, a.port);
}
inline auto fields(cairn::liveness_options& o) {
    return std::tie(o.heartbeat_interval, o.peer_timeout, o.probe_timeout);
}
inline auto fields(cairn::detail::join_request& j) {
    return std::tie(j.instance, j.epoch, j.rank, j.size, j.fan_in, j.addresses, j.process, j.alive);
}
inline auto fields(cairn::detail::join_answer& a) {
    return std::tie(a.says, a.why, a.epoch, a.parent);
}
inline auto fields(cairn::rank_range& r) {
    return std::tie(r.first, r.last);
}
inline auto fields(cairn::error_context& c) {
    return std::tie(c.rank, c.fqn, c.file, c.expected, c.found, c.remedy);
}
inline auto fields(cairn::rank_failure& f) {
    return std::tie(f.where, f.text, f.ranks, f.ranks);
}
inline auto fields(cairn::detail::outcome& o) {
    return std::tie(o.failures, o.failures, o.payload);
}
inline auto fields(cairn::detail::missing_rank& m) {
    return std::tie(m.rank, m.answered, m.phase, m.in, m.idle);
}
inline auto fields(cairn::detail::rank_report& r) {
    return std::tie(r.call, r.step, r.earlier, r.heeds_signals, r.signals, r.stall, r.failures,
                    r.upload, r.upload_failures);
}
inline auto fields(cairn::rank_needs& n) {
    return std::tie(n.bytes, n.staging_bytes, n.items);
}
inline auto fields(cairn::checkpoint_plan& p) {
    return std::tie(p.ranks, p.ranks, p.bytes, p.free_bytes);
}

}  // namespace fuzz

#endif
