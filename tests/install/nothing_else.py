# SPDX-License-Identifier: Apache-2.0
"""`meson install` of a checkout that nothing was asked of compiles nothing and installs headers,
cairn.pc and what CMake finds; the tool is installed where it was asked for. What would be installed
compiled fits other compilers, and its .pc file other machines.

Usage: nothing_else.py PROJECT_ROOT
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile


def meson(*arguments) -> str:
    r = subprocess.run(["meson", *map(str, arguments)], capture_output=True, text=True)
    if r.returncode != 0:
        sys.exit(f"meson {arguments}: exit {r.returncode}\n{r.stdout}{r.stderr}")
    return r.stdout


def problems(root: pathlib.Path, tmp: pathlib.Path):
    build, prefix = tmp / "build", tmp / "d/opt/cairn"
    meson("setup", build, root, "--prefix=/opt/cairn")
    meson("install", "-C", build, "--destdir", tmp / "d")
    if built := [str(f) for pattern in ("*.o", "*.gch") for f in build.rglob(pattern)]:
        yield f"it compiled {built}"
    there = {str(f.relative_to(prefix)) for f in (tmp / "d").rglob("*") if f.is_file()}
    expected = {str(h.relative_to(root)) for h in (root / "include").rglob("*.[hi]pp")}
    expected |= {"share/pkgconfig/cairn.pc", *(f"share/cmake/cairn/{name}" for name in
                   ("cairn-config.cmake", "cairn-config-version.cmake", "cairn-s3.cpp",
                    "cairn-targets.cmake", "cairn-unit.cpp.in"))}
    # Where there is an MPI; where there are libcurl and OpenSSL.
    expected |= there & {"share/pkgconfig/cairn-mpi.pc", "share/pkgconfig/cairn-s3.pc"}
    if there != expected:
        yield f"installed, but should not be: {there - expected}; the other way: {expected - there}"
    meson("setup", "--reconfigure", build, root, "-Dcompiled=true", "-Db_lto=true")
    targets = json.loads(meson("introspect", "--targets", build))
    library = next(t for t in targets if t["name"] == "cairn_compiled")
    flags = library["target_sources"][0]["parameters"]
    if lto := [f for f in flags if f.startswith("-flto")]:
        yield f"the library that is installed is compiled with {lto}"
    pc = (build / "meson-private/cairn-compiled.pc").read_text()
    if "-L${libdir}" not in pc or re.search("^Cflags:.*-I(?!.{includedir})", pc, re.M):
        yield f"cairn-compiled.pc names a folder of this machine, or not that of the library:\n{pc}"
    # Without compiling the tool: what would be built and installed, had it been asked for.
    targets = json.loads(meson("introspect", "--targets", build))
    if not any(t["name"] == "cairn" for t in targets):
        print("the tool was not looked at: no CLI11 (Debian: libcli11-dev)")
        return
    meson("setup", "--reconfigure", build, root, "-Dtools=enabled", "-Dcompiled=false")
    targets = json.loads(meson("introspect", "--targets", build))
    by_default = [t["name"] for t in targets if t["build_by_default"]]
    to_install = [t["name"] for t in targets if t["installed"]]
    if by_default != ["cairn"] or to_install != ["cairn"]:
        yield f"-Dtools=enabled builds {by_default} and installs {to_install}, not the tool alone"


def main() -> int:
    with tempfile.TemporaryDirectory() as tmp:
        found = list(problems(pathlib.Path(sys.argv[1]), pathlib.Path(tmp)))
    print("\n".join(found) or "nothing was built, nothing else installed")
    return 1 if found else 0


sys.exit(main())
