// SPDX-License-Identifier: Apache-2.0
// Exports into a bucket, and checkpoints that are uploaded to one.
#include "s3_place.hpp"
#include "support/error_codes.hpp"

#include <cairn/checkpointer.hpp>
#include <cairn/comm/thread_group.hpp>
#include <cairn/load.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/save.hpp>
#include <cairn/storage/safetensors_writer.hpp>
#include <cairn/storage/torch_save_writer.hpp>
#include <cairn/tensor/mesh.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(s3_exports)

using s3_tests::place;

namespace {

constexpr int ranks = 2;
constexpr std::int64_t columns = 3'000'000;  // more than a part

/// A tensor of which each rank has a row, one of which each has columns, and one that all have.
struct rank_state {
    std::vector<float> row, narrow, bias;
    cairn::state_dict dict{};

    rank_state(float v, int rank)
        : row(columns, v + static_cast<float>(rank)), narrow(40, v), bias(5, v) {
        auto const line = cairn::device_mesh::line(ranks);
        dict = {{"w", cairn::shard_by_mesh(
                          cairn::tensor_view(cairn::dtype::f32, {1, columns}, row.data()),
                          {ranks, columns}, line, {cairn::shard_along{0}}, rank)},
                {"narrow",
                 cairn::shard_by_mesh(cairn::tensor_view(cairn::dtype::f32, {20, 2}, narrow.data()),
                                      {20, 2 * ranks}, line, {cairn::shard_along{1}}, rank)},
                {"bias", bias}};
    }
    bool is(float v, int rank) const {
        auto const all = [](auto const& in, float want) {
            return std::ranges::all_of(in, [&](float x) { return x == want; });
        };
        return all(row, v + static_cast<float>(rank)) && all(narrow, v) && all(bias, v);
    }
};
template <class Writer>
void export_to(float v, const std::string& id, Writer writer) {
    cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
        rank_state const s(v, me.rank());
        (void)cairn::save(s.dict, id, me, writer());
    });
}
bool stands(cairn::s3_store at, const std::string& id, float v) {
    bool good = true;
    for (int rank = 0; rank < ranks; ++rank) {
        rank_state s(0, rank);
        (void)cairn::load(s.dict, id, cairn::s3_store(at));
        good = good && s.is(v, rank);
    }
    return good;
}
/// The record of an export that is written by a process on this host, or on another one.
/// @return its save id
std::string leave_intent(const cairn::s3_store& at, const std::string& target, bool on_this_host,
                         std::vector<std::string> replaced = {}, bool has_id = false) {
    cairn::detail::save_intent i;
    i.save_id = cairn::detail::new_save_id();
    i.began = cairn::detail::save_intent::now();
    i.owner = cairn::detail::record_owner::this_one();
    i.owner.process.pid = 0x7ffffff0;
    i.owner.process.run += "x";
    if (!on_this_host) i.owner.process.boot += "x";
    i.owner.job = {};
    i.names = {has_id ? target + "." + i.save_id : target};
    i.replaced = std::move(replaced);
    at.at("." + target + ".saving").publish(".saving." + i.save_id, i.encode(), std::nullopt);
    return i.save_id;
}
std::set<std::string> names_in(cairn::s3_store at) {
    std::set<std::string> out;
    for (auto const& info : at.list()) out.insert(info.name);
    return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_export_is_read_and_replaced) {
    place p;
    auto const at = p.next();
    cairn::safetensors_writer_options o;
    o.max_file_size = 1000;
    auto const save = [&](float v) {
        export_to(v, "m", [&] { return cairn::safetensors_writer(at, o); });
        BOOST_TEST(stands(at, "m", v));
        BOOST_TEST(names_in(at.at(".m.saving")).empty());
    };
    save(1);
    auto const first = names_in(at.at("m"));
    BOOST_TEST(first.size() == 3u);
    save(2);
    auto const second = names_in(at.at("m"));
    BOOST_TEST(second.size() == 3u);
    for (auto const& name : first)
        BOOST_TEST((second.count(name) == 0u) == (name != "model.safetensors.index.json"));
    o = {};
    save(3);
    BOOST_TEST(names_in(at.at("m")).size() == 2u);
}

BOOST_AUTO_TEST_CASE(a_file_is_one_object) {
    place p;
    auto const at = p.next();
    export_to(1, "x.safetensors", [&] { return cairn::safetensors_writer(at); });
    BOOST_TEST(stands(at, "x.safetensors", 1));
    export_to(2, "x.pt", [&] { return cairn::torch_save_writer(at); });
    BOOST_TEST(stands(at, "x.pt", 2));
    BOOST_CHECK_THROW(export_to(3, "x.pt", [&] { return cairn::torch_save_writer(at); }),
                      cairn::error);
    BOOST_TEST(stands(at, "x.pt", 2));
    BOOST_TEST(names_in(at) == (std::set<std::string>{"x.pt", "x.safetensors"}));
}

