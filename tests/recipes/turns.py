#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch and cairn take turns on one training run, recipe by recipe.

    turns.py BUILD

BUILD holds examples/recipes and tests/recipes. Prints one line a check and `N passed, N failed`.

Two runs of each recipe, one that PyTorch begins and one that cairn begins, five steps a turn, on
4 → 3 → 1 → 2 ranks. Whoever takes over begins fresh, loads, saves at once what was loaded, which
must be the same bits, and trains. Whoever hands over trains on as well, as if nothing had
happened: all losses of the two must agree within TOLERANCE, relatively (1.4e-6 apart at most when
this was written). They cannot be the same:
the two sides sum in different orders, and Adam's first steps divide small numbers.
"""
import json, os, re, sys, tempfile, warnings

warnings.filterwarnings("ignore")
os.environ["GLOO_SOCKET_IFNAME"] = "lo"
import torch
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

import gpt2
import originals
sys.path.insert(0, f"{os.path.dirname(os.path.abspath(__file__))}/../support")
from checks import check, end, run

TOLERANCE = 1e-4
BUILD = os.path.abspath(sys.argv[1])
EXAMPLES, TESTS = f"{BUILD}/examples/recipes", f"{BUILD}/tests/recipes"
RECIPES, KINDS, WORLDS = ("plain", "app", "apart"), ("fsdp1", "fsdp2"), (4, 3, 1, 2)




def losses_in(text):
    return [float(x) for x in re.findall(r"^step \d+ loss (\S+)$", text, re.MULTILINE)]


def content(path):
    """The whole checkpoint by flat key, without a template."""
    state = {}
    _load_state_dict(state, storage_reader=dcp.FileSystemReader(path),
                     planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    return originals.flatten_state_dict(state)[0]


def raw(t):
    return t.detach().contiguous().reshape(-1).view(torch.uint8).tolist()


def difference(a, b):
    """None, or in what two contents differ."""
    if set(a) != set(b): return f"keys on one side: {sorted(set(a) ^ set(b))}"
    if not a: return "nothing to compare"
    for k, x in a.items():
        y = b[k]
        if isinstance(x, torch.Tensor) != isinstance(y, torch.Tensor): return f"{k}: other kind"
        if not isinstance(x, torch.Tensor):
            if x != y: return f"{k}: {x!r} and {y!r}"
        elif x.dtype != y.dtype or x.shape != y.shape or raw(x) != raw(y):
            return f"{k}: {x} and {y}"
    return None


def check_same(name, a, b):
    try:
        why = difference(content(a), content(b))
    except Exception as e:
        why = f"{type(e).__name__}: {e}"
    check(name, why is None, why)


def check_losses(name, a, b, count=5):
    ok = len(a) == len(b) == count and all(
        abs(x - y) <= TOLERANCE * max(1, abs(x), abs(y)) for x, y in zip(a, b))
    check(name, ok, f"{a} and {b}")


def pytorch(tmp, world, jobs):
    """Results of the jobs, which one group of processes works through."""
    out = f"{tmp}/results{world}"
    mp.start_processes(originals.rank_main, args=(world, f"{tmp}/store{world}", jobs, out),
                       nprocs=world, start_method="fork")
    with open(out) as f:
        return json.load(f)


def cairn(recipe, ranks, steps, save, load=None):
    program = [f"{EXAMPLES}/train"] if recipe == "plain" else [f"{TESTS}/turns", recipe]
    code, out = run(*program, "--steps", steps, "--ranks", ranks, "--save", save,
                    *(["--load", load] if load else []))
    if code != 0: check(f"cairn's turn at {recipe}", False, out)
    return losses_in(out)


class Runs:
    """All training runs in step: at each stage PyTorch has one half of them and cairn the other."""

    def __init__(self, tmp):
        self.tmp = tmp
        # (recipe, kind, who begins) → the last checkpoint, and the losses after it
        self.at = {(r, k, b): (None, []) for r in RECIPES for k in KINDS for b in (0, 1)}

    def stage(self, number, extra_jobs):
        """One turn of every run; the results of extra jobs of PyTorch's."""
        world, tmp = WORLDS[number], self.tmp
        mine = [run for run in self.at if (number + run[2]) % 2 == 0]
        jobs = []
        for r, k, b in mine:
            base = f"{tmp}/{r}-{k}-{b}-{number}"
            load = self.at[r, k, b][0]
            jobs.append({"recipe": r, "kind": k, "load": load, "steps": 5, "save": base, "more": 5,
                         "resave": f"{base}-again" if load else None,
                         # A rate that no fresh Adam has: it must come from the checkpoint.
                         "lr": 0.1 if load else 0.05})
        results = pytorch(tmp, world, jobs + extra_jobs)
        for key, job, result in zip(mine, jobs, results):
            name = f"{key[0]} {key[1]}, PyTorch on {world}"
            if job["load"]:
                check_same(f"{name}: loads what cairn saved", job["load"], job["resave"])
                check(f"{name}: a fresh Adam goes on at step {5 * number}",
                      result["start"] == 5 * number, result["start"])
                check_losses(f"{name}: losses as cairn's", result["losses"], self.at[key][1])
            self.at[key] = job["save"], result["more"]
        for key in self.at:
            if key not in mine: self.cairns_turn(key, number, world)
        return results[len(jobs):]

    def cairns_turn(self, key, number, world):
        name, base = f"{key[0]} {key[1]}, cairn on {world}", f"{self.tmp}/{'-'.join(map(str, key))}"
        base = f"{base}-{number}"
        load, expected = self.at[key]
        if load:
            cairn(key[0], world, 0, f"{base}-again", load)
            check_same(f"{name}: loads what PyTorch saved", load, f"{base}-again")
        losses = cairn(key[0], world, 5, base, load)
        if load: check_losses(f"{name}: losses as PyTorch's", losses, expected)
        self.at[key] = base, cairn(key[0], world, 5, f"{base}-more", base)
        steps = {float(v) for k, v in content(base).items() if k.endswith(".step")}
        check(f"{name}: Adam is at step {5 * number + 5}", steps == {5.0 * number + 5}, steps)


