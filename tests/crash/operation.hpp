// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_CRASH_OPERATION_HPP
#define CAIRN_TEST_CRASH_OPERATION_HPP

#include <cstdint>
#include <string>
#include <vector>

namespace crash {

/// One call that changes a file system, or makes a change durable.
struct operation {
    enum class kind {
        make_directory,  ///< `file`, as entry `name` of `directory`
        create,          ///< the same for a regular file
        write,           ///< `bytes` at `at` of `file`
        resize,          ///< `file` has `at` bytes, unless it is longer and `grow_only`
        sync,            ///< `file`, which may be a directory
        rename,          ///< entry `name` of `directory` to `new_name` of `new_directory`
        exchange,        ///< these two entries
        remove,          ///< entry `name` of `directory`
        promise,         ///< no call: from here on, what was committed last must survive
    };
    kind what;
    int host = 0;
    int file = -1;  ///< Files and directories are numbered in the order of their creation; 0: root.
    int directory = -1;
    std::string name{};
    int new_directory = -1;
    std::string new_name{};
    std::uint64_t at = 0;
    std::string bytes{};
    bool grow_only = false;
    std::string path{};  ///< At the time of the call: for people.

    bool changes_nothing_yet() const { return what == kind::sync || what == kind::promise; }
    bool is_directory = false;  ///< Of `sync`.
    bool direct = false;        ///< Of `write`: past the page cache.

    std::string text() const {
        static constexpr const char* names[] = {"mkdir",  "create",   "write",  "resize", "sync",
                                                "rename", "exchange", "remove", "promise"};
        auto t = "host " + std::to_string(host) + ": " + names[static_cast<int>(what)] + " " + path;
        if (what == kind::rename || what == kind::exchange) t += " -> " + new_name;
        if (what == kind::write)
            t += (direct ? " directly +" : " +") + std::to_string(bytes.size());
        return t;
    }
};
using operations = std::vector<operation>;

}  // namespace crash

#endif
