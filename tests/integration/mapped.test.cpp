// SPDX-License-Identifier: Apache-2.0
// Loads, saves and conversions with a mapping, from any sharding to any other, against a dense
// oracle.
#include "support/counting_store.hpp"
#include "support/error_text.hpp"
#include "support/mapped_tensors.hpp"
#include "support/random_layout.hpp"
#include "support/sanitized.hpp"

#include <cairn/cairn.hpp>
#include <cairn/convert.hpp>
#include <cairn/load_tree.hpp>
#include <cairn/mapping/mapping.hpp>
#include <cairn/storage/torch_reader.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(mapped)

namespace {

using cairn::dtype;
using cairn::index_vector;
using cairn::tensor_view;
namespace oracle = cairn::oracle;
using oracle::dense;

#ifndef CAIRN_MAPPED_CASES
#define CAIRN_MAPPED_CASES 400
#endif

/// A tensor in some layout over some ranks, each of which may hold several ranges.
class laid_out {
public:
    laid_out(std::mt19937& random, const index_vector& shape, dtype type, int ranks)
        : shape_(shape), type_(type), pieces_(oracle::zero_ranks(random, shape)) {
        for (auto const& p : pieces_) {
            memory_.emplace_back(p.holds.size() * size_of(type), std::byte{0x7e});
            owner_.push_back(static_cast<int>(oracle::pick(random, 0, ranks - 1)));
        }
    }
    cairn::sharded_view of(int rank) {
        cairn::sharded_view out{shape_, type_, {}};
        for (std::size_t i = 0; i < pieces_.size(); ++i) {
            if (owner_[i] != rank) continue;
            auto const& p = pieces_[i];
            auto const part = flat_shards(p.layout, p.begin, p.end, memory_[i].data(), type_);
            out.shards.insert(out.shards.end(), part.shards.begin(), part.shards.end());
        }
        return out;
    }
    void fill(const dense& from) {
        for_each([&](const tensor_view& element, std::int64_t place) {
            convert_elements({dtype::float64, {}, &from.values[static_cast<std::size_t>(place)]},
                             element);
        });
    }
    /// The numbers of some other tensor, in this layout, that a rank has.
    std::set<double> part_of(const dense& all, int rank) const {
        std::set<double> some;
        for (std::size_t i = 0; i < pieces_.size(); ++i)
            for (auto const place : pieces_[i].holds)
                if (owner_[i] == rank && place >= 0)
                    some.insert(all.values[static_cast<std::size_t>(place)]);
        return some;
    }
    bool holds(const dense& expected) {
        bool good = expected.shape == shape_;
        for_each([&](const tensor_view& element, std::int64_t place) {
            double found = 0;
            convert_elements(element, {dtype::float64, {}, &found});
            good = good && found == expected.values[static_cast<std::size_t>(place)];
        });
        return good;
    }

private:
    template <class F>
    void for_each(F f) {
        for (std::size_t i = 0; i < pieces_.size(); ++i)
            for (std::size_t k = 0; k < pieces_[i].holds.size(); ++k)
                if (auto const place = pieces_[i].holds[k]; place >= 0)
                    f(tensor_view(type_, {}, memory_[i].data() + k * size_of(type_)), place);
    }

    index_vector shape_;
    dtype type_;
    std::vector<oracle::zero_rank> pieces_;
    std::vector<std::vector<std::byte>> memory_;
    std::vector<int> owner_;
};

using tensors = std::map<std::string, laid_out>;
cairn::state_dict state_of(tensors& all, int rank) {
    cairn::state_dict d;
    for (auto& [name, t] : all) d[name] = t.of(rank);
    return d;
}

/// What is in a checkpoint, as whole tensors of float64.
dense stored_in(cairn::memory_store store, const std::string& id, const std::string& name,
                const index_vector& shape) {
    dense d(shape);
    cairn::load_options o;
    o.planner.dtypes = cairn::dtype_policy::convert;
    cairn::load(cairn::state_dict{{name, tensor_view(dtype::float64, shape, d.values.data())}}, id,
                o, store);
    return d;
}

/// What a save stores of `stored`: what the state lacks is given for it.
dense kept(dense stored, const dense& state) {
    std::set<double> const there(state.values.begin(), state.values.end());
    for (auto& v : stored.values)
        if (there.count(v) == 0) v = oracle::random_expressions::dropped;
    return stored;
}

/// Whether a rank has read what it needs of a checkpoint and nothing twice, and nothing of chunks
/// that have none of it: smaller parts of chunks as small as these have no checksum of their own.
/// @param needed  The numbers that are wanted.
bool reads_are_exact(support::counting_store<cairn::memory_store> store, const cairn::metadata& m,
                     const std::map<std::string, dense>& stored, const std::set<double>& needed) {
    bool exact = true;
    for (auto const& each : stored) {
        auto const& content = each.second;
        auto const& t = *m.tensor(each.first);
        auto const strides = cairn::row_major_strides(content.shape);
        for (std::size_t c = 0; c < t.chunks.size(); ++c) {
            auto const at = t.chunks.location(c);
            auto const region = t.chunks.region(c);
            auto const first = at.offset + at.layout->payload_offset;
            auto const size = std::uint64_t{size_of(t.type)};
            bool wanted = false;
            std::uint64_t k = 0;
            oracle::for_each_index(region.shape, [&](const index_vector& i) {
                std::int64_t place = 0;
                for (std::size_t d = 0; d < i.size(); ++d)
                    place += (region.offsets[d] + i[d]) * strides[d];
                if (needed.count(content.values[static_cast<std::size_t>(place)]) != 0) {
                    wanted = true;
                    exact = exact && store.reads(at.file, first + k * size, size).first == 1;
                }
                ++k;
            });
            exact = exact && store.reads(at.file, first, k * size).second == (wanted ? 1 : 0);
        }
    }
    return exact;
}

}  // namespace

