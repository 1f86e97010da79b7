// SPDX-License-Identifier: Apache-2.0
// What is loaded into another dtype is converted as it is read: no window of the stored dtype is
// made beside the user's memory.
#include "replicas.hpp"

#include "support/error_codes.hpp"

#include <cairn/cairn.hpp>
#include <cairn/mapping/mapping.hpp>
#include <cairn/tensor/convert.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(converted)

namespace {

using cairn::box;
using cairn::dtype;
using cairn::index_vector;
using cairn::tensor_view;

cairn::load_options converting() {
    cairn::load_options o;
    o.planner.dtypes = cairn::dtype_policy::convert;
    return o;
}

/// Of a storage that does not convert: its windows are of the stored dtype.
struct plain_reader : cairn::torch_reader {
    using cairn::torch_reader::torch_reader;
    void read_data(const cairn::load_plan& plan, const cairn::read_target& target,
                   cairn::completion<cairn::read_result> done) {
        only_ = target;
        only_.resolve_converted = target.resolve_tensor;
        cairn::torch_reader::read_data(plan, only_, std::move(done));
    }

private:
    cairn::read_target only_{};
};

std::vector<std::byte> random_bytes(std::size_t n, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<std::byte> b(n);
    for (auto& x : b) x = static_cast<std::byte>(random());
    return b;
}

/// Strides of an order of dimensions in memory, with a gap after each element or none.
index_vector strides_of(const index_vector& extents, const std::vector<std::size_t>& order,
                        std::int64_t step) {
    index_vector s(extents.size(), 0);
    for (std::size_t k = order.size(); k-- > 0;) {
        s[order[k]] = step;
        step *= std::max<std::int64_t>(1, extents[order[k]]);
    }
    return s;
}

/// Saves a tensor, loads it into memory of another dtype and layout with each planner, and compares
/// with a conversion of the whole.
void check(dtype from, dtype to, const index_vector& extents, const std::vector<std::size_t>& order,
           const std::vector<std::size_t>& target_order, std::int64_t step, const box& part) {
    auto const n = static_cast<std::size_t>(extents.product());
    auto const dense = random_bytes(n * cairn::size_of(from), n);
    cairn::const_tensor_view const whole(from, extents, strides_of(extents, order, 1),
                                         dense.data());
    cairn::memory_store store;
    cairn::save(cairn::state_dict{{"w", whole}}, "c", store);

    auto const m = static_cast<std::size_t>(part.volume());
    std::vector<std::byte> want(m * cairn::size_of(to));
    convert_elements(subview(whole, part), tensor_view(to, part.shape, want.data()));
    auto const load = [&](auto&& from_storage) {
        std::vector<std::byte> memory(m * cairn::size_of(to) * static_cast<std::size_t>(step),
                                      std::byte{0xee});
        tensor_view const v(to, part.shape, strides_of(part.shape, target_order, step),
                            memory.data());
        cairn::sharded_view s{extents, to, {}};
        s.shards.emplace_back(part, v);
        cairn::state_dict sd{{"w", s}};
        cairn::load(sd, "c", converting(), from_storage);
        std::vector<std::byte> got(want.size());
        if (m != 0) copy_elements(v, tensor_view(to, part.shape, got.data()));
        BOOST_TEST((got == want), name_of(from) << " " << to_string(extents) << " to "
                                                << name_of(to) << " " << to_string(part));
    };
    load(store);
    load(plain_reader(store));
}

}  // namespace

BOOST_AUTO_TEST_CASE(any_dtype_loads_into_any_other_that_takes_it) {
    for (int f = 0; f < cairn::dtype_count; ++f) {
        for (int t = 0; t < cairn::dtype_count; ++t) {
            auto const from = static_cast<dtype>(f), to = static_cast<dtype>(t);
            if (!cairn::can_convert(from, to)) continue;
            check(from, to, {7, 5}, {0, 1}, {0, 1}, 1, box({1, 2}, {5, 3}));
        }
    }
}

/// Across the slabs of a few MiB in which a payload is read, in any layout on both sides.
BOOST_AUTO_TEST_CASE(tensors_of_any_layout_and_size_are_converted) {
    std::vector<std::vector<std::size_t>> const orders{{0, 1}, {1, 0}};
    for (auto const& order : orders) {
        for (auto const& target : orders) {
            for (std::int64_t step : {1, 2}) {
                check(dtype::float32, dtype::float64, {1500, 1001}, order, target, step,
                      box({3, 7}, {1490, 900}));
                check(dtype::float64, dtype::bfloat16, {900, 801}, order, target, step,
                      box::whole({900, 801}));
            }
        }
    }
    check(dtype::int64, dtype::float32, {}, {}, {}, 1, box());
    check(dtype::int64, dtype::float32, {0, 4}, {0, 1}, {0, 1}, 1, box::whole({0, 4}));
}

