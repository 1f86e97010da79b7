// SPDX-License-Identifier: Apache-2.0
// Measures what the saves of a state with an unchanged layout take besides the bytes: plans,
// messages and decisions, apart from the time of storage.
//
//     second_save DIR [--ranks R] [--parameters P] [--saves K]
//
// R ranks save P parameters, each sharded over all of them by rows of 256 bytes, K times to new
// places in a new folder of DIR, which is removed, with a `plan_cache`. Under `cairn launch` ranks
// are its processes, on one host; otherwise threads of this one. One line of JSON: lists of median,
// least and most, of the saves from the second on, in milliseconds.
//
// `save_ms` is the save on the slowest rank. `plan_ms` is its beginning, in which all ranks plan
// and exchange plans, until each knows what to write, without `plan_storage_ms`, in which some rank
// used its store: most of that is the sync that makes the intent durable. Of the whole save,
// `syncs_ms` is the part in which some rank made something durable, `storage_ms` that in which some
// rank used its store otherwise and none did that. `first_plan_ms` is `plan_ms` of the first save.
#include "gpt2/groups.hpp"
#include "spread.hpp"
#include "support/forwarding_store.hpp"

#include <cairn/cairn.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace {

/// Microseconds of the host's clock.
std::uint64_t now() {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                          std::chrono::steady_clock::now().time_since_epoch())
                                          .count());
}

struct interval {
    std::uint64_t begin, end;
};
using intervals = std::vector<interval>;
/// What is in at least one of them.
std::uint64_t length_of_union(intervals all) {
    std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
    std::uint64_t sum = 0, end = 0;
    for (auto const& i : all) {
        auto const from = std::max(i.begin, end);
        if (i.end > from) sum += i.end - from;
        end = std::max(end, i.end);
    }
    return sum;
}

/// When one rank's store was used.
struct used {
    std::mutex m{};
    intervals syncs{}, others{};
};
/// Adds an interval, from its construction on.
class timed_call {
public:
    timed_call(std::shared_ptr<used> u, bool sync) : used_(std::move(u)), sync_(sync) {}
    timed_call(timed_call&&) = delete;
    ~timed_call() {
        std::lock_guard const lock(used_->m);
        (sync_ ? used_->syncs : used_->others).push_back({begin_, now()});
    }

private:
    std::shared_ptr<used> used_;
    bool sync_;
    std::uint64_t begin_ = now();
};

/// A store whose calls are timed: those that make something durable, and all others.
class timed_store : public support::forwarding_store<cairn::file_store> {
    using base = support::forwarding_store<cairn::file_store>;
    using handle = decltype(std::declval<cairn::file_store&>().create("", 0, true));

public:
    timed_store(cairn::file_store s, std::shared_ptr<used> u)
        : base(std::move(s)), used_(std::move(u)) {}
    timed_store at(std::string id) const { return {store_.at(std::move(id)), used_}; }

    struct writer {
        handle h;
        std::shared_ptr<used> u;
        void write(std::uint64_t at, cairn::byte_span b) {
            timed_call const t(u, false);
            h.write(at, b);
        }
        void finish(bool durable) {
            timed_call const t(u, durable);
            h.finish(durable);
        }
    };
    writer create(std::string_view n, std::uint64_t size, bool durable = true) {
        timed_call const t(used_, false);
        return {store_.create(n, size, durable), used_};
    }
    void publish(std::string_view n, cairn::byte_span b, std::optional<cairn::object_tag> m) {
        timed_call const t(used_, true);
        base::publish(n, b, std::move(m));
    }
    void sync() {
        timed_call const t(used_, true);
        base::sync();
    }
    auto open(std::string_view n) {
        timed_call const t(used_, false);
        return base::open(n);
    }
    cairn::object_tag tag(std::string_view n) {
        timed_call const t(used_, false);
        return base::tag(n);
    }
    std::vector<cairn::object_info> list() {
        timed_call const t(used_, false);
        return base::list();
    }
    void remove(std::string_view n) {
        timed_call const t(used_, false);
        base::remove(n);
    }

private:
    std::shared_ptr<used> used_;
};

/// Notes when a rank has been told what to write.
struct planned_at {
    std::shared_ptr<std::uint64_t> at = std::make_shared<std::uint64_t>(0);

    void notify(const cairn::verb_event& e) {
        if (e.what == cairn::verb_event::kind::phase_begin && e.phase == "stage") *at = now();
    }
};

struct arguments {
    std::string dir{};
    int ranks = 4, parameters = 1000, saves = 21;
};

/// The times of one rank's save, as they are sent to rank 0.
struct part {
    interval save{}, plan{};
    intervals syncs{}, others{};

    cairn::message encode() const {
        intervals all{save, plan, {syncs.size(), others.size()}};
        all.insert(all.end(), syncs.begin(), syncs.end());
        all.insert(all.end(), others.begin(), others.end());
        auto const bytes = std::as_bytes(std::span(all));
        return {bytes.begin(), bytes.end()};
    }
    static part decode(const cairn::message& m) {
        intervals all(m.size() / sizeof(interval));
        std::memcpy(all.data(), m.data(), m.size());
        auto const first = all.begin() + 3;
        auto const middle = first + static_cast<std::ptrdiff_t>(all.at(2).begin);
        return {all.at(0), all.at(1), {first, middle}, {middle, all.end()}};
    }
};