/// Two at a time, of which one file each is all: the one that is complete first stands, with what
/// is beside it.
BOOST_AUTO_TEST_CASE(files_beside_an_export_are_of_the_export_that_stands) {
    s3_tests::bucket_server const server;
    auto const at = server.store(), others = server.store();
    auto const with = [](std::string_view config, std::function<void()> meanwhile) {
        cairn::safetensors_writer_options o;
        o.add_files = [config, meanwhile](auto const& add) {
            add("config.json", std::as_bytes(std::span(config)));
            meanwhile();
        };
        return o;
    };
    auto const first = with("1", [] {});
    auto const late = with(
        "2", [&] { export_to(1, "m", [&] { return cairn::safetensors_writer(others, first); }); });
    BOOST_CHECK_EXCEPTION(export_to(2, "m", [&] { return cairn::safetensors_writer(at, late); }),
                          cairn::error, support::is(cairn::errc::already_exists));
    BOOST_TEST(stands(at, "m", 1));
    auto m = at.at("m");
    BOOST_TEST((names_in(m) == std::set<std::string>{"config.json", "model.safetensors"}));
    auto const config = cairn::read_whole(m, "config.json");
    BOOST_TEST((config.size() == 1u && static_cast<char>(config[0]) == '1'));
}

/// What is not the last step leaves no doubt: a file beside the weights, or one of several files
/// of weights, which may appear later.
BOOST_AUTO_TEST_CASE(a_file_that_stays_unknown_leaves_no_doubt_about_an_export) {
    s3_tests::bucket_server server;
    auto of_server = s3_tests::options_at(server);
    of_server.retry_for = std::chrono::milliseconds(200);
    auto const at = server.store(of_server);
    server.fail_each(s3_server::faults::reset(s3_server::effect::none), [](auto const& r) {
        return r.what() == s3_server::kind::put_object && r.key.ends_with("/config.json");
    });
    server.fail_each(s3_server::faults::answer(504, ""), [](auto const& r) {
        return r.what() == s3_server::kind::complete_upload && r.key.starts_with("split/");
    });
    cairn::safetensors_writer_options o;
    o.add_files = [](auto const& add) {
        add("config.json", std::as_bytes(std::span(std::string_view("1"))));
    };
    auto const fails = [&](const char* id) {
        BOOST_CHECK_EXCEPTION(export_to(1, id, [&] { return cairn::safetensors_writer(at, o); }),
                              cairn::error, support::is(cairn::errc::io));
        BOOST_TEST(names_in(at.at(id)).empty());
    };
    fails("m");
    BOOST_TEST(names_in(at.at(".m.saving")).empty());
    o = {};
    o.max_file_size = 1000;
    fails("split");
    BOOST_TEST(names_in(at.at(".split.saving")).size() == 1u);
}

/// A gateway gives up the completion that makes an export exist.
BOOST_AUTO_TEST_CASE(an_export_that_may_appear_is_in_doubt) {
    s3_tests::bucket_server server;
    auto of_server = s3_tests::options_at(server);
    of_server.retry_for = std::chrono::milliseconds(200);
    auto const at = server.store(of_server);
    server.fail_each(s3_server::faults::answer(504, ""), [](auto const& r) {
        return r.what() == s3_server::kind::complete_upload && !r.key.starts_with(".");
    });
    BOOST_CHECK_EXCEPTION(
        export_to(1, "x.safetensors", [&] { return cairn::safetensors_writer(at); }), cairn::error,
        support::is(cairn::errc::outcome_unknown));
}

/// A file that is the target has no save id in its name, and is listed nowhere else.
BOOST_AUTO_TEST_CASE(the_next_export_ends_the_upload_of_a_killed_one) {
    s3_tests::bucket_server const server;
    auto killed = server.store(), at = server.store(), afterwards = server.store();
    auto const upload = killed.create("x.safetensors", 20'000'000);
    leave_intent(killed, "x.safetensors", true);
    export_to(1, "x.safetensors", [&] { return cairn::safetensors_writer(at); });
    BOOST_TEST(stands(at, "x.safetensors", 1));
    afterwards.remove("x.safetensors");  // the object: it knows of no upload
    BOOST_TEST(names_in(afterwards).empty());
}