BOOST_AUTO_TEST_CASE(any_expression_loads_and_saves_between_any_shardings) {
    using oracle::pick;
    for (int round = 0; round < CAIRN_MAPPED_CASES; round += support::stride_if_sanitized(25)) {
        std::mt19937 random(static_cast<unsigned>(round));
        bool const inverts = pick(random, 0, 1) == 1;
        index_vector shape;
        for (auto dims = pick(random, 1, 3); dims > 0; --dims) shape.push_back(pick(random, 1, 6));
        oracle::random_expressions chance(random, inverts);
        auto const expected = chance.make(shape, 4);
        cairn::mapping how;
        how.set("w", expected.how);
        BOOST_TEST_CONTEXT("round " << round) {
            auto const ranks = [&] { return static_cast<int>(pick(random, 1, 3)); };
            auto const from = ranks(), to = ranks();
            cairn::memory_store store;
            tensors stored;
            for (auto const& [name, d] : chance.stored) {
                auto& t = stored.try_emplace(name, random, d.shape, chance.types[name], from)
                              .first->second;
                t.fill(d);
            }
            cairn::run_ranks(
                from, [&](auto& me) { cairn::save(state_of(stored, me.rank()), "c", store, me); });
            tensors state;
            auto& w = state.try_emplace("w", random, shape, dtype::float32, to).first->second;
            std::vector<support::counting_store<cairn::memory_store>> counted;
            for (int rank = 0; rank < to; ++rank) counted.emplace_back(store);
            cairn::run_ranks(to, [&](auto& me) {
                cairn::load(state_of(state, me.rank()), "c",
                            counted[static_cast<std::size_t>(me.rank())], me, how);
            });
            BOOST_TEST_REQUIRE(w.holds(expected.what));
            cairn::torch_reader reader(store);
            reader.reset("c");
            auto const m = reader.read_metadata();
            for (int rank = 0; rank < to; ++rank)
                BOOST_TEST_REQUIRE(reads_are_exact(counted[static_cast<std::size_t>(rank)].at("c"),
                                                   m, chance.stored,
                                                   w.part_of(expected.what, rank)));

            // A conversion makes the same.
            auto const many = ranks();
            cairn::run_ranks(many, [&](auto& me) {
                cairn::convert(cairn::convert_source(store, "c"), "e", store, me, how);
            });
            BOOST_TEST_REQUIRE((stored_in(store, "e", "w", shape).values == expected.what.values));
            if (!inverts) continue;

            cairn::run_ranks(to, [&](auto& me) {
                cairn::save(state_of(state, me.rank()), "d", store, me, how);
            });
            for (auto const& [name, d] : chance.stored)
                BOOST_TEST_REQUIRE(
                    (stored_in(store, "d", name, d.shape).values == kept(d, expected.what).values));
            tensors again;
            auto const last = ranks();
            auto& x = again.try_emplace("w", random, shape, dtype::float32, last).first->second;
            cairn::run_ranks(last, [&](auto& me) {
                cairn::load(state_of(again, me.rank()), "d", store, me, how);
            });
            BOOST_TEST_REQUIRE(x.holds(expected.what));
        }
    }
}

