// SPDX-License-Identifier: Apache-2.0
// A rank that has more cores than files reads parts of one file at once.
#include "support/counting_store.hpp"

#include <cairn/cairn.hpp>
#include <cairn/format/native/footer.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/threads_per_rank.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <map>
#include <optional>
#include <string>
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

int ranks_here(int world_size, std::map<std::string, std::string> variables) {
    return cairn::detail::ranks_of_this_host(world_size,
                                             [&](const char* name) -> std::optional<std::string> {
                                                 auto const it = variables.find(name);
                                                 if (it == variables.end()) return {};
                                                 return it->second;
                                             });
}

}  // namespace

BOOST_AUTO_TEST_CASE(read_the_parts_of_a_file_which_is_opened_once) {
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

/// What is damaged is an error whichever thread reads it, and however many others read on.
BOOST_AUTO_TEST_CASE(find_what_is_damaged_in_any_part) {
    constexpr std::size_t tensors = 8, length = 5000;
    some_state s(std::vector<std::size_t>(tensors, length));
    s.fill();
    cairn::memory_store store;
    (void)cairn::save(s.dict(), "c", store);
    auto at = store.at("c");
    auto const whole = cairn::detail::read_whole(at, "__0_0.distcp");
    auto const meta = cairn::torch_reader(at).read_metadata();
    for (std::size_t i = 0; i < tensors; ++i) {
        auto const name = "t" + std::to_string(i);
        auto const& where = meta.tensor(name)->chunks.front().at;
        auto bytes = whole;
        bytes[static_cast<std::size_t>(where.offset + where.layout->payload_offset) + 4 * i] ^=
            std::byte{1};
        at.publish("__0_0.distcp", bytes, std::nullopt);
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

BOOST_AUTO_TEST_CASE(are_divided_by_the_ranks_of_this_host_if_the_launcher_tells) {
    BOOST_TEST(ranks_here(4, {}) == 4);
    BOOST_TEST(ranks_here(4, {{"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}}) == 2);
    BOOST_TEST(
        ranks_here(8, {{"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}) == 2);
    BOOST_TEST(ranks_here(3, {{"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}}) == 3);
    for (auto const* odd : {"", "0", "-1", "5", "2x", "99999999999"})
        BOOST_TEST(ranks_here(4, {{"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", odd}}) == 4);
    BOOST_TEST(cairn::detail::threads_per_rank(1) >= 1);
    BOOST_TEST(cairn::detail::threads_per_rank(100'000) == 1);
}

BOOST_AUTO_TEST_SUITE_END()