/// MinIO lists uploads by their keys, not by that of their place.
BOOST_AUTO_TEST_CASE(the_next_export_ends_an_upload_of_a_killed_one_that_is_not_listed) {
    s3_tests::bucket_server server;
    server.change([](auto& o) { o.lists_uploads_by_key = true; });
    auto killed = server.store(), at = server.store();
    auto const id = leave_intent(killed, "m", true, {}, true);
    auto const upload = killed.at("m").create("m." + id, 20'000'000);
    export_to(1, "m", [&] { return cairn::safetensors_writer(at); });
    BOOST_TEST(stands(at, "m", 1));
    BOOST_TEST(server.uploads(s3_tests::bucket).empty());
}

BOOST_AUTO_TEST_CASE(the_upload_of_another_job_is_not_ended_with_that_of_a_killed_one) {
    s3_tests::bucket_server server;
    auto others = server.store(), at = server.store();
    auto const killed = others.create("x.safetensors", 20'000'000);
    leave_intent(others, "x.safetensors", true);
    leave_intent(others, "x.safetensors", false);
    export_to(1, "x.safetensors", [&] { return cairn::safetensors_writer(at); });
    BOOST_TEST(server.uploads(s3_tests::bucket).size() == 1u);
    BOOST_TEST(names_in(at.at(".x.safetensors.saving")).size() == 2u);
}

/// It was completed after it was looked for.
BOOST_AUTO_TEST_CASE(the_file_of_another_job_stays_when_the_upload_of_a_killed_one_is_ended) {
    s3_tests::bucket_server server;
    auto others = server.store();
    auto const at = server.store();
    auto const killed = others.create("x.safetensors", 20'000'000);
    leave_intent(others, "x.safetensors", true);
    auto completed = s3_server::faults::internal_error(s3_server::effect::done);
    completed.then = [](s3_server::world& w) {
        auto& objects = w.buckets[s3_tests::bucket].objects;
        auto o = objects.begin()->second;
        objects.insert_or_assign("x.safetensors", std::move(o));
    };
    server.fail(completed, s3_server::kind::abort_upload, 0);
    BOOST_CHECK_THROW(export_to(1, "x.safetensors", [&] { return cairn::safetensors_writer(at); }),
                      cairn::error);
    BOOST_TEST(server.fault_happened());
    BOOST_TEST(server.content(s3_tests::bucket, "x.safetensors").has_value());
}

BOOST_AUTO_TEST_CASE(checkpoints_are_uploaded) {
    place p;
    auto const bucket = p.next();
    cairn::memory_store disk;
    auto const on_ranks = [&](auto f) {
        cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
            cairn::checkpointer_options o{.every = cairn::steps(1), .keep = cairn::last(1)};
            o.upload = cairn::upload_options{
                .to = cairn::any_store(bucket), .every = 3, .keep = cairn::last(1)};
            cairn::checkpointer ckpt(me, disk, o);
            f(ckpt, me.rank());
        });
    };
    on_ranks([&](cairn::checkpointer& ckpt, int rank) {
        for (int step = 1; step <= 4; ++step) {
            rank_state s(static_cast<float>(step), rank);
            BOOST_TEST(ckpt.maybe_save(step, s.dict).saved);
            (void)ckpt.wait();
        }
        BOOST_TEST(ckpt.uploaded()->id == "step_4");
    });
    auto in_bucket = bucket;
    BOOST_TEST(in_bucket.places() == std::vector<std::string>{"step_4"},
               boost::test_tools::per_element());
    BOOST_TEST(stands(bucket, "step_4", 4));
    disk = cairn::memory_store();
    on_ranks([&](cairn::checkpointer& ckpt, int rank) {
        rank_state s(0, rank);
        BOOST_TEST(ckpt.load_latest(s.dict)->id == "step_4");
        BOOST_TEST(s.is(4, rank));
    });
}

/// A killed export notes what it is about to replace, and it is there until it is replaced.
BOOST_AUTO_TEST_CASE(what_a_killed_export_was_to_replace_stays) {
    s3_tests::bucket_server server;
    auto const at = server.store();
    cairn::safetensors_writer_options o;
    o.max_file_size = 1000;
    export_to(1, "m", [&] { return cairn::safetensors_writer(at, o); });
    auto m = at.at("m");
    m.publish("model.safetensors", s3_tests::pattern(9), std::nullopt);
    auto const there = names_in(m);
    leave_intent(at, "m", true, {"model.safetensors"});
    o.overwrite = false;
    BOOST_CHECK_EXCEPTION(export_to(2, "m", [&] { return cairn::safetensors_writer(at, o); }),
                          cairn::error, support::is(cairn::errc::already_exists));
    BOOST_TEST((names_in(m) == there));
}

BOOST_AUTO_TEST_SUITE_END()
