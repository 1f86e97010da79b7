# SPDX-License-Identifier: Apache-2.0
"""A user's program builds against cairn, as docs/building.md and the README say, and runs.

    run.py PROJECT_ROOT make|cmake|meson|wrap BUILD FOLDER

wrap: cairn is a subproject; the program is the README's smallest. The others: what `meson install`
of BUILD makes, moved to another folder, is found by pkg-config or by CMake. All is compiled in
FOLDER, which is emptied first; by ccache, where it is installed, and so only once unless something
that is compiled has changed.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).parent
CCACHE = shutil.which("ccache")


def run(*command, **how) -> str:
    r = subprocess.run(list(map(str, command)), capture_output=True, text=True, **how)
    if r.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {r.returncode}\n{r.stdout}{r.stderr}")
    return r.stdout


def block(page: pathlib.Path, language: str, having: str = "") -> str:
    """The first block of a page in that language with that text."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.M | re.S)
    return next(b for b in found if having in b)


def wrap(root: pathlib.Path, app: pathlib.Path):
    """As a wrap unpacks it, but from an archive of this checkout instead of the network."""
    (app / "subprojects/packagefiles").mkdir(parents=True)
    with tarfile.open(app / "subprojects/packagefiles/cairn.tar", "w") as archive:
        for part in ("include", "meson.build", "meson_options.txt"):
            archive.add(root / part, f"cairn/{part}")
    text, n = re.subn(r"\[wrap-git\].*?\n\n", "[wrap-file]\ndirectory = cairn\n"
                      "source_filename = cairn.tar\n\n", block(root / "docs/building.md", "ini"),
                      flags=re.S)
    assert n == 1, "the cairn.wrap of docs/building.md has changed"
    (app / "subprojects/cairn.wrap").write_text(text)
    (app / "trainer.cpp").write_text(block(root / "README.md", "cpp", "int main"))
    meson_setup(root, app, app / "build")
    # Nothing of cairn's own: no target, nothing to install, no library that only its tests want.
    targets = [t["name"] for t in introspect(app / "build", "targets") if t["build_by_default"]]
    names = [d["name"].lower() for d in introspect(app / "build", "dependencies")]
    installed = introspect(app / "build", "installed")
    log = (app / "build/meson-logs/meson-log.txt").read_text()
    sought = re.findall(r"(?i)^.*dependency .*(?:cli11|benchmark|unit_test).*$", log, re.M)
    sought += [n for n in names if re.search("cli11|benchmark|unit_test", n)]
    if targets != ["trainer"] or installed or sought:
        sys.exit(f"as a subproject: targets {targets}, installed {installed}, sought {sought}")
    run("meson", "compile", "-C", app / "build")
    run(app / "build/trainer", cwd=app)
    if not (app / "ckpt/step_100/.metadata").exists():
        sys.exit("the program left no checkpoint")
    # The same, with what knows no type of the user's compiled once.
    text = (app / "meson.build").read_text()
    (app / "meson.build").write_text(text.replace("'cairn')", "'cairn_compiled')"))
    meson_setup(root, app, app / "build-compiled")
    run("meson", "compile", "-C", app / "build-compiled")
    run(app / "build-compiled/trainer", cwd=app)


def meson_setup(root: pathlib.Path, app: pathlib.Path, build: pathlib.Path, **how):
    """The page's meson.build, under warnings of the user's own."""
    if not (app / "meson.build").exists():
        (app / "meson.build").write_text(block(root / "docs/building.md", "meson"))
    # -O0: the question is whether it builds.
    run("meson", "setup", build, app, "-Dbuildtype=debug", "-Dwarning_level=2", "-Dwerror=true",
        **how)


def introspect(build: pathlib.Path, what: str):
    return json.loads(run("meson", "introspect", f"--{what}", build))


def installed(build: str, tmp: pathlib.Path) -> pathlib.Path:
    """A prefix with what is installed for development, moved from where it was installed to."""
    run("meson", "install", "-C", build, "--no-rebuild", "--tags", "devel", "--destdir", tmp / "d")
    found = list((tmp / "d").rglob("share/pkgconfig/cairn.pc"))
    if len(found) != 1:
        sys.exit(f"expected one cairn.pc in share/pkgconfig, found {found}")
    return found[0].parent.parent.parent.rename(tmp / "moved")


