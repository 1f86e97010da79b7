// SPDX-License-Identifier: Apache-2.0
#ifndef EXAMPLES_OWN_STORAGE_HPP
#define EXAMPLES_OWN_STORAGE_HPP

#include <cairn/cairn.hpp>
#include <cairn/format/torch/value_item.hpp>
#include <cairn/metadata/coverage.hpp>
#include <cairn/storage/chunk_reader.hpp>

#include <boost/json.hpp>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace json = boost::json;

/// The calls that cairn made on one rank, in order.
using call_log = std::vector<std::string>;

/// Published in one step once all ranks have written: before that there is no checkpoint.
inline constexpr char index_name[] = "index.json";

inline cairn::error wrong(cairn::errc why, const std::string& object, std::string found = {}) {
    return {why, {.file = object, .found = std::move(found)}};
}

/// Returns the prefix of the names of one rank's files. Names must differ between saves: old files
/// remain until the new index has replaced the old one.
using name_files = std::function<std::string(int rank, const std::string& save_id)>;

/// Calls `f` for all locations in an index.
template <class F>
void for_each_place(const cairn::metadata& m, F&& f) {
    for (auto const& [fqn, entry] : m.entries) {
        if (auto const* t = std::get_if<cairn::tensor_metadata>(&entry))
            for (auto const& c : t->chunks) f(c.at);
        else
            f(std::get<cairn::value_metadata>(entry).at);
    }
}

// The index: the id of its save; names, dtypes, boxes, and the file of each box.

inline json::object place(const cairn::storage_location& at) {
    return {{"file", at.file}, {"length", at.length}};
}
inline json::value describe(
    const std::variant<cairn::tensor_metadata, cairn::value_metadata>& entry) {
    if (auto const* o = std::get_if<cairn::value_metadata>(&entry)) return place(o->at);
    auto const& t = std::get<cairn::tensor_metadata>(entry);
    json::array chunks;
    for (auto const& c : t.chunks) {
        auto chunk = place(c.at);
        chunk["offsets"] = json::array(c.region.offsets.begin(), c.region.offsets.end());
        chunk["lengths"] = json::array(c.region.shape.begin(), c.region.shape.end());
        chunks.push_back(std::move(chunk));
    }
    return {{"dtype", std::string(cairn::name_of(t.type))},
            {"shape", json::array(t.shape.begin(), t.shape.end())},
            {"chunks", std::move(chunks)}};
}
inline void write_index(cairn::file_store& to, const cairn::metadata& m) {
    json::object entries;
    for (auto const& [fqn, entry] : m.entries) entries[fqn] = describe(entry);
    auto const text = json::serialize(json::object{{"save_id", m.save_id}, {"entries", entries}});
    to.publish(index_name, std::as_bytes(std::span(text)), std::nullopt);
    to.sync();
}

inline cairn::storage_location place(const json::object& o) {
    cairn::storage_location at;
    at.file = std::string(o.at("file").as_string());
    at.length = o.at("length").to_number<std::uint64_t>();
    return at;
}
inline cairn::index_vector numbers(const json::value& list) {
    cairn::index_vector s;
    for (auto const& n : list.as_array()) s.push_back(n.to_number<std::int64_t>());
    return s;
}
inline std::variant<cairn::tensor_metadata, cairn::value_metadata> parse(std::string_view fqn,
                                                                         const json::object& o) {
    if (o.find("chunks") == o.end()) return cairn::value_metadata{place(o)};
    cairn::tensor_metadata t;
    auto const type = cairn::dtype_from_name(std::string(o.at("dtype").as_string()));
    if (!type) throw wrong(cairn::errc::corrupt, index_name, "an unknown dtype");
    t.type = *type;
    t.shape = numbers(o.at("shape"));
    std::vector<cairn::box> boxes;
    for (auto const& c : o.at("chunks").as_array()) {
        auto const& chunk = c.as_object();
        t.chunks.push_back(
            {cairn::box{numbers(chunk.at("offsets")), numbers(chunk.at("lengths"))}, place(chunk)});
        boxes.push_back(t.chunks.back().region);
    }
    cairn::check_coverage(std::string(fqn), t.shape, boxes);  // the planner trusts metadata
    return t;
}
template <cairn::ObjectStore Store>
cairn::metadata read_index(Store& from) {
    auto file = from.open(index_name);
    std::string text(static_cast<std::size_t>(file.size()), '\0');
    file.read(0, std::as_writable_bytes(std::span(text)));
    try {
        cairn::metadata m;
        auto const index = json::parse(text).as_object();
        m.save_id = std::string(index.at("save_id").as_string());
        for (auto const& [fqn, entry] : index.at("entries").as_object())
            m.entries[std::string(fqn)] = parse(fqn, entry.as_object());
        return m;
    } catch (const cairn::error&) {
        throw;
    } catch (const std::exception& e) {  // Boost.JSON's: malformed input
        throw wrong(cairn::errc::corrupt, index_name, e.what());
    }
}

