# SPDX-License-Identifier: Apache-2.0
"""What a planted defect is, and where all of them are."""
import dataclasses
import fnmatch
import importlib.util
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent

# Program -> what ninja builds for it, and the command that runs it; {} there is the build folder.
PROGRAMS = {name: ([f"tests/{folder}/test_{name}"], [f"{{}}/tests/{folder}/test_{name}"])
            for name, folder in {
    "catalog": "catalog", "checkpointer": "checkpointer", "comm": "comm",
    "convert": "convert",
    "corruption": "storage", "detail": "detail", "dlpack": "adapters",
    "format": "format", "integration": "integration", "load": "load", "mapping": "mapping",
    "memory": "memory",
    "metadata": "metadata", "models": "models", "object_store": "object_store",
    "planner": "planner", "s3": "object_store", "save": "save", "state": "state",
    "storage": "storage",
    "system_calls": "storage", "tensor": "tensor", "threads_of_processes": "integration",
    "tools": "tools"}.items()}
# Takes the names of suites.
WITH_SUITES = {*PROGRAMS, "fuzz"}
FUZZ, SIMULATE = "tests/fuzz/mutate", "tests/simulation/simulate"
PROGRAMS["fuzz"] = ([FUZZ], ["{}/" + FUZZ, "--corpus", str(ROOT / "tests/fuzz/corpus")])
PROGRAMS["simulation"] = ([SIMULATE], ["{}/" + SIMULATE, "--seeds", "400"])
PROGRAMS["orders"] = ([SIMULATE], ["{}/" + SIMULATE, "--orders", "--bound", "0"])
TOOL, FIXTURES = "tools/cairn", "tests/tools/fixtures"
for script in "tool", "maps", "odd_content", "other_formats", "report", "stats":
    PROGRAMS[script] = ([TOOL, FIXTURES], [sys.executable, str(ROOT / f"tests/tools/{script}.py"),
                                           "{}/" + TOOL, "{}/" + FIXTURES,
                                           str(ROOT / "tests/golden")])

UNLOADED, LIBRARY = (f"tests/integration/{name}" for name in ("unloaded", "libunloaded_library.so"))
PROGRAMS["unloaded"] = ([UNLOADED, LIBRARY], ["{}/" + UNLOADED, "{}/" + LIBRARY])
# With the Python that CAIRN_TORCH_PYTHON names; without one it is skipped.
TRAINER = "tests/interchange/trainer"
PROGRAMS["trainer"] = ([TOOL, TRAINER], [str(ROOT / "tests/interchange/run"), "trainer.py", "{}"])
PROGRAMS["launch"] = ([TOOL], [sys.executable, str(ROOT / "tests/launch/launch.py"), "{}",
                               "signals"])


@dataclasses.dataclass
class Defect:
    """One slip, switched on by CAIRN_PLANTED=name.

    old stands in the file once, or is the first after the text `after`, which stands in it once;
    any white space equals any other. In new, PLANTED is whether the switch is on.
    """
    name: str
    file: str  # below include/cairn, or tools/...
    old: str
    new: str
    by: str  # the programs that should notice, each with its suites: "save:save_fsm,budget comm"
    wrong: str  # what would be wrong
    after: str = ""
    more: tuple = ()  # further replacements of the file: (old, new)

    @property
    def path(self) -> str:
        return self.file if self.file.startswith("tools/") else f"include/cairn/{self.file}"

    def programs(self) -> list[tuple[str, str]]:
        return [tuple((p + ":").split(":")[:2]) for p in self.by.split()]


def all_suites() -> set[str]:
    """Of all tests; the targets of fuzzing."""
    texts = [f.read_text() for f in (ROOT / "tests").rglob("*.cpp")]
    found = {name for t in texts for name in re.findall(r"_TEST_SUITE\((\w+)", t)}
    return found | set(re.findall(r'^    {"(\w+)"', (ROOT / "tests/fuzz/targets.hpp").read_text(),
                                  re.MULTILINE))


def all_defects() -> list[Defect]:
    sys.path.insert(0, str(HERE))
    found = []
    for file in sorted((HERE / "defects").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"defects_{file.stem}", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found += module.DEFECTS
    names = [d.name for d in found]
    there = all_suites()
    for d in found:
        assert names.count(d.name) == 1, f"two defects are named {d.name}"
        for program, suites in d.programs():
            assert program in PROGRAMS, f"{d.name}: no program {program}"
            assert not suites or program in WITH_SUITES, f"{d.name}: {program} has no suites"
            for suite in filter(None, suites.split(",")):
                assert suite.split("/")[0] in there, f"{d.name}: there is no suite {suite}"
    return found


def chosen(patterns: list[str]) -> list[Defect]:
    everything = all_defects()
    if not patterns:
        return everything
    return [d for d in everything if any(fnmatch.fnmatch(d.name, p) for p in patterns)]
