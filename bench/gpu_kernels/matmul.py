# SPDX-License-Identifier: Apache-2.0
"""Matmul by Heald against cuBLAS, as PyTorch calls it, on one GPU.

A row tells medians and the relative errors against float64. `--tune` also races other choices of the
templates. Run it by gpu_kernels.sh, which builds the shared object.
"""
import argparse
import math
import sys
import time

import kernels

# part, type, (m, n, k), epilogue, the least ratio of the geometric mean of the part
ROWS = (
    [("f32", "f32", (s, s, s), False, 1.0) for s in (32, 256, 512, 1024, 2048, 4096)]
    + [("f32 few rows", "f32", (16, 4096, 4096), False, 3.0)]
    + [("large", t, (s, s, s), False, 0.5) for t in ("f16", "bf16") for s in (4096, 8192)]
    + [
        ("small", "f16", shape, False, 0.9)
        for shape in (
            (128, 768, 768), (128, 3072, 768), (512, 512, 512), (1024, 1024, 1024),
            (1, 4096, 4096), (16, 4096, 4096),
        )
    ]
    + [("odd", "f16", (2039, 2041, 2051), False, 1.5)]
    + [("fused", "f16", (128, 3072, 768), True, 1.0)]
)


def candidates(kind, shape):
    """Other choices worth a race, (template, choices)."""
    m = shape[0]
    out = []
    if kind == "f32":
        if m <= 16:
            out += [("matmul_skinny", f"team={t};group={g};split={s}")
                    for t in (8, 16) for g in (2, 4) for s in (2, 4, 8)]
            out += [("matmul_tf32x3", f"tile=(16, {n}, 16, 16);bk={d};stages=4;split={s}")
                    for n in (32, 64) for d in (32, 64) for s in (2, 4, 8)]
            return out
        tiles = [(128, 128), (64, 128), (64, 64), (32, 64), (32, 32)]
        tiles = tiles[:3] if m >= 2048 else tiles[1:]
        splits = (1,) if m >= 1024 else (1, 2, 4, 8)
        out += [("matmul_pipelined", f"tile={t};split={s}") for t in tiles for s in splits]
        if m >= 1024:
            out += [("matmul_pipelined", f"tile={t};steps={s};stages={g}")
                    for t in tiles[:2] for s in (4, 8, 16) for g in (2, 4)]
        tensor = ["(128, 128, 64, 32)", "(128, 64, 32, 32)", "(64, 64, 32, 32)", "(32, 64, 16, 32)"]
        tensor = tensor[:2] if m >= 2048 else tensor[1:]
        out += [("matmul_tf32x3", f"tile={t};split={s};stages={g}")
                for t in tensor for s in splits for g in (3, 4)]
        return out
    if m <= 8:
        return [("matmul_skinny", f"team={t};group={g};split={s}")
                for t in (4, 8) for g in (4, 8) for s in (4, 8, 16, 32)]
    if m <= 16:
        return [("matmul_mma", f"tile=(16, {n}, 16, 16);split={s};stages={g}")
                for n in (32, 64) for s in (1, 2, 4, 8) for g in (4, 5)]
    if m >= 2039:
        tiles = ["(128, 256, 64, 64)", "(256, 128, 64, 64)", "(128, 128, 64, 64)", "(128, 128, 64, 32)"]
        return [("matmul_mma", f"tile={t};depth={d};stages={g}")
                for t in tiles for d, g in ((32, 3), (32, 4), (32, 5), (64, 3))]
    tiles = ["(64, 128, 32, 64)", "(64, 128, 32, 32)", "(64, 64, 32, 32)", "(64, 64, 32, 16)", "(32, 64, 16, 32)", "(32, 32, 16, 16)"]
    if m >= 512:
        tiles = ["(128, 128, 64, 32)", "(128, 64, 32, 32)"] + tiles[:4]
    return [("matmul_mma", f"tile={t};split={s};depth={d};stages={g}")
            for t in tiles for s in (1, 2, 4) for d, g in ((32, 4), (64, 3), (64, 4), (64, 5))]


def job_of(kind, shape, fused, arch, template="", choices=""):
    m, n, k = shape
    return ("matmul", template, f"{kind}[{m}, {k}] | {kind}[{k}, {n}]", "", f"add {kind}[{n}]; gelu" if fused else "", choices, arch)


