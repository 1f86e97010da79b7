# SPDX-License-Identifier: Apache-2.0
"""Checks that cairn prints the texts that docs/symptoms.md quotes.

The first column of its tables has them in backticks, `…` for what varies. What stands between must
be in string literals of one file of include/ or tools/, in this order.

Usage: check_symptoms.py PROJECT_ROOT
"""
import pathlib
import re
import sys

LITERAL = re.compile(r'(?:R"\((.*?)\)"|"((?:\\.|[^"\\\n])*)")', re.DOTALL)
COMMENT = re.compile(r"^\s*//[^\n]*", re.MULTILINE)
SPLIT_LITERAL = re.compile(r'(?<=[^\\])"\s*\n\s*"')


def literals(text: str) -> str:
    """What a source file can print, one literal a line; those that stand side by side are one."""
    text = SPLIT_LITERAL.sub("", COMMENT.sub("", text))
    return "\n".join((raw or plain).replace('\\"', '"') for raw, plain in LITERAL.findall(text))


def printed(root: pathlib.Path):
    """(name, text) of each file."""
    for folder in ("include", "tools"):
        for file in sorted((root / folder).rglob("*.[hic]pp")):
            yield str(file.relative_to(root)), literals(file.read_text())


def quotes(page: str):
    """(line, quote) of the first column."""
    for number, line in enumerate(page.splitlines(), 1):
        cells = line.split(" | ")
        if line.startswith("| ") and not line.startswith(("| Symptom", "|---")):
            for quote in re.findall(r"`([^`]+)`", cells[0]):
                if quote != "cairn ls" and quote != "cairn launch":  # programs, not what they say
                    yield number, quote


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    sources = list(printed(root))
    count, found = 0, []
    for number, quote in quotes((root / "docs/symptoms.md").read_text()):
        count += 1
        parts = [re.escape(part) for part in quote.split("…") if part.strip()]
        pattern = re.compile(".*".join(parts), re.DOTALL)
        if not any(pattern.search(text) for _, text in sources):
            found.append(f"docs/symptoms.md:{number}: cairn never prints '{quote}'")
    if count == 0:
        found.append("docs/symptoms.md quotes nothing")
    print("\n".join(found) or f"{count} quotes, all of them printed")
    return 1 if found else 0


sys.exit(main())
