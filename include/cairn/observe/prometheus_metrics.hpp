// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBSERVE_PROMETHEUS_METRICS_HPP
#define CAIRN_OBSERVE_PROMETHEUS_METRICS_HPP

#include <cairn/detail/config.hpp>
#include <cairn/observe/concepts.hpp>

#include <memory>
#include <string>

namespace cairn {

/// Counts verbs, their phases and the bytes that they move, for Prometheus.
///
/// | Metric                                 | Type    | Labels            |
/// |----------------------------------------|---------|-------------------|
/// | `cairn_operations_running`             | gauge   | verb, rank        |
/// | `cairn_operations_failed_total`        | counter | verb, rank        |
/// | `cairn_operation_seconds` `_sum` `_count` | summary | verb, rank     |
/// | `cairn_last_success_timestamp_seconds` | gauge   | verb, rank        |
/// | `cairn_phase_seconds` `_sum` `_count`  | summary | verb, phase, rank |
/// | `cairn_phase_bytes_total`              | counter | verb, phase, rank |
///
/// Failed operations are in `cairn_operation_seconds` too. No label grows with the number of
/// checkpoints.
class prometheus_metrics {
public:
    /// Keeps the metrics for `text`, e.g. for an HTTP server of your own.
    CAIRN_DECL prometheus_metrics();
    /// Writes the file now, and whenever a verb begins or ends: for the textfile collector of
    /// node_exporter, which reads `*.prom` in one directory. It is replaced by one rename. One file
    /// for each process; ranks that are threads share one.
    /// @throws error errc::io
    CAIRN_DECL explicit prometheus_metrics(std::string path);

    /// Returns the metrics in Prometheus' text format. Any thread.
    CAIRN_DECL std::string text() const;
    CAIRN_DECL void notify(const verb_event& e);

private:
    class state;
    std::shared_ptr<state> s_;
};
static_assert(EventSink<prometheus_metrics>);

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/observe/impl/prometheus_metrics.ipp>
#endif

#endif
