# SPDX-License-Identifier: Apache-2.0
"""The parts of the benchmark that are single operators and small groups of them."""
import onnx_models
import torch
import torch.nn.functional as F
from race import Work
from results import Group

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
BYTES = {"f32": 4, "f16": 2, "bf16": 2}


def shape_text(*dims):
    return "[" + ", ".join(map(str, dims)) + "]"


def uniform(r, kind, *shape):
    return (torch.rand(shape, device=r.device) * 2 - 1).to(TYPES[kind])


def normal(r, kind, *shape):
    return torch.randn(shape, device=r.device).to(TYPES[kind])


# ---- matmul


def product(r, group, kind, m, n, k):
    def peers(a, b):
        out = torch.empty(m, n, dtype=a.dtype, device=a.device)
        return {"cublas": lambda: torch.matmul(a, b, out=out)}

    return Work(group, f"matmul {kind} {m}x{n}x{k}", text=f"graph g(a: {kind}{shape_text(m, k)}, b: {kind}{shape_text(k, n)}) -> (c) {{ c = matmul(a, b); }}",
                inputs=lambda: [uniform(r, kind, m, k), uniform(r, kind, k, n)], peers=peers,
                reference=lambda a, b: a @ b, flop=2 * m * n * k, bytes_moved=(m * k + k * n + m * n) * BYTES[kind])


def matmul(r):
    scale = 16 if r.o.cpu else 1
    works = [product(r, "f32 squares", "f32", s, s, s) for s in (32, 256, 512, 1024, 2048, 4096)]
    works += [product(r, "f32 16x4096x4096", "f32", 16, 4096, 4096)]
    works += [product(r, f"{t} 4096^3, 8192^3", t, s, s, s) for t in ("f16", "bf16") for s in (4096, 8192)]
    works += [product(r, "f16 small", "f16", *s) for s in (
        (128, 768, 768), (128, 3072, 768), (512, 512, 512), (1024, 1024, 1024), (1, 4096, 4096), (16, 4096, 4096))]
    works += [product(r, "f16 2039x2041x2051", "f16", 2039, 2041, 2051)]
    if scale > 1:
        works = works[:2]
    r.part([Group("f32 squares", 1.0), Group("f32 16x4096x4096", 3.0), Group("f16 4096^3, 8192^3", 0.5),
            Group("bf16 4096^3, 8192^3", 0.5), Group("f16 small", 0.9), Group("f16 2039x2041x2051", 1.5)], works)


# ---- one matmul with bias and activation


def fused(r):
    m, n, k = (16, 24, 8) if r.o.cpu else (128, 3072, 768)

    def peers(x, w, b):
        wt = w.t().contiguous()
        return {"addmm, gelu": lambda: F.gelu(torch.addmm(b, x, w)), "linear, gelu": lambda: F.gelu(F.linear(x, wt, b))}

    w = Work("matmul+bias+gelu f16", f"matmul+bias+gelu f16 {m}x{n}x{k}",
             text=f"graph g(x: f16[{m}, {k}], w: f16[{k}, {n}], b: f16[{n}]) -> (y) {{ y = gelu(matmul(x, w) + b); }}",
             inputs=lambda: [uniform(r, "f16", m, k), uniform(r, "f16", k, n), uniform(r, "f16", n)],
             peers=peers, reference=lambda x, w, b: F.gelu(x @ w + b), flop=2 * m * n * k,
             compiled=lambda x, w, b: (lambda p, q, s: F.gelu(torch.addmm(s, p, q)), (x, w, b)))
    r.part([Group("matmul+bias+gelu f16", 1.0)], [w])


# ---- what memory limits


