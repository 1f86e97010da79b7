# SPDX-License-Identifier: Apache-2.0
"""The recipes as PyTorch's users write them, on gloo and the CPU.

Kinds: "fsdp1" is FullyShardedDataParallel, "fsdp2" is fully_shard. A job is a dict:

    recipe  plain (R1, R2): get_state_dict, keys "model" and "optimizer"
            app (R4): {"app": a Stateful}, keys "model" and "optim"
            apart (R6): Linear(4, 4), the model loaded alone, then the optimizer alone
    lr      of the Adam that is made, before anything is loaded
    kind, load (or None), resave (or None: saved again as soon as it is loaded),
    steps, save (or None), more: steps after that, as if it had not stopped
"""
import contextlib
import json
import os
import time
import warnings
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.optimizer import load_sharded_optimizer_state_dict
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions, get_model_state_dict, get_optimizer_state_dict, get_state_dict,
    set_model_state_dict, set_optimizer_state_dict, set_state_dict)
from torch.distributed.checkpoint._nested_dict import flatten_state_dict
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import StateDictType, fully_shard


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(16, 16)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(16, 8)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def input_of(step, width=16):
    """toy.hpp's input()."""
    numbers = torch.tensor([(i * 37 + step * 101) % 97 for i in range(8 * width)])
    return (numbers.to(torch.float32) / 97.0 - 0.5).reshape(8, width)


class AppState(Stateful):
    """R4's."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def state_dict(self):
        model, optim = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optim": optim}

    def load_state_dict(self, state):
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"],
                       optim_state_dict=state["optim"])


class Trainer:
    """A fresh model and an Adam that has never stepped."""

    def __init__(self, recipe, kind, seed, lr=0.1):
        torch.manual_seed(seed)
        self.recipe, self.kind = recipe, kind
        self.width = 4 if recipe == "apart" else 16
        model = nn.Linear(4, 4) if recipe == "apart" else ToyModel()
        if kind == "fsdp1":
            # No mesh: sharded state comes as ShardedTensor, as the older examples have it; at
            # one process parameters come plain, for FSDP then does not shard. The device is
            # named, or FSDP would take a GPU where there is one.
            self.model = FSDP(model, device_id=torch.device("cpu"))
        else:
            self.model = fully_shard(
                model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)

    def steps_done(self):
        states = list(self.optimizer.state.values())
        return int(states[0]["step"]) if states else 0

    def train(self, steps):
        losses = []
        for _ in range(steps):
            loss = self.model(input_of(self.steps_done(), self.width)).sum()
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            losses.append(loss.item())
        return losses

    def save(self, path):
        if self.recipe == "plain":
            model, optim = get_state_dict(self.model, self.optimizer)
            state = {"model": model, "optimizer": optim}
        elif self.recipe == "app":
            state = {"app": AppState(self.model, self.optimizer)}
        else:
            with self.sharded():
                state = {"model": self.model_state(), "optim": self.optim_state()}
        dcp.save(state, checkpoint_id=path)

    def load(self, path):
        if self.recipe == "plain":
            model, optim = get_state_dict(self.model, self.optimizer)
            state = {"model": model, "optimizer": optim}
            dcp.load(state, checkpoint_id=path)
            set_state_dict(self.model, self.optimizer, model_state_dict=state["model"],
                           optim_state_dict=state["optimizer"])
        elif self.recipe == "app":
            dcp.load({"app": AppState(self.model, self.optimizer)}, checkpoint_id=path)
        else:
            with self.sharded():
                self.load_apart(path)

    # R6 is the older example, of before get_state_dict; fully_shard has no other way than that.
    def sharded(self):
        if self.kind != "fsdp1": return contextlib.nullcontext()
        return FSDP.state_dict_type(self.model, StateDictType.SHARDED_STATE_DICT)

    def model_state(self):
        return self.model.state_dict() if self.kind == "fsdp1" else get_model_state_dict(self.model)

    def optim_state(self):
        if self.kind == "fsdp1": return FSDP.optim_state_dict(self.model, self.optimizer)
        return get_optimizer_state_dict(self.model, self.optimizer)

    def load_apart(self, path):
        state = {"model": self.model_state()}
        dcp.load(state, checkpoint_id=path)
        if self.kind == "fsdp1":
            self.model.load_state_dict(state["model"])
            loaded = load_sharded_optimizer_state_dict(
                model_state_dict=state["model"], optimizer_key="optim",
                storage_reader=dcp.FileSystemReader(path))
            self.optimizer.load_state_dict(FSDP.optim_state_dict_to_load(
                self.model, self.optimizer, loaded["optim"]))
        else:
            set_model_state_dict(self.model, state["model"])
            state = {"optim": self.optim_state()}
            dcp.load(state, checkpoint_id=path)
            set_optimizer_state_dict(self.model, self.optimizer, state["optim"])


def keys_of(model, optimizer, flat):
    """What a checkpoint of them would have for keys."""
    options = StateDictOptions(flatten_optimizer_state_dict=flat)
    model_state, optim = get_state_dict(model, optimizer, options=options)
    return sorted(flatten_state_dict({"model": model_state, "optim": optim})[0])


def run_job(job, seed):
    if job["recipe"] == "keys":
        t = Trainer("plain", job["kind"], seed)
        return {shape: keys_of(t.model, t.optimizer, shape == "flat")
                for shape in ("nested", "flat")}
    t = Trainer(job["recipe"], job["kind"], seed, job.get("lr", 0.1))
    if job.get("load"): t.load(job["load"])
    if job.get("resave"): t.save(job["resave"])
    result = {"start": t.steps_done(), "losses": t.train(job["steps"])}
    if job.get("save"): t.save(job["save"])
    result["more"] = t.train(job.get("more", 0))
    return result


def rank_main(rank, world, store_file, jobs, out):
    """One process of the group that works through the jobs; rank 0 writes the results."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    store = dist.FileStore(store_file, world)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world,
                            timeout=timedelta(seconds=120))
    results = [run_job(job, 100 + i) for i, job in enumerate(jobs)]
    if rank == 0:
        with open(out, "w") as f:
            json.dump(results, f)
    # Nobody closes his sockets while another still waits in a collective.
    left = dist.PrefixStore("left", store)
    left.add("ranks", 1)
    while left.add("ranks", 0) < world: time.sleep(0.01)
    dist.destroy_process_group()
