// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_TORCH_OPTIONS_HPP
#define CAIRN_STORAGE_TORCH_OPTIONS_HPP

#include <cairn/detail/cxx20.hpp>

#include <cstdint>
#include <functional>
#include <string>

namespace cairn {

/// How a `torch_writer` writes. Names and meanings are those of DCP's `FileSystemWriter`.
struct torch_writer_options {
    /// One file per rank and thread; false: one file per item.
    bool single_file_per_rank = true;
    /// Data files and directories reach the disk before the checkpoint counts as written. Off: a
    /// crash of the machine, not of the program, may lose or damage the newest checkpoint.
    bool sync_files = true;
    /// Files (with `single_file_per_rank`) that each rank writes at once.
    int thread_count = 1;
    /// False: refuse where a checkpoint stands already.
    bool overwrite = true;
    /// Payloads begin at multiples of this many bytes: a power of two from 64 to 32768. With 64,
    /// items are byte-identical to PyTorch 2.14's. Payloads shorter than the alignment use 64.
    std::uint32_t payload_alignment = 4096;
    /// Off: `.metadata` holds no pickle of PyTorch's, only cairn's index: smaller, and quicker to
    /// commit where there are millions of chunks. PyTorch then cannot load the checkpoint and says
    /// why; re-shard it with `cairn reshard` to give it a pickle.
    bool torch_metadata = true;
    /// With `torch_metadata`, a save of more chunks than this warns what Python would need.
    std::uint64_t many_chunks = 4'000'000;
    /// Names the n-th file of a rank, `"__R_N.distcp"` when empty. Names must differ between ranks
    /// and files. Where other files stand in the directory, the save id is added before the ending.
    std::function<std::string(int rank, int n)> file_name{};
};

/// How a `torch_reader` reads.
struct torch_reader_options {
    int thread_count = 1;  ///< Files that each rank reads at once.
};

}  // namespace cairn

#endif
