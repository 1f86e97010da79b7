// SPDX-License-Identifier: Apache-2.0
// What the suites for stores find: each store here breaks one promise.
#include <cairn/object_store/memory.hpp>
#include <cairn/testing/object_store.hpp>
#include <cairn/testing/renaming_store.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(broken_stores)

namespace {

struct broken_store {
    enum kind {
        fine,
        publish_overwrites,
        publish_writes_in_place,
        create_overwrites,
        unfinished_objects_stay,
        list_forgets,
        reads_are_short,
        reads_go_beyond_the_end,
        reads_ignore_the_offset,
        tags_do_not_change,
        absent_objects_are_empty,
        removed_objects_stay,
        removed_versions_stay,
        names_lose_their_folder,
        times_go_back,
        nothing_is_described,
        kinds
    };
    struct writer {
        cairn::memory_store::writer inner;
        kind is;
        bool finished = false;
        writer(cairn::memory_store::writer w, kind k) : inner(std::move(w)), is(k) {}
        writer(writer&& other) noexcept
            : inner(std::move(other.inner)), is(other.is),
              finished(std::exchange(other.finished, true)) {}
        ~writer() {
            if (!finished && is == unfinished_objects_stay) inner.finish(true);
        }
        void write(std::uint64_t at, cairn::byte_span b) { inner.write(at, b); }
        void finish(bool durable) {
            inner.finish(durable);
            finished = true;
        }
    };
    struct reader {
        std::optional<cairn::memory_store::reader> inner;
        kind is;
        std::uint64_t size() const { return inner ? inner->size() : 0; }
        void read(std::uint64_t at, std::span<std::byte> into) const {
            if (!inner) return;
            if (is == reads_go_beyond_the_end && at <= size())
                into = into.first(std::min<std::size_t>(into.size(), size() - at));
            if (is == reads_are_short) into = into.first(into.size() / 2);
            inner->read(is == reads_ignore_the_offset ? 0 : at, into);
        }
    };

    writer create(std::string_view n, std::uint64_t size) {
        if (is == create_overwrites) inner.remove(named(n));
        return {inner.create(named(n), size), is};
    }
    void publish(std::string_view n, cairn::byte_span b, std::optional<cairn::object_tag> match) {
        if (is == publish_writes_in_place && b.size() > 1000) {
            auto half = cairn::byte_vector(b.size());
            std::copy_n(b.begin(), b.size() / 2, half.begin());
            inner.publish(named(n), half, match);
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
            match.reset();
        }
        inner.publish(named(n), b, is == publish_overwrites ? std::nullopt : std::move(match));
    }
    reader open(std::string_view n) {
        if (is == absent_objects_are_empty && inner.tag(named(n)).text.empty())
            return {std::nullopt, is};
        return {inner.open(named(n)), is};
    }
    cairn::object_tag tag(std::string_view n) {
        auto t = inner.tag(named(n));
        if (is == tags_do_not_change && !t.text.empty()) t.text = "there";
        return t;
    }
    std::vector<cairn::object_info> list() {
        auto all = inner.list();
        for (auto& info : all) {
            std::replace(info.name.begin(), info.name.end(), '|', '/');
            info.modified = is == times_go_back ? --clock : 0;
        }
        if (is == list_forgets && all.size() > 1) all.pop_back();
        return all;
    }
    void remove(std::string_view n) {
        if (is != removed_objects_stay) inner.remove(named(n));
    }
    void remove(std::string_view n, const cairn::object_tag&) {
        if (is != removed_versions_stay) remove(n);
    }
    void sync() {}
    std::string describe(std::string_view n) {
        return is == nothing_is_described ? "" : inner.describe(n);
    }