/// Reads files that `raw_writer` wrote. The index says where each array is, and `chunk_reader` does
/// the rest: what each rank needs of which file, threads, re-sharding, conversions.
class raw_reader : public cairn::chunk_reader {
public:
    raw_reader() : chunk_reader(cairn::file_store("."), finder()) {}
    cairn::metadata read_metadata() { return read_index(place()); }

private:
    static cairn::item_finder finder() {
        cairn::item_finder f;
        f.index_name = index_name;
        f.read_value = [](cairn::open_file& file, const std::string&, const auto& at) {
            return cairn::format::torch::decode_value(file.bytes(0, at.length));
        };
        return f;
    }
};
static_assert(cairn::StorageReader<raw_reader>);

/// Writes each tensor of a rank, and each value, into a file of its own, without any framing.
class raw_writer {
public:
    raw_writer(name_files file_name, call_log& log)
        : file_name_(std::move(file_name)), log_(&log) {}

    void reset(cairn::checkpoint_id id) {
        log_->push_back("reset");
        store_ = cairn::file_store(std::move(id));
        files_.clear();
    }
    void set_up_writer(const cairn::storage_setup& me) {
        log_->push_back("set up");
        me_ = me;
    }
    // The prefix of the names is sent with the plan, so that the coordinator detects duplicates.
    cairn::save_plan prepare_local_save_plan(cairn::save_plan plan) {
        log_->push_back("prepare local");
        plan.storage_data = file_name_(me_.rank, me_.save_id);
        return plan;
    }
    std::vector<cairn::save_plan> prepare_global_save_plan(std::vector<cairn::save_plan> plans) {
        log_->push_back("prepare global");
        std::set<std::string> names{index_name};
        for (auto const& p : plans)
            if (!names.insert(p.storage_data).second)
                throw wrong(cairn::errc::invalid_plan, p.storage_data, "a file name given twice");
        return plans;
    }
    void write_data(const cairn::save_plan& plan, std::span<const cairn::item_data> data,
                    cairn::completion<cairn::write_results> done) {
        log_->push_back("write");
        cairn::write_results results;
        for (std::uint32_t i = 0; i < data.size(); ++i) {
            auto const bytes = bytes_of(data[i]);
            cairn::storage_location where;
            where.file = plan.storage_data + "_" + std::to_string(i) + ".raw";
            where.length = bytes.size();
            auto file = store_->create(where.file, bytes.size());  // throws if it exists
            files_.push_back(where.file);
            file.write(0, bytes);
            file.finish(true);
            results.file_sizes[where.file] = bytes.size();
            results.items.push_back({i, where});
        }
        store_->sync();
        done(std::move(results));
    }
    void finish(const cairn::metadata& m, cairn::completion<cairn::commit_result> done) {
        log_->push_back("finish");
        old_.clear();
        if (!store_->tag(index_name).text.empty())
            for_each_place(read_index(*store_), [&](auto const& at) { old_.insert(at.file); });
        write_index(*store_, m);
        for_each_place(m, [&](auto const& at) { old_.erase(at.file); });
        done(cairn::commit_result{});
    }
    bool committed(const std::string& save_id) {
        log_->push_back("committed?");
        if (store_->tag(index_name).text.empty()) return false;
        store_->sync();  // its writer may have died before this call
        return read_index(*store_).save_id == save_id;
    }
    bool abandon() noexcept {
        bool all = true;
        for (auto const& name : files_) all = remove(name).empty() && all;
        return all;
    }
    // Remaining files are harmless, because no index names them; the save's report lists them.
    void sweep(cairn::save_end end, cairn::completion<cairn::sweep_result> done) {
        log_->push_back("sweep");
        cairn::sweep_result result;
        if (end == cairn::save_end::committed)
            for (auto const& name : old_)
                if (auto const why = remove(name); !why.empty()) result.warnings.push_back(why);
        done(std::move(result));
    }

private:
    // Returns why the file could not be removed; empty on success.
    std::string remove(const std::string& name) noexcept {
        try {
            store_->remove(name);
            return {};
        } catch (const std::exception& e) {
            return e.what();
        }
    }
    static cairn::byte_vector bytes_of(const cairn::item_data& d) {
        if (auto const* value = std::get_if<const cairn::value*>(&d))
            return cairn::format::torch::encode_value(**value);
        auto const& v = std::get<cairn::const_tensor_view>(d);
        cairn::byte_vector bytes(static_cast<std::size_t>(v.bytes()));
        cairn::copy_elements(v, cairn::tensor_view(v.type, v.shape, bytes.data()));  // row-major
        return bytes;
    }
    name_files file_name_;
    call_log* log_;
    cairn::storage_setup me_;
    std::optional<cairn::file_store> store_;
    std::vector<std::string> files_;  // of this save
    std::set<std::string> old_;       // replaced by the new index
};
static_assert(cairn::StorageWriter<raw_writer>);

#endif
