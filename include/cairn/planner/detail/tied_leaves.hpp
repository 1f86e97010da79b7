// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_DETAIL_TIED_LEAVES_HPP
#define CAIRN_PLANNER_DETAIL_TIED_LEAVES_HPP

#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/state/flat_state.hpp>
#include <cairn/tensor/layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The tied weights of a load: one memory under several names. It is read under the first of them,
/// because memory can hold only one content; a copy that is stored separately under another name,
/// as PyTorch does, is a `stored_tie`.
class tied_leaves {
public:
    /// The leaf that is loaded into some memory.
    struct first_leaf {
        std::string name{};  ///< In the checkpoint.
        const tensor_leaf* leaf = nullptr;
        const tensor_metadata* stored = nullptr;

        /// Whether the other name refers to the same bytes in the same file.
        bool is_stored_as(const tensor_metadata& other) const {
            auto const& a = stored->chunks;
            auto const& b = other.chunks;
            return stored->type == other.type && stored->shape == other.shape &&
                   std::equal(a.begin(), a.end(), b.begin(), b.end(),
                              [](const cairn::chunk& x, const cairn::chunk& y) {
                                  // What is computed has no layout: stored bytes are a part of it.
                                  return x.region == y.region && x.at.layout && x.at == y.at;
                              });
        }
    };

    void reset() { *this = tied_leaves(); }

    /// Returns the leaf that is loaded into the same windows; null: this is the first.
    /// @param name  In the checkpoint.
    const first_leaf* first_of(const std::string& name, const tensor_leaf& t,
                               const tensor_metadata& stored) {
        if (!t.writable || t.shards.empty() || t.shards[0].view.empty()) return nullptr;
        auto const here = first_of_.try_emplace(t.shards[0].target).first;
        auto& firsts = here->second;
        for (auto const& f : firsts)
            if (f.leaf->global_shape == t.global_shape && f.leaf->type == t.type &&
                same_windows(*f.leaf, t))
                return &f;
        note_overlap(firsts, name, t);
        if (here != first_of_.begin()) note_overlap(std::prev(here)->second, name, t);
        if (std::next(here) != first_of_.end()) note_overlap(std::next(here)->second, name, t);
        firsts.push_back({name, &t, &stored});
        return nullptr;
    }
    /// Pairs of names that are loaded into a part of the same memory, in different forms. Not all:
    /// only leaves whose memory begins next to each other are compared, and each is paired with
    /// one of those at an address.
    const std::vector<std::pair<std::string, std::string>>& overlaps() const noexcept {
        return overlaps_;
    }

    /// Records that a weight which is read as `first` is stored under another name too.
    /// @param items  The items that would read it.
    void add(const first_leaf& first, const std::string& name, const tensor_metadata& stored,
             const std::vector<read_item>& items) {
        if (items.empty()) return;
        stored_tie tie{name, first.name, {}};
        auto const& theirs = first.stored->chunks;
        std::map<std::pair<index_vector, index_vector>, std::uint32_t> places;  // made when needed
        for (auto const& i : items) {
            auto const region = stored.chunks.region(i.chunk);
            auto k = i.chunk;
            if (k >= theirs.size() || theirs.region(k) != region) {
                if (places.empty())
                    for (std::uint32_t c = 0; c < theirs.size(); ++c)
                        places.try_emplace({theirs.region(c).offsets, theirs.region(c).shape}, c);
                auto const found = places.find({region.offsets, region.shape});
                k = found == places.end() ? std::uint32_t(theirs.size()) : found->second;
            }
            if (k == theirs.size() || first.stored->type != stored.type) {
                tie.chunks.clear();
                break;
            }
            tie.chunks.emplace_back(i.chunk, k);
        }
        std::sort(tie.chunks.begin(), tie.chunks.end());
        tie.chunks.erase(std::unique(tie.chunks.begin(), tie.chunks.end()), tie.chunks.end());
        ties_.push_back(std::move(tie));
    }
    const std::vector<stored_tie>& ties() const noexcept { return ties_; }

private:
    static bool same_windows(const tensor_leaf& a, const tensor_leaf& b) {
        return std::equal(a.shards.begin(), a.shards.end(), b.shards.begin(), b.shards.end(),
                          [](const shard& x, const shard& y) {
                              return x.region == y.region && x.target == y.target &&
                                     x.view.device == y.view.device &&
                                     x.view.strides == y.view.strides;
                          });
    }

    void note_overlap(const std::vector<first_leaf>& others, const std::string& name,
                      const tensor_leaf& t) {
        auto const& v = t.shards[0].view;
        if (others.empty() || v.strides.size() != v.shape.size()) return;  // not checked so far
        auto const [begin, end] = address_range(v);
        for (auto const& other : others) {
            auto const& w = other.leaf->shards[0].view;
            auto const [first, last] = address_range(w);
            if (begin < last && first < end && v.device == w.device && is_dense(v) && is_dense(w)) {
                overlaps_.emplace_back(other.name, name);
                break;
            }
        }
    }

    /// Keyed by address of the elements.
    std::map<const std::byte*, std::vector<first_leaf>> first_of_;
    std::vector<stored_tie> ties_;
    std::vector<std::pair<std::string, std::string>> overlaps_;
};

}  // namespace cairn::detail

#endif