struct figures {
    spread save{}, plan{}, plan_storage{}, syncs{}, storage{};
};
/// Returns the parts of these intervals that lie within another one.
intervals within(const interval& whole, intervals all) {
    for (auto& i : all) {
        i.begin = std::clamp(i.begin, whole.begin, whole.end);
        i.end = std::clamp(i.end, whole.begin, whole.end);
    }
    return all;
}
void add(figures& f, const std::vector<cairn::message>& parts) {
    std::uint64_t slowest = 0;
    interval plan{UINT64_MAX, 0};
    intervals syncs, all;
    for (auto const& m : parts) {
        auto const p = part::decode(m);
        slowest = std::max(slowest, p.save.end - p.save.begin);
        plan = {std::min(plan.begin, p.plan.begin), std::max(plan.end, p.plan.end)};
        syncs.insert(syncs.end(), p.syncs.begin(), p.syncs.end());
        all.insert(all.end(), p.others.begin(), p.others.end());
    }
    all.insert(all.end(), syncs.begin(), syncs.end());
    auto const ms = [](std::uint64_t us) { return static_cast<double>(us) / 1000; };
    auto const in_syncs = length_of_union(syncs);
    auto const of_plan = length_of_union(within(plan, all));
    f.save.add(ms(slowest));
    f.plan.add(ms(plan.end - plan.begin - of_plan));
    f.plan_storage.add(ms(of_plan));
    f.syncs.add(ms(in_syncs));
    f.storage.add(ms(length_of_union(all) - in_syncs));
}

/// A new folder for all ranks, which the first one removes.
class common_folder {
public:
    common_folder(const std::string& in, cairn::any_communicator& ranks) {
        cairn::message name;
        if (ranks.rank() == 0) {
            path_ = in + "/second_save.XXXXXX";
            if (mkdtemp(path_.data()) == nullptr)
                throw std::runtime_error(path_ + " cannot be created: " + std::strerror(errno));
            made_ = true;
            auto const text = std::as_bytes(std::span(path_));
            name.assign(text.begin(), text.end());
        }
        auto const told = cairn::await_completion<cairn::message>([&](auto done) {
            ranks.broadcast(std::move(name), 0, cairn::no_deadline, std::move(done));
        });
        path_.assign(reinterpret_cast<const char*>(told.data()), told.size());
    }
    common_folder(common_folder&&) = delete;
    ~common_folder() {
        std::error_code ignored;
        if (made_) std::filesystem::remove_all(path_, ignored);
    }
    const std::string& path() const noexcept { return path_; }

private:
    std::string path_{};
    bool made_ = false;
};

void run(const arguments& a, cairn::any_communicator& ranks) {
    common_folder const folder(a.dir, ranks);
    auto const each = std::int64_t{64}, all = each * ranks.size();
    std::vector<float> memory(static_cast<std::size_t>(each * a.parameters), 1.5f);
    cairn::state_dict sd;
    for (int p = 0; p < a.parameters; ++p) {
        cairn::box const mine({ranks.rank(), 0}, {1, each});
        cairn::tensor_view const v(cairn::dtype::float32, mine.shape, memory.data() + each * p);
        sd["model.layers." + std::to_string(p / 10) + ".block." + std::to_string(p % 10) +
           ".weight"] =
            cairn::sharded_view{{all / each, each}, cairn::dtype::float32, {cairn::shard(mine, v)}};
    }
    auto const times = std::make_shared<used>();
    timed_store store(cairn::file_store(""), times);
    cairn::plan_cache plans;
    planned_at const planned;
    figures first, later;
    for (int k = 0; k < a.saves; ++k) {
        gpt2::wait_for_all(ranks);
        part mine;
        mine.save.begin = now();
        cairn::save(sd, folder.path() + "/step_" + std::to_string(k), ranks, plans, store, planned);
        mine.save.end = now();
        mine.plan = {mine.save.begin, *planned.at};
        mine.syncs = std::exchange(times->syncs, {});
        mine.others = std::exchange(times->others, {});
        auto const parts = cairn::await_completion<std::vector<cairn::message>>([&](auto done) {
            ranks.gather(mine.encode(), 0, cairn::no_deadline, std::move(done));
        });
        if (ranks.rank() == 0) add(k == 0 ? first : later, parts);
    }
    if (ranks.rank() != 0) return;
    std::printf(
        "{\"ranks\": %d, \"parameters\": %d, \"saves\": %d, \"save_ms\": %s, "
        "\"plan_ms\": %s, \"plan_storage_ms\": %s, \"syncs_ms\": %s, \"storage_ms\": %s, "
        "\"first_plan_ms\": %.4g}\n",
        ranks.size(), a.parameters, a.saves, later.save.json().c_str(), later.plan.json().c_str(),
        later.plan_storage.json().c_str(), later.syncs.json().c_str(), later.storage.json().c_str(),
        first.plan.median());
}

bool parse(int argc, char** argv, arguments& a) {
    if (argc % 2 != 0) return false;
    a.dir = argv[1];
    for (int i = 2; i + 1 < argc; i += 2) {
        std::string_view const option = argv[i];
        auto* const to = option == "--ranks"        ? &a.ranks
                         : option == "--parameters" ? &a.parameters
                         : option == "--saves"      ? &a.saves
                                                    : nullptr;
        if (to == nullptr || (*to = std::atoi(argv[i + 1])) < 1) return false;
    }
    return a.saves > 1;
}

}  // namespace

int main(int argc, char** argv) {
    arguments a;
    if (argc < 2 || !parse(argc, argv, a)) {
        std::fprintf(stderr, "usage: second_save DIR [--ranks R] [--parameters P] [--saves K]\n");
        return 2;
    }
    try {
        cairn::run_launched_ranks(a.ranks, [&](cairn::any_communicator& ranks) { run(a, ranks); });
    } catch (const std::exception& e) {
        std::fprintf(stderr, "second_save: %s\n", e.what());
        return 1;
    }
}
