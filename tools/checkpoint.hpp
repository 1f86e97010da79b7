// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_CHECKPOINT_HPP
#define CAIRN_TOOLS_CHECKPOINT_HPP

#include "place.hpp"

#include <cairn/cairn.hpp>
#include <cairn/catalog/verify.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/metadata/chunk_order.hpp>
#include <cairn/metadata/stored_bytes.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/planner/reshard.hpp>
#include <cairn/storage/checkpoint_reader.hpp>
#include <cairn/storage/chunk_reader.hpp>
#include <cairn/storage/dequantising_reader.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <iomanip>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace tool {

/// Exit codes of the subcommands.
enum exit_code { fine = 0, finding = 1, could_not_run = 2 };

/// @param dequantise  Quantised weights are what they stand for.
inline cairn::metadata read_metadata(
    const std::string& checkpoint,
    const std::optional<cairn::dequantise_options>& dequantise = std::nullopt) {
    auto const read = [&](auto reader) {
        reader.reset(checkpoint);
        return naming_dead_links(checkpoint, [&] { return reader.read_metadata(); });
    };
    if (dequantise) return read(cairn::dequantising_reader(store_of(checkpoint), *dequantise));
    return read(cairn::checkpoint_reader(store_of(checkpoint)));
}

/// The bytes of a value; nothing in a file of torch.save, where all values are in one pickle.
inline std::optional<std::uint64_t> bytes_of(const cairn::metadata& m,
                                             const cairn::value_metadata& v) {
    if (m.format == cairn::checkpoint_format::torch_save) return {};
    return v.at.length;
}

/// What `.metadata` says of the save, beside the content of the checkpoint.
struct save_facts {
    bool torch_metadata = true;  ///< PyTorch can read it too: its pickle can be omitted.
    std::optional<cairn::commit_record> record{};
};
/// @pre cairn saved the checkpoint: its metadata has a save id
inline save_facts read_save_facts(const std::string& checkpoint) {
    auto store = store_of(checkpoint).at(checkpoint);
    auto const bytes = cairn::read_whole(store, ".metadata");
    auto const file = cairn::format::native::parse_metadata_file(bytes);
    return {file.torch_metadata, file.record};
}
inline constexpr const char* only_cairn =
    "for cairn only: saved with torch_metadata off, PyTorch cannot load it\n";

/// Returns a time in UTC, e.g. `2026-01-31T12:00:00Z`.
inline std::string time_text(std::int64_t milliseconds) {
    auto const seconds = static_cast<std::time_t>(milliseconds / 1000);
    std::tm parts{};
    if (::gmtime_r(&seconds, &parts) == nullptr) return std::to_string(milliseconds) + " ms";
    std::ostringstream out;
    out << std::put_time(&parts, "%Y-%m-%dT%H:%M:%SZ");
    return out.str();
}

/// @throws error errc::unsupported for a tensor that @ref cairn::repetition tells of
inline void check_repetition(const cairn::metadata& m, const std::string& fqn,
                             const cairn::tensor_metadata& t) {
    if (auto const found = cairn::repetition(m, t); !found.empty())
        throw cairn::error(cairn::errc::unsupported,
                           {.fqn = fqn,
                            .file = t.chunks.file(0),
                            .expected = "at most 64 times the bytes that are stored, and 1 MiB",
                            .found = found});
}

/// One tensor's box in host memory, row-major.
struct loaded_box {
    std::vector<std::byte> bytes{};
    cairn::box region{};
};

/// A checkpoint that is read in pieces: its metadata is read once, not with each piece. Each call
/// opens the files that it needs, so small pieces should be requested together.
///
/// PyTorch saves again under the same names, so that parts of two saves could be read as one. All
/// readers compare the versions of files that a store tells cheaply, and `check_unchanged` that of
/// `.metadata`, which is written last.
class opened {
public:
    explicit opened(std::string checkpoint)
        : path_(std::move(checkpoint)), reader_(store_of(path_)) {
        metadata_name_ = ".metadata";
        auto within = path_;
        if (is_file(path_)) std::tie(within, metadata_name_) = directory_and_name(path_);
        place_.emplace(store_of(path_).at(within));
        // Replicas of a web server may have other versions of the same file.
        if (!is_url(path_)) metadata_version_ = version_of(metadata_name_);
        reader_.reset(path_);
        meta_ = naming_dead_links(path_, [&] { return reader_.read_metadata(); });
        if (!is_replaceable()) metadata_version_.clear();
        // A file of torch.save has one checksum for all of a storage: it is compared once, not with
        // each piece.
        cairn::storage_setup setup;
        setup.checked = cairn::checks_of_pieces();
        reader_.set_up_reader(meta_, setup);
    }
    const std::string& path() const { return path_; }
    const cairn::metadata& meta() const { return meta_; }

