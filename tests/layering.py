# SPDX-License-Identifier: Apache-2.0
"""Checks who includes whom under include/cairn, that src.hpp compiles every definition once, and
that docs/building.md has every public header.

Usage: layering.py PROJECT_ROOT
"""
import pathlib
import re
import sys

# Folder (or file at the top) -> what its headers may include besides their own folder.
# Each may include detail/ and printable.hpp.
MAY_INCLUDE = {
    "detail": {"error.hpp"},
    "printable.hpp": set(),
    "error.hpp": set(),
    "activity.hpp": set(),
    "completion.hpp": {"error.hpp"},
    "observe": {"error.hpp"},
    "tensor": {"error.hpp"},
    "memory": {"error.hpp", "tensor"},
    "metadata": {"error.hpp", "tensor"},
    "mapping": {"error.hpp", "tensor", "metadata"},
    "state": {"error.hpp", "tensor", "metadata"},
    "format": {"error.hpp", "tensor", "metadata"},
    "planner": {"error.hpp", "activity.hpp", "tensor", "metadata", "state", "mapping"},
    # Direct I/O: memory that a device may write to.
    "object_store": {"error.hpp", "completion.hpp", "memory"},
    # Data planes: memory.
    "comm": {"error.hpp", "completion.hpp", "activity.hpp", "observe", "memory"},
    "storage": {"error.hpp", "completion.hpp", "activity.hpp", "tensor", "metadata", "mapping",
                "state", "planner", "format", "object_store"},
}
EVERYTHING = set(MAY_INCLUDE)
# What save and load share.
MAY_INCLUDE["verb"] = set(EVERYTHING)
EVERYTHING.add("verb")
# Leaves: for somebody else's types, so that nothing of cairn includes them, not even cairn.hpp.
MAY_INCLUDE["adapters"] = {"error.hpp", "tensor", "state", "models"}
MAY_INCLUDE["save"] = EVERYTHING
MAY_INCLUDE["load"] = EVERYTHING | {"load.hpp"}
MAY_INCLUDE["models"] = EVERYTHING
MAY_INCLUDE["save.hpp"] = MAY_INCLUDE["async_save.hpp"] = EVERYTHING | {"save"}
MAY_INCLUDE["convert"] = EVERYTHING | {"save"}
MAY_INCLUDE["convert.hpp"] = EVERYTHING | {"save", "save.hpp", "convert"}
MAY_INCLUDE["load.hpp"] = MAY_INCLUDE["async_load.hpp"] = EVERYTHING | {"load"}
MAY_INCLUDE["load_tree.hpp"] = EVERYTHING | {"load", "load.hpp"}
# The checkpoints of a directory or store.
MAY_INCLUDE["catalog"] = EVERYTHING - {"comm", "observe", "memory", "verb"}
MAY_INCLUDE["checkpointer"] = EVERYTHING | {"save", "load", "catalog"}
MAY_INCLUDE["checkpointer.hpp"] = EVERYTHING | {"save", "load", "catalog", "checkpointer"}
MAY_INCLUDE["models.hpp"] = EVERYTHING | {"models", "load"}
# Suites for models of users' own: nothing of cairn includes them.
MAY_INCLUDE["testing"] = EVERYTHING | {"save.hpp", "load.hpp"}
MAY_INCLUDE["cairn.hpp"] = EVERYTHING | {"save.hpp", "load.hpp", "load_tree.hpp", "models.hpp"}
MAY_INCLUDE["src.hpp"] = EVERYTHING | {"save", "load", "convert", "catalog", "checkpointer",
                                       "models"}

# What headers of somebody else's library begin with.
LIBRARIES = {"mpi": r"mpi\.h", "cuda": "cuda", "nccl": r"nccl\.h", "Eigen": "Eigen/",
             "dlpack": "dlpack/", "torch": "torch/|ATen/|c10/", "s3": "curl/|openssl/"}
