# SPDX-License-Identifier: Apache-2.0
"""A user's program builds against cairn, as docs/building.md and the README say, and runs.

    run.py PROJECT_ROOT make|cmake|meson|wrap BUILD FOLDER OBJECTS

wrap: cairn is a subproject; the program is the README's smallest. cmake: cairn is installed, and
part of the program's build tree. The others: what `meson install` of BUILD makes, moved to another
folder, is found by pkg-config. All is compiled in FOLDER, which is emptied first; cairn's own units
are taken from OBJECTS (compiler.py), unless that is `none`.
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
        for part in ("include", "meson.build", "meson_options.txt", "tools/cmake", "tools/meson"):
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
    # Header-only instead.
    shutil.copy(app / "small.cpp", app / "trainer.cpp")
    run(of_meson(root, app, "dependency('cairn-header-only')"))


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
    trainer = (app / "trainer.cpp").read_text()
    # All that a compiler needs without any tool. A program that uses much takes half a minute, so
    # the libraries that one needs are compared instead.
    command = block(page, "sh", "g++ ").strip().replace("path/to/cairn", str(prefix))
    run("sh", "-e", "-c", command.replace("-O2", "-O0").replace("trainer.cpp", "small.cpp"),
        cwd=app)
    run(app / "trainer", cwd=app)
    said, needed = (set(re.findall(r"(?<=\s)-l\w+", " " + text)) for text in (
        command, run("pkg-config", "--libs", "cairn", env=environment)))
    if said != needed:
        sys.exit(f"{page.name} links {sorted(said)}, cairn.pc {sorted(needed)}")
    flags = dict(environment, CXXFLAGS="-O0 -Wall -Wextra -Werror")

    def made(makefile: str, source: str):
        (app / "trainer").unlink()
        (app / "trainer.o").unlink(missing_ok=True)
        (app / "Makefile").write_text(makefile)
        (app / "trainer.cpp").write_text(source)
        run("make", cwd=app, env=flags)
        run(app / "trainer", cwd=app)

    made(block(page, "make"), (app / "small.cpp").read_text())
    # With what knows no type of the user's compiled once, for all changes of theirs.
    (app / "cairn.cpp").write_text(block(page, "cpp", "cairn/src.hpp"))
    for having in ("trainer.o cairn.o", "CAIRN_SRC_UNIT="):
        made(block(page, "make", having), trainer)
        (app / "trainer.cpp").touch()
        if "cairn.cpp" in run("make", "-n", cwd=app, env=flags):
            sys.exit("cairn.cpp is compiled again although only trainer.cpp has changed")
    if (prefix / "share/pkgconfig/cairn-compiled.pc").exists():
        made(block(page, "make").replace("cairn)", "cairn-compiled)"), trainer)


def configured(app: pathlib.Path, build: pathlib.Path, *options) -> subprocess.CompletedProcess:
    return subprocess.run(list(map(str, [
        "cmake", "-S", app, "-B", build, "-DCMAKE_BUILD_TYPE=Debug",
        "-DCMAKE_CXX_FLAGS=-O0 -Wall -Wextra -Werror", *options])), capture_output=True, text=True)


def built(app: pathlib.Path, build: pathlib.Path, *options):
    r = configured(app, build, *options)
    if r.returncode != 0:
        sys.exit(f"{options}: exit {r.returncode}\n{r.stdout}{r.stderr}")
    run("cmake", "--build", build)


def with_cmake(root: pathlib.Path, app: pathlib.Path, prefix: pathlib.Path, environment: dict):
    page = root / "docs/building.md"
    # In the program's build tree.
    tree = app / "tree"
    shutil.copytree(HERE / "app", tree)
    built(tree, tree / "build", f"-DCAIRN={root}", f"-DCMAKE_PREFIX_PATH={prefix}")
    if str(root) not in (tree / "build/CMakeFiles/small.dir/flags.make").read_text():
        sys.exit("the program uses the installed cairn, which lacks what was asked of it")
    libraries = list((tree / "build").rglob("libcairn*.a"))
    if len(libraries) != 1:
        sys.exit(f"cairn is to be compiled once: {libraries}")
    for program in ("small", "mixed"):
        run(tree / "build" / program, cwd=tree)
    # What is compiled in both ways must not have a copy of anything that a process has one of.
    copies = re.findall(r" [bd] (_ZZ+NK?5cairn.*)", run("nm", libraries[0]))
    if copies:
        sys.exit("a static in a function that is compiled once (CAIRN_DECL): files compiled "
                 "header-only have another:\n" + run("c++filt", *copies))
    # The leaf, which is asked for.
    r = configured(tree, tree / "build", "-DLEAVES=mpi")
    if r.returncode == 0:
        run("cmake", "--build", tree / "build", "--target", "over_mpi")
    elif "cairn::mpi" not in r.stderr or shutil.which("mpicxx"):
        sys.exit(f"with MPI: exit {r.returncode}\n{r.stdout}{r.stderr}")
    else:
        print("cairn::mpi: skipped, CMake found no MPI (Debian: libopenmpi-dev)")
    r = configured(tree, tree / "build", "-DLEAVES=s3")
    if r.returncode == 0:
        run("cmake", "--build", tree / "build", "--target", "over_s3")
        run(tree / "build/over_s3")
    elif "cairn::s3" not in r.stderr or shutil.which("curl-config"):
        sys.exit(f"with S3: exit {r.returncode}\n{r.stdout}{r.stderr}")
    else:
        print("cairn::s3: skipped, CMake found no libcurl or no OpenSSL (Debian: "
              "libcurl4-openssl-dev libssl-dev)")
    # Debug alone is slow on purpose.
    configured(tree, tree / "build", "-DCMAKE_BUILD_TYPE=")
    if "-O2" not in next((tree / "build").rglob("cairn_compiled.dir/flags.make")).read_text():
        sys.exit("without a build type cairn is compiled without -O2")
    # As the page says: fetched, which here is found, and installed.
    for having, option in (("FetchContent", f"-DFETCHCONTENT_SOURCE_DIR_CAIRN={root}"),
                           ("find_package", f"-DCMAKE_PREFIX_PATH={prefix}")):
        (app / "CMakeLists.txt").write_text(block(page, "cmake", having))
        built(app, app / having, option)
        run(app / having / "trainer", cwd=app)
    cache = (app / "find_package/CMakeCache.txt").read_text()
    if f"cairn_DIR:PATH={prefix}/" not in cache:
        sys.exit(f"CMake found another cairn: {re.findall('cairn_DIR.*', cache)}")
    # A version and a leaf that are not there.
    for wrong, expected in (("cairn 0.0", 'compatible with requested version "0.0"'),
                            ("cairn 0.1 COMPONENTS rdma", "cairn::rdma")):
        (tree / "CMakeLists.txt").write_text(
            block(page, "cmake", "find_package").replace("cairn 0.1", wrong))
        r = configured(tree, tree / "other", f"-DCMAKE_PREFIX_PATH={prefix}")
        if r.returncode == 0 or expected not in " ".join(r.stderr.split()):
            sys.exit(f"{wrong} must not be found:\n{r.stdout}{r.stderr}")


def of_meson(root: pathlib.Path, app: pathlib.Path, dependency: str, **how):
    """The page's program, with another dependency."""
    (app / "meson.build").write_text(
        block(root / "docs/building.md", "meson").replace("dependency('cairn')", dependency))
    build = app / ("build-" + re.sub(r"\W+", "-", dependency))
    meson_setup(root, app, build, **how)
    run("meson", "compile", "-C", build, **how)
    return build / "trainer"