/// An optimizer has one entry for a weight with two names.
BOOST_AUTO_TEST_CASE(what_follows_a_tie_is_made_for_a_state_that_has_it) {
    using namespace cairn::map;
    cairn::memory_store store;
    auto const how = cairn::mapping()
                         .set("head", tie(stored("wte")))
                         .follow("o.{param...}.{slot}", "o.{param...}.{slot}");
    std::vector<float> w{1, 2}, moments{3, 4}, loaded(2), more(2);
    auto const view = [](std::vector<float>& v) {
        return tensor_view(dtype::float32, {2}, v.data());
    };
    cairn::state_dict const state{{"head", view(w)}, {"wte", view(w)}, {"o.wte.m", view(moments)}};
    cairn::save(state, "c", store, how);
    cairn::load_options strict;
    strict.planner.strict = true;
    auto const report = cairn::load(state, "c", strict, store, how);
    BOOST_TEST(report.unexpected.empty());
    cairn::load(cairn::state_dict{{"o.head.m", view(more)}, {"o.wte.m", view(loaded)}}, "c", store,
                how);
    BOOST_TEST((more == moments && loaded == moments));
    BOOST_TEST(cairn::load_tree("c", {}, store, how).size() == 3u);
    cairn::convert({store, "c"}, "d", store, how);
    cairn::torch_reader reader(store);
    reader.reset("d");
    BOOST_TEST(reader.read_metadata().entries.size() == 3u);
    // What no other name has is kept.
    auto head = how;
    head.others(cairn::other_names::leave_out);
    cairn::convert({store, "c"}, "e", store, head);
    reader.reset("e");
    BOOST_TEST(reader.read_metadata().entries.count("o.head.m") == 1u);
    BOOST_TEST(cairn::load_tree("c", {.prefix = "o.head"}, store, how).size() == 1u);
}

BOOST_AUTO_TEST_CASE(what_lacks_a_part_is_an_error_for_a_state_that_has_it) {
    using namespace cairn::map;
    cairn::memory_store store;
    std::vector<float> q{1, 2}, k{3, 4}, qk(4), moments(4, -1);
    auto const view = [](std::vector<float>& v) {
        return tensor_view(dtype::float32, {static_cast<std::int64_t>(v.size())}, v.data());
    };
    cairn::save(cairn::state_dict{{"q", view(q)}, {"k", view(k)}, {"o.k.m", view(k)}}, "c", store);
    auto const fused = cairn::mapping()
                           .set("qk", concat(0, {stored("q"), stored("k")}))
                           .set_optional("bias", concat(0, {stored("k"), stored("k_bias")}))
                           .follow("o.{param...}.{slot}", "o.{param...}.{slot}");
    for (auto const others : {cairn::other_names::pass, cairn::other_names::refuse}) {
        auto const how = cairn::mapping(fused).others(others);
        qk = {0, 0, 0, 0};
        cairn::load(cairn::state_dict{{"qk", view(qk)}}, "c", store, how);
        BOOST_TEST((qk == std::vector<float>{1, 2, 3, 4}));
        // A state that has it, and what takes all.
        cairn::state_dict const state{{"qk", view(qk)}, {"o.qk.m", view(moments)}};
        for (auto const& text :
             {support::error_of([&] { cairn::load(state, "c", store, how); }),
              support::error_of([&] { cairn::load_tree("c", {.prefix = "o.qk"}, store, how); })})
            BOOST_TEST(support::contains(text, {"'o.qk.m'", "o.q.m beside o.k.m"}), text);
        auto const text = support::error_of([&] { cairn::convert({store, "c"}, "d", store, how); });
        BOOST_TEST(support::contains(text, {"'bias'", "k_bias"}), text);
        cairn::load_options partial;
        partial.planner.partial = true;
        auto const report = cairn::load(state, "c", partial, store, how);
        BOOST_TEST((report.missing == std::vector<std::string>{"o.qk.m"}));
        BOOST_TEST(moments[0] == -1.0f);
    }
    // What is stored under the name is not what the line says.
    auto const how = cairn::mapping().set("q", concat(0, {stored("q"), stored("none")}));
    auto const text = support::error_of([&] {
        cairn::load(cairn::state_dict{{"q", view(qk)}}, "c", store, how);
    });
    BOOST_TEST(support::contains(text, {"'q'", "none"}), text);
    // What is missing would tell how many names there are.
    auto const apart =
        cairn::mapping().set("e.{e}", unstack(concat(0, {stored("q"), stored("none")}), "{e}"));
    for (auto const& said :
         {support::error_of([&] { (void)cairn::load_tree("c", {}, store, apart); }),
          support::error_of([&] {
              cairn::convert({store, "c"}, "d", store, apart);
          })})
        BOOST_TEST(support::contains(said, {"'e.{e}'", "a stored tensor none"}), said);
    cairn::load(cairn::state_dict{{"o.k.m", view(q)}}, "c", store, apart);
    BOOST_TEST((q == k));
}

