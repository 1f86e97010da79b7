// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_FUZZ_CHECKPOINT_HPP
#define CAIRN_TEST_FUZZ_CHECKPOINT_HPP

#include "engine.hpp"
#include "pack.hpp"

#include "support/here_executor.hpp"
#include "support/naive_reader.hpp"
#include "support/promises.hpp"
#include "support/whole.hpp"

#include <cairn/cairn.hpp>
#include <cairn/catalog/detail/verification.hpp>
#include <cairn/metadata/check.hpp>
#include <cairn/state/flatten.hpp>
#include <cairn/storage/job_executor.hpp>

#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace fuzz {

/// A reader without threads.
inline cairn::torch_reader reader_of(const cairn::memory_store& store) {
    static auto& context = *new boost::asio::io_context(1);
    return cairn::torch_reader(store, {}, support::here_executor{&context});
}

/// What one load or another made of a checkpoint must be the same.
inline void check_equal(const cairn::state_dict& tree, const support::whole& all) {
    cairn::flattened flat;
    try {
        flat = cairn::flatten(tree);
    } catch (const cairn::error&) {  // lists with positions that nothing was put at
        return;
    }
    for (auto const& leaf : flat.leaves) {
        auto const* t = leaf.tensor();
        if (t == nullptr) continue;
        auto const it = all.tensors.find(leaf.fqn);
        if (it == all.tensors.end()) continue;  // another path than its name
        auto const& v = t->shards.at(0).view;
        if (v.bytes() != it->second.bytes.size() ||
            (v.bytes() != 0 && std::memcmp(v.data, it->second.bytes.data(), v.bytes()) != 0))
            throw support::finding("two loads of one checkpoint differ in '" + leaf.fqn + "'");
    }
}

/// Bytes that its tensors claim to have; no sum of few of them wraps.
inline std::uint64_t claimed(const cairn::metadata& m) {
    std::uint64_t sum = 0;
    for (auto const& [fqn, entry] : m.entries)
        if (auto const* t = std::get_if<cairn::tensor_metadata>(&entry))
            sum += std::min<std::uint64_t>(
                static_cast<std::uint64_t>(t->shape.product()) * cairn::size_of(t->type),
                std::uint64_t{1} << 40);
    return sum;
}

/// The metadata of a checkpoint, if it passes all checks.
inline std::optional<cairn::metadata> checked_metadata(const support::crafted& c) {
    try {
        auto m = c.metadata();
        cairn::check_metadata(m);
        support::check_promises(m);
        return m;
    } catch (const cairn::error&) {
        return {};
    }
}

/// Every reader that a user meets, over a checkpoint whose checksums have been made right: a whole
/// tree, a state of given shapes, and verify. Only cairn::error may come out, and what is loaded is
/// what the files say.
inline void checkpoint(bytes b) {
    auto c = unpack(b);
    c.seal();
    auto const size = c.size();
    auto const store = c.store("c");
    auto const m = checked_metadata(c);

    std::exception_ptr refused;
    cairn::state_dict tree;
    try {
        tree = cairn::load_tree("c", {}, reader_of(store));
    } catch (const cairn::error&) {
        refused = std::current_exception();
    }
    if (!m && !refused) throw support::finding("load_tree accepts metadata that is refused");

    auto place = store.at("c");
    cairn::detail::verification v{cairn::any_store(place)};
    bool const fine = v.run();
    if (!m && fine) throw support::finding("verify accepts metadata that is refused");

    if (m && claimed(*m) <= 4 * size) {
        auto all = support::room_for(*m);
        auto views = support::views(all);
        bool loaded = false;
        try {
            cairn::load(views, "c", reader_of(store));
            loaded = true;
        } catch (const cairn::error& e) {
            // A process that PyTorch saved alone may have had some shards only.
            bool const gaps =
                m->save_id.empty() && e.code() == make_error_code(cairn::errc::missing_key);
            if (fine && v.checked_all() && !gaps)
                throw support::finding(std::string("verify finds nothing, and load: ") + e.what());
        }
        if (loaded) support::naive_reader(c, *m).compare(all);
        if (loaded && !refused) check_equal(tree, all);
    }
    if (refused) std::rethrow_exception(refused);
}

}  // namespace fuzz

#endif
