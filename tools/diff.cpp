// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.hpp"
#include "json.hpp"

#include <cairn/tensor/convert.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <iostream>

namespace tool {

namespace {

constexpr std::uint64_t compared_at_once = std::uint64_t{32} << 20;

/// The largest absolute difference of two pieces of one dtype; NaN against a number is infinite.
double largest_difference(const loaded_box& a, const loaded_box& b, cairn::dtype type) {
    using namespace cairn;
    bool const complex = info(type).kind == dtype_class::complex;
    auto const n = static_cast<std::size_t>(a.where.volume()) * (complex ? 2 : 1);
    std::vector<double> x(n), y(n);
    auto const wide = complex ? dtype::complex128 : dtype::float64;
    convert_elements(const_tensor_view(type, a.where.lengths, a.bytes.data()),
                     tensor_view(wide, a.where.lengths, x.data()));
    convert_elements(const_tensor_view(type, b.where.lengths, b.bytes.data()),
                     tensor_view(wide, b.where.lengths, y.data()));
    double most = 0;
    for (std::size_t i = 0; i < n; ++i) {
        if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
        double const d = std::abs(x[i] - y[i]);
        most = std::max(most, std::isnan(d) ? INFINITY : d);
    }
    return most;
}

bool same_tensor(const std::string& fqn, const std::string& pa, const cairn::tensor_metadata& a,
                 const std::string& pb, const cairn::tensor_metadata& b) {
    if (a.extents != b.extents) {
        std::cout << fqn << ": shape " << to_string(a.extents) << " and " << to_string(b.extents)
                  << '\n';
        return false;
    }
    if (a.type != b.type) {
        std::cout << fqn << ": dtype " << cairn::name_of(a.type) << " and "
                  << cairn::name_of(b.type) << '\n';
        return false;
    }
    std::uint64_t bytes = 0;
    double most = 0;
    for (auto const& piece : row_pieces(a, compared_at_once)) {
        auto const x = load_box(pa, fqn, a, piece), y = load_box(pb, fqn, b, piece);
        if (x.bytes == y.bytes) continue;
        for (std::size_t i = 0; i < x.bytes.size(); ++i) bytes += x.bytes[i] != y.bytes[i];
        most = std::max(most, largest_difference(x, y, a.type));
    }
    if (bytes != 0)
        std::cout << fqn << ": " << cairn::name_of(a.type) << ' ' << to_string(a.extents) << ", "
                  << bytes << " of "
                  << static_cast<std::uint64_t>(a.extents.product()) * cairn::size_of(a.type)
                  << " bytes differ, largest difference " << number(most) << '\n';
    return bytes == 0;
}

}  // namespace

int diff(const std::string& pa, const std::string& pb) {
    auto const a = read_metadata(pa), b = read_metadata(pb);
    std::size_t same = 0, different = 0;
    for (auto const& [fqn, entry] : a.entries) {
        auto const other = b.entries.find(fqn);
        bool equal = false;
        if (other == b.entries.end()) {
            std::cout << fqn << ": only in " << pa << '\n';
        } else if (entry.index() != other->second.index()) {
            std::cout << fqn << ": a tensor in one, an object in the other\n";
        } else if (auto const* t = std::get_if<cairn::tensor_metadata>(&entry)) {
            equal = same_tensor(fqn, pa, *t, pb, std::get<cairn::tensor_metadata>(other->second));
        } else {
            auto const x = load_object(pa, fqn), y = load_object(pb, fqn);
            equal = x == y;
            if (!equal) std::cout << fqn << ": " << json(x) << " and " << json(y) << '\n';
        }
        equal ? ++same : ++different;
    }
    for (auto const& [fqn, entry] : b.entries) {
        if (a.entries.find(fqn) != a.entries.end()) continue;
        std::cout << fqn << ": only in " << pb << '\n';
        ++different;
    }
    if (different == 0)
        std::cout << "equal: " << same << " entries\n";
    else
        std::cout << different << " of " << same + different << " entries differ\n";
    return different == 0 ? fine : finding;
}

}  // namespace tool
