// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.hpp"
#include "json.hpp"

#include <cairn/metadata/stored_bytes.hpp>
#include <cairn/tensor/convert.hpp>

#include <complex>
#include <cstring>
#include <iostream>

namespace tool {

namespace {

constexpr std::uint64_t read_at_once = std::uint64_t{64} << 20;
constexpr std::int64_t printable = 100000;

/// Formats one element as JSON; complex numbers as [real, imaginary].
std::string element(const std::byte* at, cairn::dtype type) {
    using namespace cairn;
    auto const as = [&]<class T>(dtype wanted) {
        T t{};
        convert_elements(const_tensor_view(type, {}, at), tensor_view(wanted, {}, &t));
        return t;
    };
    switch (info(type).kind) {
        case dtype_class::boolean: return std::to_integer<int>(*at) != 0 ? "true" : "false";
        case dtype_class::integer:
            if (type == dtype::uint64) {
                std::uint64_t u = 0;
                std::memcpy(&u, at, sizeof u);
                return std::to_string(u);
            }
            return std::to_string(as.template operator()<std::int64_t>(dtype::int64));
        case dtype_class::packed: return std::to_string(std::to_integer<int>(*at));
        case dtype_class::floating: return number(as.template operator()<double>(dtype::float64));
        case dtype_class::complex: {
            auto const c = as.template operator()<std::complex<double>>(dtype::complex128);
            return "[" + number(c.real()) + ", " + number(c.imag()) + "]";
        }
    }
    return "null";
}

/// Prints nested lists, following the shape.
void print(const std::byte*& at, const cairn::tensor_metadata& t, std::size_t d) {
    if (d == t.shape.size()) {
        std::cout << element(at, t.type);
        at += cairn::size_of(t.type);
        return;
    }
    std::cout << '[';
    for (std::int64_t i = 0; i < t.shape[d]; ++i) {
        if (i != 0) std::cout << ", ";
        print(at, t, d + 1);
    }
    std::cout << ']';
}

/// Returns how many elements and empty lists are printed. A tensor without elements may have any
/// number of empty rows.
std::int64_t printed(const cairn::index_vector& shape) {
    std::int64_t n = 1;
    for (auto const extent : shape) {
        if (extent == 0) break;
        n *= extent;
    }
    return n;
}

}  // namespace

int cat(const std::string& checkpoint, const std::string& fqn, bool raw) {
    opened from(checkpoint);
    auto const& m = from.meta();
    if (m.value(fqn) != nullptr) {
        if (raw)
            throw cairn::error(
                cairn::errc::kind_mismatch,
                {.fqn = fqn, .expected = "a tensor", .found = "a value", .remedy = "omit --raw"});
        std::cout << json(from.values({fqn}).at(0)) << '\n';
        return fine;
    }
    m.check_supported(fqn);
    auto const* t = m.tensor(fqn);
    if (t == nullptr)
        throw cairn::error(cairn::errc::missing_key,
                           {.fqn = fqn, .file = checkpoint, .remedy = "cairn ls lists the names"});
    check_repetition(m, fqn, *t);
    check_stored_bytes(m, [&](std::string_view key) { return key == fqn; });
    if (raw) {
        for (auto const& b : row_pieces({t}, read_at_once)) {
            auto const piece = from.boxes({{fqn, b}});
            std::cout.write(reinterpret_cast<const char*>(piece[0].bytes.data()),
                            static_cast<std::streamsize>(piece[0].bytes.size()));
            if (!std::cout) break;  // the reader has closed the pipe; main reports it
        }
        return fine;
    }
    if (auto const n = printed(t->shape); n > printable)
        throw cairn::error(
            cairn::errc::invalid_argument,
            {.fqn = fqn,
             .expected = "at most " + std::to_string(printable) + " elements to print",
             .found = std::to_string(n),
             .remedy = "use --raw"});
    auto const whole = from.boxes({{fqn, cairn::box::whole(t->shape)}});
    std::cout << "{\"dtype\": " << json_string(cairn::name_of(t->type))
              << ", \"shape\": " << to_string(t->shape) << ", \"data\": ";
    auto const* at = whole[0].bytes.data();
    print(at, *t, 0);
    std::cout << "}\n";
    return fine;
}

}  // namespace tool
