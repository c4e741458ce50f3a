# SPDX-License-Identifier: Apache-2.0
"""Heald against PyTorch, cuBLAS and cuDNN on one GPU: bench/gpu --part P builds, checks and times.

Parts: matmul, memory, fused, conv, depthwise, attention, models; several with commas. Both sides work
on the same tensors in one process and one stream, in turn, with L2 flushed; float32 is float32 on both
(no tf32). A row counts only if its error against float64 is at most twice the peer's. The last table
says which thresholds are met; the exit status is 1 if one is missed.

HEALD_LIBRARY names a libheald.so to use in place of building one."""
import argparse
import os
import pathlib
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent  # bench/gpu_parts
ROOT = HERE.parent.parent
PARTS = ("matmul", "memory", "fused", "conv", "depthwise", "attention", "models")


def build():
    if "HEALD_LIBRARY" in os.environ:
        return os.environ["HEALD_LIBRARY"]
    folder = ROOT / "build" / "gpu"
    for command in (["cmake", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", "-DHEALD_TESTS=OFF"],
                    ["cmake", "--build", folder, "-j", str(os.cpu_count()), "--target", "heald_shared"]):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return str(next(folder.glob("libheald.so")))


def find_nvrtc():
    """That of PyTorch, where neither the environment nor the system has one."""
    if "HEALD_NVRTC" in os.environ or list(pathlib.Path("/usr/local/cuda/lib64").glob("libnvrtc.so*")):
        return
    import torch

    found = list(pathlib.Path(torch.__file__).parent.parent.glob("nvidia/*/lib/libnvrtc.so.1*"))
    if found:
        os.environ["HEALD_NVRTC"] = str(found[0])


def main():
    p = argparse.ArgumentParser(prog="bench/gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--part", required=True, help="parts, comma separated, or all")
    p.add_argument("--only", help="rows whose name or group contains one of these, comma separated")
    p.add_argument("--samples", type=int, default=50, help="timed samples of each side")
    p.add_argument("--seconds", type=float, default=540, help="leave out rows that have not begun by then")
    p.add_argument("--no-compile", action="store_true", help="without torch.compile among the peers: quicker, and no proof")
    p.add_argument("--precision", help="what Heald computes f32 in, for experiments: tf32x3, tf32; no proof")
    p.add_argument("--models", default=str(ROOT / "build" / "gpu-models"), help="folder for the part of that name: NAME.onnx without weights, which is made of NAME/model.onnx or exported where it is missing")
    p.add_argument("--jobs", type=int, default=min(os.cpu_count(), 16), help="kernels compiled at a time")
    p.add_argument("--compile-only", action="store_true", help="compile Heald's side for the GPU that the driver tells of, and time nothing")
    p.add_argument("--cpu", action="store_true", help="tiny sizes on the CPU: only to test this script")
    o = p.parse_args()
    names = PARTS if o.part == "all" else o.part.split(",")
    if unknown := [n for n in names if n not in PARTS]:
        p.error(f"unknown part {unknown[0]}; there are {', '.join(PARTS)}")
    path = build()
    find_nvrtc()
    import torch

    if not o.cpu and not o.compile_only and not torch.cuda.is_available():
        sys.exit("no GPU")
    import heald
    import models
    import parts
    import race

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    r = race.Race(heald.library(path), o)
    if r.cuda:
        print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}", flush=True)
        torch.cuda.set_stream(r.stream)
    for name in names:
        start = time.time()
        print(f"\n== {name}")
        try:
            with torch.no_grad():
                getattr(models if name == "models" else parts, name)(r)
        except RuntimeError as e:  # a kernel took the context with it: the table shows what is missing
            print(f"# {name}: {str(e).splitlines()[0]}")
        print(f"# {name}: {time.time() - start:.0f} s")
    if o.compile_only:
        sys.exit(any(row.why for row in r.rows))
    sys.exit(0 if r.summary() else 1)


if __name__ == "__main__":
    main()
