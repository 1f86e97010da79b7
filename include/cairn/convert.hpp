// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CONVERT_HPP
#define CAIRN_CONVERT_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/convert/detail/conversion_planner.hpp>
#include <cairn/convert/options.hpp>
#include <cairn/save.hpp>
#include <cairn/state/state_dict.hpp>
#include <cairn/verb/detail/parts.hpp>

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>

namespace cairn {
namespace detail {

/// Returns how many ranks a communicator has; of another part, 1.
template <class Part>
int ranks_of(const Part& part) {
    if constexpr (Communicator<Part>)
        return part.size();
    else
        return 1;
}

}  // namespace detail

/// Writes a checkpoint of any format that cairn reads as another one: in another format, for
/// another number of ranks, with other dtypes, or only some of it.
///
/// It is a save whose state is the source: it commits as a save does, and a conversion that is
/// killed leaves what a save leaves. Memory does not grow with the tensors: they are read in pieces
/// of 4 MiB, two for each thread that writes; values are held until they are written, and the
/// checksums of files of cairn's, 64 MiB for each TiB, as long as it runs. Of tensors that cairn or
/// `torch.save` has stored in another order, e.g. transposed, or as lazy views, or that a mapping
/// has in one, 32 MiB are read at once by each thread, and in each process up to 16 such stretches
/// are held for each rank, or one for each of its threads if those are more. A tensor that
/// PyTorch's DCP has stored transposed is read nearly whole for each piece: no index tells its
/// order. Bytes are checked as in a load.
///
/// What is left out (`convert_report::left_out`) is lost where the target replaces the source.
///
/// @param from     A path, or a store and an id.
/// @param to       The checkpoint to write, as for @ref save.
/// @param parts    As for @ref save, except planners and memory spaces: a `Communicator`, a
///                 `StorageWriter` of the target's format, or an `ObjectStore` (PyTorch's format
///                 over it), and `EventSink`s; a @ref mapping, whose names and shapes are written
///                 (see `convert_options::map_back`). Without a communicator one process converts.
/// @return This rank's report.
/// @throws error as @ref save and @ref load; the target is then what it was before
///
/// **Blocking**: blocks the calling thread.
template <SavePart... Parts>
convert_report convert(convert_source from, checkpoint_id to, convert_options options,
                       Parts&&... parts) {
    static_assert((!SavePlanner<std::remove_cvref_t<Parts>> && ...),
                  "convert: it plans itself; see convert_options");
    int ranks = 1;
    ((ranks = std::max(ranks, detail::ranks_of(parts))), ...);
    convert_report report;
    auto const how = options.save;
    detail::conversion_planner planner(std::move(from), std::move(options), ranks,
                                       detail::mapping_in(std::tie(std::as_const(parts)...)));
    report.saved = save(state_dict{}, std::move(to), how, planner, std::forward<Parts>(parts)...);
    planner.report(report);
    return report;
}
template <SavePart... Parts>
convert_report convert(convert_source from, checkpoint_id to, Parts&&... parts) {
    return convert(std::move(from), std::move(to), convert_options{},
                   std::forward<Parts>(parts)...);
}

/// Makes the checks that @ref convert makes before a target is written, except those of its writer,
/// and writes nothing.
/// @param parts  As for `convert`: a @ref mapping, if there is one.
/// @throws error as `convert`, if it would refuse the source or the options
template <SavePart... Parts>
void check_conversion(convert_source from, convert_options options, Parts&&... parts) {
    options.announce = false;
    detail::conversion_planner(std::move(from), std::move(options), 1,
                               detail::mapping_in(std::tie(std::as_const(parts)...)))
        .set_up_save({}, 0, true);
}

}  // namespace cairn

#endif
