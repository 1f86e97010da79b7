// SPDX-License-Identifier: Apache-2.0
// What the suite for formats finds: each writer or reader here breaks one promise.
#include "archetype/storage_reader.hpp"
#include "archetype/storage_writer.hpp"
#include "support/sanitized.hpp"

#include <cairn/format/native/index_content.hpp>
#include <cairn/testing/storage.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(broken_formats)

namespace {

enum class slip {
    none,
    finish_lies,
    write_commits,
    write_loses_bytes,
    write_drops_its_completion,
    write_in_place,
    abandon_keeps_files,
    abandon_removes_all,
    committed_lies,
    committed_denies,
    read_ignores_offsets,
    read_skips_values,
    read_hides_failures,
    absent_is_empty,
    index_has_other_metadata,
    index_has_other_bytes,
    names_fail,
    count
};

class broken_writer {
public:
    broken_writer(std::shared_ptr<cairn::archetype::shelf> at, slip is)
        : at_(at), inner_(std::move(at)), is_(is) {}

    void reset(const cairn::checkpoint_id& id) {
        id_ = id;
        inner_.reset(id);
    }
    void set_up_writer(const cairn::storage_setup& given) {
        auto s = given;
        if (is_ == slip::write_in_place) s.save_id = "files";
        inner_.set_up_writer(std::as_const(s));
    }
    cairn::save_plan prepare_local_save_plan(cairn::save_plan p) { return p; }
    std::vector<cairn::save_plan> prepare_global_save_plan(std::vector<cairn::save_plan> p) {
        return p;
    }
    void write_data(const cairn::save_plan& plan, const std::span<const cairn::item_data>& data,
                    cairn::completion<cairn::write_results> done) {
        if (is_ == slip::write_drops_its_completion) return;
        if (is_ == slip::write_commits) change([](auto& c) { c.there = true; });
        inner_.write_data(plan, data, std::move(done));
    }
    void finish(const cairn::metadata& m, cairn::completion<cairn::commit_result> done) {
        if (is_ == slip::finish_lies) return done({});
        if (is_ == slip::write_loses_bytes)
            change([](auto& c) {
                for (auto& [name, item] : c.items) {
                    auto empty = std::make_shared<cairn::archetype::shelf::item>(*item);
                    std::fill(empty->bytes.begin(), empty->bytes.end(), std::byte{});
                    item = empty;
                }
            });
        inner_.finish(m, std::move(done));
    }
    bool committed(const std::string& id) {
        if (is_ == slip::committed_denies) return false;
        return is_ == slip::committed_lies || inner_.committed(id);
    }
    bool abandon() noexcept {
        if (is_ == slip::abandon_removes_all) change([](auto& c) { c.items.clear(); });
        return is_ == slip::abandon_keeps_files || inner_.abandon();
    }
    void sweep(cairn::save_end end, cairn::completion<cairn::sweep_result> done) {
        if (is_ == slip::write_in_place) return done({});
        inner_.sweep(end, std::move(done));
    }

private:
    template <class F>
    void change(F f) {
        std::lock_guard const lock(at_->m);
        f(at_->checkpoints[id_]);
    }

    std::shared_ptr<cairn::archetype::shelf> at_;
    cairn::archetype::storage_writer inner_;
    slip is_;
    std::string id_{};
};

class broken_reader {
public:
    broken_reader(std::shared_ptr<cairn::archetype::shelf> at, slip is)
        : inner_(std::move(at)), is_(is) {}

    void reset(const cairn::checkpoint_id& id) { inner_.reset(id); }
    cairn::metadata read_metadata() {
        try {
            return inner_.read_metadata();
        } catch (const cairn::error&) {
            if (is_ == slip::absent_is_empty) return {};
            throw;
        }
    }
    cairn::stored_index read_index() {
        auto const other = [](cairn::metadata m) {
            m.file_sizes["another"] = 1;
            return m;
        };
        auto m = read_metadata();
        auto bytes = cairn::format::native::encode_metadata(
            is_ == slip::index_has_other_bytes ? other(m) : m);
        return {is_ == slip::index_has_other_metadata ? other(m) : m, std::move(bytes)};
    }
    void set_up_reader(const cairn::metadata& m, const cairn::storage_setup& s) {
        inner_.set_up_reader(m, s);
    }
    cairn::load_plan prepare_local_load_plan(cairn::load_plan p) { return p; }
    std::vector<cairn::load_plan> prepare_global_load_plan(std::vector<cairn::load_plan> p) {
        return p;
    }
    void read_data(const cairn::load_plan& plan, const cairn::read_target& target,
                   cairn::completion<cairn::read_result> done) {
        plan_ = std::make_unique<cairn::load_plan>(plan);
        if (is_ == slip::read_skips_values)
            std::erase_if(plan_->items,
                          [](auto const& i) { return i.kind == cairn::item_kind::value; });
        if (is_ == slip::read_ignores_offsets)
            for (auto& i : plan_->items)
                std::fill(i.source_offsets.begin(), i.source_offsets.end(), 0);
        if (is_ != slip::read_hides_failures)
            return inner_.read_data(std::as_const(*plan_), target, std::move(done));
        inner_.read_data(
            std::as_const(*plan_), target,
            cairn::completion<cairn::read_result>(
                [done = std::move(done)](auto const&, auto const&) mutable { done({}); }));
    }

private:
    std::unique_ptr<cairn::load_plan> plan_{};  ///< What is being read.
    cairn::archetype::storage_reader inner_;
    slip is_;
};

struct broken_place {
    slip is;
    std::shared_ptr<cairn::archetype::shelf> at = std::make_shared<cairn::archetype::shelf>();

    std::string id() const { return "c"; }
    auto writer() { return broken_writer(at, is); }
    auto reader() { return broken_reader(at, is); }
    std::set<std::string> names() {
        if (is == slip::names_fail && ++asked > 1) throw 1;  // also within abandon
        return at->names("c");
    }
    int asked = 0;
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_suite_finds_what_a_format_breaks) {
    constexpr int step = support::stride_if_sanitized(5);
    for (int k = 0; k < static_cast<int>(slip::count); k += step) {
        auto const is = static_cast<slip>(k);
        auto const found = cairn::testing::storage_suite([&] { return broken_place{is}; });
        BOOST_TEST(found.empty() == (is == slip::none), "slip " << k);
        if (!found.empty())
            BOOST_TEST_MESSAGE(k << ": " << found.size() << ", e.g. " << found.front());
    }
}

BOOST_AUTO_TEST_SUITE_END()
