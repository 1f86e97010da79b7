// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CONVERT_DETAIL_CONVERSION_PLANNER_HPP
#define CAIRN_CONVERT_DETAIL_CONVERSION_PLANNER_HPP

#include <cairn/convert/options.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/mapping/mapping.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/default_planner.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/storage/detail/source_data.hpp>
#include <cairn/storage/detail/source_pieces.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace cairn::detail {

/// A SavePlanner whose state is another checkpoint: what a rank saves of it is read when it is
/// written, piece by piece.
class conversion_planner {
public:
    CAIRN_DECL conversion_planner(convert_source from, convert_options options, int ranks,
                                  std::shared_ptr<const mapping> names);
    CAIRN_DECL conversion_planner(conversion_planner&&) noexcept;
    CAIRN_DECL conversion_planner& operator=(conversion_planner&&) noexcept;
    CAIRN_DECL ~conversion_planner();

    CAIRN_DECL void set_up_save(const flat_state& nothing, int rank, bool coordinator);
    /// @throws error also where the source is not as its metadata says
    CAIRN_DECL save_plan create_local_save_plan();
    CAIRN_DECL std::pair<std::vector<save_plan>, metadata> create_global_save_plan(
        std::vector<save_plan> all);
    save_plan finish_save_plan(save_plan plan) { return plan; }
    CAIRN_DECL item_data resolve_data(const write_item& item);

    /// Adds what this rank has found in the source.
    CAIRN_DECL void report(convert_report& to) const;

private:
    void check_something_is_converted() const;
    void check_no_codes_are_cast() const;
    void check_codes_stay() const;
    std::map<std::string, std::string, std::less<>> changed_forms() const;
    bool converts(const std::string& fqn) const;
    std::string what_was_read() const;
    void plan_tensor(save_plan& plan, const std::string& fqn, const tensor_metadata& t,
                     const std::string& tied_to, int usual_rank) const;

    convert_source from_;
    convert_options options_;
    int ranks_;
    std::optional<mapping> names_;
    /// Stored tensors that are converted, if their dtypes or forms may change.
    std::set<std::string, std::less<>> used_{};
    int rank_ = 0;
    bool coordinator_ = false;
    default_planner usual_{};
    std::unique_ptr<source_pieces> pieces_;  ///< Set up by `set_up_save`.
    source_data data_{};
    std::vector<std::string> left_out_{};  ///< Wanted, by the user's function, but not converted.
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/convert/impl/conversion_planner.ipp>
#endif

#endif
