// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_IMPL_SAFETENSORS_WRITER_IPP
#define CAIRN_STORAGE_IMPL_SAFETENSORS_WRITER_IPP

#include <cairn/error.hpp>
#include <cairn/format/safetensors/header.hpp>
#include <cairn/format/safetensors/layout.hpp>
#include <cairn/format/target_file.hpp>
#include <cairn/object_store/detail/exists.hpp>
#include <cairn/object_store/detail/names.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/prefix_place.hpp>
#include <cairn/storage/detail/target_assembly.hpp>
#include <cairn/storage/detail/target_shares.hpp>
#include <cairn/storage/detail/target_writer.hpp>
#include <cairn/storage/job_executor.hpp>
#include <cairn/storage/safetensors_writer.hpp>
#include <cairn/tensor/convert.hpp>
#include <cairn/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

static_assert(ReleasingWriter<safetensors_writer>);

namespace detail {

/// What is safetensors about a target.
struct safetensors_target {
    static constexpr bool keeps_values = false;

    bool check(const checkpoint_id& id, any_store& store) const {
        check_floats_as(options.floats_as);
        bool const is_file = id.ends_with(".safetensors");
        if (is_file && options.add_files)
            throw error(errc::invalid_argument,
                        {.file = store.describe("."),
                         .expected = "an id that names a directory, because add_files is set",
                         .found = "'" + id + "'"});
        return is_file;
    }
    value_policy values() const {
        return options.skip_values ? value_policy::skipped : value_policy::refused;
    }
    const std::function<bool(std::string_view)>& prefers() const { return options.prefers; }
    dtype type_of(dtype held) const { return with_floats_as(held, options.floats_as); }
    /// @param file  Empty: a directory.
    void lay_out(const std::string& file, const planned_tensors& tensors,
                 std::span<const save_plan>, target_values) {
        namespace st = format::safetensors;
        auto const& o = options;
        unique = false;
        if (file.empty())
            layout = st::lay_out(tensors.stored(), o.max_file_size, o.text, o.checksums_in_files);
        else
            layout = {st::lay_out_file(file, tensors.stored(), o.text, o.checksums_in_files)};
    }
    std::vector<const format::target_file*> files() const {
        std::vector<const format::target_file*> out;
        for (auto const& f : layout) out.push_back(&f);
        return out;
    }
    std::vector<format::placed_bytes> fixed(std::size_t file) const {
        if (options.checksums_in_files) return {};
        return {{0, layout[file].head}};
    }
    std::vector<format::placed_bytes> rest(std::size_t file,
                                           const target_assembly::tensor_crcs& crcs) const {
        if (!options.checksums_in_files) return {};
        return {{0, format::safetensors::head_with_checksums(layout[file], options.text, crcs)}};
    }
    template <class Put>
    void add(const Put& put, const std::string& save_id,
             const target_assembly::tensor_crcs& crcs) const {
        if (options.add_files) options.add_files(put);
        if (layout.size() == 1 && !unique) return;
        auto const index = format::safetensors::encode_index(layout, {save_id, crcs});
        put(format::safetensors::index_name, std::as_bytes(std::span(index)));
    }
    bool keeps(std::string_view name) const {
        return !format::safetensors::is_target_name(without_save_id(std::string(name)));
    }
    std::vector<std::string> warnings() const { return {}; }
    static std::string save_in_index(any_store& target) {
        auto const index =
            read_existing(target, format::safetensors::index_name, format::safetensors::max_index);
        return index ? format::safetensors::decode_notes(*index).save_id : std::string();
    }
    std::string recorded_save(any_store& target) const { return save_in_index(target); }

    /// `model-00001-of-00002.<save id>.safetensors`
    void make_names_unique(const std::string& save_id) {
        constexpr std::string_view end = ".safetensors";
        for (auto& f : layout) f.name.insert(f.name.size() - end.size(), "." + save_id);
        format::safetensors::check_index(layout);
        unique = true;
    }
    static target_format description() {
        namespace st = format::safetensors;
        return {st::index_name, save_in_index,
                [](any_store& place) {
                    std::set<std::string> files;
                    auto const index = read_whole(place, st::index_name, st::max_index);
                    for (auto& [fqn, file] : st::weight_map(index))
                        if (is_object_name(file)) files.insert(file);
                    return files;
                },
                st::is_target_name};
    }

    safetensors_writer_options options;
    std::vector<format::safetensors::target> layout{};
    bool unique = false;  ///< An index names the files, even if it is one.
};

}  // namespace detail

CAIRN_DECL safetensors_writer::safetensors_writer(any_store store,
                                                  safetensors_writer_options options)
    : safetensors_writer(std::move(store), std::move(options), job_executor()) {}
CAIRN_DECL safetensors_writer::safetensors_writer(any_store store,
                                                  safetensors_writer_options options,
                                                  const job_executor& jobs)
    : layout_writer(std::make_unique<detail::target_writer<detail::safetensors_target>>(
          std::move(store), detail::safetensors_target{options}, options, jobs)) {}

}  // namespace cairn

#endif
