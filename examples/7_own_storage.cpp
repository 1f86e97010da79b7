// SPDX-License-Identifier: Apache-2.0
// A format of your own: one raw file per rank, and a JSON index that says what is where.
//
// Saving is planned by cairn as always; here is only how bytes lie on the disk. Loading is kept
// simple: the same boxes that were saved, no re-sharding.
#include <cairn/cairn.hpp>

#include <boost/json/src.hpp>  // header-only use of Boost.JSON: in one source file of a program

#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace json = boost::json;

/// The calls that cairn made on one rank, in their order.
using call_log = std::vector<std::string>;

/// Published in one step when all ranks have written: before that there is no checkpoint.
inline constexpr char index_name[] = "index.json";

cairn::error wrong(cairn::errc why, const std::string& object, std::string found = {}) {
    return {why, {.object = object, .found = std::move(found)}};
}

/// Writes each rank's tensors one after the other, without any framing, into a file named by the
/// user.
class raw_writer {
public:
    raw_writer(std::function<std::string(int rank)> file_name, call_log& log)
        : file_name_(std::move(file_name)), log_(&log) {}

    void reset(cairn::checkpoint_id id) {
        log_->push_back("reset");
        store_ = cairn::file_store(std::move(id));
        created_ = false;
    }
    void set_up_writer(const cairn::storage_setup& me) {
        log_->push_back("set up");
        me_ = me;
    }
    // The file's name travels with the plan, so that the coordinator sees a name given twice.
    cairn::save_plan prepare_local_save_plan(cairn::save_plan plan) {
        log_->push_back("prepare local");
        plan.storage_data = file_name_(me_.rank);
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
        cairn::byte_vector bytes;
        for (std::uint32_t i = 0; i < data.size(); ++i) {
            auto const at = bytes.size();
            append(bytes, data[i]);
            cairn::storage_location where;
            where.object = plan.storage_data;
            where.offset = at;
            where.length = bytes.size() - at;
            results.items.push_back({i, where});
        }
        auto file = store_->create(plan.storage_data, bytes.size());  // throws if it is there
        created_ = true;
        file_ = plan.storage_data;
        file.write(0, bytes);
        file.finish(true);
        store_->sync();
        results.object_sizes[plan.storage_data] = bytes.size();
        done(std::move(results));
    }
    void finish(const cairn::metadata& m, cairn::completion<cairn::done_t> done) {
        log_->push_back("finish");
        json::object index;
        for (auto const& [fqn, entry] : m.entries) index[fqn] = describe(entry);
        auto const text = json::serialize(index);
        store_->publish(index_name, std::as_bytes(std::span(text)), std::nullopt);
        store_->sync();
        done();
    }
    void abandon() noexcept {
        try {
            if (created_) store_->remove(file_);
        } catch (const std::exception&) {  // the file stays; without an index nobody reads it
        }
    }

private:
    static void append(cairn::byte_vector& out, const cairn::item_data& d) {
        if (auto const* object = std::get_if<const cairn::value*>(&d)) {
            // This format knows integers; a real one would know more.
            auto const i = (*object)->as<std::int64_t>();
            auto const b = std::as_bytes(std::span(&i, 1));
            out.insert(out.end(), b.begin(), b.end());
            return;
        }
        auto const& v = std::get<cairn::const_tensor_view>(d);
        if (v.strides != cairn::row_major_strides(v.extents))
            throw wrong(cairn::errc::unsupported, "raw file", "a tensor that is not dense");
        out.insert(out.end(), v.data, v.data + v.bytes());
    }
    static json::object place(const cairn::storage_location& at) {
        return {{"file", at.object}, {"offset", at.offset}, {"length", at.length}};
    }
    static json::value describe(
        const std::variant<cairn::tensor_metadata, cairn::object_metadata>& entry) {
        if (auto const* o = std::get_if<cairn::object_metadata>(&entry)) return place(o->at);
        auto const& t = std::get<cairn::tensor_metadata>(entry);
        json::array chunks;
        for (auto const& c : t.chunks) {
            auto chunk = place(c.at);
            chunk["offsets"] = json::array(c.where.offsets.begin(), c.where.offsets.end());
            chunk["lengths"] = json::array(c.where.lengths.begin(), c.where.lengths.end());
            chunks.push_back(std::move(chunk));
        }
        return {{"dtype", std::string(cairn::name_of(t.type))},
                {"extents", json::array(t.extents.begin(), t.extents.end())},
                {"chunks", std::move(chunks)}};
    }

    std::function<std::string(int)> file_name_;
    call_log* log_;
    cairn::storage_setup me_;
    std::optional<cairn::file_store> store_;
    bool created_ = false;
    std::string file_;
};
static_assert(cairn::StorageWriter<raw_writer>);

/// Reads what `raw_writer` wrote.
class raw_reader {
public:
    explicit raw_reader(call_log& log) : log_(&log) {}

