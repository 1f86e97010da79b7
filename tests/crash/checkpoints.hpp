// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_CRASH_CHECKPOINTS_HPP
#define CAIRN_TEST_CRASH_CHECKPOINTS_HPP

#include "disk.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace crash {

/// What an enumeration finds wrong.
struct wrong : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Where all scenarios save, below the root: neither directory exists at first.
inline const std::string place = "runs/c/";

/// One complete checkpoint: what must be found, bit for bit.
struct checkpoint {
    /// @param all  Has it in `place`.
    explicit checkpoint(const image& all);

    struct range {
        std::string file;
        std::uint64_t offset, length;
    };
    std::string metadata{};
    std::map<std::string, std::string> files{};  ///< All that the metadata names, by name.
    std::vector<range> by_pickle{};              ///< All bytes that PyTorch would read.
    bool has_index = false;
};

/// The checkpoints of one place, in the order in which their metadata was renamed.
struct history {
    std::vector<checkpoint> all{};
    bool begins_empty = true;

    /// Returns the number of the checkpoint that stands, -1 for none.
    /// @param promised  No older one may stand; -1: none was promised.
    /// @throws wrong
    int standing(const image& left, int promised) const;

private:
    static void require_all_bytes(const checkpoint& c, const image& left);
};

}  // namespace crash

#endif
