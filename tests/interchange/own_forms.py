#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""State that a C++ trainer keeps in another form than PyTorch, in turns with PyTorch.

    own_forms.py BUILD

A weight that is tied in PyTorch and in one of C++'s layouts and not in the other, its moments,
integer steps and batches, a padded vocabulary, and what each rank has of its own. Prints one line a
check and `N passed, N failed`.
"""
import os, sys, tempfile, warnings

warnings.filterwarnings("ignore")
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint._extension import ZStandard
from torch.distributed.checkpoint.state_dict import (StateDictOptions, get_state_dict,
                                                     set_state_dict)

sys.path.insert(0, f"{os.path.dirname(os.path.abspath(__file__))}/../support")
from checks import check, end, run

OWN_FORMS = f"{os.path.abspath(sys.argv[1])}/tests/interchange/own_forms"
FLAT = StateDictOptions(flatten_optimizer_state_dict=True)
STEPS = 3


class Model(nn.Module):
    def __init__(self, tied):
        super().__init__()
        self.embed = nn.Embedding(6, 4)
        self.head = nn.Linear(4, 6)
        self.norm = nn.BatchNorm1d(6, affine=False)
        if tied: self.head.weight = self.embed.weight

    def forward(self, x): return self.norm(self.head(self.embed(x)))


def make(seed, tied=True, lr=0.1):
    torch.manual_seed(seed)
    model = Model(tied)
    return model, torch.optim.Adam(model.parameters(), lr=lr)


def train(model, adam):
    for step in range(STEPS):
        loss = (model(torch.arange(6) ^ step % 2) * torch.arange(6.0)).square().sum()
        adam.zero_grad()
        loss.backward()
        adam.step()


def state_of(model, adam):
    m, o = get_state_dict(model, adam, options=FLAT)
    return {"model": m, "optim": o}


def load(path, tied=True):
    model, adam = make(99, tied, lr=0.7)
    state = state_of(model, adam)
    dcp.load(state, checkpoint_id=path)
    set_state_dict(model, adam, model_state_dict=state["model"], optim_state_dict=state["optim"],
                   options=FLAT)
    return model, adam


def keys(path): return set(dcp.FileSystemReader(path).read_metadata().state_dict_metadata)


def moments(adam, parameter): return adam.state[parameter]


def same(a, b):
    return set(a) == set(b) and all(
        a[k].dtype == b[k].dtype and a[k].shape == b[k].shape and torch.equal(a[k], b[k])
        for k in a)


def check_tied(name, path, trained, adam):
    model, other = load(path)
    check(f"{name}: the model", same(dict(trained.state_dict()), dict(model.state_dict())))
    check(f"{name}: it is tied", model.head.weight is model.embed.weight)
    for n, p in trained.named_parameters():
        check(f"{name}: moments of {n}",
              same(moments(adam, p), moments(other, dict(model.named_parameters())[n])))
    check(f"{name}: the rate", other.param_groups[0]["lr"] == 0.1, other.param_groups)


def main():
    with tempfile.TemporaryDirectory() as tmp:
        trained, adam = make(1)
        train(trained, adam)
        dcp.save(state_of(trained, adam), checkpoint_id=f"{tmp}/torch")
        own = {"random.0", "cache.0"}
        said = f"step {STEPS}, lr 0.1"

        code, out = run(OWN_FORMS, "apart", f"{tmp}/torch", f"{tmp}/apart")
        check("two stages load what tied PyTorch saved", code == 0 and out == said, out)
        check_tied("from two stages", f"{tmp}/apart", trained, adam)
        untied, other = load(f"{tmp}/apart", tied=False)
        check("an untied PyTorch loads the copies",
              torch.equal(untied.head.weight, trained.embed.weight)
              and same(moments(other, untied.head.weight), moments(adam, trained.embed.weight)))

        code, out = run(OWN_FORMS, "together", f"{tmp}/apart", f"{tmp}/together")
        check("one process loads what two stages saved", code == 0 and out == said, out)
        check_tied("from one process", f"{tmp}/together", trained, adam)
        odd = (keys(f"{tmp}/torch") | own) ^ keys(f"{tmp}/together")
        check("its keys are PyTorch's", not odd, odd)

        code, out = run(OWN_FORMS, "apart", f"{tmp}/together", f"{tmp}/again")
        check("two stages load what one process saved", code == 0 and out == said, out)
        check_tied("from two stages again", f"{tmp}/again", trained, adam)

        code, out = run(OWN_FORMS, "apart", f"{tmp}/again", f"{tmp}/compressed", "3")
        check("two stages save compressed", code == 0 and out == said, out)
        if ZStandard.is_available():
            check_tied("compressed", f"{tmp}/compressed", trained, adam)
        code, out = run(OWN_FORMS, "together", f"{tmp}/compressed", f"{tmp}/decompressed")
        check("one process loads what was compressed", code == 0 and out == said, out)
        check_tied("decompressed", f"{tmp}/decompressed", trained, adam)

        state = {"cache": {"0": torch.zeros(1, dtype=torch.int16),
                           "1": torch.zeros(2, dtype=torch.int16)},
                 "random": {"1": b""}}
        dcp.load(state, checkpoint_id=f"{tmp}/again")
        check("tensors of single ranks are tensors",
              [c.tolist() for c in state["cache"].values()] == [[5], [5, 5]], state)
        check("structs are bytes", state["random"]["1"] == bytes([1] + 7 * [0] + [7] + 7 * [0]),
              state)

        loose, adam = make(2, tied=False)
        train(loose, adam)
        dcp.save(state_of(loose, adam), checkpoint_id=f"{tmp}/loose")
        code, out = run(OWN_FORMS, "together", f"{tmp}/loose", f"{tmp}/no")
        check("weights that differ do not become one", code == 1 and "model.head.weight" in out
              and "model.embed.weight" in out, out)
    sys.exit(end())


if __name__ == "__main__":
    main()
