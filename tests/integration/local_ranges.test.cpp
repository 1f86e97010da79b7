// SPDX-License-Identifier: Apache-2.0
// Flat ranges of padded, permuted and stored-transposed local arrays through a whole save and load,
// from any such layout to any other, against a dense oracle.
#include "support/random_layout.hpp"

#include <cairn/cairn.hpp>
#include <cairn/mapping/mapping.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

BOOST_AUTO_TEST_SUITE(local_ranges)

namespace {

using cairn::index_vector;
namespace oracle = cairn::oracle;

constexpr std::int64_t untouched = -7, pad = -5;

/// A tensor in one layout over some ranks, each of which may hold several ranges of local arrays.
class laid_out {
public:
    laid_out(std::mt19937& random, const index_vector& shape)
        : shape_(shape), padded_(shape), ranks(static_cast<int>(oracle::pick(random, 1, 4))) {
        for (auto& n : padded_) n += oracle::pick(random, 0, 2);
        pieces_ = oracle::zero_ranks(random, padded_);
        for (auto const& p : pieces_) {
            memory_.emplace_back(p.holds.size(), untouched);
            owner_.push_back(static_cast<int>(oracle::pick(random, 0, ranks - 1)));
        }
    }

    cairn::sharded_view of(int rank) {
        cairn::sharded_view out{padded_, cairn::dtype::int64, {}};
        for (std::size_t i = 0; i < pieces_.size(); ++i) {
            if (owner_[i] != rank) continue;
            auto const& p = pieces_[i];
            auto const part =
                flat_shards(p.layout, p.begin, p.end, memory_[i].data(), cairn::dtype::int64);
            out.shards.insert(out.shards.end(), part.shards.begin(), part.shards.end());
        }
        return out;
    }
    /// The stored tensor has no padding.
    cairn::mapping names() const {
        cairn::mapping m;
        auto longer = padded_;
        for (std::size_t d = 0; d < shape_.size(); ++d)
            if (longer[d] == shape_[d]) longer[d] = -1;
        if (!shape_.empty())
            m.set("w", cairn::map::pad(cairn::map::stored("w", {.shape = shape_}), longer, pad));
        return m;
    }
    /// Each true element is its position in the whole; padding is `pad`.
    void fill(std::int64_t padding) {
        for_each([&](std::int64_t& x, std::int64_t place) { x = place < 0 ? padding : place; });
    }
    /// Padding has the value of the mapping; memory that is no part of the tensor is untouched.
    bool filled() {
        bool good = true;
        for_each([&](std::int64_t& x, std::int64_t place) {
            good = good && (place >= 0 ? x == place : x == pad || x == untouched);
        });
        return good;
    }

private:
    template <class F>
    void for_each(F f) {
        auto const strides = row_major_strides(padded_), true_strides = row_major_strides(shape_);
        for (std::size_t i = 0; i < pieces_.size(); ++i) {
            for (std::size_t k = 0; k < memory_[i].size(); ++k) {
                auto rest = pieces_[i].holds[k];
                std::int64_t place = rest < 0 ? -1 : 0;
                for (std::size_t d = 0; d < shape_.size() && place >= 0; ++d) {
                    auto const at = rest / strides[d];
                    rest %= strides[d];
                    place = at < shape_[d] ? place + at * true_strides[d] : -1;
                }
                f(memory_[i][k], place);
            }
        }
    }

    index_vector shape_, padded_;
    std::vector<oracle::zero_rank> pieces_;
    std::vector<std::vector<std::int64_t>> memory_;
    std::vector<int> owner_;

public:
    int const ranks;
};

}  // namespace

BOOST_AUTO_TEST_CASE(any_layout_of_ranges_loads_into_any_other) {
    std::mt19937 random(2027);
    for (int round = 0; round < 60; ++round) {
        auto const shape = oracle::some_shape(random, oracle::pick(random, 0, 3), 5);
        laid_out from(random, shape), to(random, shape);
        cairn::memory_store store;
        from.fill(-99);
        cairn::run_ranks(from.ranks, [&](auto& me) {
            cairn::save(cairn::state_dict{{"w", from.of(me.rank())}}, "c", store, me, from.names());
        });
        cairn::run_ranks(to.ranks, [&](auto& me) {
            cairn::load(cairn::state_dict{{"w", to.of(me.rank())}}, "c", store, me, to.names());
        });
        BOOST_TEST_REQUIRE(to.filled(), to_string(shape) << " in round " << round);
        // One process without any of this sees the tensor as it is.
        std::vector<std::int64_t> whole(static_cast<std::size_t>(shape.product()), -1);
        auto expected = whole;
        std::iota(expected.begin(), expected.end(), std::int64_t{0});
        cairn::load(
            cairn::state_dict{{"w", cairn::tensor_view(cairn::dtype::int64, shape, whole.data())}},
            "c", store);
        BOOST_TEST_REQUIRE((whole == expected));
    }
}

BOOST_AUTO_TEST_CASE(a_shard_of_padding_is_refused_with_the_remedy) {
    std::vector<float> local(8);
    cairn::sharded_view s{{3, 2}, cairn::dtype::float32, {}};
    s.shards.emplace_back(cairn::box::whole({4, 2}),
                          cairn::tensor_view(cairn::dtype::float32, {4, 2}, local.data()));
    cairn::memory_store store;
    BOOST_CHECK_EXCEPTION(cairn::save(cairn::state_dict{{"embed", s}}, "c", store), cairn::error,
                          [](const cairn::error& e) {
                              std::string const text = e.what();
                              return text.find("'embed'") != std::string::npos &&
                                     text.find("[0:4, 0:2]") != std::string::npos &&
                                     text.find("map::pad") != std::string::npos;
                          });
}

BOOST_AUTO_TEST_SUITE_END()
