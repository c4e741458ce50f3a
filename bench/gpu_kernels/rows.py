# SPDX-License-Identifier: Apache-2.0
"""Sums of rows by Heald against PyTorch, eager and compiled, on one GPU.

A row tells medians, the share of the speed of a copy, and relative errors against float64. `--tune` also
races other choices of the template. Run it by gpu_kernels.sh, which builds the shared object.
"""
import argparse
import time

import kernels

SHAPES = ((8192, 8192), (32768, 1024), (1024, 65536))
OWN = 0.97  # of the speed of the best peer at the first shape


def candidates(kind):
    """Other choices worth a race: threads of a block, elements of a piece, pieces on their way at once."""
    pieces = (4, 2) if kind == "f32" else (8, 4)
    return [f"threads={t};per={p};ahead={a}" for t in (128, 256, 512) for p in pieces for a in (1, 2, 4, 8, 16)]


def job_of(kind, shape, arch, choices=""):
    template = "reduce_sum_cuda" if choices else ""
    return ("reduce_sum", template, f"{kind}[{shape[0]}, {shape[1]}]", "axes=(1,);keepdims=false", "", choices, arch)


def peers(torch, x):
    found = {"eager": lambda: x.sum(1)}
    kernels.add_compiled(torch, found, lambda t: t.sum(1), x)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tune", action="store_true", help="race other choices")
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--compile-only", action="store_true", help="fill the cache; needs no GPU")
    parser.add_argument("--arch", default="")
    o = parser.parse_args()
    start, arch = time.time(), o.arch
    if not o.compile_only:
        import torch

        major, minor = torch.cuda.get_device_capability()
        arch = arch or f"sm_{major}{minor}" + ("a" if major == 9 else "")
        print(f"# {torch.cuda.get_device_name()}, {arch}, torch {torch.__version__}")
    rows = [(kind, shape) for kind in ("f32", "f16") for shape in SHAPES]
    jobs = [job_of(*row, arch) for row in rows]
    jobs += [job_of(*row, arch, c) for row in rows for c in candidates(row[0]) if o.tune]
    jobs = kernels.compile_all(jobs)
    for job, why in jobs.items():
        if why:
            print(f"# {job}: {why.strip().splitlines()[0]}")
    print(f"# {len(jobs)} kernels compiled, {time.time() - start:.0f} s", flush=True)
    if o.compile_only:
        return any(jobs.values())

    lib = kernels.library()
    flush = torch.empty(kernels.FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    missed = 0
    for kind, shape in rows:
        x = torch.randn(shape, device="cuda").to({"f32": torch.float32, "f16": torch.float16}[kind])
        y, copy = torch.full(shape[:1], float("nan"), dtype=x.dtype, device="cuda"), torch.empty_like(x)
        want = x.double().sum(1)

        def error(z):
            return float(torch.linalg.norm(z.double() - want) / torch.linalg.norm(want))

        def contender(choices=""):
            k = kernels.Kernel(torch, lib, job_of(kind, shape, arch, choices))
            y.fill_(float("nan"))
            run = k.bind([x, y])
            run()
            return k, run, error(y)

        own, run, mine = contender()
        others = peers(torch, x)
        theirs = min(error(f()) for f in others.values())
        heald, copied, *rest = kernels.measure(torch, flush, [run, lambda: copy.copy_(x), *others.values()], o.samples)
        missed += shape == SHAPES[0] and min(rest) < OWN * heald
        print(f"{kind} {'x'.join(map(str, shape)):12} {heald:8.2f} us, torch {min(rest):8.2f}, ratio {min(rest) / heald:5.3f}, "
              f"{copied / heald / 2:5.3f} of a copy, error {mine:.1e} and {theirs:.1e}  {own.text}", flush=True)
        race = []
        for choices in candidates(kind) if o.tune else []:
            if not jobs[job_of(kind, shape, arch, choices)]:
                k, run, mine = contender(choices)
                race.append((*kernels.measure(torch, flush, [run, next(iter(others.values()))], 15), choices, mine))
        for us, peer, choices, mine in sorted(race)[:8]:
            print(f"    {us:8.2f} us, eager {peer:8.2f}  {choices}{'' if mine <= 2 * theirs else '  ERROR TOO LARGE'}", flush=True)
    print(f"# {time.time() - start:.0f} s")
    return missed > 0


if __name__ == "__main__":
    raise SystemExit(main())
