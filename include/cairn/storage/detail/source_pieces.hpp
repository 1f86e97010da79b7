// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_SOURCE_PIECES_HPP
#define CAIRN_STORAGE_DETAIL_SOURCE_PIECES_HPP

#include <cairn/detail/config.hpp>
#include <cairn/mapping/mapping.hpp>
#include <cairn/metadata/chunk_order.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/metadata/value.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/storage/checkpoint_reader.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/dequantising_reader.hpp>
#include <cairn/storage/detail/checked_payloads.hpp>
#include <cairn/storage/detail/erased_storage.hpp>
#include <cairn/storage/detail/mapped_metadata.hpp>
#include <cairn/storage/detail/mapped_reader.hpp>
#include <cairn/tensor/box.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace cairn::detail {

/// A checkpoint of any format, whose tensors are read in pieces, by several threads at a time. Its
/// metadata is read once.
class source_pieces {
public:
    /// Reads the metadata.
    /// @throws error as `checkpoint_reader::read_metadata`
    /// @param dequantise  Set: quantised weights are what they stand for.
    /// @param how  Set: what is read has the names and shapes that it makes; see `mapped_reader`.
    CAIRN_DECL source_pieces(const any_store& store, checkpoint_id id,
                             std::optional<dequantise_options> dequantise = {},
                             const std::optional<mapping>& how = {},
                             mapping_direction way = mapping_direction::to_state,
                             bool announce = false);
    /// @param meta  Of what is read, or of a part of it: nothing else is.
    CAIRN_DECL source_pieces(const any_store& store, checkpoint_id id, metadata meta);
    source_pieces(source_pieces&&) = delete;

    const metadata& meta() const noexcept { return meta_; }
    /// As it is stored.
    const metadata& stored() const noexcept { return mapped_ ? mapped_->stored() : meta_; }

    /// Adds the names of stored tensors that a tensor is made of.
    void add_stored_names(const std::string& fqn, std::set<std::string, std::less<>>& to) const {
        auto const* const made = mapped_ ? mapped_->tensor(fqn) : nullptr;
        if (made == nullptr) to.insert(fqn);
        if (made != nullptr)
            for (auto const& p : made->pieces)
                if (!p.is_constant()) to.insert(p.from->name);
    }

    /// See `mapped_metadata::idle_lines`.
    std::string idle_lines() const { return mapped_ ? mapped_->idle_lines() : std::string(); }
    /// See `mapped_metadata::moved_codes`.
    std::vector<std::string> moved_codes() const {
        return mapped_ ? mapped_->moved_codes() : std::vector<std::string>();
    }
    /// See `mapped_metadata::hidden`.
    std::set<std::string, std::less<>> hidden() const {
        return mapped_ ? mapped_->hidden() : std::set<std::string, std::less<>>();
    }

    /// Reads a part of the elements of a box of a tensor.
    /// The parts of a box that is a whole tensor are read by one thread, in their order, and all of
    /// them.
    /// @param type  What they become: see @ref convert_elements.
    /// @param at    Byte of the box, as elements of `type` in row-major order, that the part begins
    ///              with. Begin and end are those of elements.
    CAIRN_DECL void read(const std::string& fqn, const box& region, dtype type, std::uint64_t at,
                         std::span<std::byte> into);
    /// The same of a whole tensor that has a @ref crc; nobody has compared it.
    CAIRN_DECL void read_unchecked(const std::string& fqn, std::uint64_t at,
                                   std::span<std::byte> into);
    CAIRN_DECL value read_value(const std::string& fqn);

    /// Returns the CRC-32 of a tensor's elements in row-major order, where metadata has it.
    CAIRN_DECL std::optional<std::uint32_t> crc(const std::string& fqn) const;
    /// @throws error errc::checksum_mismatch unless this is the tensor's @ref crc
    CAIRN_DECL void check(const std::string& fqn, std::uint32_t found);

    /// Returns what has been read without a checksum, one line for each file.
    CAIRN_DECL std::vector<std::string> unverified() const;

private:
    using any_reader = std::variant<checkpoint_reader, dequantising_reader>;

    /// A reader, and what a mapping shows of it.
    class reader {
    public:
        CAIRN_DECL reader(any_reader of, std::shared_ptr<const mapped_metadata> m);
        reader(reader&&) = delete;
        erased_storage_reader& get() noexcept { return mapped_ ? *mapped_ : *stored_; }

    private:
        any_reader of_;
        std::shared_ptr<void> owner_{};
        erased_storage_reader* stored_ = nullptr;
        std::optional<mapped_reader> mapped_{};
    };

    /// Readers that are set up in one way. Each reads one piece at a time.
    struct readers {
        storage_setup setup{};
        std::vector<std::unique_ptr<reader>> idle{};
    };

    /// A stretch of a box whose elements are far apart in the file.
    struct stretch {
        std::string fqn;
        box region;
        dtype type;
        std::uint64_t at;
        std::shared_ptr<const std::vector<std::byte>> bytes{};
        bool is_same(const stretch& o) const {
            return at == o.at && fqn == o.fqn && type == o.type && region == o.region;
        }
    };
    static constexpr std::uint64_t stretch_bytes = std::uint64_t{32} << 20;
    /// So many stretches are held, or as many as there are readers, if that is more: each may be
    /// in the middle of one.
    static constexpr std::size_t usual_stretches = 16;

    void set_up();
    any_reader new_reader(bool announce = false) const;
    bool is_as_stored(const std::string& fqn) const;
    bool is_scattered(const std::string& fqn) const;
    std::shared_ptr<const std::vector<std::byte>> read_stretch(stretch s);
    void read_piece(const std::string& fqn, const box& region, dtype type, std::uint64_t at,
                    std::span<std::byte> into);
    void read(const load_plan& plan, const read_target& target, readers& by);
    const chunk_order& order_of(const std::string& fqn);

    any_store store_;
    checkpoint_id id_;
    std::optional<dequantise_options> dequantise_;
    std::shared_ptr<const mapped_metadata> mapped_{};  ///< Null: no mapping.
    metadata meta_{};
    std::shared_ptr<checked_payloads> checked_ = std::make_shared<checked_payloads>();
    std::mutex m_{};      ///< Protects the members below.
    readers in_order_{};  ///< Of whole tensors, from the beginning to the end.
    readers in_any_order_{};
    readers unchecked_{};
    std::size_t reader_count_ = 0;
    std::map<std::string, chunk_order> orders_{};  ///< Of tensors that were read.
    std::vector<stretch> stretches_{};             ///< The last one was used last.
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/storage/impl/source_pieces.ipp>
#endif

#endif
