// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_TORCH_OPTIONS_HPP
#define CAIRN_STORAGE_TORCH_OPTIONS_HPP

#include <cairn/storage/politeness.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace cairn {

/// Options of a `torch_writer`. Names and meanings are those of DCP's `FileSystemWriter`.
struct torch_writer_options {
    /// One file per rank and thread; false: one file per item.
    bool single_file_per_rank = true;
    /// Data files and directories reach the disk before the checkpoint is committed. If false, a
    /// crash of the machine, but not of the program, may lose or damage the newest checkpoint.
    bool sync_files = true;
    /// How the writer's threads yield to the program's.
    politeness polite{};
    /// Number of files (with `single_file_per_rank`) that each rank writes concurrently; all ranks
    /// that set it set the same number. 0: as many as the coordinator has CPUs for each rank of
    /// its host, within limits: 128 MiB for each file, and the size of the largest tensor;
    /// `polite.cpus`; 1024 files of all ranks; 1 on an executor of the program's.
    int thread_count = 0;
    /// False: fail if a checkpoint already exists.
    bool overwrite = true;
    /// Payloads begin at multiples of this many bytes: a power of two from 64 to 32768. With 64,
    /// items are byte-identical to PyTorch 2.14's. Payloads shorter than the alignment use 64, as
    /// compressed ones do.
    std::uint32_t payload_alignment = 4096;
    /// Compresses each tensor and value with zstd, at this level: -131072 (fast) to 22 (small), as
    /// DCP's extension `ZStandard` does at level 3. Each is then read and decoded whole, also for a
    /// part of it. PyTorch reads them where the Python package `zstandard` is installed. Everything
    /// is compressed twice, first to learn the sizes of the files. Takes memory for each file that
    /// is being written: about 4 MiB at level 3, 700 MiB at 22.
    std::optional<int> zstd_level{};
    /// False: `.metadata` contains only cairn's index and no pickle for PyTorch, which is smaller,
    /// and faster to commit with millions of chunks. PyTorch then fails to load the checkpoint and
    /// says why; `cairn reshard` adds the pickle.
    bool torch_metadata = true;
    /// With `torch_metadata`, a save of more chunks than this warns about the memory that Python
    /// needs.
    std::uint64_t many_chunks = 4'000'000;
    /// Names the n-th file of a rank, `"__R_N"` when empty. Names must differ between ranks and
    /// files. Each gets the save id and the extension: `NAME.<32 hex digits>.distcp`.
    std::function<std::string(int rank, int n)> file_name{};
};

/// Options of a `torch_reader`.
struct torch_reader_options {
    /// Number of threads with which each rank reads: files, or parts of them where there are fewer
    /// files. 0: the CPUs that this process may use, divided by the ranks of this host as far as
    /// the launcher tells their number, otherwise by all ranks; or as many as the store wants
    /// requests in flight (@ref ManyRequestsStore), if that is more. Limits the memory of a load: a
    /// piece (@ref ReadSizeStore) for each thread.
    int thread_count = 0;
    /// The coordinator writes a small file, `.reading.<id>`, beside the checkpoint's files while it
    /// is being read, so that a `checkpointer` of another process does not remove the checkpoint
    /// meanwhile. A `checkpointer` of the same process never does.
    bool announce = false;
};

}  // namespace cairn

#endif