# Leaves too: the only headers that may include theirs, and nothing else of cairn includes them.
FOREIGN = re.compile("|".join(LIBRARIES.values()))
MAY_INCLUDE_FOREIGN = {"adapters/dlpack.hpp", "adapters/eigen.hpp", "adapters/libtorch.hpp",
                       "memory/detail/cuda/runtime_api.hpp", "comm/detail/nccl/cuda_api.hpp",
                       "comm/detail/mpi/agree.hpp", "comm/detail/mpi/mailbox.hpp",
                       "comm/detail/mpi/engine.hpp", "comm/mpi_group.hpp", "comm/from_mpi.hpp",
                       "object_store/detail/s3/curl_library.hpp", "object_store/impl/s3/client.ipp",
                       "object_store/impl/s3/http.ipp", "object_store/impl/s3/sigv4.ipp"}
LEAVES = {
    "memory/detail/cuda/runtime_api.hpp": {"memory/cuda.hpp"},
    "memory/cuda.hpp": set(),
    "comm/detail/nccl/cuda_api.hpp": {"comm/nccl_data_plane.hpp", "comm/from_nccl.hpp"},
    "comm/nccl_data_plane.hpp": set(),
    "comm/from_nccl.hpp": set(),
    "comm/detail/mpi/agree.hpp": {"comm/detail/mpi/mailbox.hpp", "comm/from_mpi.hpp"},
    "comm/detail/mpi/mailbox.hpp": {"comm/detail/mpi/engine.hpp"},
    "comm/detail/mpi/engine.hpp": {"comm/mpi_group.hpp"},
    "comm/mpi_group.hpp": set(),
    "comm/from_mpi.hpp": set(),
}
# A leaf of several headers, and its own src.hpp: only they include one another.
S3 = re.compile(r"object_store/(detail/s3/|impl/s3/|s3|https|open_store)")
# Usable from .cu files and small tools: whatever they reach, directly or not, is free of these.
PLAIN = {"printable.hpp", "error.hpp", "observe", "tensor", "memory", "metadata", "mapping",
         "state", "planner", "format"}
# Asked by every verb, for programs that may have no Asio.
PLAIN_HEADERS = {"comm/detail/omitted.hpp", "comm/detail/launch_environment.hpp", "comm/solo.hpp"}
NOT_PLAIN = re.compile(r"boost/asio|cuda|nccl|mpi\.h")


def place(header: str) -> str:
    """The folder of a header, or its name at the top."""
    return header.split("/")[0]


def is_plain(header: str) -> bool:
    return header in PLAIN_HEADERS or place(header) in PLAIN and header not in LEAVES


class house:
    def __init__(self, include_dir: pathlib.Path):
        self.headers = {}  # name below cairn/ -> (includes of cairn, other includes)
        for file in sorted((include_dir / "cairn").rglob("*.[hi]pp")):
            # Not the quoted name in cxx20.hpp: no file has it.
            names = re.findall(r"^ *# *include *<([^>]+)>", file.read_text(), re.MULTILINE)
            own = [n.removeprefix("cairn/") for n in names if n.startswith("cairn/")]
            self.headers[str(file.relative_to(include_dir / "cairn"))] = (
                own, [n for n in names if not n.startswith("cairn/")])

    def reached(self, header: str, through=lambda name: True) -> dict[str, str]:
        """Each header that `header` includes -> via which; goes on where `through` says so."""
        found, todo = {}, [header]
        while todo:
            current = todo.pop()
            for name in self.headers.get(current, ([], []))[0]:
                if name in found:
                    continue
                found[name] = current
                if through(name):
                    todo.append(name)
        return found

    def with_libraries(self, there) -> list[str]:
        """What can be included where only these of LIBRARIES are, without those like src.hpp."""
        def needed(header):
            for name in {header, *self.reached(header)}:
                for other in self.headers[name][1]:
                    yield from (lib for lib, start in LIBRARIES.items() if re.match(start, other))
        return [f"cairn/{h}" for h in self.headers
                if not h.endswith("src.hpp") and set(needed(h)) <= set(there)]

    def others(self, files) -> list[str]:
        """What these include of others."""
        return sorted({name for f in files for name in self.headers[f.removeprefix("cairn/")][1]})

    def problems(self):
        for header, (own, others) in self.headers.items():
            here = place(header)
            for name in others:
                if FOREIGN.match(name) and header not in MAY_INCLUDE_FOREIGN:
                    yield f"{header} must not include <{name}>: only {sorted(MAY_INCLUDE_FOREIGN)}"
            for name in own:
                if header not in LEAVES.get(name, {header}) or \
                        S3.match(name) and not S3.match(header):
                    yield f"{header} must not include <cairn/{name}>, a leaf"
            if here not in MAY_INCLUDE:
                yield f"{header}: '{here}' has no place in the house: add it to MAY_INCLUDE"
                continue
            allowed = MAY_INCLUDE[here] | {here, "detail", "printable.hpp"}
            for name in own:
                if name not in self.headers:
                    yield f"{header}: <cairn/{name}> does not exist"
                elif place(name) not in allowed and name not in allowed:
                    yield f"{header} must not include <cairn/{name}>"
            if is_plain(header):
                for name in [header, *self.reached(header)]:
                    for other in self.headers.get(name, ([], []))[1]:
                        if NOT_PLAIN.search(other):
                            yield f"{header} must stay plain, but reaches <{other}> (in {name})"
            # Includes stand above what a header says, so it is enough to reach it.
            if "detail/cxx20.hpp" not in [header, *self.reached(header)]:
                yield f"{header} must include <cairn/detail/cxx20.hpp>, or a header that does"
            # Where nothing is compiled separately, a header ends with its own impl/*.ipp.
            if header in self.reached(header, lambda n: not n.endswith(".ipp")) and \
                    not header.endswith(".ipp"):
                yield f"{header} includes itself in the end"


