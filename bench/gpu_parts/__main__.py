# SPDX-License-Identifier: Apache-2.0
"""Heald against PyTorch, cuBLAS and cuDNN on one GPU: bench/gpu --part P builds, checks and times.

Parts: matmul, memory, fused, conv, depthwise, attention, models; several with commas, or all. Both sides
work on the same tensors in one process and one stream, in turn, with L2 flushed; float32 is float32 on both
(no tf32). A row counts only if its error against float64 is at most twice the peer's. The last table says
which thresholds are met; the exit status is 1 if one is missed.

Each part, and each model, has a process of its own. Where a row loses the GPU's context or its process ends,
the rows after it go on in another one, and that row's kernels run again without peers: each launch waited for,
as a graph, and under compute-sanitizer. What torch.compile makes of the models is compiled first, several at a time.

HEALD_LIBRARY names a libheald.so to use in place of building one."""
import argparse
import os
import sys

sys.dont_write_bytecode = True
import processes

PARTS = ("matmul", "memory", "fused", "conv", "depthwise", "attention", "models")


def options():
    p = argparse.ArgumentParser(prog="bench/gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--part", required=True, help="parts, comma separated, or all")
    p.add_argument("--only", help="rows whose name or group contains one of these, comma separated")
    p.add_argument("--samples", type=int, default=50, help="timed samples of each side")
    p.add_argument("--seconds", type=float, default=530, help="all of it ends by then; rows that have not begun are left out")
    p.add_argument("--no-compile", action="store_true", help="without torch.compile among the peers: quicker, and no proof")
    p.add_argument("--precision", help="what Heald computes f32 in, for experiments: tf32x3, tf32; no proof")
    p.add_argument("--models", default=str(processes.ROOT / "build" / "gpu-models"), help="folder for the part of that name: NAME.onnx without weights, which is made of NAME/model.onnx or exported where it is missing")
    p.add_argument("--jobs", type=int, default=min(os.cpu_count(), 16), help="kernels compiled at a time")
    p.add_argument("--compile-only", action="store_true", help="compile Heald's side for the GPU that the driver tells of, and time nothing")
    p.add_argument("--cpu", action="store_true", help="tiny sizes on the CPU: only to test this script")
    # what the process that the user starts tells the others: where to tell of rows, and what to run
    for flag, more in (("--child", {}), ("--model", {}), ("--first", {"type": int, "default": 0}), ("--count", {"type": int}),
                       ("--warm", {"action": "store_true"}), ("--alone", {"action": "store_true"})):
        p.add_argument(flag, help=argparse.SUPPRESS, **more)
    o = p.parse_args()
    o.parts = PARTS if o.part == "all" else o.part.split(",")
    if unknown := [n for n in o.parts if n not in PARTS]:
        p.error(f"unknown part {unknown[0]}; there are {', '.join(PARTS)}")
    return o


def run_part(o):
    """One part, in a process of its own."""
    import torch

    if not o.cpu and not o.compile_only and not torch.cuda.is_available():
        sys.exit("no GPU")
    import heald
    import models
    import parts
    import race

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    r = race.Race(heald.library(os.environ["HEALD_LIBRARY"]), o)
    if r.cuda:
        if not o.warm and not o.alone:
            print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}", flush=True)
        torch.cuda.set_stream(r.stream)
    with torch.no_grad():
        getattr(models if o.part == "models" else parts, o.part)(r)


if __name__ == "__main__":
    chosen = options()
    if chosen.child:
        run_part(chosen)
    else:
        sys.exit(processes.Runner(chosen).run())
