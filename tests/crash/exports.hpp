// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_CRASH_EXPORTS_HPP
#define CAIRN_TEST_CRASH_EXPORTS_HPP

#include "choices.hpp"
#include "disk.hpp"
#include "exploration.hpp"
#include "operation.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

namespace crash {

/// A save or a conversion whose target appears in one step, as a directory or as a file.
struct exporting {
    std::string name{};       ///< Of the scenario.
    std::string target{};     ///< A directory of safetensors files, or a file of either format.
    bool replaces = false;    ///< One of version 1 stands.
    bool converts = false;    ///< The source is a checkpoint of PyTorch's format.
    bool by_columns = false;  ///< What a rank holds is short stretches, which are put aside.

    static std::vector<exporting> all();
    static exporting named(const std::string& name);
};

/// What an export did to a disk.
struct exported {
    image beginning{};
    operations all{};
    image end{};
};
/// @throws what the export throws
exported record(const exporting& what);

/// Enumerates what a crash can leave at every point of an export: the target is absent, or the old
/// one, or the new one; the source is what it was; the next export succeeds, and it or a collection
/// of garbage leaves nothing but the target. The same after the processes are killed at any point,
/// and, but for garbage, for a crash at any point of the next export.
class export_exploration {
public:
    /// @param recoveries  Of states whose names differ; so many of the exports that follow crash
    ///                    again. 0: none.
    export_exploration(const exporting& what, const exported& r, const effort& e,
                       std::size_t recoveries)
        : what_(what), r_(r), effort_(e), recoveries_(recoveries) {}

    /// @throws wrong naming the point and what was lost
    void run();
    const counts& found() const { return counts_; }

private:
    void at_point(const disk& d, bool promised, std::size_t point);
    void look_at(const image& left, bool promised);
    void recover(const image& left) const;
    void crash_next(const image& left);

    const exporting& what_;
    const exported& r_;
    effort effort_;
    std::size_t recoveries_;
    counts counts_{};
    std::unordered_set<std::uint64_t> seen_{};
    std::map<std::string, image> kinds_{};  ///< By the names that are there.
};

/// A mistake in the order of an export's calls.
struct export_defect {
    std::string name;
    std::string scenario;
    std::function<void(const exporting&, operations&)> make;

    static std::vector<export_defect> all();
};

}  // namespace crash

#endif
