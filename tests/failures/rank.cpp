// SPDX-License-Identifier: Apache-2.0
// One rank of a save or load in which one rank fails at one point; started by matrix.py.
//
//     failing_rank DIR save|load POINT throw|exit|kill|stop VICTIM DEADLINE_MS
//     failing_rank DIR check|again NAME      which state stands in DIR/NAME; saves C there
//     failing_rank DIR points save|load      the points there are, one a line
//
// The state is A in DIR/c at first; a save writes B. `check` says which of the two stands there.
#include <cairn/cairn.hpp>
#include <cairn/comm/tcp_group.hpp>

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

double now() {
    return std::chrono::duration<double>(clock_type::now().time_since_epoch()).count();
}

/// Where the fault happens, and what it is. Empty on ranks that are well.
struct fault {
    std::string point{}, action{}, note{};

    void at(const std::string& here) const {
        if (here != point) return;
        std::ofstream(note) << std::fixed << now() << std::endl;
        if (action == "exit") ::_exit(3);
        if (action == "kill") ::raise(SIGKILL);
        if (action == "stop") ::raise(SIGSTOP);
        if (action == "throw") throw std::runtime_error("injected at " + here);
    }
};

/// `done`, which passes by `here` first.
template <class T>
cairn::completion<T> past(const fault& f, std::string here, cairn::completion<T> done) {
    auto const to = std::make_shared<cairn::completion<T>>(std::move(done));
    return cairn::completion<T>(
        [to, f = &f, here = std::move(here)](std::exception_ptr e, std::optional<T> r) {
            try {
                f->at(here);
            } catch (...) {
                e = std::current_exception();
            }
            if (e) return to->fail(e);
            (*to)(std::move(*r));
        });
}

/// Fails before or after an exchange of the job, by number.
class faulty_group {
public:
    faulty_group(cairn::tcp_group& g, const fault& f) : group_(&g), fault_(&f) {}
    int rank() const { return group_->rank(); }
    int size() const { return group_->size(); }
    void gather(cairn::message m, int root, cairn::deadline d,
                cairn::completion<std::vector<cairn::message>> done) {
        before();
        group_->gather(std::move(m), root, d, after(std::move(done)));
    }
    void scatter(std::vector<cairn::message> ms, int root, cairn::deadline d,
                 cairn::completion<cairn::message> done) {
        before();
        group_->scatter(std::move(ms), root, d, after(std::move(done)));
    }
    void broadcast(cairn::message m, int root, cairn::deadline d,
                   cairn::completion<cairn::message> done) {
        before();
        group_->broadcast(std::move(m), root, d, after(std::move(done)));
    }
    void all_gather(cairn::message m, cairn::deadline d,
                    cairn::completion<std::vector<cairn::message>> done) {
        before();
        group_->all_gather(std::move(m), d, after(std::move(done)));
    }
    void cancel() noexcept { group_->cancel(); }
    void share(std::shared_ptr<const cairn::activity> a) { group_->share(std::move(a)); }

private:
    void before() { fault_->at("before exchange " + std::to_string(n_)); }
    template <class T>
    cairn::completion<T> after(cairn::completion<T> done) {
        return past(*fault_, "after exchange " + std::to_string(n_++), std::move(done));
    }
    cairn::tcp_group* group_;
    const fault* fault_;
    int n_ = 0;
};

class faulty_writer {
public:
    explicit faulty_writer(const fault& f) : fault_(&f) {}
    void reset(const cairn::checkpoint_id& id) {
        fault_->at("reset");
        w_.reset(id);
    }
    void set_up_writer(const cairn::storage_setup& s) {
        fault_->at("set up");
        w_.set_up_writer(s);
    }
    cairn::save_plan prepare_local_save_plan(cairn::save_plan p) {
        fault_->at("local plan");
        return w_.prepare_local_save_plan(std::move(p));
    }
    std::vector<cairn::save_plan> prepare_global_save_plan(std::vector<cairn::save_plan> p) {
        fault_->at("global plan");
        auto all = w_.prepare_global_save_plan(std::move(p));
        fault_->at("global plan, claimed");
        return all;
    }
    void write_data(const cairn::save_plan& p, std::span<const cairn::item_data> d,
                    cairn::completion<cairn::write_results> done) {
        fault_->at("write");
        w_.write_data(p, d, past(*fault_, "written", std::move(done)));
    }
    void finish(const cairn::metadata& m, cairn::completion<cairn::commit_result> done) {
        fault_->at("commit");
        w_.finish(m, std::move(done));
        fault_->at("committed");
    }
    bool committed(const std::string& id) { return w_.committed(id); }
    bool abandon() noexcept { return w_.abandon(); }
    void sweep(cairn::save_end end, cairn::completion<cairn::sweep_result> done) {
        fault_->at("sweep");
        w_.sweep(end, std::move(done));
        fault_->at("swept");
    }

private:
    const fault* fault_;
    cairn::torch_writer w_{cairn::file_store()};
};

