// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTING_DETAIL_PROBE_HPP
#define CAIRN_TESTING_DETAIL_PROBE_HPP

#include <cairn/storage/concepts.hpp>

#include <atomic>
#include <concepts>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace cairn::testing::detail {

/// One call of the storage protocol, in the order of a save and of a load.
enum class call {
    reset,
    set_up,
    prepare_local,
    prepare_global,
    write,
    finish,
    committed,
    abandon,
    sweep,
    read_metadata,
    read_values,
    read  // of tensors; only in a load
};
inline const char* name_of(call c) {
    constexpr const char* names[] = {"reset", "set_up",        "prepare_local", "prepare_global",
                                     "write", "finish",        "committed",     "abandon",
                                     "sweep", "read_metadata", "read values",   "read"};
    return names[static_cast<int>(c)];
}

/// Is notified before and after each call of each rank. What it throws is that call's failure. If
/// `before` throws, the model does not see the call; if `after` does, the call has its effect and
/// its result is lost.
struct watcher {
    std::function<void(call, int rank)> before = [](call, int) {};
    std::function<void(call, int rank)> after = [](call, int) {};
    /// Completions that a model dropped instead of calling them.
    std::atomic<int> dropped{0};
};

/// Returns a completion that calls `done`. What `then` throws when the operation succeeded is its
/// failure.
template <class T, class Then>
completion<T> watched(completion<T> done, watcher& w, Then then) {
    return completion<T>(
        [done = std::move(done), &w, then](std::exception_ptr e, std::optional<T> r) mutable {
            // A model that throws may drop the completion.
            bool const thrown = std::uncaught_exceptions() > 0;
            try {
                if (e) std::rethrow_exception(e);
                then();
            } catch (const error& x) {
                if (!thrown && x.code() == make_error_code(errc::abandoned)) ++w.dropped;
                return done.fail(std::current_exception());
            } catch (...) {
                return done.fail(std::current_exception());
            }
            done(std::move(*r));
        });
}

/// A model whose calls are reported to a watcher.
template <class Model>
class probe {
public:
    probe(Model inner, int rank, watcher& w) : inner_(std::move(inner)), rank_(rank), w_(&w) {}

protected:
    template <class F>
    void around(call c, F&& f) {
        w_->before(c, rank_);
        f();
        w_->after(c, rank_);
    }
    /// Reports the beginning of a call, and its end by the completion that is returned.
    template <class T>
    completion<T> begin(call c, completion<T> done) {
        w_->before(c, rank_);
        return watched(std::move(done), *w_, [this, c] { w_->after(c, rank_); });
    }
    Model inner_;

private:
    int rank_;
    watcher* w_;
};

/// A StorageWriter whose calls are reported to a watcher.
template <StorageWriter Writer>
class probed_writer : probe<Writer> {
    using probe<Writer>::around;
    using probe<Writer>::begin;
    using probe<Writer>::inner_;

public:
    using probe<Writer>::probe;

    void reset(const checkpoint_id& id) {
        around(call::reset, [&] { inner_.reset(id); });
    }
    void set_up_writer(const storage_setup& s) {
        around(call::set_up, [&] { inner_.set_up_writer(s); });
    }
    save_plan prepare_local_save_plan(save_plan p) {
        around(call::prepare_local, [&] { p = inner_.prepare_local_save_plan(std::move(p)); });
        return p;
    }
    std::vector<save_plan> prepare_global_save_plan(std::vector<save_plan> p) {
        around(call::prepare_global, [&] { p = inner_.prepare_global_save_plan(std::move(p)); });
        return p;
    }
    void write_data(const save_plan& plan, const std::span<const item_data>& data,
                    completion<write_results> done) {
        inner_.write_data(plan, data, begin(call::write, std::move(done)));
    }
    void finish(const metadata& m, completion<commit_result> done) {
        inner_.finish(m, begin(call::finish, std::move(done)));
    }
    bool committed(const std::string& save_id) {
        bool yes = false;
        around(call::committed, [&] { yes = inner_.committed(save_id); });
        return yes;
    }
    bool abandon() noexcept {
        bool gone = false;
        around(call::abandon, [&] { gone = inner_.abandon(); });
        return gone;
    }
    std::vector<std::string> name_files(std::span<const cairn::stored_amount> stored)
        requires NamingWriter<Writer>
    {
        std::vector<std::string> names;
        around(call::prepare_global, [&] { names = inner_.name_files(stored); });
        return names;
    }
    void sweep(save_end end, completion<sweep_result> done) {
        inner_.sweep(end, begin(call::sweep, std::move(done)));
    }
};

/// A StorageReader whose calls are reported to a watcher.
template <StorageReader Reader>
class probed_reader : probe<Reader> {
    using probe<Reader>::around;
    using probe<Reader>::begin;
    using probe<Reader>::inner_;

public:
    using probe<Reader>::probe;

    void reset(const checkpoint_id& id) {
        around(call::reset, [&] { inner_.reset(id); });
    }
    metadata read_metadata() {
        metadata m;
        around(call::read_metadata, [&] { m = inner_.read_metadata(); });
        return m;
    }
    stored_index read_index()
        requires IndexReader<Reader>
    {
        stored_index i;
        around(call::read_metadata, [&] { i = inner_.read_index(); });
        return i;
    }
    void set_up_reader(const metadata& m, const storage_setup& s) {
        around(call::set_up, [&] { inner_.set_up_reader(m, s); });
    }
    load_plan prepare_local_load_plan(load_plan p) {
        around(call::prepare_local, [&] { p = inner_.prepare_local_load_plan(std::move(p)); });
        return p;
    }
    std::vector<load_plan> prepare_global_load_plan(std::vector<load_plan> p) {
        around(call::prepare_global, [&] { p = inner_.prepare_global_load_plan(std::move(p)); });
        return p;
    }
    void read_data(const load_plan& plan, const read_target& target, completion<read_result> done) {
        bool const values = !plan.items.empty() && plan.items.front().kind == item_kind::value;
        auto const what = values ? call::read_values : call::read;
        inner_.read_data(plan, target, begin(what, std::move(done)));
    }
    void check_unchanged()
        requires VersionedReader<Reader>
    {
        inner_.check_unchanged();
    }
};

}  // namespace cairn::testing::detail

#endif
