// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBSERVE_IMPL_TRACE_FILE_IPP
#define CAIRN_OBSERVE_IMPL_TRACE_FILE_IPP

#include <cairn/observe/trace_file.hpp>

#include <cairn/detail/failures.hpp>
#include <cairn/detail/utf8.hpp>
#include <cairn/observe/detail/text_file.hpp>
#include <cairn/printable.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

namespace cairn {

class trace_file::state {
public:
    explicit state(std::string path) : file_(std::move(path)) { file_.write(0, "[\n]\n"); }

    void notify(const verb_event& e) {
        using kind = verb_event::kind;
        std::lock_guard const lock(m_);
        text_.clear();
        if (named_.insert(e.rank).second)
            add("process_name", 'M', e, 0,
                R"("name":)" + json_string("rank " + std::to_string(e.rank) + " of " +
                                           std::to_string(e.ranks)));
        auto& o = running_[e.operation];
        if (o.track == 0) o.track = free_track(e.rank);
        switch (e.what) {
            case kind::begin:
                add(e.verb, 'B', e, o.track, R"("checkpoint":)" + json_string(e.id));
                break;
            case kind::phase_begin: add(e.phase, 'B', e, o.track, ""); break;
            case kind::progress:
                if (e.bytes == 0 || e.at < o.next_count) break;
                o.next_count = e.at + std::chrono::milliseconds(100);
                add("bytes, " + std::string(e.phase), 'C', e, o.track, bytes(e));
                break;
            case kind::phase_end:
                add(e.phase, 'E', e, o.track, bytes(e) + R"(,"items":)" + std::to_string(e.items));
                break;
            case kind::end:
                add(e.verb, 'E', e, o.track,
                    R"("result":)" +
                        json_string(e.failure ? detail::text_of(e.failure) : "succeeded"));
                tracks_.erase({e.rank, o.track});
                running_.erase(e.operation);
        }
        append();
    }

private:
    struct operation {
        int track = 0;
        verb_event::clock::time_point next_count{};
    };

    static std::string bytes(const verb_event& e) {
        return R"("bytes":)" + std::to_string(e.bytes);
    }
    /// Returns the lowest number of a track on which the rank has no verb.
    int free_track(int rank) {
        int track = 1;
        while (!tracks_.insert({rank, track}).second) ++track;
        return track;
    }

    void add(std::string_view name, char type, const verb_event& e, int track,
             const std::string& args) {
        auto const ns =
            std::chrono::duration_cast<std::chrono::nanoseconds>(since_1970_ + (e.at - start_))
                .count();
        char fraction[8];
        (void)std::snprintf(fraction, sizeof fraction, ".%03d", static_cast<int>(ns % 1000));
        text_ += first_ && text_.empty() ? "\n" : ",\n";
        text_ += R"({"name":)" + json_string(name) + R"(,"cat":"cairn","ph":")" + type +
                 R"(","pid":)" + std::to_string(e.rank) + R"(,"tid":)" + std::to_string(track) +
                 R"(,"ts":)" + std::to_string(ns / 1000) + fraction + R"(,"args":{)" + args + "}}";
    }
    /// Writes the events over the end of the array, and the end again after them.
    void append() {
        if (text_.empty()) return;
        auto const events = text_.size();
        text_ += end_of_array;
        try {
            file_.write(size_, text_);
        } catch (...) {  // e.g. the disk is full: the old end needs no more space
            file_.write(size_, end_of_array);
            file_.cut(size_ + end_of_array.size());
            throw;
        }
        size_ += events;
        first_ = false;
    }

    static constexpr std::string_view end_of_array = "\n]\n";

    std::mutex m_{};
    detail::text_file file_;
    std::uint64_t size_ = 1;  ///< Without the end of the array.
    bool first_ = true;
    std::string text_{};  ///< The events to append.
    std::set<int> named_{};
    std::set<std::pair<int, int>> tracks_{};  ///< In use: rank and number.
    std::map<std::uint64_t, operation> running_{};
    verb_event::clock::time_point start_ = verb_event::clock::now();
    std::chrono::nanoseconds since_1970_ = std::chrono::system_clock::now().time_since_epoch();
};

CAIRN_DECL trace_file::trace_file(std::string path)
    : s_(std::make_shared<state>(std::move(path))) {}
CAIRN_DECL void trace_file::notify(const verb_event& e) {
    s_->notify(e);
}

}  // namespace cairn

#endif
