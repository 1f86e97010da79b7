// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_STORAGE_SAFETENSORS_EXPORTS_HPP
#define CAIRN_TEST_STORAGE_SAFETENSORS_EXPORTS_HPP

#include <cairn/cairn.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/safetensors_writer.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// States whose bytes do not depend on who holds them, and what their exports are.
namespace safetensors_exports {

namespace fs = std::filesystem;
using cairn::dtype;
using contents = std::map<std::string, cairn::byte_vector>;

/// How the ranks hold a tensor.
enum class held { rows, columns, whole };

struct part_of_state {
    std::string fqn;
    dtype type;
    cairn::index_vector shape;
    held how = held::rows;
};

/// One rank's part of a state whose bytes follow from names and positions.
class state_part {
public:
    state_part(const std::vector<part_of_state>& all, int rank, int ranks, unsigned seed = 0) {
        for (auto const& p : all) add(p, rank, ranks, seed);
    }
    const cairn::state_dict& dict() const { return dict_; }

private:
    void add(const part_of_state& p, int rank, int ranks, unsigned seed) {
        auto const n = static_cast<std::size_t>(p.shape.product()) * cairn::size_of(p.type);
        auto& whole = memory_.emplace_back(n);
        for (std::size_t i = 0; i < n; ++i)
            whole[i] = static_cast<std::byte>((i * 37 + i / 251 + p.fqn.size() * 11 + seed) &
                                              (p.type == dtype::boolean ? 1u : 0xffu));
        cairn::tensor_view const all(p.type, p.shape, whole.data());
        if (p.how == held::whole || p.shape.empty()) {
            dict_[p.fqn] = all;
            return;
        }
        std::size_t const d = p.how == held::rows ? 0 : p.shape.size() - 1;
        auto const boxes = cairn::boxes_of(p.shape, cairn::device_mesh::line(ranks),
                                           {cairn::shard_along{static_cast<int>(d)}}, rank);
        cairn::sharded_view v{p.shape, p.type, {}};
        for (auto const& b : boxes) {  // the memory of a rank has gaps
            if (b.empty()) continue;
            v.shards.push_back(cairn::shard(b, cairn::subview(all, b)));
        }
        dict_[p.fqn] = v;
    }

    std::list<cairn::byte_vector> memory_{};
    cairn::state_dict dict_{};
};

inline std::vector<part_of_state> many_kinds(held how) {
    std::vector<part_of_state> all{{"scalar", dtype::float64, {}},
                                   {"empty", dtype::int64, {0, 3}},
                                   {"rows.7", dtype::float32, {7, 5}},
                                   {"l\xc3\xb6ng \"name\"", dtype::bfloat16, {2, 3, 9}},
                                   {"wide", dtype::int16, {3, 160000}},
                                   {"large", dtype::float32, {40, 5000}},
                                   {"experts", dtype::float32, {4, 9, 4096}}};
    for (auto const type : {dtype::float64,
                            dtype::float32,
                            dtype::float16,
                            dtype::bfloat16,
                            dtype::float8_e4m3fn,
                            dtype::float8_e5m2,
                            dtype::float8_e4m3fnuz,
                            dtype::float8_e5m2fnuz,
                            dtype::float8_e8m0fnu,
                            dtype::int64,
                            dtype::int32,
                            dtype::int16,
                            dtype::int8,
                            dtype::uint64,
                            dtype::uint32,
                            dtype::uint16,
                            dtype::uint8,
                            dtype::boolean,
                            dtype::complex64,
                            dtype::float4_e2m1fn_x2})
        all.push_back({std::string(cairn::name_of(type)), type, {5, 6}});
    for (auto& p : all) p.how = how;
    return all;
}

template <class Store>
contents contents_of(Store place) {
    contents all;
    for (auto const& info : place.list()) all[info.name] = cairn::read_whole(place, info.name);
    return all;
}
template <class Store>
cairn::save_report save_on(Store store, const std::vector<part_of_state>& parts, int ranks,
                           const std::string& id, cairn::safetensors_writer_options o = {},
                           unsigned seed = 0) {
    cairn::save_report report;
    cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
        state_part const mine(parts, me.rank(), ranks, seed);
        auto r = cairn::save(mine.dict(), id, me, cairn::safetensors_writer(store, o));
        if (me.rank() == 0) report = std::move(r);
    });
    return report;
}
/// Without what differs from save to save.
inline contents without_ids(contents all) {
    auto const it = all.find("model.safetensors.index.json");
    if (it == all.end()) return all;
    std::string text(reinterpret_cast<const char*>(it->second.data()), it->second.size());
    auto const at = text.find("\"save_id\"");
    text.erase(at, text.find('\n', at) - at);
    auto const b = std::as_bytes(std::span(text));
    it->second.assign(b.begin(), b.end());
    return all;
}
inline std::string names_in(const contents& all) {
    std::string out;
    for (auto const& [name, b] : all) out += name + " ";
    return out;
}
inline std::string failure_of(const std::function<void()>& f) {
    try {
        f();
    } catch (const cairn::error& e) {
        return e.what();
    }
    return "no failure";
}
inline bool says(const std::string& text, const std::string& part) {
    if (text.find(part) != text.npos) return true;
    BOOST_TEST_MESSAGE(text);
    return false;
}
inline cairn::byte_vector content_of(const fs::path& p) {
    std::ifstream f(p, std::ios::binary);
    std::string const s{std::istreambuf_iterator<char>(f), {}};
    auto const b = std::as_bytes(std::span(s));
    return {b.begin(), b.end()};
}
/// What is in a directory, hidden directories included.
inline std::set<std::string> entries_of(const fs::path& p) {
    std::set<std::string> out;
    for (auto const& e : fs::directory_iterator(p)) out.insert(e.path().filename().string());
    return out;
}

}  // namespace safetensors_exports

#endif
