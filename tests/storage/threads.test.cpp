// SPDX-License-Identifier: Apache-2.0
// A rank with more cores than files reads parts of one file at once, and writes several files.
#include "support/counting_store.hpp"
#include "support/data_files.hpp"
#include "support/forwarding_store.hpp"

#include <cairn/cairn.hpp>
#include <cairn/format/native/footer.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/detail/file_names.hpp>
#include <cairn/storage/job_executor.hpp>
#include <cairn/storage/threads_per_rank.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(threads)

namespace {

struct some_state {
    explicit some_state(std::vector<std::size_t> lengths) {
        for (auto n : lengths) memory.emplace_back(n, 0.0f);
    }
    void fill() {
        float next = 1;
        for (auto& m : memory)
            for (auto& x : m) x = next++;
    }
    cairn::state_dict dict() {
        cairn::state_dict sd{{"step", std::int64_t{7}}};
        for (std::size_t i = 0; i < memory.size(); ++i) sd["t" + std::to_string(i)] = memory[i];
        return sd;
    }
    std::vector<std::vector<float>> memory;
};

void add_items(const some_state& s, cairn::save_plan& plan, std::vector<cairn::item_data>& data) {
    for (auto const& m : s.memory) {
        auto const n = static_cast<std::int64_t>(m.size());
        auto& item = plan.items.emplace_back();
        item.fqn = "t" + std::to_string(data.size());
        item.kind = cairn::item_kind::tensor;
        item.global_shape = {n};
        item.region = {{0}, {n}};
        data.push_back(cairn::const_tensor_view(cairn::dtype::float32, {n}, m.data()));
    }
}

int ranks_here(int world_size, std::map<std::string, std::string> variables) {
    return cairn::detail::ranks_of_this_host(world_size,
                                             [&](const char* name) -> std::optional<std::string> {
                                                 auto const it = variables.find(name);
                                                 if (it == variables.end()) return {};
                                                 return it->second;
                                             });
}

}  // namespace

BOOST_AUTO_TEST_CASE(threads_read_the_parts_of_a_file_which_is_opened_once) {
    std::vector<std::vector<std::size_t>> const shapes{
        {}, {0}, {1}, {1000, 1000, 1000, 1000, 1000, 1000}, {100'000, 1, 1, 1}, {1, 1, 1, 100'000}};
    for (auto const& lengths : shapes) {
        for (int count : {1, 2, 3, 16}) {
            BOOST_TEST_CONTEXT(lengths.size() << " tensors, " << count << " threads") {
                some_state s(lengths);
                s.fill();
                auto const saved = s.memory;
                cairn::memory_store store;
                (void)cairn::save(s.dict(), "c", store);
                for (auto& m : s.memory) m.assign(m.size(), 0.0f);
                support::counting_store counting(store);
                cairn::load_options o;
                o.storage.thread_count = count;
                auto sd = s.dict();
                (void)cairn::load(sd, "c", o, counting);
                BOOST_TEST((s.memory == saved));
                auto at = store.at("c");
                for (auto const& file : at.list()) {
                    if (!file.name.ends_with(".distcp")) continue;
                    auto const tail = cairn::format::native::footer_tail_bytes;
                    // Its last bytes and then all of it: for tensors, and again for values.
                    BOOST_TEST(counting.reads(file.name, file.size - tail, tail).second <= 4);
                }
            }
        }
    }
}

/// The coordinator's cores decide, and other hosts may have more or fewer.
BOOST_AUTO_TEST_CASE(a_writer_writes_as_many_files_as_are_named) {
    some_state s({100, 100, 100, 100});
    s.fill();
    cairn::save_plan plan;
    std::vector<cairn::item_data> data;
    add_items(s, plan, data);
    for (std::size_t const count : std::vector<std::size_t>{0, 1, 2, 3, 4, 6}) {
        cairn::memory_store store;
        cairn::torch_writer writer{store};
        writer.reset("");
        writer.set_up_writer({0, 1, true, std::string(32, 'a'), {}, {}});
        std::vector<std::string> files;
        for (std::size_t n = 0; n < count; ++n)
            files.push_back("__0_" + std::to_string(n) + ".distcp");
        plan.storage_data = cairn::detail::encode_file_names(files);
        auto const write = [&] {
            return cairn::await_completion<cairn::write_results>(
                [&](auto done) { writer.write_data(plan, data, std::move(done)); });
        };
        if (count == 0) {
            BOOST_CHECK_EXCEPTION((void)write(), cairn::error, [](const cairn::error& e) {
                return e.code() == make_error_code(cairn::errc::invalid_plan);
            });
            continue;
        }
        auto const written = write();
        BOOST_TEST(written.file_sizes.size() == count);
        std::set<std::string> used;
        for (auto const& item : written.items) used.insert(item.at.file);
        BOOST_TEST(written.items.size() == data.size());
        BOOST_TEST(used.size() == std::min(count, data.size()));
    }
}

