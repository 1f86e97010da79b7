// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_STORAGE_FLAT_EXPORTS_HPP
#define CAIRN_TEST_STORAGE_FLAT_EXPORTS_HPP

#include "safetensors_exports.hpp"
#include "support/forwarding_store.hpp"

#include <cairn/object_store/memory.hpp>
#include <cairn/storage/checkpoint_reader.hpp>
#include <cairn/storage/safetensors_writer.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

/// Exports into a store that cannot rename, and what they leave.
namespace flat_exports {

using namespace safetensors_exports;

/// Memory that cannot rename.
class store : public support::forwarding_store<cairn::memory_store> {
public:
    explicit store(cairn::memory_store s) : forwarding_store(std::move(s)) {}
    store at(const std::string& id) const { return store(store_.at(id)); }
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
};
static_assert(cairn::BrowsableStore<store> && !cairn::RenamingStore<store>);

inline constexpr const char* index_file = "model.safetensors.index.json";

inline const std::vector<part_of_state> two_parts{
    {"columns", dtype::float32, {4, 6}, held::columns},
    {"rows", dtype::float32, {2, 40'000}, held::rows}};
inline cairn::safetensors_writer_options two_files() {
    cairn::safetensors_writer_options o;
    o.max_file_size = 100;
    return o;
}
/// What a directory's index names; the single file if there is no index.
inline std::set<std::string> weights_of(cairn::memory_store place) {
    cairn::checkpoint_reader reader{place};
    reader.reset("");
    std::set<std::string> files;
    for (auto const& [name, size] : reader.read_metadata().file_sizes) files.insert(name);
    return files;
}
inline std::set<std::string> names_of(cairn::memory_store place) {
    std::set<std::string> out;
    for (auto const& info : place.list()) out.insert(info.name);
    return out;
}
/// Elements by name: all of them.
inline std::map<std::string, cairn::byte_vector> elements_of(cairn::memory_store base,
                                                             const std::string& id) {
    cairn::checkpoint_reader reader{base};
    reader.reset(id);
    std::map<std::string, cairn::byte_vector> out;
    cairn::state_dict views;
    auto const m = reader.read_metadata();
    for (auto const& [fqn, entry] : m.entries) {
        auto const& t = std::get<cairn::tensor_metadata>(entry);
        auto& b = out[fqn];
        b.resize(static_cast<std::size_t>(t.shape.product()) * cairn::size_of(t.type));
        views[fqn] = cairn::tensor_view(t.type, t.shape, b.data());
    }
    (void)cairn::load(views, id, base);
    return out;
}
/// What a target has while nothing is being written there.
inline void check_clean(cairn::memory_store base, const std::string& id) {
    auto expected = weights_of(base.at(id));
    if (!expected.count("model.safetensors")) expected.insert(index_file);
    BOOST_TEST(names_of(base.at(id)) == expected, boost::test_tools::per_element());
    BOOST_TEST(base.at("." + id + ".saving").list().empty());
}

}  // namespace flat_exports

#endif
