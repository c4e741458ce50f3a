# SPDX-License-Identifier: Apache-2.0
"""Whole models: Heald reads the ONNX file, PyTorch gets the same weights. Convolutional networks are
read from the same file, one PyTorch call a node (batch norms are already in the weights there, which
helps PyTorch); for BERT and GPT-2 PyTorch has its own norms, activations and attention."""
import os
import pathlib

import export
import onnx.numpy_helper
import onnx_models
import torch
import torch.nn.functional as F
from race import Work
from results import KINDS, MODELS, Group


class Weights(torch.nn.Module):
    def keep(self, name, x):
        # contiguous memory of its own, as a loaded checkpoint has
        self.register_buffer(name, torch.from_numpy(x.copy()))
        return f"self.{name}"


class Network(Weights):
    """A convolutional network: forward() is made of one line of text a node."""

    def __init__(self, model):
        super().__init__()
        graph = model.graph
        self.arrays = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
        self.names = {graph.input[0].name: "x"}
        lines = []
        for i, n in enumerate(graph.node):
            attrs = {a.name: onnx.helper.get_attribute_value(a) for a in n.attribute}
            if n.op_type == "Constant":
                self.arrays[n.output[0]] = onnx.numpy_helper.to_array(attrs["value"])
                continue
            self.names[n.output[0]] = f"v{i}"
            lines.append(f"    v{i} = {getattr(self, n.op_type)(n, attrs)}")
        lines.append(f"    return {self.names[graph.output[0].name]}")
        space = {"torch": torch, "F": F}
        exec("def forward(self, x):\n" + "\n".join(lines), space)
        del self.arrays, self.names
        self.forward = space["forward"].__get__(self)

    def operand(self, name):
        if name not in self.names:
            self.names[name] = self.keep(f"w{len(self.names)}", self.arrays[name])
        return self.names[name]

    def number(self, n, i):
        return float(self.arrays[n.input[i]]) if i < len(n.input) and n.input[i] else None

    def all(self, n):
        return ", ".join(self.operand(x) for x in n.input)

    def Conv(self, n, a):
        pads = a.get("pads", [0, 0, 0, 0])
        assert list(pads[:2]) == list(pads[2:])
        bias = "" if len(n.input) > 2 else ", None"
        return f"F.conv2d({self.all(n)}{bias}, {a['strides']}, {list(pads[:2])}, {a.get('dilations', [1, 1])}, {a.get('group', 1)})"

    def Relu(self, n, a):
        return f"F.relu({self.all(n)})"

    def Clip(self, n, a):
        return f"torch.clamp({self.operand(n.input[0])}, {self.number(n, 1)}, {self.number(n, 2)})"

    def Add(self, n, a):
        return f"{self.operand(n.input[0])} + {self.operand(n.input[1])}"

    def MaxPool(self, n, a):
        return f"F.max_pool2d({self.all(n)}, {a['kernel_shape']}, {a['strides']}, {list(a.get('pads', [0, 0])[:2])}, 1, {bool(a.get('ceil_mode', 0))})"

    def AveragePool(self, n, a):
        return (f"F.avg_pool2d({self.all(n)}, {a['kernel_shape']}, {a['strides']}, {list(a.get('pads', [0, 0])[:2])}, "
                f"{bool(a.get('ceil_mode', 0))}, {bool(a.get('count_include_pad', 0))})")

    def Pad(self, n, a):
        pads = [int(p) for p in self.arrays[n.input[1]]]
        if not any(pads):
            return self.operand(n.input[0])
        assert not any(pads[:2] + pads[4:6])
        return f"F.pad({self.operand(n.input[0])}, {[pads[3], pads[7], pads[2], pads[6]]})"

    def GlobalAveragePool(self, n, a):
        return f"F.adaptive_avg_pool2d({self.all(n)}, 1)"

    def Flatten(self, n, a):
        return f"torch.flatten({self.all(n)}, 1)"

    def Concat(self, n, a):
        return f"torch.cat(({self.all(n)}), {a['axis']})"

    def Gemm(self, n, a):
        assert a.get("transB", 0) and a.get("alpha", 1.0) == 1.0 and a.get("beta", 1.0) == 1.0
        return f"F.linear({self.all(n)})"


class Transformer(Weights):
    """12 layers of 768 with 12 heads. Weights that the exporter transposed and renamed are found by the
    order of the products."""

    def __init__(self, model):
        super().__init__()
        arrays = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
        products = [n.input[1] for n in model.graph.node if n.op_type == "MatMul" and n.input[1] in arrays]
        added = [x for n in model.graph.node[:3] if n.op_type == "Add" for x in n.input if x in arrays]
        self.position = None
        for x in added:  # positions, and of BERT the kind of segment
            p = arrays[x]
            self.position = p if self.position is None else self.position + p
        self.keep("positions", self.position)
        del self.position
        for name, x in arrays.items():
            if name not in products and name not in added and x.dtype.kind == "f":
                self.keep(name.replace(".", "_"), x)
        order = self.ORDER * 12
        assert len(products) == len(order), len(products)
        for i, (kind, name) in enumerate(zip(order, products)):
            self.keep(f"blocks_{i // len(self.ORDER)}_{kind}_weight", arrays[name].T)

    def linear(self, x, i, kind):
        return F.linear(x, getattr(self, f"blocks_{i}_{kind}_weight"), getattr(self, f"blocks_{i}_{kind}_bias"))

    def norm(self, x, name):
        return F.layer_norm(x, (768,), getattr(self, name + "_weight"), getattr(self, name + "_bias"), self.EPS)

    def attention(self, q, k, v, causal):
        q, k, v = (t.view(1, -1, 12, 64).transpose(1, 2) for t in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).reshape(1, -1, 768)