BOOST_AUTO_TEST_CASE(threads_decide_how_many_files_a_large_rank_writes) {
    constexpr std::uint64_t gib = std::uint64_t{1} << 30;
    auto const files_of = [](std::vector<cairn::stored_amount> const& stored,
                             const cairn::torch_writer_options& o = {},
                             boost::asio::any_io_executor on = {}) {
        cairn::torch_writer writer{cairn::memory_store(), o, std::move(on)};
        writer.reset("");
        writer.set_up_writer({0, static_cast<int>(stored.size()), true, std::string(32, 'a')});
        std::vector<std::size_t> counts;
        for (auto const& data : writer.name_files(stored))
            counts.push_back(cairn::detail::decode_file_names(data).size());
        return counts;
    };
    auto const here = static_cast<std::size_t>(cairn::threads_per_rank(1));
    cairn::stored_amount const large{4096, 4096 * gib, gib};
    BOOST_TEST(files_of({large})[0] == std::min<std::size_t>(here, 1024));
    BOOST_TEST(files_of({{10, 1000, 100}})[0] == 1u);
    cairn::torch_writer_options o;
    o.polite.cpus = {0};
    BOOST_TEST(files_of({large}, o)[0] == 1u);
    boost::asio::thread_pool pool(2);
    BOOST_TEST(files_of({large}, {}, pool.get_executor())[0] == 1u);
    // The coordinator looks at each file.
    std::vector<cairn::stored_amount> const many(1000, large);
    auto const counts = files_of(many);
    BOOST_TEST(std::count(counts.begin(), counts.end(), 1u) == 1000);
}

/// Waits, as it creates a file, until so many are being created, or a good while.
class meeting_store : public support::forwarding_store<cairn::memory_store> {
public:
    struct meeting {
        int wanted;
        std::atomic<int> here{0};
        std::atomic<bool> met{false}, missed{false};
    };
    explicit meeting_store(std::shared_ptr<meeting> m)
        : forwarding_store(cairn::memory_store()), meeting_(std::move(m)) {}
    auto create(std::string_view n, std::uint64_t size) {
        auto& m = *meeting_;
        if (++m.here == m.wanted) m.met = true;
        for (int i = 0; i < 500 && !m.met; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        if (!m.met) m.missed = true;
        return store_.create(n, size);
    }

private:
    std::shared_ptr<meeting> meeting_;
};

/// Also by a writer whose first save has one file, and needs one thread.
BOOST_AUTO_TEST_CASE(threads_write_several_files_at_once) {
    if (cairn::threads_per_rank(1) < 2) {
        std::cout << "threads: skipped: one core\n";
        return;
    }
    some_state s({100, 100});
    cairn::save_plan plan;
    std::vector<cairn::item_data> data;
    add_items(s, plan, data);
    auto const m = std::make_shared<meeting_store::meeting>();
    cairn::torch_writer writer{meeting_store(m)};
    for (int const count : {1, 2}) {
        std::vector<std::string> files;
        for (int n = 0; n < count; ++n)
            files.push_back(std::to_string(count) + std::to_string(n) + ".distcp");
        plan.storage_data = cairn::detail::encode_file_names(files);
        writer.reset("");
        writer.set_up_writer({0, 1, true, std::string(32, static_cast<char>('a' + count))});
        m->wanted = count;
        m->here = 0;
        m->met = false;
        (void)cairn::await_completion<cairn::write_results>(
            [&](auto done) { writer.write_data(plan, data, std::move(done)); });
        BOOST_TEST(!m->missed, count << " files");
    }
}

/// The second file cannot be made. The first one is only written on once that has happened.
class full_store : public support::forwarding_store<cairn::memory_store> {
public:
    struct events {
        std::atomic<bool> is_full{false};
        std::atomic<int> writes{0};
    };
    class writer {
    public:
        writer(cairn::memory_store::writer h, std::shared_ptr<events> e)
            : handle_(std::move(h)), events_(std::move(e)) {}
        void write(std::uint64_t at, cairn::byte_span b) {
            using namespace std::chrono_literals;
            for (int i = 0; i < 1000 && !events_->is_full; ++i) std::this_thread::sleep_for(10ms);
            std::this_thread::sleep_for(5ms);
            ++events_->writes;
            handle_.write(at, b);
        }
        void finish(bool durable) { handle_.finish(durable); }

