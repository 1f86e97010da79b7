// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_CHECKPOINT_HPP
#define CAIRN_TOOLS_CHECKPOINT_HPP

#include <cairn/cairn.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tool {

/// What the subcommands exit with.
enum exit_code { fine = 0, finding = 1, could_not_run = 2 };

inline cairn::metadata read_metadata(const std::string& checkpoint) {
    cairn::torch_reader reader{cairn::file_store()};
    reader.reset(checkpoint);
    return reader.read_metadata();
}

/// Whether PyTorch can read it too: cairn may have been told to leave PyTorch's pickle out.
inline bool has_torch_metadata(const std::string& checkpoint) {
    cairn::file_store store(checkpoint);
    auto reader = store.open(".metadata");
    std::vector<std::byte> bytes(static_cast<std::size_t>(reader.size()));
    reader.read(0, bytes);
    return cairn::format::native::parse_metadata_file(bytes).torch_metadata;
}
inline constexpr const char* only_cairn =
    "for cairn only: saved with torch_metadata off, PyTorch cannot load it\n";

/// One tensor's box in host memory.
struct loaded_box {
    std::vector<std::byte> bytes{};
    cairn::box where{};
};

/// Loads a box of a tensor, row-major.
inline loaded_box load_box(const std::string& checkpoint, const std::string& fqn,
                           const cairn::tensor_metadata& t, const cairn::box& where) {
    loaded_box out{
        std::vector<std::byte>(static_cast<std::size_t>(where.volume()) * cairn::size_of(t.type)),
        where};
    cairn::tensor_view const v(t.type, where.lengths, out.bytes.data());
    cairn::sharded_view piece{t.extents, t.type, {cairn::shard(where, v)}};
    cairn::state_dict sd{{fqn, piece}};
    cairn::load(sd, checkpoint);
    return out;
}

inline cairn::value load_object(const std::string& checkpoint, const std::string& fqn) {
    cairn::value v;
    cairn::state_dict sd;
    sd[fqn] = std::ref(v);
    cairn::load(sd, checkpoint);
    return v;
}

/// Boxes of whole rows of at most about `limit` bytes, in order: a tensor piece by piece.
inline std::vector<cairn::box> row_pieces(const cairn::tensor_metadata& t, std::uint64_t limit) {
    if (t.extents.empty() || t.extents[0] == 0) return {cairn::box::whole(t.extents)};
    auto const total = static_cast<std::uint64_t>(t.extents.product()) * cairn::size_of(t.type);
    auto const row = total / static_cast<std::uint64_t>(t.extents[0]);
    auto const rows = static_cast<std::int64_t>(
        std::max<std::uint64_t>(1, limit / std::max<std::uint64_t>(1, row)));
    std::vector<cairn::box> out;
    for (std::int64_t at = 0; at < t.extents[0]; at += rows) {
        auto b = cairn::box::whole(t.extents);
        b.offsets[0] = at;
        b.lengths[0] = std::min(rows, t.extents[0] - at);
        out.push_back(std::move(b));
    }
    return out;
}

int ls(const std::string& checkpoint, bool as_json);
int cat(const std::string& checkpoint, const std::string& fqn, bool raw);
int verify(const std::string& checkpoint);
int diff(const std::string& a, const std::string& b);
int reshard(const std::string& from, const std::string& to, int ranks, int dim);

}  // namespace tool

#endif
