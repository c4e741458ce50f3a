# SPDX-License-Identifier: Apache-2.0
"""Convolutions with bias and ReLU by Heald against cuDNN, as PyTorch calls it in benchmark mode, on one GPU.

A row tells medians and the relative errors against float64. `--tune` also races other choices of the
templates. Run it by gpu_kernels.sh, which builds the shared object.
"""
import argparse
import math
import sys
import time

import kernels

# (input channels, output channels, extent of the image, of the window, stride, groups) and how often the model has it
RESNET50 = {
    (3, 64, 224, 7, 2, 1): 1,
    (64, 64, 56, 1, 1, 1): 1, (64, 64, 56, 3, 1, 1): 3, (64, 256, 56, 1, 1, 1): 4, (256, 64, 56, 1, 1, 1): 2,
    (256, 128, 56, 1, 1, 1): 1, (128, 128, 56, 3, 2, 1): 1, (128, 512, 28, 1, 1, 1): 4, (256, 512, 56, 1, 2, 1): 1,
    (512, 128, 28, 1, 1, 1): 3, (128, 128, 28, 3, 1, 1): 3,
    (512, 256, 28, 1, 1, 1): 1, (256, 256, 28, 3, 2, 1): 1, (256, 1024, 14, 1, 1, 1): 6, (512, 1024, 28, 1, 2, 1): 1,
    (1024, 256, 14, 1, 1, 1): 5, (256, 256, 14, 3, 1, 1): 5,
    (1024, 512, 14, 1, 1, 1): 1, (512, 512, 14, 3, 2, 1): 1, (512, 2048, 7, 1, 1, 1): 3, (1024, 2048, 14, 1, 2, 1): 1,
    (2048, 512, 7, 1, 1, 1): 2, (512, 512, 7, 3, 1, 1): 2,
}
MOBILENET = {
    (c, c, d, 3, s, c): times
    for c, d, s, times in (
        (32, 112, 1, 1), (96, 112, 2, 1), (144, 56, 1, 1), (144, 56, 2, 1), (192, 28, 1, 2), (192, 28, 2, 1),
        (384, 14, 1, 4), (576, 14, 1, 2), (576, 14, 2, 1), (960, 7, 1, 3),
    )
}
# part -> (layers, type, batch, the least ratio of the geometric mean)
PARTS = {
    "f32": (RESNET50, "f32", (1, 16), 0.9),
    "f16": (RESNET50, "f16", (1, 16), 0.7),
    "depthwise f32": (MOBILENET, "f32", (1, 16), 1.5),
    "depthwise f16": (MOBILENET, "f16", (1, 16), 1.5),
}


def job_of(kind, batch, layer, arch, template="", choices=""):
    c, o, d, k, s, g = layer
    inputs = f"{kind}[{batch}, {c}, {d}, {d}] | {kind}[{o}, {c // g}, {k}, {k}] | {kind}[{o}]"
    attrs = f"group={g};strides=({s}, {s});pads=({k // 2}, {k // 2}, {k // 2}, {k // 2})"
    return ("conv", template, inputs, attrs, "relu", choices, arch)


