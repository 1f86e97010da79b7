// SPDX-License-Identifier: Apache-2.0
// A small trainer that saves at every step and is killed; started by kill_soak.
//
//     kill_soak_trainer train DIR MODE STEPS PLACES
//                                                one rank of several: resumes, then trains to STEPS
//     kill_soak_trainer reference STEPS          "step hash loss..." of each step, in one process
//     kill_soak_trainer check PLACE              prints "step hash" of the checkpoint that stands
//     kill_soak_trainer export DIR FROM TO HOW   one rank of several: writes a checkpoint as TO
//
// MODE: `one` saves into one place, `two` into two in turn, `background` into one place while
// the next step is computed. They are named a and b in PLACES, a directory or `s3://BUCKET/PREFIX`.
// Losses go to DIR/losses-RANK, a line for each step. CAIRN_SOAK_ROWS in the environment is the
// number of rows of the model, of 4 KiB in a checkpoint.
// HOW: `rows` and `columns` load it and save it, each rank its own of these; `convert` converts it.
#include <cairn/async_save.hpp>
#include <cairn/cairn.hpp>
#include <cairn/comm/tcp_group.hpp>
#include <cairn/convert.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/storage/safetensors_writer.hpp>
#include <cairn/storage/torch_save_writer.hpp>
#ifdef CAIRN_BENCHMARKS_S3
#include <cairn/object_store/open_store.hpp>
#endif

#include <boost/asio/use_future.hpp>

#include <unistd.h>

#include <bit>
#include <chrono>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace std::chrono_literals;

constexpr int ranks = 3;
constexpr std::int64_t columns = 512;

std::int64_t number_of_rows() {
    auto const* const n = std::getenv("CAIRN_SOAK_ROWS");
    return n == nullptr ? 600 : std::atoll(n);
}
std::int64_t const rows = number_of_rows();

cairn::any_store store_of(const std::string& places) {
#ifdef CAIRN_BENCHMARKS_S3
    return cairn::open_store(places);
#else
    return cairn::any_store(cairn::file_store(places));
#endif
}

/// The rows, or columns, of one rank: a weight and its momentum, and the step that they have
/// reached.
struct model {
    explicit model(int which, int along = 0)
        : rank(which), region(cairn::boxes_of({rows, columns}, cairn::device_mesh::line(ranks),
                                              {cairn::shard_along{along}}, which)
                                  .at(0)),
          w(static_cast<std::size_t>(region.volume()), 1.0f), momentum(w.size(), 0.0f) {}
    model(model&&) = delete;

    cairn::state_dict state() {
        return {{"w", view(w)}, {"momentum", view(momentum)}, {"step", std::ref(step)}};
    }
    cairn::sharded_view view(std::vector<float>& data) {
        return {{rows, columns},
                cairn::dtype::float32,
                {cairn::shard(
                    region, cairn::tensor_view(cairn::dtype::float32, region.shape, data.data()))}};
    }
    /// One step of gradient descent towards a target that moves. @return the loss before it.
    double learn() {
        double loss = 0;
        auto const first = static_cast<std::size_t>(region.offsets[0] * columns);
        for (std::size_t i = 0; i < w.size(); ++i) {
            auto const target =
                static_cast<float>(((first + i) * 31 + std::size_t(step) * 17) & 1023);
            auto const gradient = w[i] - target / 1024.0f;
            loss += double{gradient} * double{gradient};
            momentum[i] = 0.9f * momentum[i] + gradient;
            w[i] -= 0.05f * momentum[i];
        }
        ++step;
        return loss;
    }

    int rank;
    cairn::box region;
    std::vector<float> w, momentum;
    std::int64_t step = 0;
};

/// FNV-1a over words.
class hash {
public:
    void add(const std::vector<float>& values) {
        for (float v : values) h_ = (h_ ^ std::bit_cast<std::uint32_t>(v)) * 0x100000001b3u;
    }
    std::uint64_t value() const { return h_; }

private:
    std::uint64_t h_ = 0xcbf29ce484222325u;
};

int reference(std::int64_t steps) {
    model m0(0), m1(1), m2(2);
    model* const all[] = {&m0, &m1, &m2};
    for (std::int64_t step = 0; step <= steps; ++step) {
        hash h;
        for (auto const* m : all) h.add(m->w);
        for (auto const* m : all) h.add(m->momentum);
        std::printf("%" PRId64 " %016" PRIx64, step, h.value());
        for (auto* m : all) std::printf(" %a", m->learn());
        std::printf("\n");
    }
    return 0;
}

