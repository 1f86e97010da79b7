// SPDX-License-Identifier: Apache-2.0
// The suite for formats, on PyTorch's format over both stores.
#include "support/no_failures.hpp"
#include "support/scratch.hpp"

#include <cairn/object_store/file.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/storage/torch_reader.hpp>
#include <cairn/storage/torch_writer.hpp>
#include <cairn/testing/storage.hpp>

#include <boost/test/unit_test.hpp>

#include <memory>
#include <set>
#include <string>

BOOST_AUTO_TEST_SUITE(storage_conformance)

namespace {

template <class Store>
struct torch_place {
    Store base;
    cairn::torch_writer_options options{};
    std::shared_ptr<support::scratch> dir{};  // of a place on disk

    std::string id() const { return dir ? (dir->dir / "run").string() : "run"; }
    auto writer() { return cairn::torch_writer(base, options); }
    auto reader() { return cairn::torch_reader(base); }
    std::set<std::string> names() {
        std::set<std::string> out;
        auto there = base.at(id());
        for (auto const& info : there.list()) out.insert(info.name);
        return out;
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_torch_format_keeps_its_word_in_memory) {
    support::no_failures(cairn::testing::storage_suite(
        [] { return torch_place<cairn::memory_store>{cairn::memory_store()}; }));
}

BOOST_AUTO_TEST_CASE(the_torch_format_keeps_its_word_in_files) {
    support::no_failures(cairn::testing::storage_suite([] {
        auto const dir = std::make_shared<support::scratch>();
        return torch_place<cairn::file_store>{cairn::file_store(dir->dir), {}, dir};
    }));
}

BOOST_AUTO_TEST_CASE(the_torch_format_keeps_its_word_with_a_file_per_item_and_own_names) {
    support::no_failures(cairn::testing::storage_suite([] {
        cairn::torch_writer_options o;
        o.single_file_per_rank = false;
        o.thread_count = 3;
        o.file_name = [](int rank, int n) {
            return "part-" + std::to_string(rank) + "-" + std::to_string(n) + ".bin";
        };
        return torch_place<cairn::memory_store>{cairn::memory_store(), o};
    }));
}

BOOST_AUTO_TEST_SUITE_END()