def examples_save(tmp):
    """What a user pastes, run; each checkpoint is for PyTorch to go on from."""
    out = {}
    # Of R6's 20 elements the last of eight ranks has none.
    for name, ranks in (("r1_save", 4), ("r4_stateful", 4), ("r5_arena", 4),
                        ("r6_model_then_optimizer", 8)):
        code, out[name] = run(f"{EXAMPLES}/{name}", f"{tmp}/{name}", ranks)
        check(f"example {name}", code == 0, out[name])
    for name, ranks in (("r1_save", 4), ("r6_model_then_optimizer", 8)):
        files = sorted(f for f in os.listdir(f"{tmp}/{name}") if f.endswith(".distcp"))
        check(f"{name}: a file for each of {ranks} ranks", len(files) == ranks, files)
    code, out["r2_load"] = run(f"{EXAMPLES}/r2_load", f"{tmp}/r1_save", 3)
    check("example r2_load", code == 0, out["r2_load"])
    return out


def example_jobs(tmp):
    return [job | {"resave": f"{job['load']}-again", "kind": "fsdp2"} for job in (
        {"recipe": "plain", "load": f"{tmp}/r1_save", "steps": 1},
        {"recipe": "app", "load": f"{tmp}/r4_stateful_step9", "steps": 1},
        {"recipe": "app", "load": f"{tmp}/r5_arena_step9", "steps": 1},
        {"recipe": "apart", "load": f"{tmp}/r6_model_then_optimizer", "steps": 1})]


def check_examples(printed, jobs, results):
    r1, r4, r5, r6 = results
    for job in jobs:
        name = os.path.basename(job["load"])
        check_same(f"PyTorch loads what the example saved: {name}", job["load"], job["resave"])
    check_losses("R2 goes on from R1 as PyTorch does", losses_in(printed["r2_load"]),
                 r1["losses"], 1)
    for name, example, went_on in (("R4", "r4_stateful", r4), ("R5", "r5_arena", r5)):
        last = float(re.search(r"^step 10 loss (\S+),", printed[example], re.MULTILINE)[1])
        check_losses(f"{name} goes on as PyTorch does", [last], went_on["losses"], 1)
        check(f"{name} has stepped ten times", went_on["start"] == 10, went_on["start"])
    check("R6 has stepped once", r6["start"] == 1, r6["start"])