class Bert(Transformer):
    ORDER, EPS = ["q", "k", "v", "proj", "up", "down"], 1e-12

    def forward(self, ids):
        x = self.norm(F.embedding(ids, self.tok_weight) + self.positions, "ln")
        for i in range(12):
            y = self.attention(*(self.linear(x, i, n) for n in "qkv"), False)
            x = self.norm(x + self.linear(y, i, "proj"), f"blocks_{i}_ln1")
            y = self.linear(F.gelu(self.linear(x, i, "up")), i, "down")
            x = self.norm(x + y, f"blocks_{i}_ln2")
        return x


class Gpt2(Transformer):
    ORDER, EPS = ["qkv", "proj", "up", "down"], 1e-5

    def forward(self, ids):
        x = F.embedding(ids, self.tok_weight) + self.positions
        for i in range(12):
            q, k, v = self.linear(self.norm(x, f"blocks_{i}_ln1"), i, "qkv").chunk(3, -1)
            x = x + self.linear(self.attention(q, k, v, True), i, "proj")
            y = F.gelu(self.linear(self.norm(x, f"blocks_{i}_ln2"), i, "up"), approximate="tanh")
            x = x + self.linear(y, i, "down")
        return self.norm(x, "ln")


def network(name, model):
    return {"bert": Bert, "gpt2": Gpt2}.get(name, Network)(model)


class Loaded:
    """A model's weights, made when they are first asked for."""

    def __init__(self, path, name):
        self.path, self.name, self.proto = path, name, None

    def model(self):
        if self.proto is None:
            self.proto = onnx_models.fill(self.path)
        return self.proto

    def bytes(self):
        return self.model().SerializeToString()

    def inputs(self, r):
        if self.name in ("bert", "gpt2"):
            return [torch.randint(0, 30000, (1, 128), device=r.device)]
        size = 299 if self.name == "inception_v3" else 224
        return [torch.randn(1, 3, size, size, device=r.device)]

    def output(self, r):
        return torch.empty((1, 128, 768) if self.name in ("bert", "gpt2") else (1, 1000), device=r.device)

    def reference(self, r, x):
        return network(self.name, self.model()).double().to(r.device)(x)

    def to_type(self, r, kind, x):
        t = torch.float16 if kind == "f16" else torch.float32
        net = network(self.name, self.model()).to(t).to(r.device).eval()
        return net, x.to(t) if x.is_floating_point() else x

    def peers(self, r, kind, x):
        net, x = self.to_type(r, kind, x)
        if not r.cuda:
            return {"eager": lambda: net(x)}
        found = {"eager+graph": r.graphed(lambda: net(x))}
        if x.dim() == 4:
            last, y = self.to_type(r, kind, x)
            last, y = last.to(memory_format=torch.channels_last), y.to(memory_format=torch.channels_last)
            found["eager+graph nhwc"] = r.graphed(lambda: last(y))
        return found

    def compiled(self, r, kind, x):
        net, x = self.to_type(r, kind, x)
        return net, (x,)


def find_models(folder, names):
    """NAME.onnx of each name: what is not there is made of NAME/model.onnx, or exported."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        whole, path = folder / name / "model.onnx", folder / f"{name}.onnx"
        if not path.exists():
            print(f"# making {path}", flush=True)
            part = f"{path}.{os.getpid()}"  # other processes may make it too
            onnx_models.strip(str(whole), part) if whole.exists() else export.export(name, part)
            os.replace(part, path)
        yield name, path


def models(r):
    works = []
    for name, path in find_models(pathlib.Path(r.o.models), [r.o.model] if r.o.model else MODELS):
        m = Loaded(str(path), name)
        for kind in KINDS:
            works.append(Work(
                f"models {kind}", f"{name} {kind}", inputs=lambda m=m: m.inputs(r), onnx=m.bytes,
                output=lambda x, m=m: m.output(r), reference=lambda x, m=m: m.reference(r, x),
                peers=lambda x, m=m, kind=kind: m.peers(r, kind, x), compiled=lambda x, m=m, kind=kind: m.compiled(r, kind, x),
                compile_mode="reduce-overhead", precision=kind if kind != "f32" else None))
    r.part([Group("models f32", 1.2), Group("models f16", 1.0)], works, ahead=False)