class faulty_reader {
public:
    explicit faulty_reader(const fault& f) : fault_(&f) {}
    void reset(const cairn::checkpoint_id& id) {
        fault_->at("reset");
        r_.reset(id);
    }
    cairn::metadata read_metadata() {
        fault_->at("read metadata");
        return r_.read_metadata();
    }
    void set_up_reader(const cairn::metadata& m, const cairn::storage_setup& s) {
        fault_->at("set up");
        r_.set_up_reader(m, s);
    }
    cairn::load_plan prepare_local_load_plan(cairn::load_plan p) {
        fault_->at("local plan");
        return r_.prepare_local_load_plan(std::move(p));
    }
    std::vector<cairn::load_plan> prepare_global_load_plan(std::vector<cairn::load_plan> p) {
        fault_->at("global plan");
        return r_.prepare_global_load_plan(std::move(p));
    }
    void read_data(const cairn::load_plan& p, const cairn::read_target& t,
                   cairn::completion<cairn::read_result> done) {
        fault_->at("read");
        r_.read_data(p, t, std::move(done));
        fault_->at("being read");
    }

private:
    const fault* fault_;
    cairn::torch_reader r_{cairn::file_store()};
};

std::vector<std::string> points(const std::string& operation) {
    std::vector<std::string> all;
    for (int n = 0; n < 5; ++n)
        for (auto const* when : {"before", "after"})
            all.push_back(std::string(when) + " exchange " + std::to_string(n));
    // Those of the coordinator alone end with a star.
    if (operation == "save")
        all.insert(all.end(),
                   {"reset", "set up", "local plan", "global plan*", "global plan, claimed*",
                    "write", "written", "commit*", "committed*", "sweep*", "swept*"});
    else
        all.insert(all.end(), {"reset", "read metadata*", "set up", "local plan", "global plan*",
                               "read", "being read"});
    return all;
}

/// Rows over the ranks, one value each that says whose state it is.
struct state {
    state(float v, int rank, int ranks) {
        auto const where = cairn::boxes_of({rows, 64}, cairn::device_mesh::line(ranks),
                                           {cairn::shard_along{0}}, rank)
                               .at(0);
        mine.assign(static_cast<std::size_t>(where.volume()), v);
        view = {{rows, 64},
                cairn::dtype::float32,
                {cairn::shard(
                    where, cairn::tensor_view(cairn::dtype::float32, where.shape, mine.data()))}};
        dict = {{"w", view}, {"step", std::ref(step)}};
        step = static_cast<int>(v);
    }
    bool is(float v) const {
        for (float x : mine)
            if (x != v) return false;
        return step == static_cast<int>(v);
    }
    static constexpr std::int64_t rows = 1200;
    int step = 0;
    std::vector<float> mine{};
    cairn::sharded_view view{};
    cairn::state_dict dict{};
};

constexpr float a = 1, b = 2, c = 3;

int check(const std::string& dir, const char* name) {
    state s(0, 0, 1);
    cairn::load(s.dict, dir + "/" + name);
    std::printf("%s\n", s.is(a) ? "A" : s.is(b) ? "B" : s.is(c) ? "C" : "mixed");
    return 0;
}

int again(const std::string& dir, const char* name) {
    state s(c, 0, 1);
    for (auto const& w : cairn::save(s.dict, dir + "/" + name).warnings)
        std::printf("%s\n", w.c_str());
    return 0;
}

/// The survivors make a group of their own and save with it.
void go_on(const std::string& dir, int rank, int size, int victim) {
    cairn::tcp_options o;
    o.join_timeout = 30s;
    int const again = rank - (rank > victim);
    auto group = cairn::tcp_group::from_directory(dir, "survivors", again, size - 1, o);
    state s(c, again, size - 1);
    cairn::save(s.dict, dir + "/later", group);
}

int run(char** argv) {
    std::string const dir = argv[1], operation = argv[2], point = argv[3], action = argv[4];
    int const victim = std::atoi(argv[5]);
    std::chrono::milliseconds const deadline(std::atoi(argv[6]));
    cairn::tcp_group group = cairn::tcp_group::from_environment();
    int const rank = group.rank(), size = group.size();
    std::string outcome = "ok", what;
    {
        state old(a, rank, size);
        cairn::save(old.dict, dir + "/c", group);
    }
    fault f;
    if (rank == victim) f = {point, action, dir + "/fault"};
    try {
        cairn::tcp_group mine(std::move(group));
        faulty_group faulty(mine, f);
        if (operation == "save") {
            state s(b, rank, size);
            cairn::save_options o;
            o.exchange_timeout = deadline;
            cairn::save(s.dict, dir + "/c", o, faulty, faulty_writer(f));
        } else {
            state s(0, rank, size);
            cairn::load_options o;
            o.exchange_timeout = deadline;
            cairn::load(s.dict, dir + "/c", o, faulty, faulty_reader(f));
            if (!s.is(a)) outcome = "wrong";
        }
    } catch (const std::exception& e) {
        outcome = "error";
        what = e.what();
    }
    double const ended = now();
    if (rank != victim) go_on(dir, rank, size, victim);
    std::printf("RESULT %s %.6f %s %s\n", outcome.c_str(), ended, rank != victim ? "later" : "-",
                what.c_str());
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        if (argc == 4 && std::string(argv[2]) == "points") {
            for (auto const& p : points(argv[3])) std::printf("%s\n", p.c_str());
            return 0;
        }
        if (argc == 4 && std::string(argv[2]) == "check") return check(argv[1], argv[3]);
        if (argc == 4 && std::string(argv[2]) == "again") return again(argv[1], argv[3]);
        if (argc == 7) return run(argv);
    } catch (const std::exception& e) {
        std::printf("RESULT failed %.6f - %s\n", now(), e.what());
        return 1;
    }
    return 2;
}
