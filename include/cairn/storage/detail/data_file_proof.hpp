// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_DATA_FILE_PROOF_HPP
#define CAIRN_STORAGE_DETAIL_DATA_FILE_PROOF_HPP

#include <cairn/detail/wire.hpp>
#include <cairn/format/native/footer.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/detail/exists.hpp>
#include <cairn/storage/detail/data_names.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::detail {

/// Whose file it is that a replaced `.metadata` or a leftover intent names. Both are untrusted:
/// they may have been downloaded, or copied from another directory.
enum class ownership {
    absent,    ///< The file does not exist.
    proven,    ///< It is a data file of that save.
    anothers,  ///< It is a data file of another save.
    unproven   ///< There is no evidence that it is a data file.
};

/// Returns the save id in a data file's footer; nothing if it has none, like PyTorch's files, those
/// of ranks without items, and interrupted ones.
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

/// Whether a file's directory within a place is itself the place of another checkpoint.
template <ObjectStore Store>
bool is_in_another_checkpoint(Store& store, std::string_view name) {
    for (auto slash = name.find('/'); slash != name.npos; slash = name.find('/', slash + 1)) {
        auto const other = std::string(name.substr(0, slash + 1)) + std::string(metadata_name);
        if (!store.tag(other).text.empty()) return true;
    }
    return false;
}

/// Returns the ownership of a file that save `save_id` is said to have written. Its name shows it,
/// and a footer, where there is one, must agree. Files without the id in their names are PyTorch's,
/// or those of other versions of cairn, with default names, a footer, or the id elsewhere in the
/// name.
/// @param save_id  Empty for a checkpoint written by PyTorch.
template <ObjectStore Store>
ownership whose(Store& store, const std::string& name, const std::string& save_id) {
    if (!is_data_name(name) || is_in_another_checkpoint(store, name)) return ownership::unproven;
    auto const id = id_in(name);
    bool empty = false;
    try {
        auto file = store.open(name);
        empty = std::uint64_t{file.size()} == 0;
        auto its = save_id_at_end(file, file.size());
        // Against its name: a byte may have changed on the way.
        if (its && *its != save_id && id == save_id) its = save_id_at_end(file, file.size());
        if (its) return *its == save_id ? ownership::proven : ownership::anothers;
    } catch (const error& e) {
        // A network file system may have forgotten a file for a moment (ESTALE).
        if (e.code() != make_error_code(errc::not_found) || exists(store, name)) throw;
        return ownership::absent;
    }
    bool const named =
        id.empty() ? is_default_data_name(name) || (empty && is_earlier_data_name(name, save_id))
                   : id == save_id;
    return named ? ownership::proven : ownership::unproven;
}

}  // namespace cairn::detail

#endif
