# SPDX-License-Identifier: Apache-2.0
"""GPT-2's module tree: as deep as the 124M one, eight numbers wide. Only names matter here."""
import torch
from torch import nn

WIDTH = 8


class Conv1D(nn.Module):
    """transformers' own: inputs × outputs."""

    def __init__(self, outputs, inputs):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = Conv1D(3 * WIDTH, WIDTH)
        self.c_proj = Conv1D(WIDTH, WIDTH)


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_fc = Conv1D(4 * WIDTH, WIDTH)
        self.c_proj = Conv1D(WIDTH, 4 * WIDTH)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH)
        self.attn = Attention()
        self.ln_2 = nn.LayerNorm(WIDTH)
        self.mlp = MLP()


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(100, WIDTH)
        self.wpe = nn.Embedding(32, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(12))
        self.ln_f = nn.LayerNorm(WIDTH)


class GPT2(nn.Module):
    def __init__(self, tied):
        super().__init__()
        self.transformer = Transformer()
        if tied:
            self.lm_head = nn.Linear(WIDTH, 100, bias=False)
            self.lm_head.weight = self.transformer.wte.weight


def adam(model):
    """Only matrices decay."""
    parameters = list(model.parameters())
    return torch.optim.Adam([{"params": [p for p in parameters if p.ndim > 1], "weight_decay": 0.1},
                             {"params": [p for p in parameters if p.ndim == 1]}])
