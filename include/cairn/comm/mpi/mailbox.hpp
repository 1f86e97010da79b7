// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_MPI_MAILBOX_HPP
#define CAIRN_COMM_MPI_MAILBOX_HPP

#include <cairn/comm/mpi/agree.hpp>
#include <cairn/comm/tree/frame.hpp>

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Memory as one MPI datatype, to be passed with MPI_BOTTOM and a count of 1: no limit of INT_MAX
/// bytes, and nothing is copied.
class mpi_blocks {
public:
    void add(const void* at, std::size_t bytes) {
        constexpr std::size_t most = std::size_t{1} << 30;
        for (auto const* p = static_cast<const std::byte*>(at); bytes > 0;) {
            auto const n = std::min(bytes, most);
            MPI_Aint where = 0;
            mpi_check(MPI_Get_address(p, &where), "MPI_Get_address");
            places_.push_back(where);
            lengths_.push_back(static_cast<int>(n));
            p += n;
            bytes -= n;
        }
    }
    /// The caller frees it; may do so while a transfer is under way.
    MPI_Datatype type() const {
        MPI_Datatype t = MPI_DATATYPE_NULL;
        mpi_check(MPI_Type_create_hindexed(static_cast<int>(places_.size()), lengths_.data(),
                                           places_.data(), MPI_BYTE, &t),
                  "MPI_Type_create_hindexed");
        mpi_check(MPI_Type_commit(&t), "MPI_Type_commit");
        return t;
    }

private:
    std::vector<MPI_Aint> places_{};
    std::vector<int> lengths_{};
};

/// Frames to and from the ranks of a communicator that nobody else uses. A frame is one message.
/// Not thread-safe. Errors of MPI are returned by it, not fatal: the communicator's handler says
/// so.
///
/// Who leaves says so with a frame to each of its peers, and gets one back (`goodbye`): then
/// nothing is under way any more, in neither direction. Only then may the communicator be freed:
/// Open MPI gives its number to the next one, and a straggling message with it.
class mpi_mailbox {
public:
    struct mail {
        int from = 0;
        bool whole = false;  ///< Else only the envelope has come: the rank lives.
        tree_frame frame{};
        std::string broken{};  ///< What is wrong with it, or with the rank.
    };

    /// @param peers  Who may send to this rank, and hear from it.
    mpi_mailbox(MPI_Comm comm, std::set<int> peers, std::uint64_t epoch)
        : comm_(comm), present_(std::move(peers)), epoch_(epoch) {}

    void send(int to, std::shared_ptr<const tree_frame> f) {
        if (parting_.count(to) != 0) return;
        if (f->what == tree_frame::type::leave) parting_.insert(to);
        outgoing& o = out_.emplace_back();
        o.to = to;
        o.head = encode_frame_head(*f);
        o.frame = std::move(f);
        mpi_blocks b;
        b.add(o.head.data(), o.head.size());
        for (auto const& e : o.frame->entries) b.add(e.bytes->data(), e.bytes->size());
        auto type = b.type();
        auto const code = MPI_Isend(MPI_BOTTOM, 1, type, to, tag, comm_, &o.request);
        MPI_Type_free(&type);
        if (code == MPI_SUCCESS) return;
        out_.pop_back();
        failed_.push_back({.from = to, .broken = mpi_text(code)});
    }

    /// Nothing is sent to it after this.
    void leave(int to) {
        auto const f = std::make_shared<tree_frame>();
        f->what = tree_frame::type::leave;
        f->epoch = epoch_;
        send(to, f);
    }
    void leave_all() {
        for (int to : present_) leave(to);
    }
    /// The answer to a peer's leave, once all else has been sent to it.
    void goodbye(int to) {
        present_.erase(to);
        leave(to);
    }

    /// One step of all that is under way.
    /// @return What has come: of one rank in the order in which it sent.
    std::vector<mail> poll() {
        auto news = std::exchange(failed_, {});
        for (auto o = out_.begin(); o != out_.end();) {
            int done = 0;
            auto const code = MPI_Test(&o->request, &done, MPI_STATUS_IGNORE);
            if (code != MPI_SUCCESS) news.push_back({.from = o->to, .broken = mpi_text(code)});
            o = done != 0 || code != MPI_SUCCESS ? out_.erase(o) : std::next(o);
        }
        while (accept(news)) {
        }
        for (auto& [from, queue] : in_)
            while (!queue.empty() && receive(from, queue, news)) queue.pop_front();
        return news;
    }