def peers(torch, fused, a, b, bias, out):
    """What PyTorch offers: name -> function that leaves the result in its return value."""
    if not fused:
        return {"matmul": lambda: torch.matmul(a, b, out=out)}
    gelu = torch.nn.functional.gelu
    found = {"addmm, gelu": lambda: gelu(torch.addmm(bias, a, b))}
    kernels.add_compiled(torch, found, lambda x, y, z: gelu(torch.addmm(z, x, y)), a, b, bias)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tune", action="store_true", help="race other choices")
    parser.add_argument("--only", default="", help="parts with that in their name, comma separated")
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--compile-only", action="store_true", help="fill the cache; needs no GPU")
    parser.add_argument("--arch", default="")
    options = parser.parse_args()
    rows = [r for r in ROWS if not options.only or any(o in r[0] for o in options.only.split(","))]
    arch = options.arch
    start = time.time()
    if not options.compile_only:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = False
        major, minor = torch.cuda.get_device_capability()
        arch = arch or f"sm_{major}{minor}" + ("a" if major == 9 else "")
        print(f"# {torch.cuda.get_device_name()}, {arch}, torch {torch.__version__}")
    jobs = {}
    for part, kind, shape, fused, _ in rows:
        jobs[job_of(kind, shape, fused, arch)] = None
        for name, choices in candidates(kind, shape) if options.tune else []:
            jobs[job_of(kind, shape, fused, arch, name, choices)] = None
    jobs = kernels.compile_all(list(jobs))
    for job, why in jobs.items():
        if why:
            print(f"# {job}: {why.strip().splitlines()[0]}")
    print(f"# {len(jobs)} kernels compiled, {time.time() - start:.0f} s")
    if options.compile_only:
        sys.exit(any(why for job, why in jobs.items() if not job[5]))

    lib = kernels.library()
    flush = torch.empty(kernels.FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    parts = {}
    print(f"{'part':13} {'type':4} {'m x n x k':16} {'heald us':>9} {'torch us':>9} {'ratio':>6} "
          f"{'TFLOP/s':>8} {'GB/s':>7} {'error':>9} {'torch':>9}  how")
    for part, kind, shape, fused, least in rows:
        m, n, k = shape
        torch.manual_seed(1)
        dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[kind]
        a, b, bias = [(torch.rand(s, device="cuda") * 2 - 1).to(dtype) for s in ((m, k), (k, n), (n,))]
        c, out = torch.full((m, n), float("nan"), dtype=dtype, device="cuda"), torch.empty((m, n), dtype=dtype, device="cuda")
        tensors = [a, b, bias, c] if fused else [a, b, c]
        reference = a.double() @ b.double()
        if fused:
            reference = torch.nn.functional.gelu(reference + bias.double())

        def error(x):
            return float(torch.linalg.norm(x.double() - reference) / torch.linalg.norm(reference))

        label = f"{part:13} {kind:4} {'x'.join(map(str, shape)):16}"
        try:
            product = kernels.Kernel(torch, lib, job_of(kind, shape, fused, arch))
            run = product.bind(tensors)
            run()
            torch.cuda.synchronize()
            own = error(c)
            others = peers(torch, fused, a, b, bias, out)
            theirs = min(error(f()) for f in others.values())
            heald, *rest = kernels.measure(torch, flush, [run, *others.values()], options.samples)
        except RuntimeError as e:
            print(f"{label} FAILED: {str(e).strip()[:300]}")
            parts.setdefault((part, least), []).append(float("nan"))
            continue
        best = min(rest)
        wrong = "" if own <= 2 * theirs else "  ERROR TOO LARGE"
        size = sum(t.numel() * t.element_size() for t in tensors)
        print(f"{label} {heald:9.1f} {best:9.1f} {best / heald:6.2f} {2e-6 * m * n * k / heald:8.1f} "
              f"{size / heald / 1e3:7.0f} {own:9.2e} {theirs:9.2e}  {product.text}{wrong}", flush=True)
        parts.setdefault((part, least), []).append(best / heald)
        if not options.tune:
            continue
        race = []
        for name, choices in candidates(kind, shape):
            job = job_of(kind, shape, fused, arch, name, choices)
            if jobs[job]:
                continue
            try:
                other = kernels.Kernel(torch, lib, job)
                c.fill_(float("nan"))
                run = other.bind(tensors)
                run()
                torch.cuda.synchronize()
                wrong = "" if error(c) <= 2 * theirs else "  ERROR TOO LARGE"
                race.append((kernels.measure(torch, flush, [run], 9)[0], choices, other.text + wrong))
            except RuntimeError as e:
                print(f"    {choices}: {str(e).strip()[:200]}")
        for us, choices, text in sorted(race)[:5]:
            print(f"    {us:9.1f} us {best / us:6.2f}  {choices}  [{text}]", flush=True)
    print("# part           geomean   at least")
    for (part, least), ratios in parts.items():
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"# {part:13} {mean:8.3f} {least:8.2f}  {'ok' if mean >= least else 'MISSED'}")
    print(f"# {time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