    void reset(cairn::checkpoint_id id) {
        log_->push_back("reset");
        store_ = cairn::file_store(std::move(id));
    }
    cairn::metadata read_metadata() {
        log_->push_back("read metadata");
        auto file = store_->open(index_name);
        std::string text(static_cast<std::size_t>(file.size()), '\0');
        file.read(0, std::as_writable_bytes(std::span(text)));
        try {
            cairn::metadata m;
            auto const index = json::parse(text);
            for (auto const& [fqn, entry] : index.as_object())
                m.entries[std::string(fqn)] = parse(fqn, entry.as_object());
            return m;
        } catch (const cairn::error&) {
            throw;
        } catch (const std::exception& e) {  // Boost.JSON's: not what we wrote
            throw wrong(cairn::errc::corrupt, index_name, e.what());
        }
    }
    void set_up_reader(const cairn::metadata& m, const cairn::storage_setup&) {
        log_->push_back("set up");
        meta_ = m;
    }
    cairn::load_plan prepare_local_load_plan(cairn::load_plan plan) {
        log_->push_back("prepare local");
        return plan;
    }
    std::vector<cairn::load_plan> prepare_global_load_plan(std::vector<cairn::load_plan> plans) {
        log_->push_back("prepare global");
        return plans;
    }
    void read_data(const cairn::load_plan& plan, const cairn::read_target& target,
                   cairn::completion<cairn::done_t> done) {
        log_->push_back("read");
        for (auto const& item : plan.items) {
            if (auto const* o = meta_.object(item.fqn)) {
                std::int64_t i = 0;
                read(o->at, std::as_writable_bytes(std::span(&i, 1)));
                target.load_object(item, i);
                continue;
            }
            auto const& stored = meta_.tensor(item.fqn)->chunks.at(item.chunk);
            auto const window = target.resolve_tensor(item);
            if (item.lengths != stored.where.lengths ||
                window.strides != cairn::row_major_strides(window.extents))
                throw wrong(cairn::errc::unsupported, stored.at.object,
                            item.fqn + " in another layout than it was saved in");
            read(stored.at, {window.data, static_cast<std::size_t>(window.bytes())});
            target.commit_tensor(item, window);
        }
        done();
    }

private:
    void read(const cairn::storage_location& at, std::span<std::byte> into) {
        if (at.length != into.size())
            throw wrong(cairn::errc::corrupt, at.object, std::to_string(at.length) + " bytes");
        store_->open(at.object).read(at.offset, into);
    }
    static cairn::storage_location place(const json::object& o) {
        cairn::storage_location at;
        at.object = std::string(o.at("file").as_string());
        at.offset = o.at("offset").to_number<std::uint64_t>();
        at.length = o.at("length").to_number<std::uint64_t>();
        return at;
    }
    static cairn::sizes numbers(const json::value& list) {
        cairn::sizes s;
        for (auto const& n : list.as_array()) s.push_back(n.to_number<std::int64_t>());
        return s;
    }
    static std::variant<cairn::tensor_metadata, cairn::object_metadata> parse(
        std::string_view fqn, const json::object& o) {
        if (o.find("chunks") == o.end()) return cairn::object_metadata{place(o)};
        cairn::tensor_metadata t;
        auto const type = cairn::dtype_from_name(std::string(o.at("dtype").as_string()));
        if (!type) throw wrong(cairn::errc::corrupt, index_name, "an unknown dtype");
        t.type = *type;
        t.extents = numbers(o.at("extents"));
        std::vector<cairn::box> boxes;
        for (auto const& c : o.at("chunks").as_array()) {
            auto const& chunk = c.as_object();
            t.chunks.push_back(
                {cairn::box{numbers(chunk.at("offsets")), numbers(chunk.at("lengths"))},
                 place(chunk)});
            boxes.push_back(t.chunks.back().where);
        }
        cairn::check_coverage(std::string(fqn), t.extents, boxes);  // the planner trusts metadata
        return t;
    }

    call_log* log_;
    std::optional<cairn::file_store> store_;
    cairn::metadata meta_;
};
static_assert(cairn::StorageReader<raw_reader>);

int main() {
    constexpr int n = 3;
    std::filesystem::remove_all("ckpt/own_storage");
    std::vector<call_log> saved(n), loaded(n);
    std::vector<int> wrong_ranks(n, 0);
    cairn::run_ranks(n, [&](cairn::thread_group::member& ranks) {
        auto const rank = static_cast<std::size_t>(ranks.rank());
        std::vector<float> rows(2 * 4, static_cast<float>(rank));
        std::int64_t step = 100;
        cairn::state_dict state{
            {"weight", cairn::shard_by_mesh(
                           cairn::tensor_view(cairn::dtype::float32, {2, 4}, rows.data()), {6, 4},
                           cairn::device_mesh::line(n), {cairn::shard_along{0}}, ranks.rank())},
            {"step", std::ref(step)}};
        auto const name = [](int r) { return "part_" + std::to_string(r) + ".raw"; };
        cairn::save(state, "ckpt/own_storage", ranks, raw_writer(name, saved[rank]));

        rows.assign(rows.size(), -1.0f);
        step = 0;
        cairn::load(state, "ckpt/own_storage", ranks, raw_reader(loaded[rank]));
        wrong_ranks[rank] =
            rows != std::vector<float>(rows.size(), static_cast<float>(rank)) || step != 100;
    });

    auto const print = [](const char* title, const call_log& log) {
        std::printf("%s:", title);
        for (auto const& call : log) std::printf(" %s;", call.c_str());
        std::printf("\n");
    };
    print("save, coordinator", saved[0]);
    print("save, other ranks", saved[1]);
    print("load, coordinator", loaded[0]);

    // The order of the protocol; the coordinator alone plans for all and finishes.
    call_log const coordinator{"reset", "set up", "prepare local", "prepare global",
                               "write", "finish"};
    call_log const other{"reset", "set up", "prepare local", "write"};
    int bad = saved[0] != coordinator || saved[1] != other || saved[2] != other;
    for (int w : wrong_ranks) bad += w;
    for (int r = 0; r < n; ++r)
        bad += !std::filesystem::exists("ckpt/own_storage/part_" + std::to_string(r) + ".raw");
    std::printf("own storage: %s\n", bad == 0 ? "as saved, in the promised order" : "went wrong");
    return bad != 0;
}
