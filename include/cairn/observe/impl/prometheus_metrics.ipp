// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBSERVE_IMPL_PROMETHEUS_METRICS_IPP
#define CAIRN_OBSERVE_IMPL_PROMETHEUS_METRICS_IPP

#include <cairn/observe/prometheus_metrics.hpp>

#include <cairn/detail/absolute_path.hpp>
#include <cairn/observe/detail/text_file.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

namespace cairn {

class prometheus_metrics::state {
public:
    explicit state(const std::string& path)
        : path_(path.empty() ? path : detail::absolute_path(path).string()) {
        write();
    }

    std::string text() const {
        std::lock_guard const lock(m_);
        return all();
    }
    void notify(const verb_event& e) {
        using kind = verb_event::kind;
        std::lock_guard const lock(m_);
        auto& v = verbs_[labels(e)];
        switch (e.what) {
            case kind::begin: ++v.running; break;
            case kind::phase_begin:
            case kind::progress: return;
            case kind::phase_end: {
                auto& p = phases_[labels(e) + ",phase=\"" + std::string(e.phase) + '"'];
                ++p.count;
                p.took += e.took();
                p.bytes += e.bytes;
                return;
            }
            case kind::end:
                --v.running;
                ++v.count;
                v.took += e.took();
                if (e.failure)
                    ++v.failed;
                else
                    v.last_success = std::chrono::system_clock::now().time_since_epoch();
        }
        write();
    }

private:
    /// Verb and rank; phases are library names. None has a character to escape.
    static std::string labels(const verb_event& e) {
        return "verb=\"" + std::string(e.verb) + "\",rank=\"" + std::to_string(e.rank) + '"';
    }
    struct verb {
        std::int64_t running = 0;
        std::uint64_t count = 0;
        std::uint64_t failed = 0;
        std::chrono::nanoseconds took{0};
        std::chrono::nanoseconds last_success{0};
    };
    struct phase {
        std::uint64_t count = 0;
        std::uint64_t bytes = 0;
        std::chrono::nanoseconds took{0};
    };

    void write() const {
        if (!path_.empty()) detail::replace_text(path_, all());
    }

    std::string all() const {
        std::string out;
        head(out, "operations_running", "gauge", "Saves and loads that are running.");
        for (auto const& [l, v] : verbs_) line(out, "operations_running", l, v.running);
        head(out, "operations_failed_total", "counter", "Saves and loads that failed.");
        for (auto const& [l, v] : verbs_) line(out, "operations_failed_total", l, v.failed);
        head(out, "operation_seconds", "summary", "Duration of saves and loads.");
        for (auto const& [l, v] : verbs_) summary(out, "operation_seconds", l, v);
        head(out, "last_success_timestamp_seconds", "gauge", "When the last one succeeded.");
        for (auto const& [l, v] : verbs_)
            if (v.last_success.count() != 0)
                line(out, "last_success_timestamp_seconds", l, seconds(v.last_success));
        head(out, "phase_seconds", "summary", "Duration of the phases of saves and loads.");
        for (auto const& [l, p] : phases_) summary(out, "phase_seconds", l, p);
        head(out, "phase_bytes_total", "counter", "Bytes that phases have moved.");
        for (auto const& [l, p] : phases_) line(out, "phase_bytes_total", l, p.bytes);
        return out;
    }
    static void head(std::string& out, const std::string& name, const char* type,
                     const char* help) {
        out += "# HELP cairn_" + name + ' ' + help + "\n# TYPE cairn_" + name + ' ' + type + '\n';
    }
    static std::string seconds(std::chrono::nanoseconds t) {
        char text[48];
        (void)std::snprintf(text, sizeof text, "%lld.%09lld",
                            static_cast<long long>(t.count() / 1'000'000'000),
                            static_cast<long long>(t.count() % 1'000'000'000));
        return text;
    }
    static void line(std::string& out, const std::string& name, const std::string& labels,
                     const std::string& value) {
        out += "cairn_" + name + '{' + labels + "} " + value + '\n';
    }
    template <class Number>
    static void line(std::string& out, const std::string& name, const std::string& labels,
                     Number value) {
        line(out, name, labels, std::to_string(value));
    }
    template <class Timed>
    static void summary(std::string& out, const std::string& name, const std::string& labels,
                        const Timed& t) {
        line(out, name + "_sum", labels, seconds(t.took));
        line(out, name + "_count", labels, t.count);
    }

    std::string path_;
    mutable std::mutex m_{};
    std::map<std::string, verb> verbs_{};  ///< By labels.
    std::map<std::string, phase> phases_{};
};

CAIRN_DECL prometheus_metrics::prometheus_metrics() : prometheus_metrics(std::string()) {}
CAIRN_DECL prometheus_metrics::prometheus_metrics(std::string path)
    : s_(std::make_shared<state>(std::move(path))) {}
CAIRN_DECL std::string prometheus_metrics::text() const {
    return s_->text();
}
CAIRN_DECL void prometheus_metrics::notify(const verb_event& e) {
    s_->notify(e);
}

}  // namespace cairn

#endif