def memory(r):
    n = 64 if r.o.cpu else 8192
    eps = 1e-5
    # name, graph's body, parameters, PyTorch, float64, bytes in units of the matrix
    def rms(x, g):
        return F.rms_norm(x, (n,), g, eps) if hasattr(F, "rms_norm") else x * torch.rsqrt((x.float() ** 2).mean(-1, keepdim=True) + eps).to(x.dtype) * g

    def rms64(x, g):
        return x * torch.rsqrt((x ** 2).mean(-1, keepdim=True) + eps) * g

    table = [
        ("gelu", "y = gelu(x);", (), F.gelu, F.gelu, 2),
        ("bias+gelu+residual", "y = gelu(x + b) + z;", ("b", "z"), lambda x, b, z: F.gelu(x + b) + z, None, 3),
        ("softmax", "y = softmax(x);", (), lambda x: F.softmax(x, -1), None, 2),
        ("layer norm", f"y = layer_norm(x, g, b; epsilon = {eps});", ("g", "b"),
         lambda x, g, b: F.layer_norm(x, (n,), g, b, eps), None, 2),
        ("RMS norm", f"y = rms_norm(x, g; epsilon = {eps});", ("g",), rms, rms64, 2),
        ("row sums", "y = reduce_sum(x; axes = (1,), keepdims = false);", (), lambda x: x.sum(1), None, 1),
        ("column sums", "y = reduce_sum(x; axes = (0,), keepdims = false);", (), lambda x: x.sum(0), None, 1),
        ("transpose", "y = transpose(x);", (), lambda x: x.t().contiguous(), None, 2),
    ]
    works = []
    for kind in ("f32", "f16"):
        for name, body, more, fn, f64, units in table:
            dims = {"x": (n, n), "z": (n, n), "b": (n,), "g": (n,)}
            names = ("x",) + more
            params = ", ".join(f"{p}: {kind}{shape_text(*dims[p])}" for p in names)
            works.append(Work(
                "memory, each", f"{name} {kind}", text=f"graph g({params}) -> (y) {{ {body} }}",
                inputs=lambda names=names, kind=kind, dims=dims: [normal(r, kind, *dims[p]) for p in names],
                peers=lambda *t, fn=fn: {"eager": lambda: fn(*t)},
                compiled=lambda *t, fn=fn: (fn, t), reference=f64 or fn,
                bytes_moved=units * n * n * BYTES[kind]))
    shares = Group("of the copy bandwidth", 0.92)
    r.part([Group("memory, each", 1.0, 0.97)], works, shares=shares if r.cuda else None)
    if not r.cuda:
        return
    # the copy bandwidth of this run, with the same clocks
    ratios = []
    for kind in ("f32", "f16"):
        x = normal(r, kind, n, n)
        y = torch.empty_like(x)
        us = r.medians([lambda: y.copy_(x)], r.o.samples)[0]
        speed = 2 * x.numel() * x.element_size() / us
        print(f"# copy {kind} {n}x{n}: {us:.2f} us, {speed / 1e3:.0f} GB/s")
        for row in r.rows:
            if row.name.endswith(kind) and row.counts:
                ratios.append((row.name, row.bytes_moved / row.us / speed))
    r.shares(shares.name, ratios)


# ---- convolutions

RESNET50 = [  # channels, extent, filters, kernel, stride
    (3, 224, 64, 7, 2), (64, 56, 64, 1, 1), (64, 56, 64, 3, 1), (64, 56, 256, 1, 1), (256, 56, 64, 1, 1),
    (256, 56, 128, 1, 1), (128, 56, 128, 3, 2), (128, 28, 512, 1, 1), (256, 56, 512, 1, 2), (512, 28, 128, 1, 1),
    (128, 28, 128, 3, 1), (512, 28, 256, 1, 1), (256, 28, 256, 3, 2), (256, 14, 1024, 1, 1), (512, 28, 1024, 1, 2),
    (1024, 14, 256, 1, 1), (256, 14, 256, 3, 1), (1024, 14, 512, 1, 1), (512, 14, 512, 3, 2), (512, 7, 2048, 1, 1),
    (1024, 14, 2048, 1, 2), (2048, 7, 512, 1, 1), (512, 7, 512, 3, 1)]
MOBILENET_V2 = [  # channels, extent, stride
    (32, 112, 1), (96, 112, 2), (144, 56, 1), (144, 56, 2), (192, 28, 1), (192, 28, 2), (384, 14, 1), (576, 14, 1),
    (576, 14, 2), (960, 7, 1)]