    std::string named(std::string_view n) const {
        std::string name(n);
        std::replace(name.begin(), name.end(), '/', '|');
        return is == names_lose_their_folder ? name.substr(name.find('|') + 1) : name;
    }
    kind is = fine;
    cairn::memory_store inner{};
    std::int64_t clock = 1000;
};
static_assert(cairn::ObjectStore<broken_store>);

struct broken_places : cairn::memory_store {
    enum kind {
        fine,
        any_order,
        places_deeper,
        places_forgotten,
        removes_objects,
        tags_of_absent_objects,
        tags_stay,
        tree_is_flat,
        kinds
    };
    broken_places(kind k, cairn::memory_store s) : cairn::memory_store(std::move(s)), is(k) {}
    broken_places at(const std::string& id) const { return {is, cairn::memory_store::at(id)}; }
    std::vector<std::string> places() {
        auto all = cairn::memory_store::places();
        if (is == any_order) std::reverse(all.begin(), all.end());
        if (is == places_forgotten && !all.empty()) all.pop_back();
        if (is == places_deeper)
            for (auto const& id : cairn::memory_store::places())
                for (auto const& within : at(id).cairn::memory_store::places())
                    all.push_back(id + "/" + within);
        return all;
    }
    void remove_place(const std::string& id) {
        if (is != removes_objects) return;
        auto place = at(id);
        for (auto const& info : place.list()) place.remove(info.name);
    }
    std::vector<cairn::place_info> places_with(std::string_view name) {
        std::vector<cairn::place_info> all;
        for (auto const& id : places()) {
            auto tag = at(id).tag(name);
            if (is == tags_of_absent_objects && tag.text.empty()) tag.text = "none";
            if (is == tags_stay && !tag.text.empty()) tag.text = id;
            all.push_back({id, 0, false, tag});
        }
        return all;
    }
    std::vector<cairn::object_info> list_tree() {
        auto all = list();
        if (is == tree_is_flat) return all;
        for (auto const& id : places())
            for (auto o : at(id).list_tree()) {
                o.name = id + "/" + o.name;
                all.push_back(o);
            }
        return all;
    }
    kind is;
};
static_assert(cairn::BrowsableStore<broken_places>);

/// Finds out in `finish` whether a name is taken. A handle that is destroyed unfinished may remove
/// what has its name, whoever made it.
struct late_store : cairn::memory_store {
    struct writer {
        cairn::memory_store to;
        std::string name;
        cairn::byte_vector bytes;
        std::shared_ptr<std::string> removed;  ///< In the end; empty: nothing.
        void write(std::uint64_t at, cairn::byte_span b) {
            std::copy(b.begin(), b.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
        }
        void finish(bool durable) {
            auto h = to.create(name, bytes.size());
            h.write(0, bytes);
            h.finish(durable);
            removed->clear();
        }
    };
    late_store at(std::string id) const {
        return {cairn::memory_store::at(std::move(id)), removes};
    }
    writer create(std::string_view n, std::uint64_t size) {
        auto const remove = [to = cairn::memory_store(*this)](std::string* name) mutable {
            if (!name->empty()) to.remove(*name);
            delete name;
        };
        return {*this, std::string(n), cairn::byte_vector(size),
                std::shared_ptr<std::string>(new std::string(removes ? n : ""), remove)};
    }
    bool removes = false;
};
static_assert(cairn::ObjectStore<late_store>);

/// Its handles read what has their name.
struct following_store : cairn::memory_store {
    enum kind { fine, tags_stay, tags_are_new, kinds } is;

