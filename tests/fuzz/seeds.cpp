// SPDX-License-Identifier: Apache-2.0
// seeds GOLDEN CORPUS: writes what the targets begin with to CORPUS: whole checkpoints, places with
// several, and one of each message and section that has no example among PyTorch's files. Run by
// hand when a format changes; the corpus is kept.
#include "targets.hpp"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fs = std::filesystem;

namespace {

using support::crafted;

/// Whatever cairn writes: shards, a transposed and a tied tensor, one of no elements, 0-d, values.
crafted of_cairn(bool torch_metadata) {
    cairn::memory_store store;
    cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
        std::vector<float> rows(6, static_cast<float>(me.rank())), square(4, 3.0f), tie(3, 7.0f);
        double scalar = 1.5;
        cairn::state_dict sd{
            {"model",
             cairn::state_dict{
                 {"rows", cairn::shard_by_mesh(
                              cairn::tensor_view(cairn::dtype::f32, {3, 2}, rows.data()), {6, 2},
                              cairn::device_mesh::line(2), {cairn::shard_along{0}}, me.rank())},
                 {"t", cairn::tensor_view(cairn::dtype::f32, {2, 2}, {1, 2}, square.data())},
                 {"tie", tie},
                 {"tied", tie}}},
            {"none", cairn::tensor_view(cairn::dtype::i64, {0, 3}, nullptr)},
            {"scalar", cairn::scalar_tensor(scalar)},
            {"groups", cairn::value::list({cairn::value::dict(
                           {{"lr", 0.1}, {"betas", cairn::value::tuple({0.9, 0.999})}})})},
            {"step", 7}};
        cairn::save_options o;
        o.storage.torch_metadata = torch_metadata;
        o.storage.payload_alignment = 64;
        cairn::save(sd, "c", o, me, store);
    });
    return {store, "c"};
}

crafted small(float content = 3.0f) {
    cairn::memory_store store;
    std::vector<float> square(4, content);
    cairn::state_dict sd{
        {"t", cairn::tensor_view(cairn::dtype::f32, {2, 2}, {1, 2}, square.data())}, {"step", 7}};
    cairn::save_options o;
    o.storage.payload_alignment = 64;
    cairn::save(sd, "c", o, store);
    return {store, "c"};
}
crafted with_record(crafted c, std::uint64_t sequence) {
    auto const m = c.metadata();
    auto const stub = cairn::format::native::no_torch_metadata();
    c.files[".metadata"].assign(stub.begin(), stub.end());
    cairn::format::native::append_commit_section(
        c.files[".metadata"],
        {sequence, 1'700'000'000'000, 100, {{"loss", 0.5}, {"acc", 0.25}}, m.save_id});
    c.add_index(m);
    return c;
}

