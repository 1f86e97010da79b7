# SPDX-License-Identifier: Apache-2.0
"""What the test scripts share: a line a check, and at the end `N passed, N failed`."""
import subprocess

passed = failed = 0


def check(name, ok, why=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    reason = f": {why}" if why and not ok else ""
    print(("ok      " if ok else "FAILED  ") + name + reason, flush=True)


def run(*args, **more):
    """Exit code, and what was said on either stream."""
    r = subprocess.run([str(a) for a in args], capture_output=True, text=True, **more)
    return r.returncode, (r.stdout + r.stderr).strip()


def end():
    """The script's exit code."""
    print(f"{passed} passed, {failed} failed")
    return failed != 0
