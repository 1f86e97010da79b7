# SPDX-License-Identifier: Apache-2.0
"""A library that is installed after a build folder was configured is found the next time.

Usage: configured_again.py PROJECT_ROOT
"""
import os
import pathlib
import subprocess
import sys
import tempfile


def configure(folder: pathlib.Path, *command: str) -> str:
    """Meson's answer about DLPack's header."""
    run = subprocess.run(["meson", "setup", *command], capture_output=True, text=True,
                         env=dict(os.environ, CXX=str(folder / "compiler")))
    if run.returncode != 0:
        sys.exit(run.stdout + run.stderr)
    introspect = subprocess.run(["meson", "introspect", "--tests", folder / "build"],
                                capture_output=True, text=True, check=True).stdout
    return "skipped" if "no dlpack/dlpack.h" in introspect else "found"


def main() -> int:
    root = sys.argv[1]
    with tempfile.TemporaryDirectory() as tmp:
        folder = pathlib.Path(tmp)
        # Where DLPack is missing, a compiler that sees another one; where not, one that does not.
        for name, text in {"missing": "#error not installed\n",
                           "installed": "enum { kDLComplex };\n"}.items():
            (folder / name / "dlpack").mkdir(parents=True)
            (folder / name / "dlpack/dlpack.h").write_text(text)
        (folder / "seen").symlink_to(folder / "missing")
        compiler = os.environ.get("CXX", "c++")
        (folder / "compiler").write_text(f'#!/bin/sh\nexec {compiler} -I{folder}/seen "$@"\n')
        (folder / "compiler").chmod(0o755)
        # Nothing that is not asked about: that takes time.
        options = [f"-D{o}=disabled" for o in ("tools", "examples", "benchmarks", "eigen",
                                               "libtorch", "cuda", "nccl", "mpi", "s3")]
        first = configure(folder, str(folder / "build"), root, "-Dtests=enabled", *options)
        (folder / "seen").unlink()
        (folder / "seen").symlink_to(folder / "installed")
        second = configure(folder, "--reconfigure", str(folder / "build"), root)
    print(f"before it was installed: {first}; afterwards: {second}")
    return 0 if (first, second) == ("skipped", "found") else 1


sys.exit(main())
