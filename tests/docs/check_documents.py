# SPDX-License-Identifier: Apache-2.0
"""Compiles the C++ in README.md and docs/, and follows the links between files.

A block with an #include is a program of its own; what includes <cairn/src.hpp>, which is cairn
itself, is built by the tests of installations. The other blocks make one translation unit after
preamble.hpp: those that begin with `template` or `struct` at namespace scope, the rest of a page as
the body of one function.

Usage: check_documents.py PROJECT_ROOT -- COMPILER...
"""
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def blocks(page: pathlib.Path):
    """(line, text) of each block of C++."""
    text = page.read_text()
    for match in re.finditer(r"^```cpp\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield text.count("\n", 0, match.start()) + 2, match[1]


def programs(pages: list[pathlib.Path]):
    """What is compiled: programs, and what all pages say besides, which shares what takes long."""
    outside, functions = "", ""
    for number, page in enumerate(pages):
        inside = ""
        for line, text in blocks(page):
            numbered = f'#line {line} "{page.name}"\n{text}'
            if "<cairn/src.hpp>" in text:
                continue
            if "#include" in text:
                yield numbered
            elif re.match(r"template\b|struct\b|boost::asio::awaitable\b", text):
                outside += numbered
            else:
                inside += numbered
        functions += f"void page_{number}() {{\n{inside}}}\n"
    yield f'#include "preamble.hpp"\n{outside}{functions}'


def compile_problem(source: str, command: list[str]) -> str:
    run = subprocess.run([*command, f"-I{HERE}", "-fsyntax-only", "-x", "c++", "-"],
                         input=source, capture_output=True, text=True)
    return "" if run.returncode == 0 else run.stderr


def dead_links(page: pathlib.Path):
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
        if not (page.parent / target).exists():
            yield f"{page.name}: a link leads nowhere: {target}"


def main() -> int:
    root, dashes, *command = sys.argv[1:]
    assert dashes == "--"
    pages = sorted([*pathlib.Path(root).glob("*.md"), *pathlib.Path(root).glob("docs/**/*.md")])
    found, compiled = [], 0
    for page in pages:
        found.extend(dead_links(page))
    for source in programs(pages):
        compiled += 1
        if problem := compile_problem(source, command):
            found.append(problem)
    print("\n".join(found) or f"{len(pages)} pages, {compiled} translation units")
    return 1 if found else 0


sys.exit(main())
