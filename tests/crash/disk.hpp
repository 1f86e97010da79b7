// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_CRASH_DISK_HPP
#define CAIRN_TEST_CRASH_DISK_HPP

#include "operation.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace crash {

/// What a crash leaves: the bytes of each file by its path, and the directories.
struct image {
    std::map<std::string, std::string> files{};
    std::set<std::string> directories{};
    long age = 0;  ///< How old the files say that they are, in seconds.
    friend bool operator==(const image&, const image&) = default;
    std::uint64_t hash() const;
};

/// A file system in memory that knows what is durable.
///
/// After a crash, each of these is as it was when last synced or after any later change of it,
/// independently of all others, as POSIX leaves it open: each page of a file, the size of a file,
/// and each entry of a directory. A rename changes two entries, and
/// so does an exchange. A file's sync covers its bytes and
/// its size, not its name; a directory's sync covers its entries, not their files.
class disk {
public:
    /// What a disk writes at once. Smaller than the system's pages: those can be torn.
    static constexpr std::uint64_t page = 512;
    static constexpr int every_host = -1;

    disk();
    /// All of it is durable.
    explicit disk(const image& found);

    void apply(const operation& o);

    /// One thing that can be old or new: versions `lowest` to `highest` of it.
    struct unit {
        enum class kind { page, size, entry };
        kind what;
        int file;
        std::uint64_t at;  ///< Of a page.
        std::string name;  ///< Of an entry.
        std::size_t lowest, highest;
    };
    using units = std::vector<unit>;
    /// What a crash of a host, or of all, leaves open.
    /// @param host  Its own changes that are not synced; those of others are kept.
    units open_after(int host) const;

    /// @param chosen  A version for each of `open`.
    image after_crash(const units& open, const std::vector<std::size_t>& chosen) const;
    /// As running programs see it.
    image now() const;
    /// Becomes what the crash of a host leaves.
    void crash(const units& open, const std::vector<std::size_t>& chosen);

    /// Whether a crash of all can leave this. @param why  Set if it cannot.
    bool allows(const image& found, std::string& why) const;

private:
    template <class T>
    struct version {
        T value;
        int host;
    };
    template <class T>
    using versions = std::vector<version<T>>;
    struct node {
        bool is_directory = false;
        std::map<std::uint64_t, versions<std::shared_ptr<const std::string>>> pages{};
        versions<std::uint64_t> size{{0, every_host}};
        std::map<std::string, versions<int>> entries{};  ///< -1: none.
    };
    class view;

    node& at(int file);
    void write(node& n, const operation& o);
    static void make_durable(node& n);
    bool allows_file(const node& n, const std::string& bytes) const;
    bool allows_directory(const node& n, const std::string& path, const image& found,
                          std::string& why) const;

    std::vector<node> nodes_;
};

}  // namespace crash

#endif