BOOST_AUTO_TEST_CASE(a_tree_of_what_a_mapping_makes_is_as_large_as_it_likes) {
    using namespace cairn::map;
    cairn::memory_store store;
    std::vector<float> w(1 << 20);
    cairn::save(cairn::state_dict{{"w", tensor_view(dtype::float32, {1 << 10, 1 << 10}, w.data())}},
                "c", store);
    auto const how = cairn::mapping().set("w", pad(transpose(stored("w")), {1 << 11, -1}));
    BOOST_TEST(cairn::load_tree("c", {}, store, how).size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_strict_load_notices_what_a_mapping_hides) {
    cairn::memory_store store;
    std::vector<float> a{1, 2}, b{3, 4};
    auto const view = [](std::vector<float>& v) {
        return tensor_view(dtype::float32, {2}, v.data());
    };
    cairn::save(cairn::state_dict{{"a", view(a)}, {"b", view(b)}}, "c", store);
    auto const how = cairn::mapping().rename("a", "b");
    std::vector<float> loaded(2);
    cairn::state_dict const state{{"a", view(loaded)}};
    auto const report = cairn::load(state, "c", store, how);
    BOOST_TEST((loaded == b));
    BOOST_TEST_REQUIRE(report.warnings.size() == 1u);
    BOOST_TEST(support::contains(report.warnings.front(), {"'a'", "not loaded"}));
    cairn::load_options strict;
    strict.planner.strict = true;
    BOOST_CHECK_EXCEPTION(
        cairn::load(state, "c", strict, store, how), cairn::error, [](const cairn::error& e) {
            return support::contains(e.what(), {"'a'", "no key that the state does not hold"});
        });
}

BOOST_AUTO_TEST_CASE(a_conversion_tells_of_codes_that_it_turns_without_their_scales) {
    using namespace cairn::map;
    cairn::memory_store store;
    std::vector<std::uint8_t> codes(4, 0x38);
    std::vector<float> scales{1, 2, 3, 4};
    auto const save = [&](const cairn::index_vector& of_scales) {
        tensor_view const w(dtype::float8_e4m3fn, {2, 2}, codes.data());
        tensor_view const s(dtype::float32, of_scales, scales.data());
        cairn::save(cairn::state_dict{{"w", w}, {"w_scale_inv", s}}, "c", store);
    };
    auto const warnings = [&](const cairn::mapping& how) {
        return cairn::convert({store, "c"}, "d", store, how).saved.warnings;
    };
    save({2, 2});
    auto how = cairn::mapping().set("w", transpose(stored("w")));
    auto const told = warnings(how);
    BOOST_TEST_REQUIRE(told.size() == 1u);
    BOOST_TEST(support::contains(told.front(), {"'w'", "'w_scale_inv'", "use dequantise"}));
    how.set("w_scale_inv", transpose(stored("w_scale_inv")));
    BOOST_TEST(warnings(how).empty());
    auto renamed = cairn::mapping().rename("v", "w");
    BOOST_TEST_REQUIRE(warnings(renamed).size() == 1u);
    BOOST_TEST(support::contains(warnings(renamed).front(), {"'v'", "'w_scale_inv'"}));
    renamed.rename("v_scale_inv", "w_scale_inv");
    BOOST_TEST(warnings(renamed).empty());
    save({});  // one for all codes
    BOOST_TEST(warnings(cairn::mapping().set("w", transpose(stored("w")))).empty());
}

BOOST_AUTO_TEST_CASE(a_conversion_casts_no_codes_without_their_scales) {
    using namespace cairn::map;
    cairn::memory_store store;
    std::vector<std::uint8_t> codes(4, 0x38);
    std::vector<float> scale{1};
    tensor_view const w(dtype::float8_e4m3fn, {4}, codes.data());
    cairn::save(cairn::state_dict{{"w", w}, {"w_scale_inv", scale}, {"plain", w}}, "c", store);
    auto const refuses = [&](const cairn::mapping& how, const cairn::convert_options& o,
                             const char* name) {
        auto const right = [&](const cairn::error& e) {
            return support::contains(e.what(), {name, "'w_scale_inv'", "use dequantise"});
        };
        BOOST_CHECK_EXCEPTION((void)cairn::convert({store, "c"}, "d", o, store, how), cairn::error,
                              right);
        BOOST_CHECK_EXCEPTION(cairn::check_conversion({store, "c"}, o, how), cairn::error, right);
    };
    auto how = cairn::mapping().set("x", cast(stored("w"), dtype::float32));
    refuses(how, {}, "'x'");
    cairn::convert_options o;
    o.wants = [](std::string_view fqn) { return fqn != "x"; };
    BOOST_CHECK_NO_THROW((void)cairn::convert({store, "c"}, "d", o, store, how));
    how = cairn::mapping().set("x", cast(stored("plain"), dtype::float32)).rename("v", "w");
    BOOST_CHECK_NO_THROW((void)cairn::convert({store, "c"}, "d", store, how));
    o = {};
    o.map_back = true;
    how = cairn::mapping().set("w", cast(stored("y", {{}, dtype::bfloat16}), dtype::float8_e4m3fn));
    refuses(how, o, "'y'");
}

BOOST_AUTO_TEST_SUITE_END()
