# SPDX-License-Identifier: Apache-2.0
"""A compile-fail test that cannot pass by accident.

Compiles FILE twice. With BASELINE defined it must compile, so that a typo cannot make it pass;
without, it must fail, and the compiler's words must match every `// expect: REGEX` line and be no
more than a line `// at most N lines` says.

Usage: expect_compile_error.py FILE -- COMPILER...
"""
import pathlib
import re
import subprocess
import sys


def compiles(command: list[str], *more: str) -> tuple[bool, str]:
    run = subprocess.run([*command, "-fsyntax-only", *more], capture_output=True, text=True)
    return run.returncode == 0, run.stdout + run.stderr


def main() -> str:
    source, dashes, *command = sys.argv[1:]
    assert dashes == "--"
    content = pathlib.Path(source).read_text()
    expected = re.findall(r"^// expect: (.+)$", content, re.MULTILINE)
    most = re.search(r"^// at most (\d+) lines$", content, re.MULTILINE)
    if not expected:
        return "no line says '// expect: ...'"
    good, text = compiles(command, "-DBASELINE", source)
    if not good:
        return f"must compile with BASELINE defined, but:\n{text}"
    good, text = compiles(command, source)
    if good:
        return "compiles, but must not"
    missing = [regex for regex in expected if not re.search(regex, text)]
    if missing:
        return f"the compiler does not say {missing}, but:\n{text}"
    if most and text.count("\n") > int(most[1]):
        return f"the compiler says more than {most[1]} lines:\n{text}"
    return ""


sys.exit(main() or 0)
