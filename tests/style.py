# SPDX-License-Identifier: Apache-2.0
"""Checks what a compiler does not: the first line, guards, sizes, what headers must not do, and
that tools, benchmarks and examples use what is public.

Usage: style.py PROJECT_ROOT
"""
import pathlib
import re
import sys

SPDX = "SPDX-License-Identifier: Apache-2.0"
MAX_LINES = 500
MAX_COLUMNS = 100
SOURCES = {".hpp", ".ipp", ".cpp", ".cu", ".py"}
FOLDERS = ["include", "tests", "examples", "benchmarks", "tools"]

# What users see, and copy: the public headers are enough for it.
PUBLIC_ONLY = ("tools/", "benchmarks/", "examples/")
PRIVATE = re.compile(r"\b(detail|impl)(::|/)|(::|namespace )(detail|impl)\b")

# In headers, comments and strings taken out.
FORBIDDEN_IN_HEADERS = [
    (r"#\s*include\s*<boost/asio\.hpp>", "include the narrow headers of Asio"),
    (r"#\s*include\s*<boost/test/included/", "link Boost.Test instead"),
    (r"BOOST_ASIO_HAS_IO_URING", "changes Asio for the user's whole program"),
    (r"^\s*namespace\s*\{", "an anonymous namespace in a header is one copy per object"),
    (r"^(template\s*<.*>\s*)?static\b", "a static at namespace scope is one copy per object"),
    (r"^\s*using\s+namespace\b", "would change the user's lookup"),
    (r"\b(BOOST_ASIO_CORO_REENTER|BOOST_ASIO_CORO_YIELD)\b", "__COUNTER__ breaks the ODR"),
    (r"std::(views|source_location)\b", "clang 14 lacks it"),
]


def without_comments_and_strings(text: str) -> str:
    """The same number of lines; comments are blanked, literals emptied."""
    pattern = r'//[^\n]*|/\*.*?\*/|R"\((?:.*?)\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\''

    def blank(match):
        what = match.group(0)
        if what.startswith("'") and re.match(r"[0-9A-Fa-f]", text[match.start() - 1]):
            return what  # a digit separator
        return "\n" * what.count("\n") if what.startswith("/") else '""'

    return re.sub(pattern, blank, text, flags=re.DOTALL)


def header_problems(name: str, text: str):
    guard = re.sub(r"[^A-Z0-9]", "_", name.removeprefix("include/").upper())
    if not re.search(rf"^#ifndef {guard}\n#define {guard}$", text, re.MULTILINE):
        yield 0, f"the guard must be {guard}"
    for number, line in enumerate(without_comments_and_strings(text).splitlines(), 1):
        for pattern, why in FORBIDDEN_IN_HEADERS:
            if re.search(pattern, line):
                yield number, why


def unsorted_includes(lines: list[str]):
    """Lines at which a block of includes, between other lines, stops being sorted."""
    before = ""
    for number, line in enumerate(lines, 1):
        include = line if line.startswith("#include ") else ""
        if include and include < before:
            yield number
        before = include


def file_problems(name: str, text: str):
    lines = text.splitlines()
    first = 1 if lines and lines[0].startswith("#!") else 0
    if not "".join(lines[first : first + 1]).endswith(SPDX):
        yield 1, f"the first line must end in {SPDX}"
    if len(lines) > MAX_LINES:
        yield 0, f"{len(lines)} lines: more than {MAX_LINES} are more than one idea"
    if not text.endswith("\n") or text.endswith("\n\n"):
        yield len(lines), "must end in one newline"
    for number, line in enumerate(lines, 1):
        if line != line.rstrip() or "\t" in line:
            yield number, "trailing space, or a tab"
        if name.startswith(PUBLIC_ONLY) and PRIVATE.search(line):
            yield number, "uses what is private to cairn"
        if len(line) > MAX_COLUMNS and not line.lstrip().startswith("/// |"):
            yield number, f"{len(line)} columns"
    if not name.endswith(".py"):
        for number in unsorted_includes(lines):
            yield number, "an include that sorts before the one above"
    if name.endswith((".hpp", ".ipp")) and name.startswith("include/"):
        yield from header_problems(name, text)


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    count, found = 0, []
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in SOURCES or not file.is_file() or "golden" in file.parts:
                continue
            count += 1
            name = str(file.relative_to(root))
            for number, what in file_problems(name, file.read_text()):
                found.append(f"{name}:{number}: {what}" if number else f"{name}: {what}")
    print("\n".join(found) or f"{count} files, nothing to say")
    return 1 if found else 0


sys.exit(main())