def with_meson(root: pathlib.Path, app: pathlib.Path, prefix: pathlib.Path, environment: dict):
    trainer = (app / "trainer.cpp").read_text()
    shutil.copy(app / "small.cpp", app / "trainer.cpp")
    run(of_meson(root, app, "dependency('cairn')", env=environment), cwd=app)
    library = (prefix / "share/pkgconfig/cairn-compiled.pc").exists()
    if library:
        (app / "trainer.cpp").write_text(trainer)
        run(of_meson(root, app, "dependency('cairn-compiled')", env=environment), cwd=app)
    else:
        print("cairn-compiled.pc: not looked at, this folder is configured without -Dcompiled=true")
    if (prefix / "share/pkgconfig/cairn-s3.pc").exists():
        shutil.copy(app / "over_s3.cpp", app / "trainer.cpp")
        run(of_meson(root, app, "dependency('cairn-s3')", env=environment), cwd=app)
    # The MPI that was found when cairn was configured is part of a package of its own.
    if (prefix / "share/pkgconfig/cairn-mpi.pc").exists():
        shutil.copy(app / "over_mpi.cpp", app / "trainer.cpp")
        # Open MPI's own headers are not free of warnings.
        mpi = "'cairn-mpi', include_type: 'system'"
        both = f"[dependency('cairn-compiled'), dependency({mpi})]" if library else \
            f"dependency({mpi})"
        of_meson(root, app, both, env=environment)


def main():
    root, how = pathlib.Path(sys.argv[1]), sys.argv[2]
    tool = how if how in ("make", "cmake") else "meson"
    if not shutil.which(tool) or subprocess.run([tool, "--version"],
                                                capture_output=True).returncode != 0:
        print(f"not run: {tool} was not found (Debian: {tool})")
        sys.exit(77)
    compiler = os.environ.get("CXX", "c++")
    if CCACHE and "ccache" not in compiler:
        compiler = f"ccache {compiler}"
    # CMake takes one word for the compiler, and the others in a variable of their own.
    launcher = [sys.executable, str(HERE / "compiler.py"), sys.argv[5], *compiler.split()[:-1]]
    os.environ["CXX"] = compiler.split()[-1] if how == "cmake" else \
        " ".join([*launcher, compiler.split()[-1]])
    os.environ["CMAKE_CXX_COMPILER_LAUNCHER"] = ";".join(launcher)
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
