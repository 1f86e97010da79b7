# SPDX-License-Identifier: Apache-2.0
"""The contenders of benchmarks/compare, and how each saves and loads.

Contenders have a name and `run(mode, folder, ranks, steps)`: the line of figures of so many saves,
asynchronous saves or loads, with "times" and, of asynchronous saves, "stalls" in seconds. A
contender is a limit if it moves the bytes and nothing else."""
import json, os, shutil, subprocess

from measure import BUILD, cairn_command, files_under, run, why_no_direct_io

HERE = os.path.dirname(os.path.abspath(__file__))


class Gpt2:
    """cairn, or the loop without a checkpoint that gpt2.cpp calls bare."""

    def __init__(self, name, *options, limit=False, modes=("save", "async", "load")):
        self.name, self.options, self.limit = name, options, limit
        self.modes = ("save", "load") if limit else modes

    def run(self, mode, folder, ranks, steps=1, *more):
        program, options = cairn_command(ranks)
        own = self.options if mode in self.modes else ()  # another mode prepares what it reads
        return run(*program, mode, folder, *options, "--steps", str(steps), *own, *more)


class Torch:
    """PyTorch's DCP, or another library under Python."""

    limit = False

    def __init__(self, name, python, *options, modes=("save", "load")):
        self.name, self.python, self.options, self.modes = name, python, options, modes

    def run(self, mode, folder, ranks, steps=1, *more):
        return run(self.python, f"{HERE}/gpt2_dcp.py", mode, folder, "--ranks", str(ranks),
                   "--steps", str(steps), *self.options, *more)


class Fio:
    """The storage as measured by fio: direct, in large blocks, many in flight."""

    name, limit, modes = "fio", True, ("save", "load")

    def __init__(self, size): self.size = size

    def run(self, mode, folder, ranks, steps=1):
        os.makedirs(folder, exist_ok=True)
        times = [self.once(mode, folder, ranks) for _ in range(steps)]
        return {"mode": mode, "ranks": ranks, "bytes": self.size, "times": times}

    def once(self, mode, folder, ranks):
        job = ["--name=all", f"--directory={folder}", "--direct=1", "--ioengine=libaio",
               "--bs=1M", "--iodepth=16", "--group_reporting", "--output-format=json"]
        if mode == "save":
            each = self.size // ranks >> 20  # MiB
            job += ["--rw=write", f"--numjobs={ranks}", f"--size={each}M", "--end_fsync=1",
                    "--filename_format=$jobnum"]
            for path in files_under(folder): os.unlink(path)
        else:
            # Equal parts of everything; a job reads its files one after the other.
            names = sorted(os.path.basename(p) for p in files_under(folder))
            job += ["--rw=read", "--file_service_type=sequential"]
            if ranks <= len(names):
                shares = [names[i * len(names) // ranks : (i + 1) * len(names) // ranks]
                          for i in range(ranks)]
                job = job[1:] + [o for i, share in enumerate(shares)
                                 for o in (f"--name={i}", "--filename=" + ":".join(share))]
            else:
                parts = ranks // len(names)
                size = os.path.getsize(f"{folder}/{names[0]}") // parts >> 20
                job = job[1:] + [o for name in names for k in range(parts)
                                 for o in (f"--name={name}.{k}", f"--filename={name}",
                                           f"--offset={k * size}M", f"--size={size}M")]
        out = subprocess.run(["fio", *job], capture_output=True, text=True)
        if out.returncode != 0: raise SystemExit(f"fio: {out.stdout}{out.stderr}")
        result = json.loads(out.stdout[out.stdout.index("{"):])["jobs"]
        side = [j["write" if mode == "save" else "read"] for j in result]
        moved, slowest = sum(s["io_bytes"] for s in side), max(s["runtime"] for s in side) / 1000
        return slowest * self.size / moved  # to the MiB less


def has_direct_io(folder):
    """Whether files there can bypass the page cache. On tmpfs they are the page cache."""
    return file_system(folder) != "tmpfs" and not why_no_direct_io(folder)


def file_system(folder):
    return subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True,
                          check=True).stdout.strip()


def contenders(torch_python, folder, size):
    """All contenders that can run here, and for each other one a line that says why it cannot."""
    some, absent = [Gpt2("cairn")], []
    if torch_python:
        some += [Torch("DCP", torch_python, modes=("save", "async", "load")),
                 Torch("DCP, tuned", torch_python, "--with", "dcp-tuned", modes=("save",)),
                 Torch("DCP, cached stager", torch_python, "--stager", "cached", modes=("async",))]
        for library in ("safetensors", "tensorstore"):
            found = subprocess.run([torch_python, "-c", f"import {library}"], capture_output=True)
            if found.returncode == 0:
                some.append(Torch(library, torch_python, "--with", library))
            else:
                absent.append(f"{library}: not installed: {torch_python} -m pip install {library}")
    else:
        absent.append("PyTorch and the other Python libraries: --torch-python was not passed")
    some.append(Gpt2("bare loop", "--bare", "buffered", limit=True))
    if not has_direct_io(folder):
        absent.append("direct I/O, and fio with it: not on this file system")
    else:
        some.append(Gpt2("cairn, page cache", "--page-cache", modes=("save", "load")))
        some.append(Gpt2("bare loop, direct", "--bare", "direct", limit=True))
        if shutil.which("fio"):
            some.append(Fio(size))
        else:
            absent.append("fio: not installed: apt-get install fio")
    return some, absent
