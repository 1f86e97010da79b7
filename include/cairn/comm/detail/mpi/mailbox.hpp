// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_MPI_MAILBOX_HPP
#define CAIRN_COMM_DETAIL_MPI_MAILBOX_HPP

#include <cairn/comm/detail/mpi/agree.hpp>
#include <cairn/comm/detail/tree/frame_assembler.hpp>

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Describes memory as one MPI datatype, to be passed with MPI_BOTTOM and a count of 1: without the
/// limit of INT_MAX bytes, and without a copy.
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
    /// The caller frees the type, which is allowed during a transfer.
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

/// Exchanges frames with the ranks of a communicator that is used for nothing else. A long frame is
/// sent in pieces, one message each, so that progress is visible. Not thread-safe. MPI errors are
/// returned, because the communicator's error handler is set so.
///
/// A rank that ends sends each of its peers a `close` and receives one from each (`answer_close`):
/// then nothing is in flight in either direction. Only then may the communicator be freed: Open MPI
/// reuses its context id for the next one, which would receive a message that is still in flight.
class mpi_mailbox {
public:
    static constexpr std::size_t piece_bytes = std::size_t{4} << 20;
    struct mail {
        enum class kind {
            heard,  ///< Something was received.
            moved,  ///< A part of a long frame was sent or received.
            frame,
            broken
        };
        int from = 0;
        kind is = kind::heard;
        tree_frame frame{};
        std::string why{};  ///< For `broken`.
    };

    /// @param peers  Ranks that may send to this rank, and receive from it.
    mpi_mailbox(MPI_Comm comm, std::set<int> peers) : comm_(comm), present_(std::move(peers)) {}

    void send(int to, std::shared_ptr<const tree_frame> f) {
        if (closed_to_.count(to) != 0) return;
        if (f->what == tree_frame::type::close) closed_to_.insert(to);
        auto const whole = std::make_shared<const outgoing_frame>(std::move(f));
        // The first piece contains the entire head.
        auto most = std::max(piece_bytes, whole->head.size());
        std::vector<std::span<const std::byte>> parts;
        std::size_t bytes = 0;
        for (auto rest : whole->spans()) {
            while (!rest.empty()) {
                if (bytes == most) {
                    if (!post(to, whole, parts, false)) return;
                    parts.clear();
                    bytes = 0;
                    most = piece_bytes;
                }
                auto const n = std::min(rest.size(), most - bytes);
                parts.push_back(rest.first(n));
                bytes += n;
                rest = rest.subspan(n);
            }
        }
        post(to, whole, parts, true);
    }

    /// Sends the last frame to a peer.
    void close(int to) {
        auto const f = std::make_shared<tree_frame>();
        f->what = tree_frame::type::close;
        send(to, f);
    }
    void close_all() {
        for (int to : present_) close(to);
    }
    /// Answers a peer's close, after everything else was sent to it.
    void answer_close(int to) {
        present_.erase(to);
        close(to);
    }

    /// Advances all operations in flight.
    /// @return The mail received; in order for each sending rank.
    std::vector<mail> poll() {
        auto news = std::exchange(failed_, {});
        for (auto o = out_.begin(); o != out_.end();) {
            int done = 0;
            auto const code = MPI_Test(&o->request, &done, MPI_STATUS_IGNORE);
            if (code != MPI_SUCCESS) news.push_back(broken(o->to, mpi_text(code)));
            if (code == MPI_SUCCESS && done != 0 && !o->last)
                news.push_back({o->to, mail::kind::moved, {}, {}});
            o = done != 0 || code != MPI_SUCCESS ? out_.erase(o) : std::next(o);
        }
        while (accept(news)) {
        }
        for (auto& [from, in] : in_)
            while (!in.queue.empty() && receive(from, in, news)) in.queue.pop_front();
        return news;
    }

    /// A message is being received.
    bool receiving() const noexcept {
        return std::any_of(in_.begin(), in_.end(),
                           [](const auto& from) { return !from.second.queue.empty(); });
    }
    /// Whether everything was sent; true at once for short frames.
    bool idle() const noexcept { return out_.empty(); }
    /// Whether all peers have closed; nothing more will be received.
    bool parted() const noexcept { return present_.empty(); }

