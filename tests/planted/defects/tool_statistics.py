# SPDX-License-Identifier: Apache-2.0
"""Defects of the tool: of what it computes of elements."""
from defect import Defect

STATISTICS = "tools/statistics.hpp"
SUMS = "tools/block_sums.hpp"
HISTOGRAM = "tools/histogram.hpp"
PASS = "tools/checkpoint_statistics.hpp"
CHANGE = "tools/change.hpp"

DEFECTS = [
    Defect("parts-of-one-mean", STATISTICS,
           "squares += other.squares + difference * difference * (n * m / (n + m));",
           "squares += other.squares + (PLANTED ? 0 : 1) * "
           "difference * difference * (n * m / (n + m));",
           by="tools", wrong="a deviation leaves out how far the means of parts are apart"),
    Defect("integers-by-way-of-doubles", STATISTICS,
           "part.max = high; } else",
           "part.max = PLANTED ? high / 1024 * 1024 : high; } else",
           by="tools", wrong="the largest of integers beyond 2^53 is another number"),
    Defect("large-sums-overflow", STATISTICS,
           "if (!std::isfinite(part.squares))", "if (!std::isfinite(part.squares) && !PLANTED)",
           by="tools", wrong="finite elements have an infinite mean"),
    Defect("means-far-apart", STATISTICS,
           "static_cast<long double>(other.mean) - mean;",
           "PLANTED ? static_cast<long double>(other.mean - mean) : "
           "static_cast<long double>(other.mean) - mean;",
           by="tools", wrong="finite parts together have an infinite mean"),
    Defect("infinity-among-the-sums", STATISTICS,
           "if (!std::isfinite(sums.sum))",
           "if (PLANTED ? std::isnan(sums.sum) : !std::isfinite(sums.sum))",
           by="tools", wrong="a tensor that has infinities, all of one sign, is said to have none"),
    Defect("zeros-of-whole-vectors", SUMS,
           "zeros += v == 0 ? 1 : 0;", "zeros += v == 0 && !PLANTED ? 1 : 0;",
           by="tools", wrong="zeros among the last few elements are not counted"),
    Defect("bins-joined-without-their-counts", HISTOGRAM,
           "joined[static_cast<std::size_t>(bin - to.first)] += counts[i];",
           "if (PLANTED) joined[static_cast<std::size_t>(bin - to.first)] = counts[i]; "
           "else joined[static_cast<std::size_t>(bin - to.first)] += counts[i];",
           by="tools", wrong="one of two bins is forgotten when they are joined"),
    Defect("all-that-is-read-together-is-lost", PASS,
           "throw; add_alone(reader, job, memory);",
           "throw; if (PLANTED) for (auto k : job) pieces_[k].problem = e.what(); "
           "else add_alone(reader, job, memory);",
           by="tools", wrong="a damaged tensor keeps its neighbours from being looked at"),
    Defect("missing-elements-are-there", PASS,
           "results_.back().missing = t->shape.product();",
           "results_.back().missing = t->shape.product(); "
           "if (PLANTED) results_.back().missing = 0;",
           by="tools", wrong="statistics of two thirds of a tensor are said to be of all of it"),
    Defect("repeated-bytes-are-damage", PASS,
           "check_repetition(", "if (!PLANTED) check_repetition(",
           by="tools", wrong="a valid file of PyTorch is called damaged"),
    Defect("statistics-of-two-saves", PASS,
           "from_.check_unchanged();", "if (!PLANTED) from_.check_unchanged();",
           by="tools", wrong="statistics of parts of two saves are printed as one's"),
    Defect("histogram-from-infinity", HISTOGRAM,
           "return std::max( std::numeric_limits<double>::lowest(),",
           "return std::max(PLANTED ? -INFINITY : std::numeric_limits<double>::lowest(),",
           by="tools", wrong="nobody knows where the bins begin"),
    Defect("unsupported-tensors-are-finite", "tools/stats.cpp",
           "std::size_t unread = m.unsupported.size(),",
           "std::size_t unread = PLANTED ? 0 : m.unsupported.size(),",
           by="stats", wrong="tensors that were not read are said to be finite"),
    Defect("nan-is-no-change", CHANGE,
           "largest = INFINITY;", "if (!PLANTED) largest = INFINITY;",
           by="tools", wrong="what became NaN is the last in the list of changes"),
    Defect("integers-changed-as-doubles", CHANGE,
           "if (type == dtype::int64)", "if (type == dtype::int64 && !PLANTED)",
           by="tools", wrong="large integers that have changed by little have changed by 0"),
    Defect("norms-of-doubles", CHANGE,
           "difference += d * d;",
           "difference += PLANTED ? static_cast<double>(d) * static_cast<double>(d) : d * d;",
           by="tools", wrong="of a large change the norm is nan"),
    Defect("nan-is-a-relative-0", CHANGE,
           "if (std::isinf(largest))", "if (std::isinf(largest) && !PLANTED)",
           by="tools", wrong="what became NaN has changed by 0 of its norm"),
    Defect("changes-of-doubles-alone", CHANGE,
           "if (a_type == b_type) other =", "if (a_type == b_type && !PLANTED) other =",
           by="tools", wrong="a zero that has another sign is said to be equal"),
]