    /// @throws error errc::concurrent_save if what was read may be of two saves
    void check_unchanged() const {
        if (metadata_version_.empty()) return;
        auto place = *place_;
        std::string now;
        if (!place.tag(metadata_name_).text.empty()) now = place.open(metadata_name_).tag().text;
        if (now == metadata_version_) return;
        throw cairn::error(cairn::errc::concurrent_save,
                           {.file = place.describe(metadata_name_),
                            .expected = "the file that was there when the command began",
                            .found = "another one, or none",
                            .remedy = "run the command again when nothing writes there"});
    }

    std::vector<loaded_box> boxes(const std::vector<std::pair<std::string, cairn::box>>& wanted) {
        std::vector<loaded_box> out;
        std::vector<cairn::tensor_view> views;
        cairn::load_plan plan;
        for (auto const& [fqn, where] : wanted) {
            auto const& t = *meta_.tensor(fqn);
            auto const n = static_cast<std::size_t>(where.volume()) * cairn::size_of(t.type);
            out.push_back({std::vector<std::byte>(n), where});
            auto const leaf = static_cast<std::uint32_t>(views.size());
            views.emplace_back(t.type, where.shape, out.back().bytes.data());
            for (auto& i : cairn::create_read_items(fqn, leaf, t.chunks, order_of(fqn, t),
                                                    std::span(std::addressof(where), 1)))
                plan.items.push_back(std::move(i));
        }
        cairn::read_target target;
        target.resolve_tensor = [&](const cairn::read_item& i) {
            return subview(views[i.leaf], cairn::box(i.target_offsets, i.shape));
        };
        target.resolve_converted = target.resolve_tensor;
        target.commit_tensor = [](const cairn::read_item&, const cairn::tensor_view&) {};
        read(plan, target);
        return out;
    }
    std::vector<cairn::value> values(const std::vector<std::string>& wanted) {
        std::vector<cairn::value> out(wanted.size());
        cairn::load_plan plan;
        for (auto const& fqn : wanted) {
            cairn::read_item i;
            i.fqn = fqn;
            i.leaf = static_cast<std::uint32_t>(plan.items.size());
            plan.items.push_back(std::move(i));
        }
        cairn::read_target target;
        target.load_value = [&](const cairn::read_item& i, cairn::value v) {
            out[i.leaf] = std::move(v);
        };
        read(plan, target);
        return out;
    }

private:
    void read(const cairn::load_plan& plan, const cairn::read_target& target) {
        (void)cairn::await_completion<cairn::read_result>(
            [&](auto done) { reader_.read_data(plan, target, std::move(done)); });
        check_unchanged();
    }

    /// Whether another save may use the same names for its files.
    bool is_replaceable() const {
        return meta_.format == cairn::checkpoint_format::torch_dcp && meta_.save_id.empty();
    }
    /// Returns the version of a file; empty: there is none, or the store does not tell.
    std::string version_of(const std::string& name) const {
        auto place = *place_;
        try {
            return place.open(name).tag().text;
        } catch (const cairn::error&) {  // a reader says why
            return {};
        }
    }

    const cairn::chunk_order& order_of(const std::string& fqn, const cairn::tensor_metadata& t) {
        return orders_.try_emplace(fqn, t.chunks).first->second;
    }

    std::string path_;
    std::optional<cairn::any_store> place_{};
    std::string metadata_name_{}, metadata_version_{};  ///< No version: it is not compared.
    cairn::checkpoint_reader reader_;
    cairn::metadata meta_;
    std::map<std::string, cairn::chunk_order> orders_{};  ///< Of tensors that were read.
};

