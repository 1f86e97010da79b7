// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_FAKE_NCCL_HPP
#define CAIRN_TEST_SUPPORT_FAKE_NCCL_HPP

#include "support/fake_cuda.hpp"

namespace support {

struct fake_comm;

/// NCCL's rules for `n` ranks of one process, each on a device of its own: operations of a
/// communicator run in the order of their launches, one at a time, whatever their streams; a
/// collective ends when all ranks have come to it, and they must come to the same one, with the
/// same count; errors come later.
///
/// Where real NCCL hangs, so does this, until the communicator is aborted or the world ends.
class fake_world {
public:
    struct how {
        bool blocking = true;        ///< `ncclConfig_t::blocking`.
        bool remote_errors = false;  ///< Ranks notice when another aborts, as over a network.
    };
    explicit fake_world(int n) : fake_world(n, how{}) {}
    fake_world(int n, how h);
    fake_world(fake_world&&) = delete;
    ~fake_world();

    fake_comm* comm(int rank) { return comms_[static_cast<std::size_t>(rank)].get(); }
    /// The `nth` launch of a rank, from 1, never ends, and its communicator has an error.
    /// @param at_once  The launch itself says so.
    void inject(int rank, int nth, bool at_once = false);
    int launches(int rank);
    /// What no correct program does: mismatches, foreign memory, handles used after their end.
    std::vector<std::string> broken_rules();
    /// Allocations and streams that nobody gave back.
    std::size_t in_use();

private:
    friend struct fake_nccl;
    using guard = std::unique_lock<std::mutex>;
    enum class kind { all_gather, broadcast };
    struct part {
        device_address from{}, to{};
    };
    struct meeting {
        kind what = kind::all_gather;
        std::size_t bytes = 0;
        int root = 0;
        std::size_t arrived = 0;
        bool done = false;
        std::map<int, part> parts{};
    };
    template <class Body>
    cairn::nccl_status launch(fake_comm* c, fake_device::stream* s, Body body);
    void meet(guard& lock, fake_comm* c, std::uint64_t which, meeting spec, part mine);
    void fail_all(const std::string& why);
    bool ended(const fake_comm* c) const;
    void move(int from_device, device_address from, int to_device, device_address to,
              std::size_t n) {
        std::vector<std::byte> bytes(n);
        auto& all = fake_devices::all();
        all.find(from_device)->with(from, n, [&](auto* p) { std::memcpy(bytes.data(), p, n); });
        all.find(to_device)->with(to, n, [&](auto* p) { std::memcpy(p, bytes.data(), n); });
    }

    how how_;
    std::mutex m_{};
    std::condition_variable changed_{};
    std::vector<std::unique_ptr<fake_comm>> comms_{};
    std::map<std::uint64_t, meeting> meetings_{};
    std::vector<std::string> broken_{};
    bool over_ = false;
};

struct fake_comm {
    fake_world* world = nullptr;
    int rank = 0;
    int device = -1;
    int launches = 0;
    int bad_launch = 0;
    bool bad_at_once = false;
    int busy = 0;                ///< Questions until a launch that does not block is in the stream.
    std::uint64_t in_order = 0;  ///< Operations launched …
    std::uint64_t executed = 0;  ///< … and ended.
    std::uint64_t collectives = 0;
    std::string error{};
    bool remote = false;
    bool aborted = false;
};

inline fake_world::fake_world(int n, how h) : how_(h) {
    for (int r = 0; r < n; ++r) {
        comms_.push_back(std::make_unique<fake_comm>());
        comms_.back()->world = this;
        comms_.back()->rank = r;
        comms_.back()->device = fake_devices::all().add();
    }
}
inline fake_world::~fake_world() {
    {
        guard const lock(m_);
        over_ = true;
        changed_.notify_all();
    }
    for (auto& c : comms_) fake_devices::all().remove(c->device);
}
inline void fake_world::inject(int rank, int nth, bool at_once) {
    guard const lock(m_);
    comm(rank)->bad_launch = nth;
    comm(rank)->bad_at_once = at_once;
}
inline int fake_world::launches(int rank) {
    guard const lock(m_);
    return comm(rank)->launches;
}
inline std::vector<std::string> fake_world::broken_rules() {
    guard const lock(m_);
    auto all = broken_;
    for (auto& c : comms_)
        for (auto& rule : fake_devices::all().find(c->device)->broken_rules()) all.push_back(rule);
    return all;
}
inline std::size_t fake_world::in_use() {
    std::size_t n = 0;
    for (auto& c : comms_) n += fake_devices::all().find(c->device)->in_use();
    return n;
}
inline bool fake_world::ended(const fake_comm* c) const {
    return over_ || c->aborted;
}
inline void fake_world::fail_all(const std::string& why) {
    broken_.push_back(why);
    for (auto& c : comms_)
        if (c->error.empty()) c->error = "internal error: " + why;
}

template <class Body>
cairn::nccl_status fake_world::launch(fake_comm* c, fake_device::stream* s, Body body) {
    using state = cairn::nccl_status::state;
    guard const lock(m_);
    if (c->aborted) {
        broken_.push_back("a launch on an aborted communicator");
        return {state::failed, "aborted"};
    }
    if (c->busy != 0) {
        broken_.push_back("a launch while another has not been made yet");
        return {state::failed, "invalid usage"};
    }
    if (fake_devices::current() != c->device)
        broken_.push_back("a launch from another device than the communicator's");
    if (!c->error.empty()) return {c->remote ? state::remote : state::failed, c->error};
    if (++c->launches == c->bad_launch) {
        c->error = "injected";
        if (c->bad_at_once) return {state::failed, c->error};
    }
    fake_devices::all().find(c->device)->enqueue(s, [this, c, turn = c->in_order++, body] {
        guard mine(m_);
        changed_.wait(mine, [&] { return (c->executed == turn && c->error.empty()) || ended(c); });
        if (ended(c)) return;
        body(mine);
        ++c->executed;
        changed_.notify_all();
    });
    if (how_.blocking) return {};
    c->busy = 2;
    return {state::running, {}};
}

inline void fake_world::meet(guard& lock, fake_comm* c, std::uint64_t which, meeting spec,
                             part mine) {
    auto& at = meetings_[which];
    if (at.arrived == 0) at = spec;
    if (at.what != spec.what || at.bytes != spec.bytes || at.root != spec.root) {
        fail_all("ranks launched different collectives");
    } else {
        at.parts[c->rank] = mine;
        if (++at.arrived == comms_.size()) {
            for (auto const& [from, p] : at.parts) {
                if (at.what == kind::broadcast && from != at.root) continue;
                auto const place =
                    at.what == kind::broadcast ? 0 : at.bytes * static_cast<std::size_t>(from);
                for (auto const& [to, q] : at.parts)
                    move(comm(from)->device, p.from, comm(to)->device, q.to + place, at.bytes);
            }
            at.done = true;
        }
    }
    changed_.notify_all();
    changed_.wait(lock, [&] { return at.done || ended(c); });
}

/// The API over such worlds; see `cairn::NcclApi`.
struct fake_nccl {
    using comm = fake_comm*;
    using stream = fake_device::stream*;
    using event = fake_device::event*;
    using device_pointer = device_address;
    using status = cairn::nccl_status;
    using state = status::state;