/// PyTorch's files are read whole, against one checksum.
BOOST_AUTO_TEST_CASE(pytorchs_files_are_converted) {
    namespace fs = std::filesystem;
    for (std::string const name : {"crafted/A_min", "torch-2.14.1/kinds/checkpoint"}) {
        auto const id = (fs::path(CAIRN_GOLDEN) / name).string();
        auto const plain = cairn::load_tree(id);
        cairn::torch_reader reader{cairn::file_store()};
        reader.reset(id);
        auto const m = reader.read_metadata();
        std::size_t tensors = 0;
        for (auto const& [fqn, entry] : m.entries) {
            auto const* t = std::get_if<cairn::tensor_metadata>(&entry);
            if (t == nullptr || t->shape.product() == 0 ||
                !cairn::can_convert(t->type, dtype::complex128))
                continue;
            ++tensors;
            auto const n = static_cast<std::size_t>(t->shape.product()) * 16;
            std::vector<std::byte> got(n), want(n), dense(n);
            cairn::state_dict sd{{fqn, tensor_view(dtype::complex128, t->shape, got.data())}};
            cairn::load(sd, id, converting());
            cairn::state_dict as_is{{fqn, tensor_view(t->type, t->shape, dense.data())}};
            cairn::load(as_is, id);
            convert_elements(cairn::const_tensor_view(t->type, t->shape, dense.data()),
                             tensor_view(dtype::complex128, t->shape, want.data()));
            BOOST_TEST((got == want), fqn);
        }
        BOOST_TEST(tensors > 0u);
    }
}

