#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs under a real Slurm on three nodes, and checkpoints on a real distributed file system.

    clusters.py BUILD [slurm | gluster]...

Prints one line a check and `N passed, N failed`; exits with 77 and says why where it cannot run.
"""
import os, re, shutil, signal, subprocess, sys, tempfile, time
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f"{HERE}/../support"]
from checks import check, end, run

BUILD = os.path.abspath(sys.argv[1])
JOB, CAIRN = f"{BUILD}/tests/clusters/cluster_job", f"{BUILD}/tools/cairn"
# Nothing that another run left can be in the way, and nothing of this one outlives it. The shell
# reaps the daemons that are killed: a zombie counts as running.
APART = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
         "bash", "-c", '"$@"; exit $?', "bash"]


def wait_for(condition, seconds=60):
    """What `condition` returns once it is true, or the last thing that it returned."""
    end_of_wait = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end_of_wait: time.sleep(0.1)
    return found


# Slurm --------------------------------------------------------------------------------------------
class Batch:
    """A job of six ranks on three nodes. What it prints is kept over its attempts."""

    def __init__(self, tmp, name, steps, milliseconds, partition="low"):
        self.dir = f"{tmp}/{name}"
        os.makedirs(self.dir)
        with open(f"{self.dir}/script", "w") as f:  # as docs/launching.md has it
            f.write(f"""#!/bin/bash
