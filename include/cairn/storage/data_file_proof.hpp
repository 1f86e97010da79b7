// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DATA_FILE_PROOF_HPP
#define CAIRN_STORAGE_DATA_FILE_PROOF_HPP

#include <cairn/detail/wire.hpp>
#include <cairn/format/native/footer.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/exists.hpp>
#include <cairn/storage/data_names.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cairn::detail {

/// What is known of a file that a replaced `.metadata` or a leftover intent names. Both are
/// untrusted: they may have been downloaded, or copied from another directory.
enum class ownership {
    absent,    ///< The file does not exist.
    proven,    ///< It is a data file of that save.
    anothers,  ///< It is a data file of another save.
    unproven   ///< There is no evidence that it is a data file.
};

/// The mark at the end of a data file from its creation until its footer replaces it: a footer
/// without items. It identifies the owner of a file found after a crash.
inline byte_vector owners_mark(const std::string& save_id) {
    return format::native::encode_footer({save_id, {}});
}

/// Returns the save id in a data file's footer or mark; nothing if it has neither, like PyTorch's
/// files.
template <class Handle>
std::optional<std::string> save_id_at_end(Handle& file, std::uint64_t size) {
    constexpr std::size_t tail = format::native::footer_tail_bytes;
    constexpr std::size_t head = 1 + 1 + 32;  // version, and a save id with its length
    if (size < head + tail) return {};
    byte_vector bytes(tail);
    file.read(size - tail, bytes);
    auto const length = format::native::footer_length(bytes);
    if (length < head + tail || length > size) return {};
    bytes.resize(head);
    file.read(size - length, bytes);
    wire_reader r(bytes);
    if (r.u8() != 1 || r.u8() != 32) return {};
    auto const id = r.raw(32);
    std::string text(reinterpret_cast<const char*>(id.data()), id.size());
    if (!is_save_id(text)) return {};
    return text;
}

/// Whether nothing was written to a file except, possibly, a part of the mark.
template <class Handle>
bool is_blank(Handle& file, std::uint64_t size, const std::string& save_id) {
    if (size == 0) return true;
    byte_vector piece(static_cast<std::size_t>(std::min<std::uint64_t>(size, 4096)));
    file.read(size - piece.size(), piece);
    auto const mark = owners_mark(save_id);
    for (std::size_t i = 1; i <= std::min(mark.size(), piece.size()); ++i)
        if (auto& b = piece[piece.size() - i]; b == mark[mark.size() - i]) b = std::byte{0};
    auto const is_zero = [&] {
        return std::all_of(piece.begin(), piece.end(),
                           [](std::byte b) { return b == std::byte{0}; });
    };
    if (!is_zero()) return false;
    if (size == piece.size()) return true;
    file.read(0, std::span(piece).first(std::min<std::size_t>(
                     piece.size(), static_cast<std::size_t>(size - piece.size()))));
    return is_zero();
}

/// Whether a file's directory within a place is itself the place of another checkpoint.
template <ObjectStore Store>
bool is_in_another_checkpoint(Store& store, std::string_view name) {
    for (auto slash = name.find('/'); slash != name.npos; slash = name.find('/', slash + 1)) {
        auto const other = std::string(name.substr(0, slash + 1)) + std::string(metadata_name);
        if (!store.tag(other).text.empty()) return true;
    }
    return false;
}

/// What shows that a file belongs to a save that has listed it.
enum class accepted_proof {
    id,       ///< The save's id only, in its name or at its end.
    name,     ///< Also a data file's default name, where nothing says that it is another's.
    planning  ///< Also that it is blank: the save itself stated, on this host, that it writes it.
};

/// Returns the ownership of a file that save `save_id` is said to have written.
/// @param save_id  Empty for a checkpoint written by PyTorch.
template <ObjectStore Store>
ownership whose(Store& store, const std::string& name, const std::string& save_id,
                accepted_proof accepted) {
    if (!is_data_name(name) || is_in_another_checkpoint(store, name)) return ownership::unproven;
    if (has_id(name, save_id)) return ownership::proven;
    try {
        auto file = store.open(name);
        std::uint64_t const size = file.size();
        if (auto const id = save_id_at_end(file, size))
            return *id == save_id ? ownership::proven : ownership::anothers;
        // Neither: written by PyTorch, or by a save that was killed at its first step.
        if (accepted != accepted_proof::id && is_default_data_name(name)) return ownership::proven;
        if (accepted == accepted_proof::planning && is_blank(file, size, save_id))
            return ownership::proven;
    } catch (const error& e) {
        // A network file system may have forgotten a file for a moment (ESTALE).
        if (e.code() != make_error_code(errc::not_found) || exists(store, name)) throw;
        return ownership::absent;
    }
    return ownership::unproven;
}

}  // namespace cairn::detail

#endif