    following_store(kind k, cairn::memory_store s) : cairn::memory_store(std::move(s)), is(k) {}
    following_store at(std::string id) const {
        return {is, cairn::memory_store::at(std::move(id))};
    }
    struct reader {
        cairn::memory_store from;
        std::string name;
        kind is;
        cairn::object_tag opened;
        void read(std::uint64_t at, std::span<std::byte> into) { from.open(name).read(at, into); }
        std::uint64_t size() { return from.open(name).size(); }
        cairn::object_tag tag() {
            auto now = from.tag(name);
            if (is == tags_are_new && !(now == opened)) now.text += '+';
            return is == tags_stay ? opened : now;
        }
    };
    reader open(std::string_view n) {
        auto const now = cairn::memory_store::open(n).tag();
        return {*this, std::string(n), is, now};
    }
};
static_assert(cairn::VersionedReadStore<following_store>);

}  // namespace

BOOST_AUTO_TEST_CASE(the_suite_finds_what_a_store_breaks) {
    for (int k = 0; k < broken_store::kinds; ++k) {
        auto const is = static_cast<broken_store::kind>(k);
        auto const found = cairn::testing::object_store_suite([&] { return broken_store{is}; });
        BOOST_TEST(found.empty() == (is == broken_store::fine), "kind " << k);
        for (auto const& failure : found) BOOST_TEST_MESSAGE(k << ": " << failure);
    }
}

BOOST_AUTO_TEST_CASE(the_suite_asks_for_no_more_than_the_concept) {
    for (auto const& failure : cairn::testing::object_store_suite([] { return late_store(); }))
        BOOST_ERROR(failure);
}

BOOST_AUTO_TEST_CASE(the_suite_finds_a_handle_that_removes_the_object_of_another) {
    auto const found = cairn::testing::object_store_suite([] { return late_store{{}, true}; });
    BOOST_TEST(std::any_of(found.begin(), found.end(), [](const std::string& failure) {
        return failure.starts_with("create, twice: ");
    }));
}

BOOST_AUTO_TEST_CASE(the_suite_finds_a_handle_with_the_tag_of_another_version) {
    for (int k = 0; k < following_store::kinds; ++k) {
        auto const is = static_cast<following_store::kind>(k);
        auto const found = cairn::testing::object_store_suite(
            [&] { return following_store(is, cairn::memory_store()); });
        BOOST_TEST(found.empty() == (is == following_store::fine), "kind " << k);
        for (auto const& failure : found) BOOST_TEST(failure.starts_with("versions of handles: "));
        for (auto const& failure : found) BOOST_TEST_MESSAGE(k << ": " << failure);
    }
}

namespace {

/// A store that breaks one promise of a RenamingStore.
struct broken_names : cairn::memory_store {
    enum kind { fine, replaces, merges, lists_all, follows_prefix, kinds } is;

    broken_names(kind k, cairn::memory_store s) : memory_store(std::move(s)), is(k) {}
    broken_names at(std::string id) const { return {is, memory_store::at(std::move(id))}; }
    void move(std::string_view from, std::string_view to) {
        if (is == replaces) {
            remove_tree(to);
            remove(to);
        }
        memory_store::move(from, to);
    }
    void exchange(std::string_view a, std::string_view b) {
        if (is != merges) return memory_store::exchange(a, b);
        if (kind_of(a) == cairn::name_kind::none || kind_of(b) == cairn::name_kind::none)
            return memory_store::exchange(a, b);
        remove_tree(b);
        remove(b);
        memory_store::move(a, b);
    }
    std::vector<std::string> hidden_places() {
        auto all = memory_store::hidden_places();
        if (is == lists_all)
            for (auto& p : places()) all.push_back(std::move(p));
        return all;
    }
    void remove_tree(std::string_view name) {
        if (is == follows_prefix) memory_store::remove_tree(std::string(name) + "p");
        memory_store::remove_tree(name);
    }
};
static_assert(cairn::RenamingStore<broken_names>);

}  // namespace

BOOST_AUTO_TEST_CASE(the_suite_finds_what_renames_of_a_store_break) {
    for (int k = 0; k < broken_names::kinds; ++k) {
        auto const is = static_cast<broken_names::kind>(k);
        auto const found = cairn::testing::renaming_store_suite(
            [&] { return broken_names(is, cairn::memory_store()); });
        BOOST_TEST(found.empty() == (is == broken_names::fine), "kind " << k);
        for (auto const& failure : found) BOOST_TEST_MESSAGE(k << ": " << failure);
    }
}

BOOST_AUTO_TEST_CASE(the_suite_finds_what_places_of_a_store_break) {
    for (int k = 0; k < broken_places::kinds; ++k) {
        auto const is = static_cast<broken_places::kind>(k);
        auto const found = cairn::testing::browsable_store_suite(
            [&] { return broken_places(is, cairn::memory_store()); });
        BOOST_TEST(found.empty() == (is == broken_places::fine), "kind " << k);
        for (auto const& failure : found) BOOST_TEST_MESSAGE(k << ": " << failure);
    }
}

BOOST_AUTO_TEST_SUITE_END()
