# SPDX-License-Identifier: Apache-2.0
"""Writes a translation unit that includes every header of cairn.

`poisoned`: among hostile macros. What cairn itself includes comes first, so that only names in
cairn's own text are caught. `backwards`: the last header first, and each twice.

Usage: every.py poisoned|backwards|backwards_poisoned PROJECT_ROOT OUTPUT LIBRARY...
    Left out are headers that need another library than these.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import layering

# Names that headers of systems define (complex.h, termios.h, sys/sysmacros.h, Windows, X11) or
# that users do.
NAMES = """I B0 B50 B110 _L _N _U _X major minor unix linux small near far interface IN OUT OPTIONAL
CONST VOID ERROR DELETE STRICT None Bool Status Success Always True False""".split()


def poison(others: list[str]) -> list[str]:
    return [f"#include <{name}>" for name in others] + [
        f"#undef {name}\n#define {name} *poison*" for name in NAMES]


def main() -> None:
    way, root, output = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    house = layering.house(root / "include")
    files = house.with_libraries(sys.argv[4:])
    headers = [f for f in files if f.endswith(".hpp")]
    if "backwards" in way:
        headers = [h for h in headers[::-1] for _ in range(2)]
    lines = [f"#include <{h}>" for h in headers]
    if "poisoned" in way:
        lines = poison(house.others(files)) + lines
    text = "\n".join(lines) + "\n"
    if not output.exists() or output.read_text() != text:
        output.write_text(text)


main()
