// SPDX-License-Identifier: Apache-2.0
// Files of torch.save, laid out by cairn:
//     torch_save_files simple OUT
// writes the state of golden/make/torch_save.py, and
//     torch_save_files again IN OUT [ITEM]...
// what the file IN holds, whose tensors are contiguous. Each ITEM is a file of torch.save that
// becomes a value, named after the file.
#include "support/laid_out.hpp"

#include <cairn/error.hpp>
#include <cairn/format/torch_save/content.hpp>
#include <cairn/format/torch_save/layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace {

namespace fs = std::filesystem;
namespace ts = cairn::format::torch_save;
using elements = std::map<std::string, std::string>;

std::string slurp(const fs::path& p) {
    std::ifstream f(p, std::ios::binary);
    return {std::istreambuf_iterator<char>(f), {}};
}
void write(const fs::path& p, const std::string& file) {
    std::ofstream f(p, std::ios::binary);
    f.write(file.data(), static_cast<std::streamsize>(file.size()));
    if (!f.flush()) throw std::runtime_error("cannot write " + p.string());
}

/// Returns the entries of a file, and the elements of its tensors. Tensors of the same elements are
/// tied.
std::pair<laid_out::state, elements> read(const std::string& file) {
    cairn::format::read_at const source = [&](std::uint64_t at, std::span<std::byte> into) {
        if (!into.empty()) std::memcpy(into.data(), file.data() + at, into.size());
    };
    ts::content const all(source, file.size());
    laid_out::state s;
    elements bytes;
    std::map<std::tuple<std::string, std::uint64_t, std::size_t, cairn::dtype>, std::string> known;
    for (auto const& [name, e] : all.entries()) {
        if (!e.path.empty()) s.paths.emplace(name, e.path);
        if (auto const* v = std::get_if<ts::stored_value>(&e.what)) {
            s.entries.push_back({name, all.read_value(*v, source)});
            continue;
        }
        auto const& t = std::get<ts::stored_tensor>(e.what);
        auto const size = cairn::size_of(t.type);
        auto const length = static_cast<std::size_t>(t.shape.product()) * size;
        auto const owner =
            length == 0
                ? name
                : known
                      .try_emplace({std::string(t.storage), t.storage_offset, length, t.type}, name)
                      .first->second;
        s.entries.push_back(
            {name, ts::new_tensor{t.type, t.shape, t.requires_grad, owner == name ? "" : owner}});
        bytes[name] =
            file.substr(static_cast<std::size_t>(t.at.offset + t.storage_offset * size), length);
    }
    return {std::move(s), std::move(bytes)};
}

int run(const std::vector<std::string>& args) {
    if (args.size() == 2 && args[0] == "simple") {
        auto const name = fs::path(args[1]).filename().string();
        write(args[1], laid_out::fill(laid_out::simple().file(name)));
        return 0;
    }
    if (args.size() < 3 || args[0] != "again") return 2;
    auto content = read(slurp(args[1]));
    auto& s = content.first;
    for (std::size_t i = 3; i < args.size(); ++i) {
        auto const item = slurp(args[i]);
        auto const b = std::as_bytes(std::span(item));
        s.value({fs::path(args[i]).stem().string()},
                cairn::value::opaque_t({b.begin(), b.end()}, "stored"));
    }
    auto const l = s.file(fs::path(args[2]).filename().string());
    write(args[2], laid_out::fill(l, [&](const cairn::format::target_tensor& t) {
              return content.second.at(t.fqn);
          }));
    for (auto const& [name, classes] : l.to_trust())
        for (auto const& c : classes) std::printf("%s %s\n", name.c_str(), c.c_str());
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run({argv + 1, argv + argc});
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
