// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_MAPPED_READS_HPP
#define CAIRN_STORAGE_DETAIL_MAPPED_READS_HPP

#include <cairn/detail/config.hpp>
#include <cairn/mapping/detail/piece.hpp>
#include <cairn/mapping/detail/piece_boxes.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/metadata/value.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/mapped_metadata.hpp>
#include <cairn/tensor/box.hpp>
#include <cairn/tensor/detail/single_number.hpp>
#include <cairn/tensor/view.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The items of a plan, and the stored ones that they are made of.
///
/// A window of the plan is opened when the first of its stored items needs it, and committed after
/// the last. Threads: as those of `read_target`.
class mapped_reads {
public:
    /// @param shown, m  Outlive this.
    /// @param finer  Whether the reader is a `DividingReader`.
    CAIRN_DECL mapped_reads(const metadata& shown, const mapped_metadata& m, bool finer,
                            load_plan plan);
    mapped_reads(mapped_reads&&) = delete;

    /// The plan that was divided.
    const load_plan& asked() const noexcept { return asked_; }
    /// The stored items.
    const load_plan& plan() const noexcept { return plan_; }
    /// Delivers what needs no stored item. Once.
    /// @param storage_data  What the reader has made of the plan's.
    /// @param target        Of the plan; outlives this.
    /// @return Where the stored items go.
    CAIRN_DECL const read_target& begin(std::string storage_data, const read_target& target);

private:
    /// A single number that must be that of others, too, as it is stored.
    struct same_number {
        std::string name;
        single_number stored;
    };
    /// An item of the plan.
    struct wanted {
        const read_item* item = nullptr;
        const map::detail::mapped_tensor* made = nullptr;  ///< Null: it is stored as it is.
        box region{};
        /// Elements become those of the tensor's dtype before they become the window's, which may
        /// have more bits.
        bool casts = false;
        std::vector<map::detail::piece> constants{};
        std::deque<same_number> equals{};
        std::vector<std::pair<std::string, value>> values{};  ///< Read so far, by stored name.
        std::once_flag opened{};
        tensor_view window{};
        tensor_view filled{};                    ///< Where parts go: the window, or `rounded`.
        std::unique_ptr<std::byte[]> rounded{};  ///< Elements of the tensor's dtype.
        std::atomic<std::size_t> left{0};        ///< Stored items that are not read yet.
    };
    /// A stored item.
    struct part {
        wanted* of = nullptr;
        map::detail::piece_box at{};
        std::unique_ptr<const finer_dims> dims{};  ///< Null: those of the chunk.
        dtype type = dtype::float32;               ///< As it is stored.
        same_number* equal = nullptr;              ///< It is only compared.
        std::unique_ptr<std::byte[]> beside{};     ///< For readers that do not convert.
    };

    void add(const read_item& item);
    void add_tensor(const read_item& item, wanted& w);
    void add_number(wanted& w, const std::string& name);
    void add_value(const read_item& item, wanted& w);
    part& new_part(wanted& w, read_item stored);
    void open(wanted& w);
    tensor_view window_of(const part& p);
    void part_read(wanted& w);
    void value_read(wanted& w, const std::string& name, value v);

    const metadata& shown_;
    const mapped_metadata& m_;
    bool finer_;
    load_plan asked_;
    const read_target* target_ = nullptr;
    read_target stored_target_{};
    load_plan plan_{};
    std::deque<wanted> wanted_{};
    std::deque<part> parts_{};  ///< For each item of the plan, at its `leaf`.
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/storage/impl/mapped_reads.ipp>
#endif

#endif