    private:
        cairn::memory_store::writer handle_;
        std::shared_ptr<events> events_;
    };
    explicit full_store(std::shared_ptr<events> e)
        : forwarding_store(cairn::memory_store()), events_(std::move(e)) {}
    writer create(std::string_view n, std::uint64_t size) {
        if (n.starts_with("__0_1")) {
            events_->is_full = true;
            throw cairn::error(cairn::errc::io, {.file = std::string(n), .found = "no space"});
        }
        return {store_.create(n, size), events_};
    }

private:
    std::shared_ptr<events> events_;
};

BOOST_AUTO_TEST_CASE(threads_do_not_write_on_when_one_has_failed) {
    constexpr std::size_t tensors = 400, length = (64 << 10) / sizeof(float);
    some_state s(std::vector<std::size_t>(tensors, length));
    cairn::save_plan plan;
    std::vector<cairn::item_data> data;
    add_items(s, plan, data);
    cairn::torch_writer_options o;
    o.thread_count = 2;
    auto const seen = std::make_shared<full_store::events>();
    cairn::torch_writer writer{full_store(seen), o};
    plan.storage_data = cairn::detail::encode_file_names({"__0_0.distcp", "__0_1.distcp"});
    writer.reset("");
    writer.set_up_writer({0, 1, true, std::string(32, 'a')});
    auto const write = [&] {
        (void)cairn::await_completion<cairn::write_results>(
            [&](auto done) { writer.write_data(plan, data, std::move(done)); });
    };
    BOOST_CHECK_EXCEPTION(write(), cairn::error, [](const cairn::error& e) {
        return e.code() == make_error_code(cairn::errc::io);
    });
    BOOST_TEST(seen->writes < static_cast<int>(tensors / 2));
}

/// What is damaged is an error whichever thread reads it, and however many others read on.
BOOST_AUTO_TEST_CASE(damage_is_found_in_any_part) {
    constexpr std::size_t tensors = 8, length = 5000;
    some_state s(std::vector<std::size_t>(tensors, length));
    s.fill();
    cairn::memory_store store;
    (void)cairn::save(s.dict(), "c", store);
    auto at = store.at("c");
    auto const file = support::data_file(at, "__0_0");
    auto const whole = cairn::read_whole(at, file);
    auto const meta = cairn::torch_reader(at).read_metadata();
    for (std::size_t i = 0; i < tensors; ++i) {
        auto const name = "t" + std::to_string(i);
        auto const& where = meta.tensor(name)->chunks[0].at;
        auto bytes = whole;
        bytes[static_cast<std::size_t>(where.offset + where.layout->payload_offset) + 4 * i] ^=
            std::byte{1};
        at.publish(file, bytes, std::nullopt);
        cairn::load_options o;
        o.storage.thread_count = 3;
        auto sd = s.dict();
        BOOST_CHECK_EXCEPTION(
            (void)cairn::load(sd, "c", o, store), cairn::error, [&](const cairn::error& e) {
                return e.code() == make_error_code(cairn::errc::checksum_mismatch) &&
                       e.context().fqn == name;
            });
    }
}

BOOST_AUTO_TEST_CASE(threads_are_divided_by_the_ranks_of_this_host_if_the_launcher_tells) {
    BOOST_TEST(ranks_here(4, {}) == 4);
    BOOST_TEST(ranks_here(4, {{"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}}) == 2);
    BOOST_TEST(
        ranks_here(8, {{"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}) == 2);
    BOOST_TEST(ranks_here(3, {{"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}}) == 3);
    auto const srun = [](int ranks, const char* tasks, const char* node) {
        return ranks_here(ranks, {{"SLURM_STEP_NUM_TASKS", "14"},
                                  {"SLURM_STEP_TASKS_PER_NODE", tasks},
                                  {"SLURM_NODEID", node}});
    };
    BOOST_TEST(srun(14, "4(x3),2", "0") == 4);
    BOOST_TEST(srun(14, "4(x3),2", "2") == 4);
    BOOST_TEST(srun(14, "4(x3),2", "3") == 2);
    BOOST_TEST(srun(13, "4(x3),2", "0") == 13);  // another job's
    for (auto const* odd :
         {"", "4(x3", "4(x),", "x", "4(x3);2", "0(x4)", "15(x4)", "4,", "99999999999"})
        BOOST_TEST(srun(14, odd, "3") == 14, odd);
    for (auto const* odd : {"", "0", "-1", "5", "2x", "99999999999"})
        BOOST_TEST(ranks_here(4, {{"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", odd}}) == 4);
    BOOST_TEST(cairn::threads_per_rank(1) >= 1);
}

BOOST_AUTO_TEST_CASE(threads_are_not_divided_where_each_rank_has_cpus_of_its_own) {
    auto const here = [](int ranks, unsigned cpus, bool whole_host) {
        return cairn::threads_per_rank(ranks, {cpus, whole_host},
                                       [](const char*) { return std::nullopt; });
    };
    BOOST_TEST(here(4, 16, true) == 4);
    BOOST_TEST(here(4, 16, false) == 16);
    BOOST_TEST(here(100'000, 16, true) == 1);
    BOOST_TEST(here(100'000, 1, false) == 1);
}

BOOST_AUTO_TEST_SUITE_END()