def convolution(r, group, kind, batch, c, h, o, k, stride, depthwise=False):
    groups = c if depthwise else 1
    t, pad, out = TYPES[kind], k // 2, (h + 2 * (k // 2) - k) // stride + 1
    g = torch.Generator().manual_seed(7)
    # weights that keep the size of what passes through, as trained ones do
    w = (torch.randn(o, c // groups, k, k, generator=g) * (2 / (c // groups * k * k)) ** 0.5).to(t)
    b = (torch.randn(o, generator=g) * 0.1).to(t)

    def peers(x):
        found, wd, bd = {}, w.to(r.device), b.to(r.device)
        for name, f in (("nchw", torch.contiguous_format), ("nhwc", torch.channels_last)):
            xf, wf = x.to(memory_format=f), wd.to(memory_format=f)
            found[name] = lambda xf=xf, wf=wf: F.relu_(F.conv2d(xf, wf, bd, stride, pad, 1, groups))
            if r.cuda and not depthwise:
                found["fused " + name] = lambda xf=xf, wf=wf: torch.cudnn_convolution_relu(
                    xf, wf, bd, [stride] * 2, [pad] * 2, [1, 1], groups)
        return found

    name = f"{kind} {batch}x{c}x{h}x{h} {k}x{k}" + (f"/{stride} depthwise" if depthwise else f"/{stride} to {o}")
    return Work(group, name, inputs=lambda: [normal(r, kind, batch, c, h, h)], peers=peers,
                onnx=lambda: onnx_models.conv_relu(kind, (batch, c, h, h), w, b, stride, pad, groups),
                reference=lambda x: F.relu(F.conv2d(x, w.double().to(r.device), b.double().to(r.device), stride, pad, 1, groups)),
                flop=2 * batch * o * (c // groups) * k * k * out * out,
                bytes_moved=(batch * c * h * h + batch * o * out * out + w.numel()) * BYTES[kind])


def conv(r):
    layers = [(8, 9, 8, 3, 1), (8, 9, 16, 1, 2)] if r.o.cpu else RESNET50
    works = [convolution(r, f"ResNet-50's convolutions {kind}", kind, batch, *layer)
             for kind in ("f32", "f16") for batch in (1, 16) for layer in layers]
    r.part([Group("ResNet-50's convolutions f32", 0.9), Group("ResNet-50's convolutions f16", 0.7)], works)


def depthwise(r):
    layers = [(8, 9, 1), (8, 9, 2)] if r.o.cpu else MOBILENET_V2
    works = [convolution(r, f"depthwise {kind}", kind, 1, c, h, c, 3, s, True)
             for kind in ("f32", "f16") for c, h, s in layers]
    r.part([Group("depthwise f32", 1.5), Group("depthwise f16", 1.5)], works)


# ---- attention


def attention_work(r, b, h, s, d, causal):
    def peers(q, k, v):
        found = {}
        if not r.cuda:
            mask = torch.full((s, s), float("-inf")).triu(1).to(q.dtype) if causal else torch.zeros(s, s)
            return {"spelled out": lambda: torch.softmax(q.float() @ k.float().transpose(-1, -2) / d ** 0.5 + mask, -1) @ v.float()}
        from torch.nn.attention import SDPBackend, sdpa_kernel
        for name in ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION"):
            backend = getattr(SDPBackend, name, None)

            def call(backend=backend):
                with sdpa_kernel(backend):
                    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

            try:
                call()
                found[name.lower().replace("_attention", "")] = call
            except RuntimeError as e:
                print(f"# {name}: {str(e).splitlines()[0][:80]}")
        return found

    def reference(q, k, v):
        out = torch.empty(q.shape, dtype=torch.float64, device=q.device)
        mask = torch.full((s, s), float("-inf"), device=q.device, dtype=torch.float64).triu(1) if causal else 0
        for i in range(b):  # a batch at a time: scores in float64 are large
            for j in range(h):
                out[i, j] = torch.softmax(q[i, j] @ k[i, j].t() / d ** 0.5 + mask, -1) @ v[i, j]
        return out

    shape = shape_text(b, h, s, d)
    group = f"attention f16 {'causal' if causal else 'full'}"
    return Work(group, f"attention f16 ({b},{h},{s},{d}) {'causal' if causal else 'full'}",
                text=f"graph g(q: f16{shape}, k: f16{shape}, v: f16{shape}) -> (y) {{ y = attention(q, k, v; scale = {d ** -0.5!r}, "
                     f"causal = {'true' if causal else 'false'}); }}",
                inputs=lambda: [normal(r, "f16", b, h, s, d) for _ in range(3)], peers=peers, reference=reference,
                flop=4 * b * h * s * s * d // (2 if causal else 1))


def attention(r):
    works = [attention_work(r, 4, 32, 4096, 128, False), attention_work(r, 16, 16, 1024, 64, True)]
    if r.o.cpu:
        works = [attention_work(r, 1, 2, 33, 16, False), attention_work(r, 2, 1, 20, 8, True)]
    r.part([Group("attention f16 full", 0.45), Group("attention f16 causal", 0.45)], works)
