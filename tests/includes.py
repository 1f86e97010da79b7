# SPDX-License-Identifier: Apache-2.0
"""Checks that what a header of cairn names is declared by what it includes itself.

Compiling each header alone shows more, and takes minutes: tests/compile_fail/alone.py does that, in
each run to those that users include. Here a name counts if it has an underscore, is
declared at the scope of a namespace and, unless it is a type, is nobody's member or local variable;
and of `std` and POSIX, what STD and POSIX have.

Usage: includes.py PROJECT_ROOT
"""
import collections
import pathlib
import re
import sys

CAIRN_INCLUDE = re.compile(r"^\s*#\s*include\s*<(cairn/[^>]+)>", re.MULTILINE)
ANY_INCLUDE = re.compile(r"^\s*#\s*include\s*<([^>]+)>", re.MULTILINE)
# Not there where a header is compiled separately.
IMPLEMENTATION = re.compile(r"^#ifdef CAIRN_HEADER_ONLY\n.*?^#endif\n", re.MULTILINE | re.DOTALL)
NOISE = re.compile(r"^\s*#[^\n]*|//[^\n]*|/\*.*?\*/"
                   r'|R"\(.*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'',
                   re.DOTALL | re.MULTILINE)
TYPE = re.compile(r"^(?:class|struct|union|enum class|enum|concept)\s+(\w+)\b(?! *<)"
                  r"|^using (\w+) =", re.MULTILINE)
FUNCTION = re.compile(r"^(?![#}{ /]|template|requires|static_assert|namespace|using|class|struct"
                      r"|enum|concept|extern|friend)[\w:<>,&*\[\] .]*?[ &*>](\w+)\(", re.MULTILINE)
MEMBER = re.compile(r"(?:\.|->)(\w+)\b")
LOCAL = re.compile(r"(?<=[\w>&*\]]) (\w+)(?=[({;=,:\[) ])")
NO_TYPE = ("return", "throw", "new", "else", "explicit", "static", "const", "inline", "constexpr")
USED = re.compile(r"(?<![\w.>:])(?:detail::|cairn::)*([a-z]+_\w+)\b")
STD = {
    "algorithm": "all_of any_of none_of copy fill find_if for_each lower_bound upper_bound max min "
                 "sort stable_sort clamp unique remove_if is_sorted max_element min_element",
    "array": "array",
    "atomic": "atomic",
    "chrono": "chrono",
    "compare": "strong_ordering weak_ordering",
    "concepts": "same_as convertible_to derived_from constructible_from",
    "condition_variable": "condition_variable",
    "cstdint": "int32_t int64_t uint8_t uint16_t uint32_t uint64_t",
    "deque": "deque",
    "exception": "exception_ptr current_exception rethrow_exception make_exception_ptr terminate",
    "filesystem": "filesystem",
    "functional": "function ref cref hash",
    "future": "future promise",
    "limits": "numeric_limits",
    "map": "map",
    "memory": "shared_ptr unique_ptr weak_ptr make_shared make_unique addressof "
              "enable_shared_from_this",
    "mutex": "mutex lock_guard unique_lock once_flag call_once",
    "new": "bad_alloc nothrow",
    "numeric": "accumulate iota",
    "optional": "optional nullopt",
    "set": "set",
    "span": "span",
    "stop_token": "stop_token stop_source",
    "string": "string to_string",
    "string_view": "string_view",
    "system_error": "error_code system_error",
    "thread": "thread this_thread",
    "tuple": "tuple apply",
    "unordered_map": "unordered_map",
    "utility": "move forward exchange pair swap",
    "variant": "variant visit get_if",
    "vector": "vector",
}
# Of calls that are named with their scope: `::close(fd)`.
POSIX = {
    "fcntl.h": "open openat fcntl fallocate posix_fadvise",
    "pthread.h": "pthread_atfork pthread_sigmask",
    "sys/mman.h": "mmap munmap madvise",
    "sys/stat.h": "stat fstat lstat fstatat mkdir",
    "unistd.h": "close pread pwrite fsync unlink unlinkat rmdir ftruncate getpid readlink",
}


class Headers:
    def __init__(self, root: pathlib.Path):
        self.texts, self.includes, self.foreign = {}, {}, {}
        for path in sorted((root / "cairn").rglob("*.[hi]pp")):
            name, text = path.relative_to(root).as_posix(), path.read_text()
            if name.endswith(".hpp"): text = IMPLEMENTATION.sub("", text)
            self.includes[name] = CAIRN_INCLUDE.findall(text)
            self.foreign[name] = set(ANY_INCLUDE.findall(text))
            self.texts[name] = NOISE.sub(" ", text)
        self.declared_in = self.declarations()
        # A type's name may be a member's elsewhere.
        self.names = {name: set(USED.findall(text)) & self.declared_in.keys() - self.members(text)
                      for name, text in self.texts.items()}
        self.std = {name: set(re.findall(r"std::(\w+)", text)) for name, text in self.texts.items()}
        self.posix = {name: set(re.findall(r"(?<!\w)::(\w+)\(", text))
                      for name, text in self.texts.items()}

    def declarations(self) -> dict[str, set[str]]:
        types, declared = collections.defaultdict(set), collections.defaultdict(set)
        for name, text in self.texts.items():
            for m in TYPE.finditer(text): types[m.group(1) or m.group(2)].add(name)
            for m in FUNCTION.finditer(text): declared[m.group(1)].add(name)
        for name in self.members("\n".join(self.texts.values())): declared.pop(name, None)
        for name, where in types.items(): declared[name] |= where
        return declared

    @staticmethod
    def members(text: str) -> set[str]:
        """What a text names as a member or declares within a scope."""
        found = set(MEMBER.findall(text))
        for m in LOCAL.finditer(text):
            before = text[text.rfind("\n", 0, m.start()) + 1:m.start()]
            if before.startswith(" ") and not before.endswith(NO_TYPE): found.add(m.group(1))
        return found

    def reached_from(self, name: str) -> set[str]:
        seen, left = set(), [name]
        while left:
            at = left.pop()
            if at in seen or at not in self.includes: continue
            seen.add(at)
            left += self.includes[at]
        return seen

    def missing(self, name: str) -> list[str]:
        reached = self.reached_from(name)
        out = [f"{used} is declared by {', '.join(sorted(self.declared_in[used]))}"
               for used in sorted(self.names[name]) if not self.declared_in[used] & reached]
        there = {h for at in reached for h in self.foreign[at]}
        for table, used, scope in (STD, self.std, "std"), (POSIX, self.posix, ""):
            for header, words in table.items():
                if header in there: continue
                out += [f"{scope}::{w} without <{header}>"
                        for w in sorted(used[name] & set(words.split()))]
        return out


def main() -> None:
    headers = Headers(pathlib.Path(sys.argv[1]) / "include")
    problems = [f"include/{name}: {what}" for name in headers.texts if name != "cairn/src.hpp"
                for what in headers.missing(name)]
    for p in problems: print(p)
    print(f"{len(headers.texts)} headers, {len(headers.declared_in)} names", file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__": main()