    static status rank(comm c, int& out) { return out = c->rank, status{}; }
    static status count(comm c, int& out) {
        return out = static_cast<int>(c->world->comms_.size()), status{};
    }
    static status device(comm c, int& out) { return out = c->device, status{}; }
    static status async_error(comm c) {
        fake_world::guard const lock(c->world->m_);
        if (c->aborted) {
            c->world->broken_.push_back("a question to an aborted communicator");
            return {state::failed, "aborted"};
        }
        if (!c->error.empty()) return {c->remote ? state::remote : state::failed, c->error};
        return c->busy > 0 && --c->busy > 0 ? status{state::running, {}} : status{};
    }
    static status abort(comm c) {
        auto& w = *c->world;
        fake_world::guard const lock(w.m_);
        if (c->aborted) w.broken_.push_back("an abort of an aborted communicator");
        c->aborted = true;
        for (auto& other : w.comms_) {
            if (!w.how_.remote_errors || other.get() == c || !other->error.empty()) continue;
            other->error = "remote error: a connection was closed";
            other->remote = true;
        }
        w.changed_.notify_all();
        return {};
    }
    static status all_gather(device_pointer from, device_pointer to, std::size_t each, comm c,
                             stream s) {
        auto const place = to + each * static_cast<std::size_t>(c->rank);
        if (from.at != place.at) return {state::failed, "the fake gathers in place only"};
        return collective({fake_world::kind::all_gather, each}, {from, to}, c, s);
    }
    static device_pointer address(std::byte* at, int device) {
        return {device, reinterpret_cast<std::uintptr_t>(at)};
    }
    static status broadcast(device_pointer at, std::size_t n, int root, comm c, stream s) {
        return collective({fake_world::kind::broadcast, n, root}, {at, at}, c, s);
    }
    /// The calling thread's; -1: it has never set one.
    static int current_device() { return fake_devices::current(); }
    static status set_device(int d) {
        fake_devices::current() = d;
        return here() != nullptr ? status{} : status{state::failed, "no such device"};
    }
    static status create(stream& s) { return s = here()->create_stream(), status{}; }
    static status destroy(stream s) { return here()->destroy_stream(s), status{}; }
    static status create(event& e) { return e = here()->create_event(), status{}; }
    static status destroy(event) { return {}; }
    static status record(event e, stream s) { return ok(here()->record(e, s)); }
    static status query(event e) {
        return here()->reached(e) ? status{} : status{state::running, {}};
    }
    static status allocate_device(device_pointer& p, std::size_t n) {
        return p = here()->allocate(n), status{};
    }
    static status release_device(device_pointer p) { return ok(here()->release(p)); }
    static status allocate_pinned(std::byte*& p, std::size_t n) {
        return p = here()->allocate_pinned(n), status{};
    }
    static status release_pinned(std::byte* p) { return ok(here()->release_pinned(p)); }
    static status to_device(device_pointer to, const std::byte* from, std::size_t n, stream s) {
        return copy(const_cast<std::byte*>(from), to, n, s, true);
    }
    static status to_host(std::byte* to, device_pointer from, std::size_t n, stream s) {
        return copy(to, from, n, s, false);
    }

private:
    static fake_device* here() { return fake_devices::all().find(fake_devices::current()); }
    static status ok(bool yes) {
        return yes ? status{} : status{state::failed, "invalid argument"};
    }
    static status copy(std::byte* host, device_pointer a, std::size_t n, stream s, bool there) {
        auto* const d = here();
        return ok(d->enqueue(s, [=] { d->copy(host, a, n, there); }));
    }
    static status collective(fake_world::meeting spec, fake_world::part mine, comm c, stream s) {
        auto* const w = c->world;
        return w->launch(c, s, [=, which = c->collectives++](auto& lock) {
            w->meet(lock, c, which, spec, mine);
        });
    }
};
static_assert(cairn::NcclApi<fake_nccl>);

}  // namespace support

#endif
