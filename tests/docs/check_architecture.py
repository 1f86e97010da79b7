# SPDX-License-Identifier: Apache-2.0
"""Checks the walks of docs/architecture.md: each function is defined in its file and is short, and
a tensor takes few of them.

Usage: check_architecture.py PROJECT_ROOT
"""
import pathlib
import re
import sys

# Of each section: the row that ends the walk, and the most steps before it.
WALKS = {"One tensor through a save": ("write", 15), "One tensor through a load": ("read", 12)}
MAX_LINES = 60

ROW = re.compile(r"\| (\w+) \| `([^`]+)` \| `([^`]+)` \|")
NOISE = re.compile(r'//[^\n]*|R"\((?:.*?)\)"|"(?:\\.|[^"\\\n])*"'
                   r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'", re.DOTALL)


def end_of(text: str, at: int, opening: str, closing: str) -> int:
    """The position behind the bracket that closes the one at `at`."""
    depth = 0
    for match in re.compile(re.escape(opening) + "|" + re.escape(closing)).finditer(text, at):
        depth += 1 if match[0] == opening else -1
        if depth == 0:
            return match.end()
    return len(text)


def definitions(text: str, function: str):
    """The lines of each definition of a function, overloads included."""
    text = NOISE.sub("", text)
    name, _, parameters = function.partition("(")
    start = rf"(?<![\w.>]){re.escape(name)}\({re.escape(parameters)}"
    for match in re.finditer(start, text):
        behind = end_of(text, match.start() + len(name), "(", ")")
        body = re.compile(r"(?:\s|const\b|noexcept\b|override\b)*\{").match(text, behind)
        if body:
            end = end_of(text, body.end() - 1, "{", "}")
            yield text.count("\n", match.start(), end) + 1


def rows(page: str):
    """(line, section, first cell, file, function) of each step."""
    section = ""
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith("## "):
            section = line[3:]
        elif section in WALKS and (match := ROW.match(line)):
            yield number, section, *match.groups()


def problems(root: pathlib.Path):
    steps = dict.fromkeys(WALKS, 0)
    ended = set()
    for number, section, step, file, function in rows((root / "docs/architecture.md").read_text()):
        here = f"docs/architecture.md:{number}"
        last, most = WALKS[section]
        if step == last:
            ended.add(section)
            if steps[section] > most:
                yield f"{here}: {steps[section]} steps before the {last}: at most {most}"
            steps[section] = 0  # what follows is counted anew
        else:
            steps[section] += 1
            if step != str(steps[section]):
                yield f"{here}: step {steps[section]} is numbered {step}"
        source = root / "include/cairn" / file
        lengths = list(definitions(source.read_text(), function)) if source.is_file() else []
        if not lengths:
            yield f"{here}: {file} does not define {function}"
        for length in lengths:
            if length > MAX_LINES:
                yield f"{here}: {function} in {file} has {length} lines: at most {MAX_LINES}"
    for section, (last, _) in WALKS.items():
        if section not in ended:
            yield f"docs/architecture.md: the walk '{section}' has no row '{last}'"


def main() -> int:
    found = list(problems(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "every step is a function that exists")
    return 1 if found else 0


sys.exit(main())
