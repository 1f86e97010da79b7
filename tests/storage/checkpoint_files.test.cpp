// SPDX-License-Identifier: Apache-2.0
// What a save does for each file of its own, and for what it replaces, however large that is.
#include <cairn/storage/detail/checkpoint_files.hpp>

#include "support/allocations.hpp"
#include "support/counting_store.hpp"
#include "support/crafted.hpp"
#include "support/error_text.hpp"
#include "support/forwarding_store.hpp"
#include "support/whole.hpp"

#include <cairn/detail/wire.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/format/native/index_magic.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(checkpoint_files)

namespace {

using counted = support::counting_store<cairn::memory_store>;

cairn::save_report save(float v, auto store, const cairn::save_options& o = {}) {
    std::vector<float> w(64, v);
    int step = 7;
    cairn::state_dict sd{{"w", w}, {"step", std::ref(step)}};
    return cairn::save(sd, "c", o, store);
}
/// Adds as many chunks to the metadata that a place has as thousands of ranks have.
std::size_t enlarge(cairn::memory_store& store) {
    support::crafted c(store, "c");
    auto m = c.metadata();
    auto t = std::get<cairn::tensor_metadata>(m.entries.at("w"));
    auto const one = t.chunks[0];
    for (int i = 0; i < 40'000; ++i) t.chunks.push_back(one);
    m.entries["large"] = std::move(t);
    c.set_index(m);
    auto const& bytes = c.files.at(".metadata");
    store.at("c").publish(".metadata", bytes, std::nullopt);
    return bytes.size();
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_files_are_those_that_the_metadata_names) {
    cairn::memory_store store;
    save(1, store);
    counted watched(store);
    int opened = 0;
    watched.on_open([&](std::string_view) { ++opened; });
    auto place = watched.at("c");
    auto const m = support::crafted(store, "c").metadata();
    auto const from_root = cairn::detail::read_checkpoint_files(place);
    BOOST_TEST(from_root.save_id == m.save_id);
    BOOST_TEST((from_root.names == cairn::detail::files_of(m)));
    BOOST_TEST(from_root.names.size() == 1u);
    // Without a root: PyTorch's pickle.
    place.publish(".metadata", cairn::format::torch::write_metadata_pickle(m), std::nullopt);
    auto const from_pickle = cairn::detail::read_checkpoint_files(place);
    BOOST_TEST(from_pickle.save_id == "");
    BOOST_TEST((from_pickle.names == from_root.names));
    BOOST_TEST(opened == 2);  // each of them once
}

BOOST_AUTO_TEST_CASE(a_save_reads_only_the_file_names_of_what_it_replaces) {
    cairn::memory_store store;
    save(1, store);
    auto const size = enlarge(store);
    BOOST_REQUIRE(size > 400'000u);
    counted watched(store);
    save(2, watched);
    BOOST_TEST(watched.reads(".metadata", size - 100, 100).second > 0);
    constexpr std::size_t small = 50'000;  // the new one has fewer bytes
    BOOST_TEST(watched.reads(".metadata", small, size - small - (64u << 10)).second == 0);
    BOOST_TEST(support::only_number(support::load_whole(store, "c").tensors.at("w")) == 2.0f);
    BOOST_TEST(store.at("c").list().size() == 2u);  // the metadata and one file
}

/// The files of a checkpoint whose chunks are damaged are known, and removed with it.
BOOST_AUTO_TEST_CASE(a_whole_root_suffices_to_know_the_files) {
    cairn::memory_store store;
    save(1, store);
    support::crafted c(store, "c");
    auto bytes = c.files.at(".metadata");
    auto const tail = support::native::find_index(bytes, bytes.size());
    bytes[bytes.size() - static_cast<std::size_t>(tail->index_length)] ^= std::byte{1};
    store.at("c").publish(".metadata", bytes, std::nullopt);
    save(2, store);
    BOOST_TEST(store.at("c").list().size() == 2u);
    BOOST_TEST(support::only_number(support::load_whole(store, "c").tensors.at("w")) == 2.0f);
}

namespace {

/// Ends in a root with this heading and no content, all of whose checksums are right.
std::vector<std::byte> with_root(std::span<const std::byte> heading) {
    namespace native = cairn::format::native;
    cairn::detail::wire_writer w;
    w.raw(heading);
    w.u64(0);
    w.u64(heading.size());
    w.u32(cairn::format::crc32({}));
    w.u32(cairn::format::crc32(w.written()));
    w.u64(w.size() + 16);
    w.raw(std::as_bytes(std::span(native::index_magic)));
    return w.take();
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_hostile_root_takes_memory_in_proportion) {
    auto const read = [](std::uint64_t announced, std::size_t there) {
        cairn::detail::wire_writer heading;
        heading.string("a save");
        heading.varint(announced);
        heading.fill(2 * there, std::byte{0});  // names without a letter, sizes that are not known
        cairn::memory_store store;
        auto const bytes = with_root(heading.written());
        store.publish(".metadata", bytes, std::nullopt);
        support::allocations const count;
        auto const why = support::error_of(
            [&] { BOOST_TEST(cairn::detail::read_checkpoint_files(store).names.size() == 1u); });
        BOOST_TEST(count.peak() < 64 * bytes.size() + 100'000);
        return why;
    };
    BOOST_TEST(read(100'000, 100'000) == "");
    BOOST_TEST(support::contains(read(100'001, 100'000), {"count that exceeds the data"}));
    BOOST_TEST(support::contains(read(std::uint64_t{1} << 60, 1), {"count that exceeds the data"}));
    BOOST_TEST(support::contains(read(99'999, 100'000), {"bytes after the heading"}));
}

BOOST_AUTO_TEST_CASE(files_that_were_listed_with_their_sizes_are_not_opened) {
    cairn::memory_store store;
    counted watched(store);
    std::multiset<std::string> opened;
    watched.on_open([&](std::string_view name) { opened.emplace(name); });
    cairn::save_options o;
    o.storage.thread_count = 2;
    o.storage.single_file_per_rank = false;
    save(1, watched, o);
    std::size_t data = 0;
    for (auto const& info : store.at("c").list()) data += info.name.ends_with(".distcp");
    BOOST_TEST(data >= 1u);
    for (auto const& name : opened) BOOST_TEST(!name.ends_with(".distcp"), name);
}

namespace {

/// A store that lists a file as it was, or not at all, and one that has cut it off.
struct lying : support::forwarding_store<cairn::memory_store> {
    enum class about { nothing, size, presence, failure };
    using forwarding_store::forwarding_store;

    lying at(std::string id) const {
        lying l(*this);
        l.store_ = store_.at(std::move(id));
        return l;
    }
    auto create(std::string_view n, std::uint64_t size) {
        *created = true;
        return store_.create(n, size);
    }
    auto open(std::string_view n) {
        cut_off(n);
        return store_.open(n);
    }
    std::vector<cairn::object_info> list() {
        for (auto const& info : store_.list()) cut_off(info.name);
        // Not before the files are written: the claim needs the list.
        if (lie == about::failure && *created) throw std::runtime_error("its list is refused");
        auto all = store_.list();
        if (lie == about::presence)
            std::erase_if(all, [](auto const& o) { return o.name.ends_with(".distcp"); });
        if (lie == about::size)
            for (auto& o : all)
                if (o.name.ends_with(".distcp")) o.size = 1;
        return all;
    }

    about lie = about::nothing;
    bool cuts = false;
    std::shared_ptr<std::atomic<bool>> created = std::make_shared<std::atomic<bool>>(false);

private:
    void cut_off(std::string_view n) {
        if (cuts && n.ends_with(".distcp")) store_.publish(n, {}, std::nullopt);
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(files_are_opened_where_the_list_says_something_else) {
    using enum lying::about;
    for (auto const lie : {nothing, size, presence, failure}) {
        cairn::memory_store base;
        lying store(base);
        store.lie = lie;
        std::size_t said = 0;
        for (auto const& w : save(1, store).warnings)
            said += support::contains(w, {"could not be listed", "opened", "its list is refused"});
        BOOST_TEST(said == (lie == failure ? 1u : 0u));
        BOOST_TEST(support::only_number(support::load_whole(base, "c").tensors.at("w")) == 1.0f);
        store.cuts = true;
        *store.created = false;
        auto const why = support::error_of([&] { save(2, store); });
        BOOST_TEST(support::contains(why, {"as its writer reported", ".distcp"}), why);
    }
}

BOOST_AUTO_TEST_SUITE_END()