def with_make(root: pathlib.Path, app: pathlib.Path, prefix: pathlib.Path, environment: dict):
    page = root / "docs/building.md"
    # The flags that a compiler needs without any tool; linked, but with less to compile.
    (app / "trainer.cpp").write_text(
        "#include <cairn/format/crc.hpp>\n#include <cairn/tensor/box.hpp>\n"
        "int main() { return cairn::format::crc32({}) == 0 ? 0 : 1; }\n")
    command = block(page, "sh", "g++ ").strip().replace("path/to/cairn", str(prefix))
    run("sh", "-e", "-c", command.replace("-O2", "-O0"), cwd=app)
    run(app / "trainer")
    (app / "trainer").unlink()
    shutil.copy(HERE / "app/trainer.cpp", app)
    (app / "Makefile").write_text(block(page, "make"))
    flags = dict(environment, CXXFLAGS="-O0 -Wall -Wextra -Werror")
    run("make", cwd=app, env=flags)
    run(app / "trainer", cwd=app)
    # The same, with what knows no type of the user's compiled once: once for all changes of theirs.
    (app / "trainer").unlink()
    (app / "cairn.cpp").write_text(block(page, "cpp", "cairn/src.hpp"))
    (app / "Makefile").write_text(block(page, "make", "CAIRN_SEPARATE_COMPILATION"))
    run("make", cwd=app, env=flags)
    run(app / "trainer", cwd=app)
    (app / "trainer.cpp").touch()
    if "cairn.cpp" in run("make", "-n", cwd=app, env=flags):
        sys.exit("cairn.cpp is compiled again although only trainer.cpp has changed")


def with_cmake(root: pathlib.Path, app: pathlib.Path, prefix: pathlib.Path, environment: dict):
    text = block(root / "docs/building.md", "cmake")
    (app / "CMakeLists.txt").write_text(text)
    configure = ["cmake", "-S", app, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Debug",
                 "-DCMAKE_CXX_FLAGS=-O0 -Wall -Wextra -Werror"]
    if CCACHE:
        configure.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    run(*configure, "-B", app / "build")
    cache = (app / "build/CMakeCache.txt").read_text()
    if f"cairn_DIR:PATH={prefix}/" not in cache:
        sys.exit(f"CMake found another cairn: {re.findall('cairn_DIR.*', cache)}")
    run("cmake", "--build", app / "build")
    run(app / "build/trainer", cwd=app)
    # A version that is not there.
    other = app / "other"
    other.mkdir()
    (other / "CMakeLists.txt").write_text(text.replace("cairn 0.1", "cairn 0.0"))
    r = subprocess.run([*map(str, configure[:2]), other, "-B", other / "build", *configure[3:]],
                       capture_output=True, text=True)
    words = " ".join(r.stderr.split())
    if r.returncode == 0 or 'compatible with requested version "0.0"' not in words:
        sys.exit(f"a cairn 0.0 must not be found:\n{r.stdout}{r.stderr}")


def with_meson(root: pathlib.Path, app: pathlib.Path, prefix: pathlib.Path, environment: dict):
    meson_setup(root, app, app / "build", env=environment)
    run("meson", "compile", "-C", app / "build", env=environment)
    run(app / "build/trainer", cwd=app)
    # The MPI that was found when cairn was configured is part of a package of its own.
    if (prefix / "share/pkgconfig/cairn-mpi.pc").exists():
        shutil.copy(HERE / "app/over_mpi.cpp", app / "trainer.cpp")
        text = (app / "meson.build").read_text()
        # Open MPI's own headers are not free of warnings.
        (app / "meson.build").write_text(
            text.replace("'cairn')", "'cairn-mpi', include_type: 'system')"))
        meson_setup(root, app, app / "build-mpi", env=environment)
        run("meson", "compile", "-C", app / "build-mpi", env=environment)


def main():
    root, how = pathlib.Path(sys.argv[1]), sys.argv[2]
    tool = how if how in ("make", "cmake") else "meson"
    if not shutil.which(tool) or subprocess.run([tool, "--version"],
                                                capture_output=True).returncode != 0:
        print(f"not run: {tool} was not found (Debian: {tool})")
        sys.exit(77)
    compiler = os.environ.get("CXX", "c++")
    if CCACHE and how != "cmake" and "ccache" not in compiler:
        os.environ["CXX"] = f"ccache {compiler}"
    folder = pathlib.Path(sys.argv[4])
    shutil.rmtree(folder, ignore_errors=True)
    app = folder / "app"
    shutil.copytree(HERE / "app", app)
    if how == "wrap":
        wrap(root, app)
    else:
        prefix = installed(sys.argv[3], folder)
        environment = dict(os.environ, PKG_CONFIG_PATH=str(prefix / "share/pkgconfig"))
        {"make": with_make, "cmake": with_cmake, "meson": with_meson}[how](
            root, app, prefix, environment)
    shutil.rmtree(folder)
    print(f"{how}: configured, built, ran")


main()
