# SPDX-License-Identifier: Apache-2.0
"""Checks that what a header of cairn names is declared by what it includes itself.

Compiling each header alone shows the same, and takes minutes; tests/headers does that to those that
users include. Here a name is one that exactly one unit declares at the scope of a namespace (a
header and its `impl/*.ipp`s are one), and one of `std` that exactly one header is for.

Usage: includes.py PROJECT_ROOT
"""
import collections
import pathlib
import re
import sys

CAIRN_INCLUDE = re.compile(r"^\s*#\s*include\s*<(cairn/[^>]+)>", re.MULTILINE)
ANY_INCLUDE = re.compile(r"^\s*#\s*include\s*<([^>]+)>", re.MULTILINE)
IMPLEMENTATION = re.compile(r"^#ifdef CAIRN_HEADER_ONLY\n.*?^#endif\n", re.MULTILINE | re.DOTALL)
NOISE = re.compile(r'^\s*#[^\n]*|//[^\n]*|/\*.*?\*/|R"\(.*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL | re.MULTILINE)
TYPE = re.compile(r"^(?:template <.*> )?(?:class|struct|union|enum class|enum|concept)\s+(?:\[\[\w+\]\] )?(\w+)\b(?! *<)"
                  r"|^using (\w+) =", re.MULTILINE)
FUNCTION = re.compile(r"^(?![#}{ /]|template|requires|static_assert|namespace|using|class|struct|enum"
                      r"|concept|extern|typedef|friend)[\w:<>,&*\[\] .]*?[ &*>](\w+)\(", re.MULTILINE)
STD = {
    "algorithm": "all_of any_of none_of copy fill find_if for_each lower_bound upper_bound max min sort "
                 "stable_sort clamp unique remove_if is_sorted max_element min_element",
    "array": "array", "atomic": "atomic", "bitset": "bitset",
    "chrono": "chrono", "compare": "strong_ordering weak_ordering", "concepts":
    "same_as convertible_to derived_from constructible_from",
    "condition_variable": "condition_variable", "deque": "deque",
    "exception": "exception_ptr current_exception rethrow_exception make_exception_ptr terminate",
    "filesystem": "filesystem", "functional": "function ref cref hash", "future": "future promise",
    "limits": "numeric_limits", "map": "map", "memory":
    "shared_ptr unique_ptr weak_ptr make_shared make_unique addressof enable_shared_from_this",
    "mutex": "mutex lock_guard unique_lock once_flag call_once", "new": "bad_alloc nothrow",
    "numeric": "accumulate iota", "optional": "optional nullopt", "set": "set", "span": "span",
    "stop_token": "stop_token stop_source", "string": "string to_string", "string_view": "string_view",
    "system_error": "error_code system_error", "thread": "thread this_thread",
    "tuple": "tuple apply", "unordered_map": "unordered_map", "variant": "variant visit get_if",
    "vector": "vector",
}


def main() -> None:
    root = pathlib.Path(sys.argv[1]) / "include"
    texts, includes, foreign = {}, {}, {}
    for path in sorted((root / "cairn").rglob("*.[hi]pp")):
        name = path.relative_to(root).as_posix()
        text = IMPLEMENTATION.sub("", path.read_text()) if name.endswith(".hpp") else path.read_text()
        includes[name] = CAIRN_INCLUDE.findall(text)
        foreign[name] = set(ANY_INCLUDE.findall(text))
        texts[name] = NOISE.sub(" ", text)

    def unit(name):
        return re.sub(r"impl/|\.\wpp$", "", name)

    declared_in = collections.defaultdict(set)
    for name, text in texts.items():
        for m in TYPE.finditer(text): declared_in[m.group(1) or m.group(2)].add(name)
        for m in FUNCTION.finditer(text): declared_in[m.group(1)].add(name)

    def closure(name):
        seen, left = set(), [name]
        while left:
            at = left.pop()
            if at in seen or at not in includes: continue
            seen.add(at)
            left += includes[at]
        return seen

    # What is also a member's name, or a local one's, says nothing.
    everything = "\n".join(texts.values())
    for m in re.finditer(r"(?:\.|->)(\w+)\b", everything): declared_in.pop(m.group(1), None)
    for m in re.finditer(r"(?<=[\w>&*\]]) (\w+)(?=[({;=,:\[) ])", everything):
        before = everything[everything.rfind("\n", 0, m.start()) + 1:m.start()]
        if before.startswith(" ") and not before.endswith(("return", "throw", "new", "else")):
            declared_in.pop(m.group(1), None)

    problems = []
    for name, text in texts.items():
        if name == "cairn/src.hpp": continue
        reached = closure(name)
        for token in set(re.findall(r"(?<![\w.>:])(?:detail::|cairn::)*([a-z]+_\w+)\b", text)):
            owners = declared_in.get(token)
            if not owners or owners & reached: continue
            problems.append(f"include/{name}: {token} is declared by {', '.join(sorted(owners))}")
        std = {h for at in reached for h in foreign[at]}
        used = set(re.findall(r"std::(\w+)", text))
        for header, words in STD.items():
            if header in std: continue
            for word in sorted(used & set(words.split())):
                problems.append(f"include/{name}: std::{word} without <{header}>")
    for p in problems: print(p)
    print(f"{len(texts)} headers", file=sys.stderr)
    sys.exit(1 if problems else 0)


main()