/// What one rank reads for all travels as it is stored, and is converted where it arrives.
BOOST_AUTO_TEST_CASE(what_is_read_once_is_converted_where_it_arrives) {
    cairn::memory_store store;
    std::vector<float> w(300'000);
    std::iota(w.begin(), w.end(), 0.0f);
    cairn::save(cairn::state_dict{{"w", w}}, "c", store);
    for (bool always : {false, true}) {
        replicas::with_planes(3, [&](replicas::member& me, auto& plane) {
            std::vector<double> got(w.size());
            cairn::state_dict sd{{"w", got}};
            auto o = converting();
            o.read_once_from = always ? 0 : cairn::read_once_never;
            cairn::load(sd, "c", o, me, plane, store);
            replicas::must(std::equal(got.begin(), got.end(), w.begin()), "other numbers");
        });
    }
}

/// A planner that is derived from the default one and gives other windows is asked for them.
BOOST_AUTO_TEST_CASE(the_windows_of_a_derived_planner_are_filled) {
    struct elsewhere : cairn::default_planner {
        std::vector<double> w = std::vector<double>(4);
        tensor_view resolve_tensor(const cairn::read_item& i) {
            return tensor_view(dtype::float64, i.shape, reinterpret_cast<std::byte*>(w.data()));
        }
    };
    cairn::memory_store store;
    std::vector<float> w{1, 2, 3, 4}, other(4);
    cairn::save(cairn::state_dict{{"w", w}}, "c", store);
    elsewhere planner;
    cairn::load(cairn::state_dict{{"w", other}}, "c", planner, store);
    BOOST_TEST(planner.w[3] == 4.0);
    BOOST_TEST(other[3] == 0.0f);
}

BOOST_AUTO_TEST_CASE(codes_of_quantised_weights_are_not_converted_as_if_they_were_weights) {
    auto const o = converting();
    std::vector<float> scale(1), other(1), wide(4);
    std::vector<std::byte> codes(4, std::byte{0x38});
    for (auto const type : {dtype::float8_e4m3fn, dtype::int8})
        for (std::string const name : {"w_scale_inv", "w_scale", "v_scale"}) {
            cairn::memory_store store;
            cairn::state_dict stored{{"w", tensor_view(type, {4}, codes.data())}, {name, scale}};
            cairn::save(stored, "c", store);
            cairn::state_dict as_weights{{"w", wide}};
            if (name == "v_scale") {
                BOOST_TEST(cairn::load(as_weights, "c", o, store).converted.size() == 1u);
                continue;
            }
            BOOST_CHECK_EXCEPTION(
                cairn::load(as_weights, "c", o, store), cairn::error, [&](const cairn::error& e) {
                    auto const text = std::string(e.what());
                    BOOST_TEST(text.find("'" + name + "'") != text.npos, text);
                    BOOST_TEST(text.find("dequantising_reader") != text.npos, text);
                    return e.code() == make_error_code(cairn::errc::dtype_mismatch) &&
                           e.context().fqn == "w";
                });
            cairn::state_dict as_stored{{"w", tensor_view(type, {4}, codes.data())}, {name, other}};
            BOOST_TEST(cairn::load(as_stored, "c", o, store).converted.empty());
        }
}

/// As bitsandbytes, ComfyUI and Mistral name scales.
BOOST_AUTO_TEST_CASE(codes_are_not_weights_whatever_their_scales_are_called) {
    std::vector<float> scale(1), wide(4);
    std::vector<std::byte> codes(4, std::byte{0x38});
    cairn::state_dict as_weights{{"l.weight", wide}};
    for (std::string const name : {"l.SCB", "l.scale_weight", "l.qscale_weight"}) {
        cairn::memory_store store;
        cairn::state_dict stored{{"l.weight", tensor_view(dtype::int8, {4}, codes.data())},
                                 {name, scale}};
        cairn::save(stored, "c", store);
        BOOST_CHECK_EXCEPTION(
            cairn::load(as_weights, "c", converting(), store), cairn::error, [&](const auto& e) {
                return support::is(e, cairn::errc::dtype_mismatch) &&
                       e.context().found == "int8 codes with scales, '" + name + "'";
            });
    }
    cairn::memory_store store;
    cairn::state_dict stored{{"l.weight", tensor_view(dtype::int8, {4}, codes.data())},
                             {"logit_scale", scale}};
    cairn::save(stored, "c", store);
    BOOST_TEST(cairn::load(as_weights, "c", converting(), store).converted.size() == 1u);
    BOOST_TEST(wide[0] == 56.0f);
}

BOOST_AUTO_TEST_CASE(codes_are_seen_through_a_mapping) {
    using namespace cairn::map;
    cairn::memory_store store;
    std::vector<float> scale(1), other(1), wide(8);
    std::vector<std::byte> codes(4, std::byte{0x38}), more(8);
    tensor_view const a(dtype::float8_e4m3fn, {4}, codes.data());
    cairn::save(
        cairn::state_dict{
            {"q", a}, {"k", a}, {"q_scale_inv", scale}, {"k_scale_inv", scale}, {"plain", a}},
        "c", store);
    auto const load = [&](const cairn::mapping& how, const cairn::load_options& o, dtype type,
                          std::int64_t n) {
        auto* const memory =
            type == dtype::float32 ? reinterpret_cast<std::byte*>(wide.data()) : more.data();
        return cairn::load(cairn::state_dict{{"w", tensor_view(type, {n}, memory)}}, "c", o, store,
                           how);
    };
    auto const refuses = [&](const cairn::mapping& how, const cairn::load_options& o,
                             std::int64_t n) {
        BOOST_CHECK_EXCEPTION(load(how, o, dtype::float32, n), cairn::error, [](const auto& e) {
            return support::is(e, cairn::errc::dtype_mismatch) && e.context().fqn == "w" &&
                   e.context().found.starts_with("float8_e4m3fn codes with scales, '") &&
                   e.context().remedy.find("dequantis") != std::string::npos;
        });
    };
    using cairn::mapping;
    auto const qk = concat(0, {stored("q"), stored("k")});
    refuses(mapping().rename("w", "q"), converting(), 4);
    refuses(mapping().set("w", qk), converting(), 8);
    refuses(mapping().set("w", cast(qk, dtype::float32)), {}, 8);
    BOOST_TEST(load(mapping().set("w", qk), {}, dtype::float8_e4m3fn, 8).converted.empty());
    BOOST_TEST((more[7] == std::byte{0x38}));
    BOOST_TEST(
        load(mapping().set("w", cast(stored("plain"), dtype::float32)), {}, dtype::float32, 4)
            .converted.empty());
    BOOST_TEST(wide[3] == 1.0f);
    // The scales have another name, the codes keep theirs.
    BOOST_CHECK_THROW(
        cairn::load(cairn::state_dict{{"q", tensor_view(dtype::float32, {4},
                                                        reinterpret_cast<std::byte*>(wide.data()))},
                                      {"s", other}},
                    "c", converting(), store, mapping().rename("s", "q_scale_inv")),
        cairn::error);
    // The state does not have the name that is cast.
    cairn::load(cairn::state_dict{{"s", other}}, "c", converting(), store,
                mapping().rename("s", "q_scale_inv").set("w", cast(qk, dtype::float32)));
}

BOOST_AUTO_TEST_SUITE_END()
