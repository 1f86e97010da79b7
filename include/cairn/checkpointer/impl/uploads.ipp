// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CHECKPOINTER_IMPL_UPLOADS_IPP
#define CAIRN_CHECKPOINTER_IMPL_UPLOADS_IPP

#include <cairn/checkpointer/detail/uploads.hpp>

#include <cairn/checkpointer/detail/upload_planner.hpp>
#include <cairn/comm/solo.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/error.hpp>
#include <cairn/save/detail/start_save.hpp>
#include <cairn/state/state_dict.hpp>
#include <cairn/verb/detail/flattened_or_error.hpp>

#include <algorithm>
#include <tuple>
#include <utility>

namespace cairn::detail {

CAIRN_DECL std::size_t uploads::size() const {
    std::lock_guard const lock(m_);
    return all_.size();
}

/// Tells `f` of the end, if only because all copies of it are destroyed.
CAIRN_DECL end_teller uploads::told_once(end_teller f) {
    struct teller {
        explicit teller(end_teller to) : f(std::move(to)) {}
        teller(teller&&) = delete;
        ~teller() {
            if (!f) return;
            std::exception_ptr why;
            try {
                why = std::make_exception_ptr(error(errc::abandoned, {}));
            } catch (...) {  // no memory
                why = std::current_exception();
            }
            f(why, nullptr);
        }
        end_teller f;
    };
    auto const t = std::make_shared<teller>(std::move(f));
    return [t](const std::exception_ptr& e, background_save* save) {
        if (auto const tell = std::exchange(t->f, nullptr)) tell(e, save);
    };
}

CAIRN_DECL auto uploads::add(const checkpoint_id& id, std::int64_t step) -> added {
    auto const u = std::make_shared<upload>();
    u->id = id;
    u->step = step;
    u->part = std::make_shared<written_part>();
    u->part->held = true;
    u->part->begun = [weak = weak_from_this(), at = std::weak_ptr(u)](auto const& saving) {
        auto const self = weak.lock();
        auto const one = at.lock();
        if (self && one) self->save_begun(*one, saving);
    };
    added a{u->part,
            told_once([self = shared_from_this(), u](auto const& e, auto*) { self->saved(u, e); })};
    std::lock_guard const lock(m_);
    all_.push_back(u);
    return a;
}

/// The first one that has not ended. @pre locked
CAIRN_DECL auto uploads::first_open() const -> upload_ptr {
    auto const it =
        std::find_if(all_.begin(), all_.end(), [](auto const& u) { return !u->ended(); });
    return it == all_.end() ? nullptr : *it;
}
/// The others may wait for this rank, whose save has not ended here: they have no part in what is
/// removed after a commit. While an upload runs, the lane has its activity. @pre locked
CAIRN_DECL void uploads::show_saving() noexcept {
    try {
        if (auto const u = first_open(); u && u->is == status::saving) lane_.share(u->saving);
    } catch (...) {  // e.g. no memory: the others wait no longer than usual
    }
}
CAIRN_DECL void uploads::save_begun(upload& u, const std::shared_ptr<cairn::activity>& saving) {
    std::lock_guard const lock(m_);
    u.saving = saving;
    show_saving();
}

CAIRN_DECL void uploads::saved(const upload_ptr& u, const std::exception_ptr& failure) noexcept {
    if (failure) {
        // The others may have succeeded, and would wait for this rank.
        if (is_in_doubt(failure)) lane_.cancel();
        end(u, failure);
        return begin_next();
    }
    {
        std::lock_guard const lock(m_);
        u->is = status::ready;
        u->saved = true;
        if (cancelled_) give_up(*u);
    }
    begin_next();
}
/// Ends one that has not begun. @pre locked
CAIRN_DECL void uploads::give_up(upload& u) noexcept {
    places_.from_catalog->release(u.part->save_id);
    u.is = status::failed;
    u.variables.reset();
    try {
        u.failure = std::make_exception_ptr(error(errc::cancelled, {}));
    } catch (...) {  // no memory
        u.failure = std::current_exception();
    }
    changed_.notify_all();
}

CAIRN_DECL void uploads::begin_next() noexcept {
    upload_ptr next;
    {
        std::lock_guard const lock(m_);
        next = first_open();
        if (!next || next->is != status::ready) return show_saving();
        next->is = status::running;
    }
    try {
        begin(next);
    } catch (...) {  // no memory: the others must not wait for this rank
        lane_.cancel();
        end(next, std::current_exception());
    }
}

CAIRN_DECL void uploads::begin(const upload_ptr& u) {
    state_dict nothing;
    auto const state = std::make_shared<flattened_or_error>(nothing);
    checkpointer_parts more;
    more.sinks = sinks_;
    more.verb = "upload";
    more.notes_environment = false;
    more.ended = told_once(
        [self = shared_from_this(), u](auto const& e, auto* save) { self->uploaded(u, e, save); });
    auto const begun = [self = shared_from_this(), u](std::exception_ptr e, pending_save p) {
        if (e) return;  // its end is told, too
        std::lock_guard const lock(self->m_);
        if (self->cancelled_) p.cancel();
        u->save = std::move(p);
    };
    upload_planner planner(places_.from, u->id, u->part);
    recording_writer writer(places_.to, options_.storage, places_.to_catalog, u->part->record);
    if (alone_)
        start_save(state, u->id, options_,
                   std::tuple<solo, upload_planner, recording_writer>(solo(), std::move(planner),
                                                                      std::move(writer)),
                   begun, more);
    else
        start_save(state, u->id, options_,
                   std::tuple<any_communicator&, upload_planner, recording_writer>(
                       lane_, std::move(planner), std::move(writer)),
                   begun, more);
}

CAIRN_DECL void uploads::uploaded(const upload_ptr& u, const std::exception_ptr& failure,
                                  background_save* save) noexcept {
    auto why = failure;
    try {
        if (save != nullptr) u->report = save->wait();
    } catch (...) {
        if (!why) why = std::current_exception();
    }
    end(u, why);
    begin_next();
}
CAIRN_DECL void uploads::end(const upload_ptr& u, const std::exception_ptr& failure) noexcept {
    places_.from_catalog->release(u->part->save_id);
    std::lock_guard const lock(m_);
    u->is = failure ? status::failed : status::completed;
    u->failure = failure;
    u->variables.reset();
    changed_.notify_all();
}

CAIRN_DECL earlier_save uploads::oldest(std::exception_ptr& why) const {
    std::lock_guard const lock(m_);
    if (all_.empty()) return earlier_save::none;
    auto const& u = *all_.front();
    if (u.ended() && !u.saved) return earlier_save::none;
    why = u.failure;
    return !u.ended()                  ? earlier_save::writing
           : u.is == status::completed ? earlier_save::completed
                                       : earlier_save::failed;
}
CAIRN_DECL auto uploads::take_oldest() -> result {
    upload_ptr u;
    {
        std::lock_guard const lock(m_);
        u = all_.front();
        all_.pop_front();
    }
    return {u->id, u->step, u->saved, u->failure, std::move(u->report)};
}
CAIRN_DECL void uploads::drop_newest() {
    std::lock_guard const lock(m_);
    if (!all_.empty()) all_.pop_back();
}

CAIRN_DECL void uploads::finish_oldest(const pulse& now_and_then) {
    std::unique_lock lock(m_);
    auto const done = [&] { return all_.empty() || all_.front()->ended(); };
    while (!changed_.wait_for(lock, now_and_then.period, done)) now_and_then.each();
}
CAIRN_DECL bool uploads::finish(deadline by) {
    std::unique_lock lock(m_);
    auto const done = [&] {
        return std::all_of(all_.begin(), all_.end(), [](auto const& u) { return u->ended(); });
    };
    if (by != no_deadline) return changed_.wait_until(lock, by, done);
    changed_.wait(lock, done);
    return true;
}
CAIRN_DECL void uploads::finish(const checkpoint_id& id, std::size_t most,
                                const pulse& now_and_then) {
    std::unique_lock lock(m_);
    auto const done = [&] {
        std::size_t left = 0;
        for (auto const& u : all_) {
            if (u->ended()) continue;
            if (u->id == id || ++left > most) return false;
        }
        return true;
    };
    while (!changed_.wait_for(lock, now_and_then.period, done)) now_and_then.each();
}
CAIRN_DECL void uploads::cancel() noexcept {
    std::lock_guard const lock(m_);
    cancelled_ = true;
    for (auto const& u : all_) {
        if (u->is == status::ready) give_up(*u);
        if (u->is != status::running) continue;
        if (u->save)
            u->save.cancel();
        else
            lane_.cancel();  // it may wait for another rank
    }
}

}  // namespace cairn::detail

#endif
