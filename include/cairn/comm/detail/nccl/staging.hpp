// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_NCCL_STAGING_HPP
#define CAIRN_COMM_DETAIL_NCCL_STAGING_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/detail/patient_deadline.hpp>
#include <cairn/comm/nccl/api.hpp>
#include <cairn/error.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>

namespace cairn::detail {

/// A stream with its staging memory; the only place where the plane waits.
///
/// The memory, on the device and pinned on the host, is two slots, used in turn, and one header for
/// each rank. All of it is used by one thread, whose device is the communicator's.
template <NcclApi Api>
class nccl_staging {
public:
    using device_pointer = typename Api::device_pointer;
    static constexpr std::size_t slots = 2;

    /// @param bytes   Total of both slots; at least 4 KiB each.
    /// @param header  Bytes of each rank's header.
    /// @throws error errc::rank_failed with CUDA's or NCCL's text
    nccl_staging(typename Api::comm comm, std::size_t bytes, std::size_t header,
                 const std::atomic<bool>& cancelled)
        : comm_(comm), cancelled_(cancelled), slot_(std::max<std::size_t>(bytes / slots, 4096)) {
        check(Api::rank(comm_, rank_), "ask for the rank");
        check(Api::count(comm_, size_), "ask for the number of ranks");
        check(Api::device(comm_, device_number_), "ask for the device");
        check(Api::set_device(device_number_), "use the communicator's device");
        headers_ = header * static_cast<std::size_t>(size_);
        auto const all = slots * slot_ + headers_;
        try {
            check(Api::create(stream_), "make a stream");
            ++made_;
            for (auto& e : events_) {
                check(Api::create(e), "make an event");
                ++made_;
            }
            check(Api::allocate_device(device_, all), "allocate device memory");
            ++made_;
            check(Api::allocate_pinned(host_, all + header), "allocate pinned host memory");
            ++made_;
        } catch (...) {
            release();
            throw;
        }
    }
    nccl_staging(nccl_staging&&) = delete;
    /// Keeps memory that operations in the stream may still use: freeing it would block without a
    /// limit. After an abort the stream ends soon.
    ~nccl_staging() {
        if (drain()) release();
    }

    int rank() const noexcept { return rank_; }
    int size() const noexcept { return size_; }
    int device_number() const noexcept { return device_number_; }
    typename Api::comm comm() const noexcept { return comm_; }
    typename Api::stream stream() const noexcept { return stream_; }
    /// Bytes of a slot.
    std::size_t bytes() const noexcept { return slot_; }
    device_pointer device(std::size_t slot) const { return device_ + slot * slot_; }
    std::byte* host(std::size_t slot) const noexcept { return host_ + slot * slot_; }
    /// The headers of all ranks, in rank order.
    device_pointer device_headers(std::size_t at = 0) const {
        return device_ + (slots * slot_ + at);
    }
    std::byte* host_headers(std::size_t at = 0) const noexcept {
        return host_ + slots * slot_ + at;
    }
    /// This rank's last header, behind those of all ranks, on the host.
    std::byte* last_header() const noexcept { return host_headers(headers_); }

    /// Sets the deadline of `launched` and `wait`.
    void until(deadline by) noexcept { by_ = patient_deadline(by); }

    void to_device(device_pointer to, const std::byte* from, std::size_t n) {
        if (n != 0) check(Api::to_device(to, from, n, stream_), "copy to the device");
    }
    void to_host(std::byte* to, device_pointer from, std::size_t n) {
        if (n != 0) check(Api::to_host(to, from, n, stream_), "copy to the host");
    }
    /// Checks the result of a launch; a non-blocking communicator reports only later whether the
    /// operation is in the stream.
    void launched(nccl_status s, const char* what) {
        if (s.is == nccl_status::state::running)
            poll([this] { return Api::async_error(comm_); }, what);
        else
            check(s, what);
    }
    /// Records an event at the current end of the stream.
    void mark(std::size_t slot) { check(Api::record(events_[slot], stream_), "record an event"); }
    /// Waits until the stream has reached the event.
    void wait(std::size_t slot, const char* what) {
        poll([this, slot] { return Api::query(events_[slot]); }, what);
        // Kernels of a communicator with an error end early: the memory holds no valid result.
        auto const s = Api::async_error(comm_);
        if (s.is != nccl_status::state::running) check(s, what);
    }
    /// Abandons operations in the stream, which may never end. Aborts the communicator if
    /// permitted.
    void give_up(bool abort) noexcept {
        stuck_ = true;
        if (abort && !aborted_) {
            (void)Api::abort(comm_);
            aborted_ = true;
        }
        (void)Api::record(events_[0], stream_);
    }
    bool aborted() const noexcept { return aborted_; }
    /// Returns whether nothing in the stream uses memory any more; waits for the end of aborted
    /// operations.
    bool drain() noexcept {
        using clock = std::chrono::steady_clock;
        auto const by = clock::now() + std::chrono::seconds(aborted_ ? 10 : 0);
        while (stuck_ && Api::query(events_[0]).is != nccl_status::state::ok) {
            if (clock::now() >= by) return false;
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        return true;
    }

private:
    void check(const nccl_status& s, const char* what) const {
        if (s.is == nccl_status::state::ok) return;
        auto const away = s.is == nccl_status::state::remote;
        throw error(errc::rank_failed,
                    {.rank = away ? -1 : rank_,
                     .expected = std::string("CUDA and NCCL to ") + what,
                     .found = s.text + (away ? " (another rank, NCCL does not say which)" : ""),
                     .remedy = remedy});
    }
    template <class Query>
    void poll(Query query, const char* what) {
        for (int turn = 0;; ++turn) {
            auto s = query();
            if (s.is == nccl_status::state::ok) return;
            if (s.is == nccl_status::state::running) s = Api::async_error(comm_);
            if (s.is != nccl_status::state::running) check(s, what);
            if (cancelled_.load(std::memory_order_relaxed))
                throw error(errc::cancelled, {.rank = rank_, .remedy = remedy});
            if (by_.has_passed())
                throw error(errc::timed_out,
                            {.rank = rank_,
                             .expected = std::string("all ranks in time to ") + what,
                             .found = "that some did not arrive; NCCL cannot say which",
                             .remedy = remedy});
            if (turn < 50)
                std::this_thread::yield();
            else
                std::this_thread::sleep_for(std::chrono::microseconds(turn < 1000 ? 50 : 1000));
        }
    }
    void release() noexcept {
        if (made_ > 4) (void)Api::release_pinned(host_);
        if (made_ > 3) (void)Api::release_device(device_);
        for (int i = 2; i > 0; --i)
            if (made_ > i) (void)Api::destroy(events_[static_cast<std::size_t>(i) - 1]);
        if (made_ > 0) (void)Api::destroy(stream_);
    }

    static constexpr const char* remedy =
        "abort the ncclComm_t on every rank (ncclCommAbort) and make a new one";

    typename Api::comm comm_;
    const std::atomic<bool>& cancelled_;
    int rank_ = 0;
    int size_ = 1;
    int device_number_ = 0;
    std::size_t slot_;
    std::size_t headers_ = 0;
    patient_deadline by_{};
    int made_ = 0;  ///< How many of these five exist.
    typename Api::stream stream_{};
    std::array<typename Api::event, slots> events_{};
    device_pointer device_{};
    std::byte* host_ = nullptr;
    bool stuck_ = false;
    bool aborted_ = false;
};

}  // namespace cairn::detail

#endif