def check_inference(tmp, saved_by_torch, saved_by_cairn):
    """R3: one process, no group, a plain model."""
    code, out = run(f"{EXAMPLES}/r3_inference", saved_by_torch)
    model = originals.ToyModel()
    with torch.no_grad():
        for p in model.parameters(): p.zero_()
    state = {"model": model.state_dict()}
    dcp.load(state, checkpoint_id=saved_by_torch)
    model.load_state_dict(state["model"])
    want = model(torch.arange(16) / 16.0 - 0.5).tolist()
    check_losses("R3 infers what PyTorch infers", [float(x) for x in out.split()[1:]], want, 8)
    run(f"{TESTS}/turns", "model", "--load", saved_by_torch, "--save", f"{tmp}/model_only")
    full = content(saved_by_torch)
    why = difference({k: v for k, v in full.items() if k.startswith("model.")},
                     content(f"{tmp}/model_only"))
    check("cairn alone loads the model of what PyTorch's ranks saved", why is None, why)
    state = {"model": originals.ToyModel().state_dict()}
    dcp.load(state, checkpoint_id=saved_by_cairn)
    full = content(saved_by_cairn)
    why = difference({k: v for k, v in full.items() if k.startswith("model.")},
                     {f"model.{k}": v for k, v in state["model"].items()})
    check("PyTorch alone loads the model of what cairn's ranks saved", why is None, why)


def check_keys(sharded):
    plain = originals.ToyModel()
    cases = [("toy", plain, torch.optim.Adam(plain.parameters()))]
    for tied in (False, True):
        model = gpt2.GPT2(tied)
        cases.append(("gpt2_tied" if tied else "gpt2", model, gpt2.adam(model)))
    for shape in ("nested", "flat"):
        def compare(name, what, keys):
            code, out = run(f"{TESTS}/keys", what, shape)
            odd = sorted(set(out.splitlines()) ^ set(keys))
            check(f"keys of {name}, {shape}, {len(keys)} of them", code == 0 and not odd,
                  odd[:6] if code == 0 else out)
        for what, model, optimizer in cases:
            compare(what, what, originals.keys_of(model, optimizer, shape == "flat"))
        for kind, keys in sharded.items(): compare(f"toy in {kind}", "toy", keys[shape])


def save_alone(path, model, groups, names=("model", "optimizer")):
    optimizer = torch.optim.Adam(groups, lr=0.1)
    dcp.save(dict(zip(names, get_state_dict(model, optimizer))), checkpoint_id=path)


def check_refusals(tmp):
    """States that do not fit are refused, by the names of what does not fit."""
    toy = originals.ToyModel()
    save_alone(f"{tmp}/groups", toy, [{"params": toy.net1.parameters(), "lr": 0.1},
                                      {"params": toy.net2.parameters(), "lr": 0.01}])
    code, out = run(f"{EXAMPLES}/train", "--load", f"{tmp}/groups", "--save", f"{tmp}/no",
                    "--steps", 1)
    check("two groups for an Adam that has one", code == 1 and "param_groups.0.params" in out
          and "net2." in out, out)
    more = nn.Linear(4, 4)
    more.register_parameter("more", nn.Parameter(torch.zeros(3)))
    save_alone(f"{tmp}/more", more, more.parameters(), ("model", "optim"))
    code, out = run(f"{TESTS}/turns", "apart", "--load", f"{tmp}/more", "--save", f"{tmp}/no")
    check("state of a parameter that the model has not", code == 1 and "state.more." in out, out)
    code, out = run(f"{TESTS}/turns", "apart", "--load", f"{tmp}/groups", "--save", f"{tmp}/no")
    check("another model's checkpoint", code == 1 and "model.weight" in out, out)


def main():
    torch.set_num_threads(1)  # processes are forked from here: no threads before that
    with tempfile.TemporaryDirectory() as tmp:
        printed = examples_save(tmp)
        jobs = example_jobs(tmp)
        runs = Runs(tmp)
        runs.stage(0, [])
        check_examples(printed, jobs, runs.stage(1, jobs))
        runs.stage(2, [])
        keys = runs.stage(3, [{"recipe": "keys", "kind": k} for k in KINDS])
        check_inference(tmp, f"{tmp}/plain-fsdp2-0-0", f"{tmp}/plain-fsdp2-1-0")
        check_keys(dict(zip(KINDS, keys)))
        check_refusals(tmp)
    sys.exit(end())


if __name__ == "__main__":
    main()
