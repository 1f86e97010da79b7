// SPDX-License-Identifier: Apache-2.0
#include "change.hpp"
#include "checkpoint.hpp"
#include "json.hpp"
#include "table.hpp"

#include <cairn/metadata/stored_bytes.hpp>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tool {

namespace {

constexpr std::uint64_t compared_at_once = std::uint64_t{32} << 20;

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
    /// @param all_changes  Whether to look at the elements of tensors of different dtypes, and at
    ///                     those that are equal.
    comparison(opened& a, opened& b, bool all_changes) : a_(a), b_(b), all_changes_(all_changes) {}

    /// @return the differences, by key; the last names may be known only after `finish`.
    std::map<std::string, std::string>& findings() { return findings_; }
    const std::map<std::string, tensor_change>& changes() const { return changes_; }

    void tensor(const std::string& fqn) {
        auto const &x = *a_.meta().tensor(fqn), &y = *b_.meta().tensor(fqn);
        if (x.shape != y.shape) {
            findings_[fqn] = "shape " + to_string(x.shape) + " and " + to_string(y.shape);
            return;
        }
        if (x.type != y.type)
            findings_[fqn] = "dtype " + std::string(cairn::name_of(x.type)) + " and " +
                             std::string(cairn::name_of(y.type));
        if (x.type == y.type || (all_changes_ && tensor_change::can_compare(x.type, y.type))) {
            for (auto& piece : row_pieces({&x, &y}, compared_at_once)) {
                bytes_ += static_cast<std::uint64_t>(piece.volume()) * cairn::size_of(x.type);
                pieces_.emplace_back(fqn, std::move(piece));
                if (bytes_ >= compared_at_once) finish();
            }
        }
    }
    void value(const std::string& fqn) {
        for (auto* of : {&a_, &b_})
            bytes_ += bytes_of(of->meta(), *of->meta().value(fqn)).value_or(0);
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
    void compare(const std::string& fqn, const loaded_box& x, const loaded_box& y) {
        auto const &a = *a_.meta().tensor(fqn), &b = *b_.meta().tensor(fqn);
        bool const equal = a.type == b.type && x.bytes == y.bytes;
        if (equal && !all_changes_) return;
        auto& change = changes_[fqn];
        change.add(x, a.type, y, b.type);
        if (equal || a.type != b.type) return;
        findings_[fqn] =
            std::string(cairn::name_of(a.type)) + ' ' + to_string(a.shape) + ", " +
            std::to_string(change.bytes) + " of " +
            std::to_string(static_cast<std::uint64_t>(a.shape.product()) * cairn::size_of(a.type)) +
            " bytes differ, largest difference " + number(change.largest_change());
    }

    opened& a_;
    opened& b_;
    std::vector<std::pair<std::string, cairn::box>> pieces_;
    std::vector<std::string> values_;
    std::uint64_t bytes_ = 0;  ///< Size of the deferred entries.
    bool all_changes_;
    std::map<std::string, tensor_change> changes_;
    std::map<std::string, std::string> findings_;
};

/// Prints what has changed, most first.
void print_changes(const std::map<std::string, tensor_change>& all, const cairn::metadata& a,
                   const cairn::metadata& b) {
    std::vector<std::pair<std::string, tensor_change>> changed;
    for (auto const& [fqn, c] : all)
        if (c.changed != 0) changed.emplace_back(fqn, c);
    if (changed.empty()) return;
    std::stable_sort(changed.begin(), changed.end(), [](auto const& x, auto const& y) {
        return x.second.largest > y.second.largest;
    });
    table out(3);
    out.add({"tensor", "dtype", "shape", "largest change", "relative", "elements changed"});
    for (auto const& [fqn, c] : changed) {
        auto const &x = *a.tensor(fqn), &y = *b.tensor(fqn);
        std::string types(cairn::name_of(x.type));
        if (x.type != y.type) types += " " + std::string(cairn::name_of(y.type));
        out.add({cairn::terminal_text(fqn), types, to_string(x.shape),
                 short_number(c.largest_change()), short_number(c.relative()),
                 std::to_string(c.changed) + " of " + std::to_string(c.elements)});
    }
    out.print();
}

/// Returns why an entry cannot be compared; empty if it can.
std::string why_not_compared(const cairn::metadata& m, const std::string& fqn) {
    auto const other = m.unsupported.find(fqn);
    if (other != m.unsupported.end()) return "dtype " + cairn::terminal_text(other->second.type);
    auto const* t = m.tensor(fqn);
    return t == nullptr ? std::string() : repetition(m, *t);
}

}  // namespace

int diff(const std::string& pa, const std::string& pb, bool stats) {
    opened a(pa), b(pb);
    std::set<std::string> names;
    for (auto const* one : {&a, &b}) {
        auto const& m = one->meta();
        check_stored_bytes(m, [&](std::string_view fqn) {
            auto const* t = m.tensor(fqn);
            return t != nullptr && repetition(m, *t).empty();
        });
        for (auto const& [fqn, entry] : m.entries) names.insert(fqn);
        for (auto const& [fqn, t] : m.unsupported) names.insert(fqn);
    }
    comparison c(a, b, stats);
    for (auto const& fqn : names) {
        auto const in = [&](const cairn::metadata& m) {
            return m.entries.contains(fqn) || m.unsupported.contains(fqn);
        };
        if (!in(a.meta()) || !in(b.meta())) {
            c.findings()[fqn] = "only in " + (in(a.meta()) ? pa : pb);
            continue;
        }
        auto why = why_not_compared(a.meta(), fqn);
        if (why.empty()) why = why_not_compared(b.meta(), fqn);
        bool const is_tensor = a.meta().tensor(fqn) != nullptr;
        if (!why.empty())
            c.findings()[fqn] = "not compared: " + why;
        else if (is_tensor != (b.meta().tensor(fqn) != nullptr))
            c.findings()[fqn] = "a tensor in one, a value in the other";
        else if (is_tensor)
            c.tensor(fqn);
        else
            c.value(fqn);
    }
    c.finish();
    for (auto const& [fqn, what] : c.findings())
        std::cout << cairn::terminal_text(fqn) << ": " << what << '\n';
    if (stats) print_changes(c.changes(), a.meta(), b.meta());
    if (c.findings().empty())
        std::cout << "equal: " << names.size() << " entries\n";
    else
        std::cout << c.findings().size() << " of " << names.size() << " entries differ\n";
    return c.findings().empty() ? fine : finding;
}

}  // namespace tool
