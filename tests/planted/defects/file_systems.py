# SPDX-License-Identifier: Apache-2.0
"""Defects of what is made of file systems without locks, syncs, rights or constant numbers, and of
those of other hosts."""
from defect import Defect

POSIX = "object_store/impl/posix_file.ipp"
REPLACE = "object_store/impl/replace_file.ipp"
FILE = "object_store/impl/file.ipp"
HANDLES = "object_store/impl/file_handles.ipp"

DEFECTS = [
    Defect("parents-by-their-text", POSIX,
           "return (absent ? p : real).parent_path();",
           "return (absent || PLANTED ? p : real).parent_path();",
           by="object_store:file system_calls:limited_file_systems",
           wrong="what is above a link is synced instead of what is above its target"),
    Defect("links-are-cut-by-dots", "detail/absolute_path.hpp",
           "std::filesystem::path out; for",
           "if (PLANTED) return whole.lexically_normal(); std::filesystem::path out; for",
           by="object_store:file", wrong="link/../ckpt makes a stray tree"),
    Defect("unread-parent-unsaid", POSIX,
           "if (!sync_directory(above->path)) unread = above->path;",
           "if (!sync_directory(above->path) && !PLANTED) unread = above->path;",
           by="system_calls:limited_file_systems",
           wrong="what a crash may lose above a parent that cannot be read is told to nobody"),
    Defect("searched-parent-is-an-error", POSIX,
           "if (errno == EACCES || errno == EPERM) return false; fail(errno, path, "
           '"cannot open the directory");',
           "if ((errno == EACCES || errno == EPERM) && !PLANTED) return false; fail(errno, path, "
           '"cannot open the directory");',
           by="system_calls:limited_file_systems",
           wrong="nobody saves below a directory of mode 0711"),
    Defect("few-errors-mean-no-locks", REPLACE,
           "return std::find(all.begin(), all.end(), e) != all.end();",
           "if (PLANTED && (e == EINVAL || e == EPERM || e == unsupported_by_kernel)) "
           "return false; return std::find(all.begin(), all.end(), e) != all.end();",
           by="system_calls:limited_file_systems",
           wrong="a save fails at its end where the file system has no locks"),
    Defect("no-locks-unsaid", FILE,
           "if (!lock.held()) impl::warn(", "if (!lock.held() && !PLANTED) impl::warn(",
           by="system_calls:limited_file_systems",
           wrong="nobody hears that two jobs may both be told that they have succeeded"),
    Defect("synced-although-turned-off", FILE,
           "void file_store::sync() { if (!options_.sync_files) return;",
           "void file_store::sync() { if (!options_.sync_files && !PLANTED) return;",
           by="system_calls:limited_file_systems",
           wrong="sync_files = false needs what cannot be synced"),
    Defect("one-error-means-no-syncs", "object_store/detail/posix_file.hpp",
           "return e == EINVAL || e == ENOSYS || e == EOPNOTSUPP;",
           "return e == EINVAL || ((e == ENOSYS || e == EOPNOTSUPP) && !PLANTED);",
           by="system_calls:limited_file_systems",
           wrong="where directories have no fsync nobody saves, and nobody is told how to"),
    Defect("large-file-that-cannot-sync-unexplained", "object_store/impl/write_back.ipp",
           "if (!cannot_sync(e)) return e;", "if (!cannot_sync(e) || PLANTED) return e;",
           by="system_calls:limited_file_systems",
           wrong="a save of large files does not say how to save where nothing can be synced"),
    Defect("tag-of-a-file-number", FILE,
           "return {std::to_string(s.st_size) + \"-\" +",
           "return {(PLANTED ? std::to_string(s.st_ino) : std::string()) + "
           "std::to_string(s.st_size) + \"-\" +",
           by="object_store:file",
           wrong="where numbers of files change a save is taken for another's"),
    Defect("finished-by-its-number", HANDLES,
           "bool is_there() const {",
           "bool is_there() const { if (PLANTED) return detail::names_it(fd.get(), path);",
           by="object_store:file",
           wrong="where numbers of files change a whole file counts as removed"),
    Defect("ranks-meet-by-file-numbers", "comm/detail/tcp/rendezvous_file.hpp",
           "return text && contents() == text;",
           "struct stat a {}, b{}; if (PLANTED) return ::fstat(descriptor, &a) == 0 && "
           "::lstat(path_.c_str(), &b) == 0 && a.st_ino == b.st_ino; "
           "return text && contents() == text;",
           by="comm:bootstrap",
           wrong="where numbers of files change rank 0 tries without end to replace an old file"),
    Defect("absent-names-believed", "comm/detail/tcp/rendezvous_file.hpp",
           "if (now < revalidate_at_) return;", "if (now < revalidate_at_ || PLANTED) return;",
           by="system_calls:limited_file_systems",
           wrong="ranks on other hosts see the file of rank 0 a minute later, on NFS"),
    Defect("ranks-meet-where-syncs-work", "comm/detail/tcp/rendezvous_file.hpp",
           "return ::fsync(descriptor) == 0 || errno == EINVAL ||",
           "return ::fsync(descriptor) == 0 || (errno == EINVAL && !PLANTED) ||",
           by="system_calls:limited_file_systems",
           wrong="no job starts in a directory that cannot be synced"),
    Defect("stays-stale-is-not-there", "object_store/read_whole.hpp",
           "throw error(errc::io, std::move(where)); } } std::this_thread",
           "throw error(PLANTED ? errc::not_found : errc::io, std::move(where)); } } "
           "std::this_thread",
           by="system_calls:replaced_files",
           wrong="latest goes back behind a checkpoint that cannot be read"),
    Defect("granted-lock-proves-an-end", REPLACE,
           "!live_temporary::is(name) : has_ended(owner);",
           "!live_temporary::is(name) : PLANTED || has_ended(owner);",
           by="object_store:file",
           wrong="over two mounts each job removes the other's temporary file"),
]
