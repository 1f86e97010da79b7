// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.hpp"
#include "json.hpp"

#include <cairn/metadata/stored_bytes.hpp>
#include <cairn/tensor/convert.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <iostream>
#include <map>
#include <string_view>
#include <vector>

namespace tool {

namespace {

constexpr std::uint64_t compared_at_once = std::uint64_t{32} << 20;

/// Returns the largest absolute difference of two pieces; NaN against a number is infinite.
double largest_difference(const loaded_box& a, const loaded_box& b, cairn::dtype type) {
    using namespace cairn;
    constexpr std::int64_t at_once = 1 << 20;
    bool const complex = info(type).kind == dtype_class::complex;
    if (info(type).kind == dtype_class::packed) type = dtype::uint8;  // of their bytes
    auto const wide = complex ? dtype::complex128 : dtype::float64;
    std::vector<double> x(std::size_t{2} * at_once), y(x.size());
    double most = 0;
    for (std::int64_t at = 0; at < a.region.volume(); at += at_once) {
        auto const n = std::min(at_once, a.region.volume() - at);
        auto const widen = [&](const loaded_box& from, double* to) {
            auto const* bytes = from.bytes.data() + static_cast<std::size_t>(at) * size_of(type);
            convert_elements(const_tensor_view(type, {n}, bytes), tensor_view(wide, {n}, to));
        };
        widen(a, x.data());
        widen(b, y.data());
        for (std::size_t i = 0; i < static_cast<std::size_t>(complex ? 2 * n : n); ++i) {
            if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
            double const d = std::abs(x[i] - y[i]);
            most = std::max(most, std::isnan(d) ? INFINITY : d);
        }
    }
    return most;
}

/// Returns the position at which the character begins that contains the byte at `at`.
std::size_t begin_of(std::string_view s, std::size_t at) {
    at = std::min(at, s.size());
    while (at > 0 && at < s.size() && (static_cast<unsigned char>(s[at]) & 0xc0) == 0x80) --at;
    return at;
}

/// Returns the texts of two values; if they are long, the part around the first difference.
std::string both(std::string_view a, std::string_view b) {
    constexpr std::size_t most = 200, before = 40;
    auto const from = [&]() -> std::size_t {
        if (a.size() <= most && b.size() <= most) return 0;
        auto const at = static_cast<std::size_t>(
            std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
        return begin_of(a, at > before ? at - before : 0);
    }();
    auto const shown = [&](std::string_view text) {
        auto const rest = text.substr(from);
        auto out = (from == 0 ? "" : "...") + std::string(rest.substr(0, begin_of(rest, most)));
        if (rest.size() > most) out += "... (" + std::to_string(rest.size()) + " bytes)";
        return out;
    };
    return shown(a) + " and " + shown(b);
}

/// Compares the content of two checkpoints under each name that both have. Small entries are read
/// together.
class comparison {
public:
    comparison(opened& a, opened& b) : a_(a), b_(b) {}

    /// @return the differences, by key; the last names may be known only after `finish`.
    std::map<std::string, std::string>& findings() { return findings_; }

    void tensor(const std::string& fqn) {
        auto const &x = *a_.meta().tensor(fqn), &y = *b_.meta().tensor(fqn);
        if (x.shape != y.shape) {
            findings_[fqn] = "shape " + to_string(x.shape) + " and " + to_string(y.shape);
        } else if (x.type != y.type) {
            findings_[fqn] = "dtype " + std::string(cairn::name_of(x.type)) + " and " +
                             std::string(cairn::name_of(y.type));
        } else {
            for (auto& piece : row_pieces({&x, &y}, compared_at_once)) {
                bytes_ += static_cast<std::uint64_t>(piece.volume()) * cairn::size_of(x.type);
                pieces_.emplace_back(fqn, std::move(piece));
                if (bytes_ >= compared_at_once) finish();
            }
        }
    }
    void value(const std::string& fqn) {
        bytes_ += a_.meta().value(fqn)->at.length + b_.meta().value(fqn)->at.length;
        values_.push_back(fqn);
        if (bytes_ >= compared_at_once) finish();
    }
    /// Reads and compares the deferred entries.
    void finish() {
        auto const x = a_.boxes(pieces_), y = b_.boxes(pieces_);
        for (std::size_t i = 0; i < pieces_.size(); ++i) compare(pieces_[i].first, x[i], y[i]);
        auto const v = a_.values(values_), w = b_.values(values_);
        for (std::size_t i = 0; i < values_.size(); ++i)
            if (v[i] != w[i]) findings_[values_[i]] = differing(json(v[i]), json(w[i]));
        pieces_.clear();
        values_.clear();
        bytes_ = 0;
    }

private:
    /// Opaque values may differ in their bytes alone.
    static std::string differing(const std::string& x, const std::string& y) {
        return x == y ? x + " with other bytes" : both(x, y);
    }
    struct difference {
        std::uint64_t bytes = 0;
        double most = 0;
    };
    void compare(const std::string& fqn, const loaded_box& x, const loaded_box& y) {
        if (x.bytes == y.bytes) return;
        auto const& t = *a_.meta().tensor(fqn);
        auto& d = differences_[fqn];
        for (std::size_t i = 0; i < x.bytes.size(); ++i) d.bytes += x.bytes[i] != y.bytes[i];
        d.most = std::max(d.most, largest_difference(x, y, t.type));
        findings_[fqn] =
            std::string(cairn::name_of(t.type)) + ' ' + to_string(t.shape) + ", " +
            std::to_string(d.bytes) + " of " +
            std::to_string(static_cast<std::uint64_t>(t.shape.product()) * cairn::size_of(t.type)) +
            " bytes differ, largest difference " + number(d.most);
    }

    opened& a_;
    opened& b_;
    std::vector<std::pair<std::string, cairn::box>> pieces_;
    std::vector<std::string> values_;
    std::uint64_t bytes_ = 0;  ///< Size of the deferred entries.
    std::map<std::string, difference> differences_;
    std::map<std::string, std::string> findings_;
};

}  // namespace

int diff(const std::string& pa, const std::string& pb) {
    opened a(pa), b(pb);
    for (auto const* one : {&a, &b})
        check_stored_bytes(one->meta(), [](std::string_view) { return true; });
    comparison c(a, b);
    std::size_t in_both = 0;
    for (auto const& [fqn, entry] : a.meta().entries) {
        auto const other = b.meta().entries.find(fqn);
        if (other == b.meta().entries.end()) {
            c.findings()[fqn] = "only in " + pa;
            continue;
        }
        ++in_both;
        if (entry.index() != other->second.index())
            c.findings()[fqn] = "a tensor in one, a value in the other";
        else if (std::holds_alternative<cairn::tensor_metadata>(entry))
            c.tensor(fqn);
        else
            c.value(fqn);
    }
    c.finish();
    for (auto const* one : {&a, &b})
        for (auto const& [fqn, t] : one->meta().unsupported)
            c.findings()[fqn] = "not compared: dtype " + cairn::terminal_text(t.type);
    for (auto const& [fqn, entry] : b.meta().entries)
        if (a.meta().entries.find(fqn) == a.meta().entries.end())
            c.findings()[fqn] = "only in " + pb;
    for (auto const& [fqn, what] : c.findings())
        std::cout << cairn::terminal_text(fqn) << ": " << what << '\n';
    auto const all = a.meta().entries.size() + b.meta().entries.size() - in_both;
    if (c.findings().empty())
        std::cout << "equal: " << all << " entries\n";
    else
        std::cout << c.findings().size() << " of " << all << " entries differ\n";
    return c.findings().empty() ? fine : finding;
}

}  // namespace tool
