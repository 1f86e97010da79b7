// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_IMPL_TORCH_SAVE_READER_IPP
#define CAIRN_STORAGE_IMPL_TORCH_SAVE_READER_IPP

#include <cairn/error.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/other_formats.hpp>
#include <cairn/storage/detail/stored_chunk.hpp>
#include <cairn/storage/detail/torch_save_file.hpp>
#include <cairn/storage/torch_save_reader.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace cairn {

static_assert(StorageReader<torch_save_reader> && ChecksumReader<torch_save_reader> &&
              LocalReader<torch_save_reader>);

namespace detail {

/// What finds values needs it; it does not move with the reader.
struct torch_save_parts {
    unverified* notes = nullptr;
    std::size_t requests = 1;  ///< That the store wants in flight.
};

inline item_finder torch_save_finder(std::shared_ptr<torch_save_parts> parts) {
    return {{},
            find_in_torch_save,
            [](const tensor_metadata& t, std::size_t chunk) {
                auto const& row = t.chunks.row_of(chunk);
                return row.is_divisible() && row.payload_crc == 0;
            },
            [parts = std::move(parts)](open_file& file, const std::string& fqn,
                                       const storage_location& at) {
                auto const& all = torch_save_content(file, parts->requests);
                auto v = read_torch_save_value(file, fqn, at, all);
                note_value(*parts->notes, fqn, v);
                if (!all.parts().checked) parts->notes->note_item(file.described());
                return v;
            }};
}

}  // namespace detail

CAIRN_DECL torch_save_reader::torch_save_reader(any_store store, int thread_count)
    : torch_save_reader(std::move(store), thread_count,
                        std::make_shared<detail::torch_save_parts>()) {}
CAIRN_DECL torch_save_reader::torch_save_reader(any_store store, int thread_count,
                                                std::shared_ptr<detail::torch_save_parts> parts)
    : chunk_reader(std::move(store), detail::torch_save_finder(parts), thread_count),
      parts_(std::move(parts)) {}

CAIRN_DECL void torch_save_reader::reset(const checkpoint_id& id) {
    auto const at = detail::split_id(id);
    file_ = at.name;
    meta_ = nullptr;
    chunk_reader::reset(at.place);
    parts_->requests = place().requests_in_flight();
}
CAIRN_DECL metadata torch_save_reader::read_metadata() {
    if (file_.empty())
        throw error(errc::invalid_argument, {.expected = "the name of a file of torch.save",
                                             .found = "no name",
                                             .remedy = "pass it as the id of the checkpoint"});
    auto const described = place().describe(file_);
    try {
        open_file file(place().open(file_), described);
        auto m = format::torch_save::describe(detail::torch_save_content(file, parts_->requests),
                                              file_, file.size());
        m.format = checkpoint_format::torch_save;
        m.is_file = true;
        return m;
    } catch (const error& e) {
        auto where = e.context();
        if (where.file.empty()) where.file = described;
        throw error(e.code(), std::move(where));
    }
}
CAIRN_DECL void torch_save_reader::set_up_reader(const metadata& m, const storage_setup& me) {
    meta_ = &m;
    chunk_reader::set_up_reader(m, me);
    parts_->notes = &notes();
    for (auto const& [fqn, t] : m.unsupported) notes().note_unread(fqn, t.type);
}
CAIRN_DECL std::optional<chunk_checksum> torch_save_reader::checksum(const std::string& fqn,
                                                                     std::size_t chunk) {
    auto const* t = meta_ == nullptr ? nullptr : meta_->tensor(fqn);
    if (t == nullptr || chunk >= t->chunks.size()) return {};
    auto const at = t->chunks.location(chunk);
    if (!at.layout || at.layout->payload_crc == 0 || !at.transforms.empty()) return {};
    return chunk_checksum{at.layout->payload_crc, at.length,
                          at.layout->payload_offset / size_of(t->type), at.layout->strides};
}

}  // namespace cairn

#endif
