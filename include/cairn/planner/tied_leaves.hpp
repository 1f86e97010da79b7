// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_TIED_LEAVES_HPP
#define CAIRN_PLANNER_TIED_LEAVES_HPP

#include <cairn/error.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/state/flat_state.hpp>
#include <cairn/tensor/convert.hpp>
#include <cairn/tensor/layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The tied weights of a load: one memory under several names. Stored once, it is read once; stored
/// several times (as PyTorch does), the later copies are read into buffers of their own and
/// compared, because memory can hold only one of them.
class tied_leaves {
public:
    void reset(const flat_state& state) {
        *this = tied_leaves();
        state_ = &state;
    }

    /// Whether the leaf needs no items: its content is read under another name.
    bool is_read_already(std::uint32_t leaf, const tensor_leaf& t, const tensor_metadata& stored) {
        if (!t.writable || t.shards.empty() || t.shards[0].view.empty()) return false;
        auto& firsts = first_of_[t.shards[0].target];
        for (auto const& [other, theirs] : firsts) {
            auto const& o = *(*state_)[other].tensor();
            if (o.global_shape != t.global_shape || o.type != t.type || !same_windows(o, t))
                continue;
            if (same_place(*theirs, stored)) return true;
            second_.emplace(leaf, other);
            return false;
        }
        firsts.emplace_back(leaf, &stored);
        return false;
    }
    /// Whether the leaf's items are only compared.
    bool is_second(std::uint32_t leaf) const { return second_.count(leaf) != 0; }

    /// Records that a region of a second copy has been read.
    /// @param read    A view of `memory`; of the stored dtype.
    /// @param target  The window that would have received it.
    void add(std::uint32_t leaf, std::unique_ptr<std::byte[]> memory, const tensor_view& read,
             const tensor_view& target) {
        copies_.push_back({leaf, std::move(memory), read, target, {}});
    }
    /// Returns the regions on devices, and the memory that `compare` expects copies of them in.
    std::vector<std::pair<const_tensor_view, tensor_view>> on_devices() {
        std::vector<std::pair<const_tensor_view, tensor_view>> all;
        for (auto& c : copies_) {
            if (is_host(c.target.device.kind)) continue;
            c.fetched.resize(static_cast<std::size_t>(c.target.bytes()));
            all.emplace_back(c.target,
                             tensor_view(c.target.type, c.target.shape, c.fetched.data()));
        }
        return all;
    }

    /// @throws error errc::invalid_state naming both keys
    void compare() {
        for (auto const& c : copies_) {
            auto const type = c.target.type;
            auto const bytes = static_cast<std::size_t>(c.target.bytes());
            std::vector<std::byte> first(bytes), second(bytes);
            if (c.fetched.empty())
                copy_elements(c.target, tensor_view(type, c.target.shape, first.data()));
            else
                first = c.fetched;
            convert_elements(c.read, tensor_view(type, c.target.shape, second.data()));
            if (first != second)
                throw error(errc::invalid_state,
                            {.fqn = (*state_)[c.leaf].fqn,
                             .expected = "the content of '" + (*state_)[second_.at(c.leaf)].fqn +
                                         "', which is the same weight in the state",
                             .found = "other content in the checkpoint",
                             .remedy = "leave one of the two out of the state"});
        }
        copies_.clear();
    }

private:
    struct copy {
        std::uint32_t leaf;
        std::unique_ptr<std::byte[]> memory;
        tensor_view read;
        tensor_view target;
        std::vector<std::byte> fetched;  ///< The content of a target on a device.
    };

    static bool same_windows(const tensor_leaf& a, const tensor_leaf& b) {
        return std::equal(a.shards.begin(), a.shards.end(), b.shards.begin(), b.shards.end(),
                          [](const shard& x, const shard& y) {
                              return x.region == y.region && x.target == y.target &&
                                     x.view.device == y.view.device &&
                                     x.view.strides == y.view.strides;
                          });
    }
    static bool same_place(const tensor_metadata& a, const tensor_metadata& b) {
        return a.type == b.type && a.shape == b.shape &&
               std::equal(a.chunks.begin(), a.chunks.end(), b.chunks.begin(), b.chunks.end(),
                          [](const cairn::chunk& x, const cairn::chunk& y) {
                              return x.region == y.region && x.at.file == y.at.file &&
                                     x.at.offset == y.at.offset;
                          });
    }

    const flat_state* state_ = nullptr;
    /// Keyed by address of the elements: the first leaves that are loaded there.
    std::map<const std::byte*, std::vector<std::pair<std::uint32_t, const tensor_metadata*>>>
        first_of_;
    std::map<std::uint32_t, std::uint32_t> second_;  ///< Leaf → the first leaf of that memory.
    std::vector<copy> copies_;
};

}  // namespace cairn::detail

#endif