int check(const std::string& place) {
    std::vector<float> w(static_cast<std::size_t>(rows * columns)), momentum(w.size());
    std::int64_t step = -1;
    auto const whole = [](std::vector<float>& data) {
        return cairn::tensor_view(cairn::dtype::float32, {rows, columns}, data.data());
    };
    cairn::load(
        cairn::state_dict{{"w", whole(w)}, {"momentum", whole(momentum)}, {"step", std::ref(step)}},
        "", cairn::load_options{}, store_of(place), cairn::solo());
    hash h;
    h.add(w);
    h.add(momentum);
    std::printf("%" PRId64 " %016" PRIx64 "\n", step, h.value());
    return 0;
}

/// The place with the newest step. All ranks see the same: none has begun to train.
std::optional<std::string> newest(const cairn::any_store& places) {
    std::optional<std::string> best;
    std::int64_t most = -1;
    for (std::string const place : {"a", "b"}) {
        auto there = places.at(place);
        if (there.tag(".metadata").text.empty()) continue;
        std::int64_t step = -1;
        cairn::load(cairn::state_dict{{"step", std::ref(step)}}, "", cairn::load_options{}, there,
                    cairn::solo());
        if (step > most) most = step, best = place;
    }
    return best;
}

/// This process as a rank, whose pid others can read.
cairn::tcp_group join(const std::string& dir) {
    cairn::tcp_options patience;
    patience.join_timeout = 30s;
    auto group = cairn::tcp_group::from_environment(patience);
    if (group.size() != ranks) throw std::runtime_error("start three ranks");
    std::ofstream(dir + "/pid-" + std::to_string(group.rank())) << ::getpid() << std::endl;
    return group;
}

/// As the name of the target says: a file of torch.save, safetensors in files of a tensor each, or
/// a checkpoint.
int export_to(const std::string& dir, const std::string& from, const std::string& to,
              const std::string& how) {
    auto group = join(dir);
    model m(group.rank(), how == "columns" ? 1 : 0);
    if (how != "convert") cairn::load(m.state(), from, group);
    auto const write = [&](auto&&... writer) {
        if (how == "convert")
            cairn::convert(from, to, group, std::move(writer)...);
        else
            cairn::save(m.state(), to, group, std::move(writer)...);
    };
    cairn::safetensors_writer_options o;
    o.skip_values = true;
    o.max_file_size = 1'000'000;
    if (to.ends_with(".pt"))
        write(cairn::torch_save_writer());
    else if (to.ends_with("/m"))
        write(cairn::safetensors_writer(o));
    else
        write();
    return 0;
}

int train(const std::string& dir, const std::string& mode, std::int64_t steps,
          const std::string& places) {
    auto group = join(dir);
    model m(group.rank());
    auto const state = m.state();
    auto store = store_of(places);
    if (auto const place = newest(store)) cairn::load(state, *place, group, store);

    std::ofstream losses(dir + "/losses-" + std::to_string(group.rank()), std::ios::app);
    cairn::save_options options;
    options.exchange_timeout = 10s;
    cairn::pending_save pending;
    while (m.step < steps) {
        auto const loss = m.learn();
        char line[64];
        std::snprintf(line, sizeof line, "%" PRId64 " %a", m.step - 1, loss);
        losses << line << std::endl;
        std::string const place = mode == "two" && m.step % 2 == 1 ? "b" : "a";
        if (mode != "background") {
            cairn::save(state, place, options, group, store);
            continue;
        }
        if (pending) (void)pending.wait();
        pending =
            cairn::async_save(state, place, options, group, store, boost::asio::use_future).get();
    }
    if (pending) (void)pending.wait();
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::string> const a(argv + 1, argv + argc);
    try {
        if (a.size() == 5 && a[0] == "train") return train(a[1], a[2], std::atoll(argv[4]), a[4]);
        if (a.size() == 5 && a[0] == "export") return export_to(a[1], a[2], a[3], a[4]);
        if (a.size() == 2 && a[0] == "reference") return reference(std::atoll(argv[2]));
        if (a.size() == 2 && a[0] == "check") return check(a[1]);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
    std::fprintf(stderr, "usage: see kill_soak\n");
    return 2;
}
