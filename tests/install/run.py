# SPDX-License-Identifier: Apache-2.0
"""A user's project builds against cairn and runs.

    run.py PROJECT_ROOT subproject|installed [BUILD]

subproject: cairn lies in subprojects/, as its wrap would put it there; the program is the README's
smallest. installed: pkg-config finds what `meson install` of BUILD makes, and nothing else.
"""
import os, pathlib, re, shutil, subprocess, sys, tempfile

HERE = pathlib.Path(__file__).parent


def run(*command, **how):
    r = subprocess.run(list(map(str, command)), capture_output=True, text=True, **how)
    if r.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {r.returncode}\n{r.stdout}{r.stderr}")
    return r.stdout


def smallest_program(readme: str) -> str:
    """The first C++ block of the README that is a program."""
    return next(b for b in re.findall(r"^```cpp\n(.*?)^```$", readme, re.M | re.S)
                if "int main" in b)


TINY = """#include <cairn/cairn.hpp>
int main() { return cairn::sizes{2, 3}.product() == 6 ? 0 : 1; }
"""

OVER_MPI = """#include <cairn/comm/mpi_group.hpp>
int main(int argc, char** argv) {
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    { cairn::mpi_group ranks(MPI_COMM_WORLD); }
    return MPI_Finalize();
}
"""


def main():
    root, how = pathlib.Path(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as tmp:
        app = pathlib.Path(tmp) / "app"
        shutil.copytree(HERE / "app", app)
        readme = (root / "README.md").read_text()
        (app / "trainer.cpp").write_text(smallest_program(readme) if how == "subproject" else TINY)
        environment = dict(os.environ)
        if how == "subproject":
            (app / "subprojects").mkdir()
            place = app / "subprojects" / "cairn"
            place.mkdir()
            for part in ("include", "meson.build", "meson_options.txt"):
                (place / part).symlink_to(root / part)
        else:
            run("meson", "install", "-C", sys.argv[3], "--no-rebuild", "--tags", "devel",
                "--destdir", f"{tmp}/installed")
            found = list(pathlib.Path(tmp, "installed").rglob("cairn.pc"))
            if len(found) != 1: sys.exit(f"expected one cairn.pc, found {found}")
            environment["PKG_CONFIG_PATH"] = str(found[0].parent)
            # As if it had been installed under that folder; a sysroot would move the paths of what
            # cairn needs, MPI's say, as well.
            for pc in found[0].parent.glob("cairn*.pc"):
                pc.write_text(re.sub(r"^prefix=", f"prefix={tmp}/installed", pc.read_text(),
                                     flags=re.M))
        # -O0: the question is whether it builds.
        run("meson", "setup", app / "build", app, "-Dbuildtype=debug", env=environment)
        run("meson", "compile", "-C", app / "build", env=environment)
        run(app / "build" / "trainer", cwd=tmp)
        # What was found when cairn was configured is installed as a package of its own.
        if how == "installed" and list(found[0].parent.glob("cairn-mpi.pc")):
            (app / "trainer.cpp").write_text(OVER_MPI)
            text = (app / "meson.build").read_text()
            # Open MPI's own headers are not free of warnings.
            (app / "meson.build").write_text(
                text.replace("'cairn')", "'cairn-mpi', include_type: 'system')"))
            run("meson", "setup", app / "build-mpi", app, "-Dbuildtype=debug", env=environment)
            run("meson", "compile", "-C", app / "build-mpi", env=environment)
        if how == "subproject" and not pathlib.Path(tmp, "ckpt/step_100/.metadata").exists():
            sys.exit("the program left no checkpoint")
    print(f"{how}: configured, built, ran")


main()