def candidates(kind, batch, layer):
    """Other choices worth a race, (template, choices)."""
    c, o, d, k, s, g = layer
    pixels, depth = batch * (d // s) ** 2, c // g * k * k
    if g > 1:
        return []
    tiles = [(64, 64, 32, 32), (32, 64, 16, 32), (64, 32, 32, 16)] if pixels < 3000 else [(64, 64, 32, 32)]
    if kind != "f32" and batch > 1:
        tiles = [(64, 64, 32, 32), (128, 64, 64, 32)]
    out = []
    for bm, bn, wm, wn in tiles:
        blocks = math.ceil(o / bm) * math.ceil(pixels / bn)
        splits = {max(1, want // blocks) for want in (264, 528)}
        out += [("conv_gemm", f"tile=({bm}, {bn}, {wm}, {wn});split={n}") for n in sorted(splits) if depth / n >= 64 and bm <= o]
    return out


def peers(torch, x, w, b, stride, groups):
    """What PyTorch offers: name -> function that returns the result."""
    pad = w.shape[-1] // 2
    conv, last = torch.nn.functional.conv2d, torch.channels_last
    found = {}
    for name, (u, v) in {"nchw": (x, w), "nhwc": (x.to(memory_format=last), w.to(memory_format=last))}.items():
        found[name] = lambda u=u, v=v: torch.relu_(conv(u, v, b, stride, pad, 1, groups))
        found[name + " fused"] = lambda u=u, v=v: torch.cudnn_convolution_relu(
            u, v, b, (stride, stride), (pad, pad), (1, 1), groups)
    return found


def usable(torch, found):
    """Those that work here."""
    for name in list(found):
        try:
            found[name]()
            torch.cuda.synchronize()
        except RuntimeError:
            del found[name]
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tune", action="store_true", help="race other choices")
    parser.add_argument("--part", default=",".join(PARTS), help="parts, comma separated")
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--samples", type=int, default=30)
    parser.add_argument("--compile-only", action="store_true", help="fill the cache; needs no GPU")
    parser.add_argument("--arch", default="sm_90a")
    options = parser.parse_args()
    start = time.time()
    rows = [(part, PARTS[part][1], batch, layer) for part in options.part.split(",") for batch in PARTS[part][2]
            for layer in PARTS[part][0] if options.batch in (0, batch)]
    jobs = [job_of(kind, batch, layer, options.arch) for _, kind, batch, layer in rows]
    if options.tune:
        jobs += [job_of(kind, batch, layer, options.arch, *c) for _, kind, batch, layer in rows
                 for c in candidates(kind, batch, layer)]
    failed = {job: why for job, why in kernels.compile_all(jobs).items() if why}
    for job, why in failed.items():
        if not job[5] or options.compile_only:
            print(f"# {job}: {why.strip()[:300]}")
    print(f"# {len(jobs)} kernels compiled, {len(failed)} failed, {time.time() - start:.0f} s")
    if options.compile_only:
        sys.exit(bool([job for job in failed if not job[5]]))

    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    lib, flush = kernels.library(), torch.empty(kernels.FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    ratios, total = {}, {}
    print(f"{'part':5} {'n':>2} {'c, o, d, k, s, g':26} {'heald us':>8} {'cudnn us':>8} {'ratio':>6} {'GFLOP/s':>8} "
          f"{'error':>8} {'cudnn':>8}  how")
    for part, kind, batch, layer in rows:
        c, o, d, k, s, g = layer
        torch.manual_seed(1)
        dtype = {"f32": torch.float32, "f16": torch.float16}[kind]
        x, w, b = [(torch.rand(size, device="cuda") * 2 - 1).to(dtype)
                   for size in ((batch, c, d, d), (o, c // g, k, k), (o,))]
        reference = torch.relu(torch.nn.functional.conv2d(x.double(), w.double(), b.double(), s, k // 2, 1, g))
        y = torch.full(reference.shape, float("nan"), dtype=dtype, device="cuda")
        label = f"{part[:5]:5} {batch:2} {','.join(map(str, layer)):26}"

        def error(t):
            return float(torch.linalg.norm(t.double() - reference) / torch.linalg.norm(reference))

        def prepare(job):
            kernel = kernels.Kernel(torch, lib, job)
            run = kernel.bind([x, w, b, *kernel.packed([x, w, b]), y])
            y.fill_(float("nan"))
            run()
            torch.cuda.synchronize()
            return run, kernel.text, error(y)

        try:
            run, text, own = prepare(job_of(kind, batch, layer, options.arch))
            others = usable(torch, peers(torch, x, w, b, s, g))
            theirs = min(error(f()) for f in others.values())
            heald, *rest = kernels.measure(torch, flush, [run, *others.values()], options.samples)
        except RuntimeError as e:
            print(f"{label} FAILED: {str(e).strip()[:300]}", flush=True)
            ratios.setdefault(part, []).append(float("nan"))
            continue
        best = min(rest)
        which = list(others)[rest.index(best)]
        wrong = "" if own <= 2 * theirs else "  ERROR TOO LARGE"
        flops = 2 * batch * o * reference.shape[2] * reference.shape[3] * (c // g) * k * k
        print(f"{label} {heald:8.1f} {best:8.1f} {best / heald:6.2f} {flops / heald / 1e3:8.0f} {own:8.1e} {theirs:8.1e}"
              f"  {which}; {text}{wrong}", flush=True)
        ratios.setdefault(part, []).append(best / heald)
        sums = total.setdefault((part, batch), [0.0, 0.0])
        for i, us in enumerate((heald, best)):
            sums[i] += us * PARTS[part][0][layer]
        race = []
        for candidate in candidates(kind, batch, layer) if options.tune else []:
            job = job_of(kind, batch, layer, options.arch, *candidate)
            if job in failed:
                continue
            try:
                run, text, own = prepare(job)
                wrong = "" if own <= 2 * theirs else " ERROR"
                race.append((kernels.measure(torch, flush, [run], 7)[0], candidate[1] + wrong))
            except RuntimeError as e:
                print(f"    {candidate}: {str(e).strip()[:200]}")
        if race:
            print("    " + "; ".join(f"{us:.1f} {choices.replace('tile=', '')}" for us, choices in sorted(race)[:4]), flush=True)
    for (part, batch), (own, theirs) in total.items():
        print(f"# {part} batch {batch}: all layers of the model {own:.0f} us, cuDNN {theirs:.0f} us")
    for part, list_ in ratios.items():
        mean = math.exp(sum(map(math.log, list_)) / len(list_))
        print(f"# {part:14} geomean {mean:6.3f}, at least {PARTS[part][3]}: {'ok' if mean >= PARTS[part][3] else 'MISSED'}")
    print(f"# {time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