def miscompiled(root: pathlib.Path, headers):
    """src.hpp includes every .ipp, in one of its units; s3_src.hpp those of its leaf."""
    text = (root / "include/cairn/src.hpp").read_text()
    head, *units = re.split(r"^#if (CAIRN_SRC_UNIT == .*)\n", text, flags=re.MULTILINE)
    expected = int(re.search("#define CAIRN_SRC_UNITS (.*)", head)[1])
    conditions, bodies = units[::2], [body.split("#endif")[0] for body in units[1::2]]
    if conditions != [f"CAIRN_SRC_UNIT == {i} || CAIRN_SRC_UNIT == 0"
                      for i in range(1, expected + 1)]:
        yield f"src.hpp: CAIRN_SRC_UNITS is {expected}, but its units are {conditions}"
    compiled = [n for body in bodies for n in re.findall("#include <cairn/(.*)>", body)]
    of_s3 = re.findall("#include <cairn/(.*ipp)>",
                       (root / "include/cairn/object_store/s3_src.hpp").read_text())
    for name in sorted(h for h in headers if h.endswith(".ipp")):
        counts = compiled.count(name), of_s3.count(name)
        if S3.match(name) and counts != (0, 1):
            yield f"object_store/s3_src.hpp must include <cairn/{name}> once, and src.hpp must not"
        if not S3.match(name) and counts != (1, 0):
            yield f"src.hpp must include <cairn/{name}> in one unit, not in {counts[0]}"


def undocumented(root: pathlib.Path, headers):
    """docs/building.md has every public header."""
    page = (root / "docs/building.md").read_text()
    rows = re.findall(r"^\| `cairn/(.*?)`: .*? \| (.*) \|$", page, re.MULTILINE)
    listed = {folder + name for folder, names in rows for name in re.findall("`(.*?)`", names)}
    whole = tuple(folder for folder, names in rows if names == "all")
    public = {h for h in headers if h.endswith(".hpp") and "detail" not in h.split("/")}
    for name in sorted(listed ^ {h for h in public if not h.startswith(whole)}):
        yield f"docs/building.md, 'All public headers': {name} is " + \
            ("missing" if name in public else "no public header")
    for folder in whole:
        if not any(h.startswith(folder) for h in public):
            yield f"docs/building.md, 'All public headers': there is no folder {folder}"


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    h = house(root / "include")
    found = [*h.problems(), *miscompiled(root, h.headers),
             *undocumented(root, h.headers)]
    print("\n".join(found) or f"{len(h.headers)} headers, each in its place")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
