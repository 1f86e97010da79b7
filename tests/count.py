# SPDX-License-Identifier: Apache-2.0
"""Counts test cases in Meson's testlog.json: Boost.Test's own where a test has them, else one each.

Prints what failed or was skipped and why; the last line is "PASSED FAILED".

Usage: count.py testlog.json
"""
import json
import re
import sys


def cases(output: str, result: str) -> tuple[int, int]:
    """(passed, failed) of one test program."""
    counts = dict.fromkeys(["passed", "failed", "aborted"], 0)
    # "  10 test cases out of 12 passed" from Boost.Test (BOOST_TEST_REPORT_LEVEL=short), and
    # "10 passed, 2 failed" from the scripts.
    for number, what in re.findall(r"(\d+) test cases? out of \d+ (passed|failed|aborted)", output):
        counts[what] += int(number)
    if script := re.search(r"^(\d+) passed, (\d+) failed$", output, re.MULTILINE):
        counts["passed"] += int(script[1])
        counts["failed"] += int(script[2])
    failed = counts["failed"] + counts["aborted"]
    if result == "OK":
        return max(counts["passed"], 1), failed
    return counts["passed"], max(failed, 1)  # a crash reports nothing


def main() -> None:
    passed = failed = 0
    with open(sys.argv[1]) as log:
        tests = [json.loads(line) for line in log if line.strip()]
    for test in tests:
        output = test.get("stdout", "") + "\n" + test.get("stderr", "")
        lines = [line for line in output.splitlines() if line.strip()]
        if test["result"] == "SKIP":
            reason = lines[-1].strip() if lines else "no reason given"
            print(f"    skipped: {test['name']}: {reason}")
            continue
        p, f = cases(output, test["result"])
        passed += p
        failed += f
        if f:
            print(f"    failed: {test['name']} ({test['result']})")
            lines = [x for x in lines if not x.startswith("ok  ")]
            errors = [x for x in lines if x.startswith("FAILED")] or [
                x for x in lines if re.search(r"error|assert|expected", x, re.IGNORECASE)]
            for line in (errors or lines)[:12]:
                print(f"        {line[:500]}")
    print(passed, failed)


main()
