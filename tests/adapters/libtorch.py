# SPDX-License-Identifier: Apache-2.0
"""libtorch in C++ and PyTorch in Python take turns on ToyModel and Adam.

    libtorch.py PROGRAM

PROGRAM is libtorch.test.cpp's. Prints one line a check and `N passed, N failed`.
"""
import os, sys, tempfile, warnings

warnings.filterwarnings("ignore")
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
sys.path.insert(0, f"{os.path.dirname(os.path.abspath(__file__))}/../support")
from checks import check, end
import checks




class Toy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net1, self.relu = torch.nn.Linear(16, 16), torch.nn.ReLU()
        self.net2 = torch.nn.Linear(16, 8)
        self.register_buffer("seen", torch.zeros(2, dtype=torch.int64))

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def trainer(seed, lr):
    torch.manual_seed(seed)
    model = Toy()
    return model, torch.optim.Adam(model.parameters(), lr=lr, amsgrad=True)


def train(model, adam, steps):
    for _ in range(steps):
        adam.zero_grad()
        x = torch.arange(128, dtype=torch.float32).reshape(8, 16).div(97).sub(0.5)
        model(x).sum().backward()
        adam.step()


def state_of(model, adam):
    m, o = get_state_dict(model, adam)
    return {"model": m, "optimizer": o}


def flatten(d, prefix=""):
    """Tensors and values by dotted name; groups by position."""
    if isinstance(d, dict):
        for k, v in d.items():
            yield from flatten(v, f"{prefix}{k}.")
    elif isinstance(d, list) and any(isinstance(x, dict) for x in d):
        for i, v in enumerate(d):
            yield from flatten(v, f"{prefix}{i}.")
    else:
        yield prefix[:-1], d


def difference(a, b):
    """What two states differ in, tensors to the bit; None when in nothing."""
    a, b = dict(flatten(a)), dict(flatten(b))
    if a.keys() != b.keys(): return f"keys: {sorted(a.keys() ^ b.keys())}"
    for k, x in a.items():
        y = b[k]
        if isinstance(x, torch.Tensor):
            if x.dtype != y.dtype or x.shape != y.shape or not torch.equal(x, y): return k
        elif x != y: return f"{k}: {x!r} and {y!r}"
    return None


def load(path, seed=9):
    model, adam = trainer(seed, lr=0.7)
    state = state_of(model, adam)
    dcp.load(state, checkpoint_id=path, no_dist=True)
    set_state_dict(model, adam, model_state_dict=state["model"],
                   optim_state_dict=state["optimizer"])
    return model, adam


def run(*args):
    code, out = checks.run(sys.argv[1], *args)
    return code == 0, out


def close(a, b):
    return all(torch.allclose(x, y, rtol=1e-5, atol=1e-6)
               for x, y in zip(a.state_dict().values(), b.state_dict().values()))


def main():
    with tempfile.TemporaryDirectory() as tmp:
        # C++ saves, Python loads.
        ok, out = run("save", f"{tmp}/cpp", 3, 1)
        check("C++ saves after three steps", ok and out == "step 3", out)
        keys = set(dcp.FileSystemReader(f"{tmp}/cpp").read_metadata().state_dict_metadata)
        model, adam = trainer(9, lr=0.7)
        train(model, adam, 1)
        dcp.save(state_of(model, adam), checkpoint_id=f"{tmp}/keys", no_dist=True)
        wanted = set(dcp.FileSystemReader(f"{tmp}/keys").read_metadata().state_dict_metadata)
        check("the names are those of get_state_dict", keys == wanted, sorted(keys ^ wanted))
        model, adam = load(f"{tmp}/cpp")
        check("Python loads them", all(s["step"].item() == 3 for s in adam.state.values())
              and adam.param_groups[0]["lr"] == 0.1, adam.param_groups)
        # Python's own program computes the same three steps from the same seed's parameters.
        ok, out = run("save", f"{tmp}/start", 0, 1)
        again, fresh = load(f"{tmp}/start")
        check("a fresh state of C++ loads", ok and
              all(s["step"].item() == 0 for s in fresh.state.values()), out)
        train(again, fresh, 3)
        check("and both sides' steps agree", close(model, again))
        # Python saves, C++ loads, and saves it again as it is.
        train(model, adam, 2)
        dcp.save(state_of(model, adam), checkpoint_id=f"{tmp}/py", no_dist=True)
        ok, out = run("load", f"{tmp}/py", 0, 5)
        check("C++ loads what Python saved after five steps", ok and out == "step 5", out)
        why = difference(state_of(model, adam), state_of(*load(f"{tmp}/py.cpp")))
        check("and saves the same, bit for bit", why is None, why)
        # Both go on from there.
        ok, out = run("load", f"{tmp}/py", 2, 5)
        check("C++ trains on", ok and out == "step 7", out)
        train(model, adam, 2)
        check("as Python does", close(model, load(f"{tmp}/py.cpp")[0]))
        # A group that C++ cannot do.
        model, _ = trainer(3, lr=0.1)
        upward = torch.optim.Adam(model.parameters(), lr=0.1, amsgrad=True, maximize=True)
        train(model, upward, 1)
        dcp.save(state_of(model, upward), checkpoint_id=f"{tmp}/up", no_dist=True)
        ok, out = run("load", f"{tmp}/up", 0, 5)
        check("C++ refuses to maximize", not ok and "maximize" in out, out)
    return end()


sys.exit(main())
