# SPDX-License-Identifier: Apache-2.0
"""The models of the benchmark as ONNX files, exported by PyTorch the way a user would; random weights.
Needs torchvision for the convolutional networks."""
import io

import onnx
import onnx_models
import torch
from torch import nn


class Block(nn.Module):
    """One layer of 768 with 12 heads, spelled out. BERT's norms come after, GPT-2's before."""

    def __init__(self, causal, joined):
        super().__init__()
        self.causal, self.joined = causal, joined
        self.ln1, self.ln2 = (nn.LayerNorm(768, eps=1e-5 if causal else 1e-12) for _ in range(2))
        if joined:
            self.qkv = nn.Linear(768, 2304)
        else:
            self.q, self.k, self.v = (nn.Linear(768, 768) for _ in range(3))
        self.proj, self.up, self.down = nn.Linear(768, 768), nn.Linear(768, 3072), nn.Linear(3072, 768)

    def attention(self, x):
        parts = self.qkv(x).chunk(3, -1) if self.joined else (self.q(x), self.k(x), self.v(x))
        q, k, v = (t.view(1, 128, 12, 64).transpose(1, 2) for t in parts)
        s = q @ k.transpose(-1, -2) / 8.0
        if self.causal:
            s = s + torch.full((128, 128), float("-inf")).triu(1)
        return self.proj((torch.softmax(s, -1) @ v).transpose(1, 2).reshape(1, 128, 768))

    def widened(self, x):
        return self.down(nn.functional.gelu(self.up(x), approximate="tanh" if self.causal else "none"))

    def forward(self, x):
        if self.causal:
            x = x + self.attention(self.ln1(x))
            return x + self.widened(self.ln2(x))
        x = self.ln1(x + self.attention(x))
        return self.ln2(x + self.widened(x))


class Encoder(nn.Module):
    """Token and position embeddings, 12 blocks, and a norm: before them (BERT) or after (GPT-2)."""

    def __init__(self, words, causal):
        super().__init__()
        self.causal = causal
        self.tok, self.pos = nn.Embedding(words, 768), nn.Parameter(torch.randn(128, 768))
        self.blocks = nn.ModuleList(Block(causal, causal) for _ in range(12))
        self.ln = nn.LayerNorm(768, eps=1e-5 if causal else 1e-12)

    def forward(self, ids):
        x = self.tok(ids) + self.pos
        if not self.causal:
            x = self.ln(x)
        for b in self.blocks:
            x = b(x)
        return self.ln(x) if self.causal else x


def build(name):
    if name in ("bert", "gpt2"):
        words, causal = (50257, True) if name == "gpt2" else (30522, False)
        return Encoder(words, causal), torch.zeros(1, 128, dtype=torch.int64)
    import torchvision

    size, more = (299, {"init_weights": False}) if name == "inception_v3" else (224, {})
    return getattr(torchvision.models, name)(**more), torch.zeros(1, 3, size, size)


def export(name, path):
    """Writes the model without its weights."""
    torch.manual_seed(0)
    model, x = build(name)
    with torch.no_grad():
        for m in model.modules():  # nothing that could be ignored
            if isinstance(m, nn.BatchNorm2d):
                m.running_mean.normal_(0, 0.1)
                m.running_var.uniform_(0.5, 1.5)
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(torch.randn_like(p), alpha=0.02)
    new = {"dynamo": False} if torch.__version__ >= "2.5" else {}
    file = io.BytesIO()
    torch.onnx.export(model.eval(), (x,), file, input_names=["x"], output_names=["y"], opset_version=16, **new)
    onnx_models.strip_model(onnx.load_from_string(file.getvalue()), path)