    /// A long message is coming in.
    bool receiving() const noexcept {
        return std::any_of(in_.begin(), in_.end(),
                           [](const auto& from) { return !from.second.empty(); });
    }
    /// All that was sent has gone out: at once, if it was short.
    bool idle() const noexcept { return out_.empty(); }
    /// Everybody has said goodbye; nothing more comes.
    bool parted() const noexcept { return present_.empty(); }

    /// Ends it. What is still under way needs its memory for as long as MPI runs.
    /// @return Whether nothing was.
    bool close() {
        bool clean = parted() && idle();
        for (auto& o : out_) abandon(o.request, std::make_shared<outgoing>(std::move(o)));
        out_.clear();
        for (auto& [from, queue] : in_) {
            for (auto& i : queue) {
                clean = false;
                abandon(i.request, i.bytes);
            }
        }
        in_.clear();
        return clean;
    }

private:
    static constexpr int tag = 0;
    struct outgoing {
        int to = 0;
        message head{};
        std::shared_ptr<const tree_frame> frame{};
        MPI_Request request = MPI_REQUEST_NULL;
    };
    struct incoming {
        std::shared_ptr<std::byte[]> bytes{};
        std::size_t size = 0;
        MPI_Request request = MPI_REQUEST_NULL;
    };

    /// Takes the next message's envelope, if there is one. Matched at once, so that a long one
    /// does not keep those behind it from being seen.
    bool accept(std::vector<mail>& news) {
        int there = 0;
        MPI_Message m = MPI_MESSAGE_NULL;
        MPI_Status s{};
        auto const code = MPI_Improbe(MPI_ANY_SOURCE, tag, comm_, &there, &m, &s);
        if (code != MPI_SUCCESS) {
            for (int p : present_) news.push_back({.from = p, .broken = mpi_text(code)});
            return false;
        }
        if (there == 0) return false;
        MPI_Count n = 0;
        mpi_check(MPI_Get_elements_x(&s, MPI_BYTE, &n), "MPI_Get_elements_x");
        incoming i;
        i.size = static_cast<std::size_t>(n);
        try {
            // Not filled with zeros first.
            i.bytes = std::shared_ptr<std::byte[]>(new std::byte[i.size]);
        } catch (const std::bad_alloc&) {
            news.push_back({.from = s.MPI_SOURCE, .broken = "no memory for what it sends"});
            return true;
        }
        mpi_blocks b;
        b.add(i.bytes.get(), i.size);
        auto type = b.type();
        auto const taken = MPI_Imrecv(MPI_BOTTOM, 1, type, &m, &i.request);
        MPI_Type_free(&type);
        if (taken == MPI_SUCCESS)
            in_[s.MPI_SOURCE].push_back(std::move(i));
        else
            news.push_back({.from = s.MPI_SOURCE, .broken = mpi_text(taken)});
        news.push_back({.from = s.MPI_SOURCE});
        return true;
    }
    /// The first that is under way from a rank: whether it has come.
    bool receive(int from, std::deque<incoming>& queue, std::vector<mail>& news) {
        int done = 0;
        auto& i = queue.front();
        auto const code = MPI_Test(&i.request, &done, MPI_STATUS_IGNORE);
        if (code == MPI_SUCCESS && done == 0) return false;
        auto& m = news.emplace_back();
        m.from = from;
        if (code != MPI_SUCCESS) {
            m.broken = mpi_text(code);
            return true;
        }
        try {
            m.frame = decode_frame({i.bytes.get(), i.size});
            m.whole = true;
        } catch (const error& e) {
            m.broken = e.what();
        }
        return true;
    }

    /// MPI cannot be made to let go of it: sends are not cancelled by the libraries there are.
    static void abandon(MPI_Request& r, std::shared_ptr<const void> memory) {
        static std::mutex m;
        static auto* const kept = new std::vector<std::shared_ptr<const void>>();
        if (r == MPI_REQUEST_NULL) return;
        MPI_Request_free(&r);
        std::lock_guard const lock(m);
        kept->push_back(std::move(memory));
    }

    MPI_Comm comm_;
    std::set<int> present_;  ///< Peers that have not said goodbye.
    std::set<int> parting_{};  ///< Those to whom this rank has.
    std::uint64_t epoch_;
    std::list<outgoing> out_{};
    std::map<int, std::deque<incoming>> in_{};
    std::vector<mail> failed_{};
};

}  // namespace cairn::detail

#endif