    /// Ends all transfers. Those in flight need their memory for as long as MPI runs.
    /// @return Whether there were none.
    bool end() {
        bool clean = parted() && idle();
        for (auto& o : out_) abandon(o.request, o.frame);
        out_.clear();
        for (auto& [from, in] : in_) {
            for (auto& i : in.queue) {
                clean = false;
                abandon(i.request, i.bytes);
            }
        }
        in_.clear();
        return clean;
    }

private:
    static constexpr int tag = 0;
    struct outgoing_frame {
        explicit outgoing_frame(std::shared_ptr<const tree_frame> f)
            : frame(std::move(f)), head(encode_frame_head(*frame)) {}
        std::vector<std::span<const std::byte>> spans() const {
            std::vector<std::span<const std::byte>> all{head};
            for (auto const& e : frame->entries) all.push_back(*e.bytes);
            return all;
        }
        std::shared_ptr<const tree_frame> frame;
        message head;
    };
    struct outgoing {
        int to = 0;
        bool last = true;  ///< The last piece of its frame.
        std::shared_ptr<const outgoing_frame> frame{};
        MPI_Request request = MPI_REQUEST_NULL;
    };
    struct piece {
        std::shared_ptr<std::byte[]> bytes{};
        std::size_t size = 0;
        MPI_Request request = MPI_REQUEST_NULL;
    };
    struct incoming {
        std::deque<piece> queue{};
        frame_assembler frame{};
    };

    static mail broken(int from, std::string why) {
        return {from, mail::kind::broken, {}, std::move(why)};
    }
    bool post(int to, const std::shared_ptr<const outgoing_frame>& f,
              const std::vector<std::span<const std::byte>>& parts, bool last) {
        auto& o = out_.emplace_back();
        o.to = to;
        o.last = last;
        o.frame = f;
        mpi_blocks b;
        for (auto const& p : parts) b.add(p.data(), p.size());
        auto type = b.type();
        auto const code = MPI_Isend(MPI_BOTTOM, 1, type, to, tag, comm_, &o.request);
        MPI_Type_free(&type);
        if (code == MPI_SUCCESS) return true;
        out_.pop_back();
        failed_.push_back(broken(to, mpi_text(code)));
        return false;
    }

    /// Takes the next message's envelope, if there is one. Matched at once, so that a long message
    /// does not hide those behind it.
    bool accept(std::vector<mail>& news) {
        int there = 0;
        MPI_Message m = MPI_MESSAGE_NULL;
        MPI_Status s{};
        auto const code = MPI_Improbe(MPI_ANY_SOURCE, tag, comm_, &there, &m, &s);
        if (code != MPI_SUCCESS) {
            for (int p : present_) news.push_back(broken(p, mpi_text(code)));
            return false;
        }
        if (there == 0) return false;
        MPI_Count n = 0;
        mpi_check(MPI_Get_elements_x(&s, MPI_BYTE, &n), "MPI_Get_elements_x");
        piece i;
        i.size = static_cast<std::size_t>(n);
        try {
            // Not initialized with zeros.
            i.bytes = std::shared_ptr<std::byte[]>(new std::byte[i.size]);
        } catch (const std::bad_alloc&) {
            news.push_back(broken(s.MPI_SOURCE, "no memory for its message"));
            return true;
        }
        mpi_blocks b;
        b.add(i.bytes.get(), i.size);
        auto type = b.type();
        auto const taken = MPI_Imrecv(MPI_BOTTOM, 1, type, &m, &i.request);
        MPI_Type_free(&type);
        if (taken == MPI_SUCCESS)
            in_[s.MPI_SOURCE].queue.push_back(std::move(i));
        else
            news.push_back(broken(s.MPI_SOURCE, mpi_text(taken)));
        news.push_back({s.MPI_SOURCE, mail::kind::heard, {}, {}});
        return true;
    }
    /// Tests the oldest transfer from a rank. @return Whether it has ended.
    bool receive(int from, incoming& in, std::vector<mail>& news) {
        int done = 0;
        auto& i = in.queue.front();
        auto const code = MPI_Test(&i.request, &done, MPI_STATUS_IGNORE);
        if (code == MPI_SUCCESS && done == 0) return false;
        if (code != MPI_SUCCESS) {
            news.push_back(broken(from, mpi_text(code)));
            return true;
        }
        try {
            if (auto f = in.frame.add({i.bytes.get(), i.size}))
                news.push_back({from, mail::kind::frame, std::move(*f), {}});
            else
                news.push_back({from, mail::kind::moved, {}, {}});
        } catch (const error& e) {
            news.push_back(broken(from, e.what()));
        }
        return true;
    }

    /// Frees the request but keeps its memory: MPI libraries do not support cancelling sends.
    static void abandon(MPI_Request& r, std::shared_ptr<const void> memory) {
        static std::mutex m;
        static auto* const kept = new std::vector<std::shared_ptr<const void>>();
        if (r == MPI_REQUEST_NULL) return;
        MPI_Request_free(&r);
        std::lock_guard const lock(m);
        kept->push_back(std::move(memory));
    }

    MPI_Comm comm_;
    std::set<int> present_;      ///< Peers that have not closed.
    std::set<int> closed_to_{};  ///< Peers to which this rank has sent its close.
    std::list<outgoing> out_{};
    std::map<int, incoming> in_{};
    std::vector<mail> failed_{};
};

}  // namespace cairn::detail

#endif
