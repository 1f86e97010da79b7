// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_METADATA_HPP
#define CAIRN_METADATA_METADATA_HPP

#include <cairn/detail/config.hpp>
#include <cairn/metadata/chunk.hpp>
#include <cairn/metadata/chunk_list.hpp>
#include <cairn/tensor/box.hpp>
#include <cairn/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace cairn {

/// One step of a path through nested mappings (names) and lists (positions).
/// DCP's planner_data keeps mapping keys as strings and list positions as integers.
using path_element = std::variant<std::string, std::int64_t>;
using key_path = std::vector<path_element>;
/// The maximum number of path elements: each is a level of nesting, which is walked recursively.
inline constexpr std::size_t most_path_steps = 256;

/// DCP's `TensorStorageMetadata`.
struct tensor_metadata {
    dtype type = dtype::float32;
    index_vector shape{};
    bool requires_grad = false;
    chunk_list chunks{};
    friend bool operator==(const tensor_metadata&, const tensor_metadata&) = default;
};

/// DCP's `BytesStorageMetadata`: any value that is not a tensor.
struct value_metadata {
    storage_location at{};
    friend bool operator==(const value_metadata&, const value_metadata&) = default;
};

/// A tensor that this version cannot read, such as a quantised or sparse one.
struct unsupported_tensor {
    /// The name of a dtype, e.g. `torch.qint8`, or what it is in words, e.g. `a sparse tensor`.
    std::string type{};
    index_vector shape{};
    std::set<std::string> files{};

    bool is_of_unknown_dtype() const { return type.find(' ') == std::string::npos; }
    friend bool operator==(const unsupported_tensor&, const unsupported_tensor&) = default;
};

/// A name that a mapping does not make, although one of its lines is for it.
struct unmade_name {
    /// The stored names that it would be made of, in words; empty: it is left out.
    std::string of{};
    std::string found{};  ///< What there is instead, in words.
    friend bool operator==(const unmade_name&, const unmade_name&) = default;
};

/// Numbers of one byte that are weights only with scales.
struct quantised_codes {
    dtype type = dtype::uint8;
    std::string scales{};  ///< The stored name of their scales, or of some of these.
    friend bool operator==(const quantised_codes&, const quantised_codes&) = default;
};

/// What the data files of a checkpoint are.
enum class checkpoint_format : std::uint8_t {
    torch_dcp,    ///< PyTorch's DCP: each item is a torch.save stream.
    safetensors,  ///< The location of a chunk is that of its elements.
    torch_save,   ///< One file of torch.save.
};

/// What the object in PyTorch's `.metadata` has besides the members that cairn knows. A conversion
/// to PyTorch's format copies it.
struct foreign_metadata {
    /// By name: a pickle of each, which is copied and never executed.
    using pickles = std::map<std::string, std::vector<std::byte>, std::less<>>;

    std::string module{}, name{};  ///< Of a subclass of `Metadata`; empty: there is none.
    pickles members{};             ///< Of `Metadata`.
    /// By entry: members of what describes it (`TensorStorageMetadata.extra`), not of what says
    /// where it is stored.
    std::map<std::string, pickles, std::less<>> of_entries{};
    friend bool operator==(const foreign_metadata&, const foreign_metadata&) = default;
};

/// The contents of a checkpoint. DCP's `Metadata`, with the storage data folded into chunks.
struct metadata {
    metadata() noexcept;
    metadata(const metadata& other);
    metadata(metadata&& other) noexcept;
    metadata& operator=(const metadata& other);
    metadata& operator=(metadata&& other) noexcept;
    ~metadata();

    std::map<std::string, std::variant<tensor_metadata, value_metadata>, std::less<>> entries{};
    /// Flat name → path in the nested state dict. Empty if it was saved without flattening.
    std::map<std::string, key_path, std::less<>> paths{};
    /// Paths whose last step, the key of a dict, is a number, a bool or None in a file of
    /// torch.save: in `paths` it is text, as all keys of DCP. Set only in metadata that was read
    /// from such a file.
    std::set<key_path> text_keys{};
    /// Tensors that cannot be loaded, although everything else can. cairn writes none.
    std::map<std::string, unsupported_tensor, std::less<>> unsupported{};
    /// Names that a mapping does not make of this checkpoint: those of the state that is loaded,
    /// those of its lines without captures, and those that lack a part of what they are made of.
    /// Set only in what a mapping shows.
    std::map<std::string, unmade_name, std::less<>> unmade{};
    /// Names that a mapping makes for a state that has them, and for no other: what belongs to a
    /// parameter that is tied to another one, or is constant. Not stored.
    std::set<std::string, std::less<>> if_asked{};
    /// What is stored under these names is not loaded: a mapping makes something else under them.
    /// Set as `if_asked`.
    std::set<std::string, std::less<>> hidden{};
    /// By name: the codes that a tensor consists of, also where a mapping casts them; the names
    /// that it makes do not tell which these are. Set as `if_asked`.
    std::map<std::string, quantised_codes, std::less<>> codes{};
    /// Members of PyTorch's classes that this version does not know (`Metadata.extra`), if they are
    /// not None, or of `__metadata__` in safetensors files (`__metadata__.title`). A load ignores
    /// them. Set only in metadata that was read from a pickle, or from such files.
    std::set<std::string, std::less<>> unknown_members{};
    /// Those that a conversion keeps, of `Metadata` itself also where they are None. Set as
    /// `unknown_members`.
    foreign_metadata foreign{};
    /// Dtype and shape in a file of safetensors, e.g. `F6_E2M3 [4]`, of tensors of which `entries`
    /// has others. Set only in metadata that was read from such files.
    std::map<std::string, std::string, std::less<>> stored_as{};
    /// Files of stored bytes that belong to no entry. Set only in metadata that was read from a
    /// pickle.
    std::set<std::string, std::less<>> spare_files{};
    std::string save_id{};  ///< 32 hex digits for cairn's own checkpoints, otherwise empty.
    /// Sizes of the data files: those at commit if cairn wrote them, otherwise those that the
    /// reader found. Empty if a reader has no files.
    std::map<std::string, std::uint64_t, std::less<>> file_sizes{};
    /// Versions of the data files that the reader of this process has found (object_tag::text): of
    /// a checkpoint without save id, whose files may be replaced. Files that other ranks read may
    /// be copies, with other times, so they do not get it.
    std::map<std::string, std::string, std::less<>> file_versions{};

    /// Set by readers; an index in a file does not say it, nor the next two.
    checkpoint_format format = checkpoint_format::torch_dcp;
    /// The checkpoint's id names its only file instead of a place.
    bool is_file = false;
    /// For the reader's own use: from that of the coordinator to those of the other ranks.
    std::string storage_data{};

    const tensor_metadata* tensor(std::string_view fqn) const;
    const value_metadata* value(std::string_view fqn) const;
    /// @throws error errc::unsupported, naming the dtype, if this is one of @ref unsupported
    void check_supported(std::string_view fqn) const;
    /// @throws error errc::missing_key, naming stored names, if this is one of @ref unmade that is
    /// not left out
    void check_made(std::string_view fqn) const;
    friend bool operator==(const metadata&, const metadata&) = default;
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/metadata/impl/metadata.ipp>
#endif

#endif