/// Returns boxes of whole rows, in order, of about `limit` bytes each, or of more: none ends within
/// a chunk that can only be read whole, which would be read again for the next box.
/// @param stored  One tensor as it is stored in each of the checkpoints; at least one.
inline std::vector<cairn::box> row_pieces(std::vector<const cairn::tensor_metadata*> stored,
                                          std::uint64_t limit) {
    auto const& t = *stored.front();
    // A tensor without elements may have any number of rows.
    if (t.shape.empty() || t.shape.product() == 0) return {cairn::box::whole(t.shape)};
    auto const total = static_cast<std::uint64_t>(t.shape.product()) * cairn::size_of(t.type);
    auto const row = total / static_cast<std::uint64_t>(t.shape[0]);
    auto const rows = static_cast<std::int64_t>(
        std::max<std::uint64_t>(1, limit / std::max<std::uint64_t>(1, row)));
    std::map<std::int64_t, std::int64_t> whole;  // of chunks: the first row, and the one after
    for (auto const* s : stored)
        for (std::size_t i = 0; i < s->chunks.size(); ++i) {
            auto const region = s->chunks.region(i);
            if (s->chunks.row_of(i).is_divisible() || region.empty()) continue;
            auto& end = whole[region.offsets[0]];
            end = std::max(end, region.offsets[0] + region.shape[0]);
        }
    std::vector<cairn::box> out;
    auto next = whole.begin();
    for (std::int64_t at = 0, end = 0; at < t.shape[0]; at = end) {
        end = at + std::min(rows, t.shape[0] - at);
        for (; next != whole.end() && next->first < end; ++next) end = std::max(end, next->second);
        auto b = cairn::box::whole(t.shape);
        b.offsets[0] = at;
        b.shape[0] = end - at;
        out.push_back(std::move(b));
    }
    return out;
}

/// @param place  A checkpoint, or a directory of checkpoints.
/// @param map    The file of a mapping, whose names are listed; empty: those that are stored.
int ls(const std::string& place, bool as_json, const std::string& map);
/// Says what is odd about a mapping of a checkpoint.
/// @param file  Of the mapping.
int map(const std::string& file, const std::string& checkpoint);
int list_directory(const std::string& directory, bool as_json);
int gc(const std::string& place, bool dry_run);
int cat(const std::string& checkpoint, const std::string& fqn, bool raw);
/// @param checkpoint  A place, or a file: a checkpoint, or the `__R.metadata` of one rank.
cairn::verify_report verified(const std::string& checkpoint);
int verify(const std::string& checkpoint);
/// @param most_bins  Of each tensor's histogram, which only JSON has; 0: there is none.
int stats(const std::string& checkpoint, bool as_json, std::size_t most_bins);
/// @param stats  Prints how much tensors have changed, too.
int diff(const std::string& a, const std::string& b, bool stats);
/// The arguments of `convert` and `reshard`.
struct conversion {
    std::string from{}, to{};
    int ranks = 1, dim = 0;
    std::vector<std::string> only{}, skip{};  ///< Patterns of names.
    std::string dtype{};                      ///< Of all floating-point tensors; empty: their own.
    bool dequantise = false;
    std::vector<std::int64_t> block{};  ///< Of FP8 weights; empty: by their configuration.
    bool dry_run = false;
    std::string format{};  ///< Of the target: dcp, safetensors or torch; empty: by its name.
    bool skip_values = false;
    std::uint64_t max_file_size = 0;    ///< 0: the writer's.
    std::vector<std::string> prefer{};  ///< Patterns of names, of those of tied weights.
    bool checksums = false;             ///< In files of safetensors.
    std::string map{};                  ///< The file of a mapping; empty: names stay.
    bool map_back = false;
    bool announce = false;  ///< That SRC is being read.
};
int convert(const conversion& c);

struct report_options {
    std::string checkpoint{};
    std::string output{};  ///< A file, which is written whole or not at all.
    std::string trace{};   ///< The file of a `cairn::trace_file`; may be empty.
    bool stats = false;
    bool verify = false;
};
int report(const report_options& options);

}  // namespace tool

#endif