const std::string one_id = "0123456789abcdef0123456789abcdef";
cairn::detail::record_owner somebody() {
    return {{"a boot", 4026531836, 4711, 12345, one_id}, {"job 17", 2}, "node3"};
}
cairn::detail::save_intent intent(std::vector<std::string> names,
                                  std::vector<std::string> replaced) {
    return {one_id, 1'000'000'000, somebody(), std::move(names), one_id, std::move(replaced)};
}
/// Complete ones, of a checkpointer, of none and of PyTorch; a save and a removal that were
/// interrupted; readers.
crafted root(const crafted& torch) {
    crafted all;
    auto const add = [&](const std::string& id, const crafted& c) {
        for (auto const& [name, content] : c.files) all.files[id + "/" + name] = content;
    };
    auto one = with_record(small(1.0f), 1), two = with_record(small(2.0f), 2);
    one.files[".saving." + one_id] =
        intent({"__0_0.distcp", "x." + one_id + ".distcp"}, {}).encode();
    two.files[".reading." + one_id] =
        cairn::detail::read_notice{1'000'000'000, somebody()}.encode();
    add("step_1", one);
    add("step_2", two);
    add("torch", torch);
    crafted left;
    left.files["__0_0.distcp"] = two.files.at(two.metadata().file_sizes.begin()->first);
    left.files[".saving." + one_id] = intent({}, {"__0_0.distcp", "../step_2/.metadata"}).encode();
    add("step_3", left);
    return all;
}

crafted of_directory(const fs::path& p) {
    crafted c;
    for (auto const& e : fs::directory_iterator(p)) {
        std::ifstream f(e.path(), std::ios::binary);
        std::string const s{std::istreambuf_iterator<char>(f), {}};
        auto const b = std::as_bytes(std::span(s));
        c.files[e.path().filename().string()].assign(b.begin(), b.end());
    }
    return c;
}

crafted with(crafted c, const std::function<void(cairn::metadata&)>& change) {
    auto m = c.metadata();
    change(m);
    c.set_index(m);
    return c;
}
cairn::tensor_metadata& tensor(cairn::metadata& m) {
    return std::get<cairn::tensor_metadata>(m.entries.find("t")->second);
}
/// Changes the first chunk of the tensor.
template <class F>
void edit(cairn::metadata& m, F&& f) {
    tensor(m).chunks.edit(0, f);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    fs::path const golden = argv[1], corpus = argv[2];
    auto const write_bytes = [&](const std::string& target, const std::string& name,
                                 const fuzz::input& b) {
        fs::create_directories(corpus / target);
        std::ofstream(corpus / target / name, std::ios::binary)
            .write(reinterpret_cast<const char*>(b.data()), static_cast<std::streamsize>(b.size()));
    };
    auto const write = [&](const std::string& name, const crafted& c) {
        write_bytes("checkpoint", name, fuzz::pack(c));
    };
    auto const crafted_by_torch = [&](const char* name) {
        return of_directory(golden / "crafted" / name);
    };
    write("cairn", of_cairn(true));
    write("cairn_alone", of_cairn(false));
    for (auto const* name : {"A_min", "G_sm_str", "H_stridedview", "L_nocrc"})
        write(std::string("torch_") + name, crafted_by_torch(name));
    write("record", with_record(small(), 7));
    for (auto const* name : {"A_min", "G_sm_str", "H_stridedview"})
        write_bytes("damage", std::string("torch_") + name, fuzz::pack(crafted_by_torch(name)));
    write_bytes("damage", "cairn", fuzz::pack(of_cairn(true)));
    write_bytes("catalog", "root", fuzz::pack(root(crafted_by_torch("A_min"))));

    auto const format = [&](const std::string& name, const fs::path& files) {
        auto c = of_directory(files);
        c.files.erase("expected.json");
        constexpr std::string_view config =
            R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[4,4]}})";
        auto const said = std::as_bytes(std::span(config));
        if (name == "safetensors") c.files["config.json"].assign(said.begin(), said.end());
        write_bytes("formats", name, fuzz::pack(c));
    };
    format("safetensors", golden / "formats/hf/quantised_blocks");
    format("shards", golden / "formats/hf/dcp_sharded_3_ranks");
    for (auto const* name : {"zip_kinds", "legacy_kinds"})
        format(name, golden / "formats/pt" / name);
    write_bytes("formats", "cairn", fuzz::pack(of_cairn(true)));

    // What once crashed, or took more memory than there is.
    write("bad_strides", with(small(), [](auto& m) {
              edit(m, [](auto& c) { c.at.layout->strides = {1'000'000, 1}; });
          }));
    write("bad_strides_count",
          with(small(), [](auto& m) { edit(m, [](auto& c) { c.at.layout->strides = {}; }); }));
    write("bad_payload", with(small(), [](auto& m) {
              edit(m, [](auto& c) { c.at.layout->payload_length = 4; });
          }));
    write("bad_claim", with(small(), [](auto& m) {
              auto& t = tensor(m);
              t.shape = {std::int64_t{1} << 50};
              edit(m, [&](auto& c) {
                  c.region = {{0}, t.shape};
                  c.at.layout->strides = {1};
              });
          }));
    write("bad_list", with(small(), [](auto& m) {
              m.paths["step"] = {std::string("a"), std::int64_t{1'000'000'000}};
          }));
    write("bad_deep_path", with(small(), [](auto& m) {
              m.paths["step"] = cairn::key_path(300, cairn::path_element(std::string()));
          }));
    cairn::format::torch::tensor_item const item({cairn::dtype::f32, {2, 3}, {3, 1}, 6, 64});
    fuzz::input whole(item.prefix().begin(), item.prefix().end());
    fuzz::input const zeros(24);
    whole.insert(whole.end(), zeros.begin(), zeros.end());
    auto const rest = item.suffix(cairn::format::crc32(zeros));
    whole.insert(whole.end(), rest.begin(), rest.end());
    write_bytes("compressed", "zeros", fuzz::compressed(whole, 3));

    namespace native = cairn::format::native;
    write_bytes("index", "record", with_record(small(), 7).files[".metadata"]);
    write_bytes("index", "cairn", of_cairn(true).files[".metadata"]);
    // Small ones: many more changes of these are executed in the same time.
    write_bytes("metadata", "small",
                cairn::format::torch::write_metadata_pickle(small().metadata()));
    write_bytes("index", "small", small().files[".metadata"]);
    write_bytes("index_body", "small", native::encode_metadata(small().metadata()));
    write_bytes("index_body", "cairn", native::encode_metadata(of_cairn(true).metadata()));
    write_bytes("record", "two",
                fuzz::encode_record({7, 1'700'000'000'000, 100, {{"a", 1}, {"b", -2}}, one_id}));
    write_bytes("intent", "save",
                intent({"__0_0.distcp", "a/b.distcp"}, {"__1_0.distcp"}).encode());
    write_bytes("notice", "one", cairn::detail::read_notice{1'000'000'000, somebody()}.encode());
    cairn::storage_location at{
        "__0_0.distcp", 64, 2048, {}, cairn::item_layout{512, 16, 1, 2, {1}}};
    cairn::storage_location plain{"__0_1.distcp", 0, 900, {"stream.zstd/1"}, {}};
    write_bytes("results", "two",
                cairn::encode_write_results(
                    {{{0, at}, {1, plain}}, {{"__0_0.distcp", 4096}, {"__0_1.distcp", 900}}}));
    auto const report = [&](const std::string& name, std::uint8_t kind, const fuzz::input& said) {
        fuzz::input b{std::byte{kind}};
        b.insert(b.end(), said.begin(), said.end());
        write_bytes("report", name, b);
    };
    cairn::error const failure(cairn::errc::io, {.rank = 3, .file = "f", .found = "no room"});
    cairn::detail::rank_report said{};
    said.step = 100;
    said.failures = {failure.as_failure(3)};
    report("rank", 0, cairn::detail::encode(said));
    cairn::detail::rendezvous_answer answer{};
    answer.failures = said.failures;
    report("answer", 1, cairn::detail::encode(answer));
    report("plan", 2, cairn::detail::encode(cairn::checkpoint_plan{{{1, 2, 3}, {4, 5, 6}}, 5, 99}));
    report("needs", 3, [] {
        cairn::detail::wire_writer w;
        w.varint(1000);
        w.varint(500);
        w.u8(1);
        w.varint(2000);
        w.string("a directory");
        w.raw(cairn::encode_save_plan({}));
        return w.take();
    }());
    report("missing", 4, cairn::detail::encode_missing({{3, true, "write", 17, 5}, {4}}));
    report("held", 5, {std::byte{2}, std::byte{0}, std::byte{4}, std::byte{1}, std::byte{5}});
    report("selection", 6, [] {
        cairn::detail::wire_writer w;
        cairn::detail::put(w, cairn::detail::plan_selection{{0, 3}, {5}});
        return w.take();
    }());
    report("planes", 7, [] {
        cairn::detail::wire_writer w;
        for (int r : {0, 1}) cairn::detail::put(w, cairn::detail::plane_place{true, 0, r, 2});
        return w.take();
    }());
    write_bytes(
        "hello", "join",
        cairn::detail::with_handshake_head(cairn::detail::encode(cairn::detail::join_request{
            7, 9, 3, 8, 2, {{"10.0.0.1", 4321}, {"::1", 1}}, "process 4711 on node3", {}})));
    write_bytes("hello", "answer",
                cairn::detail::with_handshake_head(cairn::detail::encode(cairn::detail::join_answer{
                    cairn::detail::join_answer::verdict::go, "why", 9, {{"10.0.0.1", 4321}}})));
    auto const frame_of = [](cairn::detail::tree_frame::type what, std::vector<int> ranks) {
        cairn::detail::tree_frame f;
        f.what = what;
        f.lane = 7;
        for (int r : ranks)
            f.entries.push_back({r, std::make_shared<cairn::message>(3, std::byte{1})});
        return f;
    };
    using enum cairn::detail::tree_frame::type;
    write_bytes("group", "gather_at_root",
                fuzz::encode_story({0,
                                    0,
                                    0,
                                    {{2, 700, {}},
                                     {0, 0, frame_of(arrive, {1, 3, 4})},
                                     {0, 1, frame_of(arrive, {2, 5, 6})}}}));
    write_bytes("group", "late_child",
                fuzz::encode_story({1,
                                    0,
                                    0,
                                    {{0, 0, frame_of(arrive, {3})},
                                     {2, 11'000, {}},
                                     {0, 1, frame_of(late, {})},
                                     {0, 2, frame_of(probe, {})},
                                     {0, 2, frame_of(wait, {})},
                                     {0, 1, frame_of(missing, {})},
                                     {3, 1, {}}}}));
    return 0;
}