trap : TERM
export CAIRN_RENDEZVOUS_DIR=$SLURM_SUBMIT_DIR
srun --kill-on-bad-exit=0 {JOB} train ckpt {steps} {milliseconds}
code=$?
echo "srun returned $code"
if [ $code = 0 ] && [ ! -e finished ]; then scontrol requeue $SLURM_JOB_ID; fi
exit $code
""")
        code, out = run("sbatch", "--parsable", "-p", partition, "-N3", "-n6", "--requeue",
                        "--open-mode=append", "-o", f"{self.dir}/out", "-D", self.dir,
                        f"{self.dir}/script", cwd=self.dir)
        self.id = out if code == 0 else f"(sbatch: {out})"

    def said(self, pattern):
        try:
            with open(f"{self.dir}/out", errors="replace") as f:
                return re.findall(pattern, f.read(), re.MULTILINE)
        except FileNotFoundError:
            return []

    def until(self, pattern, times, seconds=60):
        return wait_for(lambda: len(self.said(pattern)) >= times, seconds)

    def steps(self):
        return sorted(int(x[5:]) for x in os.listdir(f"{self.dir}/ckpt")
                      if re.fullmatch(r"step_\d+", x)
                      and os.path.exists(f"{self.dir}/ckpt/{x}/.metadata")) \
            if os.path.isdir(f"{self.dir}/ckpt") else []

    def text(self): return "\n".join(self.said("^.*$")[-30:])
    def cancel(self): run("scancel", self.id)


def six_ranks_on_three_nodes(tmp):
    job = Batch(tmp, "whole", 40, 20)
    check("six ranks on three nodes save, and reach their last step",
          job.until("reached step 40", 6), job.text())
    code, out = run(CAIRN, "verify", f"{job.dir}/ckpt/step_40")
    check("what they saved is whole", code == 0, out)


def suspended(tmp):
    job = Batch(tmp, "suspended", 400, 50)
    job.until("begins at", 6)
    wait_for(lambda: len(job.steps()) > 0)
    run("scontrol", "suspend", job.id)
    before = job.steps()
    time.sleep(20)
    still = job.steps()
    run("scontrol", "resume", job.id)
    check("a job that was suspended for 20 s goes on with its group",
          before == still and job.until("reached step 400", 6, 90)
          and len(job.said("begins at")) == 6, (before, still, job.text()))
    job.cancel()


def preempted(tmp):
    job = Batch(tmp, "preempted", 300, 50)
    wait_for(lambda: len(job.steps()) > 0)
    other = Batch(tmp, "preferred", 20, 20, "high")
    check("a job of a preferred partition takes the nodes",
          other.until("reached step 20", 6, 90), other.text())
    saved = job.said(r"saved step (\d+) on signal 15")
    check("the preempted job saved one step on every rank and returned 0",
          len(saved) == 6 and len(set(saved)) == 1 and "srun returned 0" in job.text(), job.text())
    check("its next attempt resumes at that step, and reaches the end",
          job.until("reached step 300", 6, 90)
          and job.said(r"begins at step (\d+)")[6:] == saved, job.text())
    job.cancel()


def a_killed_rank(tmp):
    job = Batch(tmp, "killed", 2000, 50)
    wait_for(lambda: len(job.steps()) > 0)
    rank, pid = job.said(r"rank (\d) has pid (\d+)")[3]
    os.kill(int(pid), signal.SIGKILL)
    check("a killed rank is named by the others",
          wait_for(lambda: re.search(rf"rank {rank}\b", job.text()) and job.said("srun returned")),
          job.text())
    job.cancel()
    job = Batch(tmp, "lost", 2000, 50)
    wait_for(lambda: len(job.steps()) > 0)
    lost = subprocess.run([f"{HERE}/slurm", "cut", f"{tmp}/slurm", "node3"])
    check("the ranks of a lost node are named by the others", lost.returncode == 0 and
          wait_for(lambda: len(job.said(r"rank [45]: nothing received from it")) >= 4, 40),
          job.text())
    subprocess.run([f"{HERE}/slurm", "join", f"{tmp}/slurm", "node3"])
    job.cancel()


def slurm(tmp):
    code, out = run(f"{HERE}/slurm", "start", f"{tmp}/slurm", 3)
    try:
        check("Slurm starts", code == 0, out)
        if code != 0: return
        os.environ.update([out.splitlines()[-1].split("=", 1)])
        six_ranks_on_three_nodes(tmp)
        suspended(tmp)
        preempted(tmp)
        a_killed_rank(tmp)
    finally:
        run(f"{HERE}/slurm", "stop", f"{tmp}/slurm")


# GlusterFS ----------------------------------------------------------------------------------------
def on_host(n, tmp, *command, **more):
    """A program that sees the shared file system as host `n` does, at the same path on both."""
    script = f'mount --bind "{tmp}/gluster/host{n}" "{tmp}/shared" && exec "$@"'
    return subprocess.Popen(["unshare", "-m", "sh", "-c", script, "sh", *map(str, command)],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp,
                            **more)


def ranks_on_two_hosts(tmp, place, steps, milliseconds=5, ranks=4):
    rendezvous = tempfile.mkdtemp(dir=tmp)
    env = {**os.environ, "CAIRN_WORLD_SIZE": str(ranks), "CAIRN_RENDEZVOUS_DIR": rendezvous}
    return [on_host(1 + r % 2, tmp, JOB, "train", f"{tmp}/shared/{place}", steps, milliseconds,
                    env={**env, "CAIRN_RANK": str(r)}) for r in range(ranks)]


def outputs(processes, seconds=120):
    out = []
    for p in processes:
        try:
            out.append(p.communicate(timeout=seconds)[0])
        except subprocess.TimeoutExpired:
            p.kill()
            out.append("(did not end) " + p.communicate()[0])
    return out


def trainers_of_two_hosts(tmp):
    out = outputs(ranks_on_two_hosts(tmp, "train", 60))
    check("ranks of two hosts save to one file system",
          all("reached step 60" in x for x in out), out)
    killed = []
    for n in range(4):
        job = ranks_on_two_hosts(tmp, "train", 1000)
        time.sleep(1.0 + 0.13 * n)
        for p in job: p.kill()
        killed += [int(x) for x in re.findall(r"begins at step (\d+)", outputs(job)[0])]
    out = outputs(ranks_on_two_hosts(tmp, "train", killed[-1] + 100))
    check("a job that is killed again and again resumes at a later step each time",
          len(killed) == 4 and killed == sorted(killed) and killed[0] >= 60
          and all("reached step" in x for x in out), (killed, out))


def a_reader_on_the_other_host(tmp):
    first = outputs([on_host(1, tmp, JOB, "overwrite", f"{tmp}/shared/one", 1, 1)])
    writer = on_host(1, tmp, JOB, "overwrite", f"{tmp}/shared/one", 60, 1)
    reader = on_host(2, tmp, JOB, "follow", f"{tmp}/shared/one", 60)
    wrote, read = outputs([writer, reader])
    check("a reader on another host than the writer loads the old checkpoint or the new one",
          "60 saved, 0 concurrent" in wrote and "60 loaded" in read, (first, wrote, read))


def two_jobs_save_to_one_place(tmp):
    jobs = [on_host(n, tmp, JOB, "overwrite", f"{tmp}/shared/contested", 50, n) for n in (1, 2)]
    out = outputs(jobs)
    counts = [re.search(r"(\d+) saved, (\d+) concurrent", x) for x in out]
    check("two jobs save to one place over two mounts: each save succeeds, or is told of the other",
          all(counts) and all(int(c[1]) + int(c[2]) == 50 for c in counts)
          and sum(int(c[1]) for c in counts) > 0 and "failed" not in "".join(out), out)
    code, out = run(CAIRN, "verify", f"{tmp}/gluster/host1/contested")
    check("and what stands is whole", code == 0, out)


def lost_replicas(tmp):
    volume = lambda *what: subprocess.run([f"{HERE}/gluster", what[0], f"{tmp}/gluster", *what[1:]],
                                          capture_output=True, text=True)
    volume("lose", "1")
    out = outputs([on_host(1, tmp, JOB, "overwrite", f"{tmp}/shared/lost", 3, 1)])
    check("one lost replica changes nothing", "3 saved, 0 concurrent" in out[0], out)
    volume("lose", "2")
    time.sleep(1)
    out = outputs([on_host(1, tmp, JOB, "overwrite", f"{tmp}/shared/lost", 1, 2)])
    check("with two lost, a save fails and says what the storage said",
          "0 saved" in out[0] and "failed" in out[0], out)
    restored = volume("restore")
    back = wait_for(lambda: "1 loaded" in outputs(
        [on_host(2, tmp, JOB, "follow", f"{tmp}/shared/lost", 1)])[0], 40)
    check("once they are back the checkpoint is", restored.returncode == 0 and back,
          restored.stderr)


def gluster(tmp):
    code, out = run(f"{HERE}/gluster", "start", f"{tmp}/gluster")
    try:
        check("GlusterFS starts", code == 0, out)
        if code != 0: return
        os.makedirs(f"{tmp}/shared")
        trainers_of_two_hosts(tmp)
        a_reader_on_the_other_host(tmp)
        two_jobs_save_to_one_place(tmp)
        lost_replicas(tmp)
    finally:
        run(f"{HERE}/gluster", "stop", f"{tmp}/gluster")


def why_not():
    if os.getuid() != 0: return "needs root, for network namespaces and mounts"
    missing = [x for x in ("slurmctld", "slurmd", "srun", "munged", "ip", "glusterd",
                           "mount.glusterfs", "unshare") if not shutil.which(x)]
    if missing: return f"there is no {', '.join(missing)}; tests/cluster installs them"
    if subprocess.run([*APART, "true"], capture_output=True).returncode != 0:
        return "no namespaces here"
    if not os.path.exists("/dev/fuse"): return "there is no /dev/fuse"
    return ""


def come_apart():
    """Makes what both systems find by fixed names and addresses this run's own."""
    for place in ("/run/netns", "/var/lib/glusterd", "/run/gluster"):
        os.makedirs(place, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "addr", "add", "10.77.2.1/32", "dev", "lo"], check=True)


def main():
    if "CAIRN_APART" not in os.environ:
        if why := why_not():
            print(f"skipped: {why}")
            return 77
        os.execvpe(APART[0], [*APART, sys.executable, os.path.abspath(__file__), *sys.argv[1:]],
                   {**os.environ, "CAIRN_APART": "1"})
    come_apart()
    with tempfile.TemporaryDirectory() as tmp:
        os.chmod(tmp, 0o755)
        for part in sys.argv[2:] or ("slurm", "gluster"):
            {"slurm": slurm, "gluster": gluster}[part](tmp)
    return end()


if __name__ == "__main__":
    sys.exit(main())
