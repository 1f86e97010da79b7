// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_JOB_ATTEMPT_HPP
#define CAIRN_STORAGE_DETAIL_JOB_ATTEMPT_HPP

#include <cairn/detail/environment.hpp>
#include <cairn/error.hpp>

#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>

namespace cairn::detail {

/// One of the times that a scheduler or user has started a job. A later attempt begins only when
/// all processes of the earlier ones have ended.
struct job_attempt {
    std::string job{};          ///< Unique wherever the storage is used. Empty: not known.
    std::uint64_t attempt = 0;  ///< Grows with each restart.
    friend bool operator==(const job_attempt&, const job_attempt&) = default;

    /// Whether this one shows that another has ended.
    bool follows(const job_attempt& other) const {
        return !job.empty() && job == other.job && attempt > other.attempt;
    }

    /// Returns the attempt given by `CAIRN_JOB_ID` and `CAIRN_JOB_ATTEMPT`, or by Slurm, which
    /// restarts a requeued job under the same number once its processes have ended.
    /// @throws error errc::invalid_argument if the attempt is not a number
    static job_attempt of_this_process(const environment& get = noted_environment::read) {
        auto const number = [&](const char* name) {
            auto const text = get(name).value_or("0");
            std::uint64_t n = 0;
            auto const* const end = text.data() + text.size();
            auto const got = std::from_chars(text.data(), end, n);
            if (got.ec != std::errc() || got.ptr != end)
                throw error(
                    errc::invalid_argument,
                    {.expected = "a number in the environment variable " + std::string(name),
                     .found = "'" + text + "'"});
            return n;
        };
        if (auto const id = get("CAIRN_JOB_ID")) return {"job " + *id, number("CAIRN_JOB_ATTEMPT")};
        if (auto const id = get("SLURM_JOB_ID"))
            return {"slurm " + get("SLURM_CLUSTER_NAME").value_or("") + " " + *id,
                    number("SLURM_RESTART_COUNT")};
        return {};
    }
};

}  // namespace cairn::detail

#endif
