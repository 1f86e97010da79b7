// SPDX-License-Identifier: Apache-2.0
// seeds GOLDEN CORPUS: writes the checkpoints that the target `checkpoint` begins with to
// CORPUS/checkpoint. Run by hand when the format changes; the corpus is kept.
#include "edit.hpp"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
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
        cairn::save(sd, "c", o, me, store);
    });
    return {store, "c"};
}

crafted small() {
    cairn::memory_store store;
    std::vector<float> square(4, 3.0f);
    cairn::state_dict sd{
        {"t", cairn::tensor_view(cairn::dtype::f32, {2, 2}, {1, 2}, square.data())}, {"step", 7}};
    cairn::save(sd, "c", store);
    return {store, "c"};
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

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    fs::path const golden = argv[1], out = fs::path(argv[2]) / "checkpoint";
    fs::create_directories(out);
    auto const write = [&](const std::string& name, const crafted& c) {
        auto const b = fuzz::pack(c);
        std::ofstream(out / name, std::ios::binary)
            .write(reinterpret_cast<const char*>(b.data()), static_cast<std::streamsize>(b.size()));
    };
    write("cairn", of_cairn(true));
    write("cairn_alone", of_cairn(false));
    for (auto const* name : {"A_min", "G_sm_str", "H_stridedview", "L_nocrc"})
        write(std::string("torch_") + name, of_directory(golden / "crafted" / name));
    write("torch_fsdp", of_directory(golden / "torch-2.14.1/fsdp1_linear_2_ranks/checkpoint"));

    // What once crashed, or took more memory than there is.
    write("bad_strides", with(small(), [](auto& m) {
              tensor(m).chunks[0].at.layout->strides = {1'000'000, 1};
          }));
    write("bad_strides_count",
          with(small(), [](auto& m) { tensor(m).chunks[0].at.layout->strides = {}; }));
    write("bad_payload",
          with(small(), [](auto& m) { tensor(m).chunks[0].at.layout->payload_length = 4; }));
    write("bad_claim", with(small(), [](auto& m) {
              auto& t = tensor(m);
              t.shape = {std::int64_t{1} << 50};
              t.chunks[0].region = {{0}, t.shape};
              t.chunks[0].at.layout->strides = {1};
          }));
    write("bad_list", with(small(), [](auto& m) {
              m.paths["step"] = {std::string("a"), std::int64_t{1'000'000'000}};
          }));
    write("bad_deep_path", with(small(), [](auto& m) {
              m.paths["step"] = cairn::key_path(5000, cairn::path_element(std::string()));
          }));
    return 0;
}
