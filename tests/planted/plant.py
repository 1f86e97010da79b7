# SPDX-License-Identifier: Apache-2.0
"""Makes a copy of the project whose library and tool have all planted defects, each behind its
switch.

Usage: plant.py TREE [-- COMPILER...]: the compiler must accept what is compiled once.
"""
import pathlib
import re
import subprocess
import sys

from defect import HERE, ROOT, all_defects

LINKED = ["tests", "examples", "benchmarks", "subprojects", "meson.build", "meson_options.txt"]
COPIED = ["include", "tools"]
SWITCH = "include/cairn/planted.hpp"


def pattern(text: str) -> re.Pattern:
    return re.compile(r"\s+".join(re.escape(word) for word in text.split()))


def once(where: str, source: str, text: str) -> re.Match:
    found = list(pattern(text).finditer(source))
    if len(found) != 1:
        sys.exit(f"{where}: stands {len(found)} times in the file instead of once: {text}")
    return found[0]


def replacement(where: str, source: str, old: str, new: str, after: str, switch: str):
    """Begin, end and what goes there."""
    if "PLANTED" not in new:
        sys.exit(f"{where}: its replacement has no PLANTED")
    if after:
        match = pattern(old).search(source, once(where, source, after).end())
        if match is None:
            sys.exit(f"{where}: not in the file after '{after}': {old}")
    else:
        match = once(where, source, old)
    return match.start(), match.end(), new.replace("PLANTED", switch), where


def planted(file: str, source: str, defects) -> str:
    places = []
    for d in defects:
        switch = f'::cairn_planted::on("{d.name}")'
        for old, new in [(d.old, d.new), *d.more]:
            after = d.after if old == d.old else ""
            places.append(replacement(d.name, source, old, new, after, switch))
    places.sort()
    for one, other in zip(places, places[1:]):
        if other[0] < one[1]:
            sys.exit(f"{file}: {one[3]} and {other[3]} overlap")
    for begin, end, new, _ in reversed(places):
        source = source[:begin] + new + source[end:]
    return "#include <cairn/planted.hpp>\n" + source


def write(file: pathlib.Path, text: str) -> None:
    """Leaves an equal file alone, so that nothing is compiled again."""
    if file.exists() and file.read_text() == text:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def main() -> int:
    tree = pathlib.Path(sys.argv[1])
    tree.mkdir(parents=True, exist_ok=True)
    for name in LINKED:
        if not (tree / name).is_symlink():
            (tree / name).symlink_to(ROOT / name)
    by_file = {}
    for d in all_defects():
        by_file.setdefault(d.path, []).append(d)
    files = {str(f.relative_to(ROOT)): f.read_text()
             for folder in COPIED for f in (ROOT / folder).rglob("*") if f.is_file()}
    for name in by_file:
        if name not in files:
            sys.exit(f"{by_file[name][0].name}: there is no {name}")
    for folder in COPIED:
        if (tree / folder).is_symlink():
            (tree / folder).unlink()
    for name, text in files.items():
        here = by_file.get(name)
        write(tree / name, planted(name, text, here) if here else text)
    write(tree / SWITCH, (HERE / "planted.hpp").read_text())
    for folder in COPIED:
        for old in (tree / folder).rglob("*"):
            name = str(old.relative_to(tree))
            if old.is_file() and name not in files and name != SWITCH:
                old.unlink()
    if command := sys.argv[3:]:
        command += [f"-I{tree / 'include'}", "-fsyntax-only", "-w", "-x", "c++", "-"]
        return subprocess.run(command, input="#include <cairn/src.hpp>\n", text=True).returncode
    return 0


sys.exit(main())
