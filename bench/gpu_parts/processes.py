# SPDX-License-Identifier: Apache-2.0
"""Parts and models in processes of their own: one that dies takes a row with it, not the table; the row is then
looked into, and the rows after it go on in another process."""
import concurrent.futures
import importlib.util
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import results

HERE = pathlib.Path(__file__).resolve().parent  # bench/gpu_parts
ROOT = HERE.parent.parent
TABLES_S, LEAST_S = 5, 12  # kept for the tables; what a process needs
PROCESS_S, WARM_S, LOOK_S = 150, 150, 60  # the most that one takes
WARM_AT_ONCE, MOST_LOSSES = max(2, (os.cpu_count() or 1) * 5 // 8), 4


def build():
    if "HEALD_LIBRARY" in os.environ:
        return
    folder = ROOT / "build" / "gpu"
    for command in (["cmake", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", "-DHEALD_TESTS=OFF"],
                    ["cmake", "--build", folder, "-j", str(os.cpu_count()), "--target", "heald_shared"]):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    os.environ["HEALD_LIBRARY"] = str(next(folder.glob("libheald.so")))


def find_nvrtc():
    """That of PyTorch, where neither the environment nor the system has one."""
    if "HEALD_NVRTC" in os.environ or list(pathlib.Path("/usr/local/cuda/lib64").glob("libnvrtc.so*")):
        return
    torch = importlib.util.find_spec("torch")
    found = list(pathlib.Path(torch.origin).parent.parent.glob("nvidia/*/lib/libnvrtc.so.1*")) if torch else []
    if found:
        os.environ["HEALD_NVRTC"] = str(found[0])


def last_lines(text, n):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-n:] or ["no word"]


def end_all(p):
    """Ends a process and the compilers that it started."""
    try:
        os.killpg(p.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Runner:
    def __init__(self, o):
        self.o, self.start = o, time.time()
        self.groups, self.names, self.rows = {}, [], {}
        self.broken = False  # a process told of no rows at all

    def left(self):
        return self.o.seconds - TABLES_S - (time.time() - self.start)

    def options(self, seconds):
        o = self.o
        out = ["--samples", o.samples, "--models", o.models, "--jobs", o.jobs, "--seconds", max(seconds - LEAST_S, 1)]
        out += ["--precision", o.precision] if o.precision else []
        out += [f"--{f.replace('_', '-')}" for f in ("no_compile", "compile_only", "cpu") if getattr(o, f)]
        return list(map(str, out))

    def child(self, arguments, seconds, quiet=False, before=(), env=None):
        """Exit status of a process, negative for a signal and None where it took too long; what it told, and what it
        printed if it is to be quiet."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "told"
            path.touch()
            command = [*before, sys.executable, str(HERE), "--child", str(path), *self.options(seconds), *arguments]
            p = subprocess.Popen(command, stdout=subprocess.PIPE if quiet else None, stderr=subprocess.STDOUT if quiet else None,
                                 text=True, errors="replace", env={**os.environ, **(env or {})}, start_new_session=True)
            try:
                text, status = p.communicate(timeout=max(seconds, 1))[0], p.returncode
            except subprocess.TimeoutExpired:
                end_all(p)
                text, status = p.communicate()[0], None
            end_all(p)
            return status, results.Told().read(path), text or ""

    # before

    def model_rows(self):
        """(model, type) of the rows that are wanted."""
        words = self.o.only.split(",") if self.o.only else [""]
        return [(m, k) for m in results.MODELS for k in results.KINDS if any(w in f"{m} {k}" or w in f"models {k}" for w in words)]

    def warm(self):
        """Caches of torch.compile and of Heald, before anything is timed."""
        jobs = self.model_rows()
        start, limit = time.time(), min(WARM_S, self.left() / 3)

        def one(job):
            spent = time.time() - start
            if spent > limit - LEAST_S:
                return None, None, "no time left"
            return self.child(["--part", "models", "--model", job[0], "--only", " ".join(job), "--warm"], limit - spent, quiet=True)

        with concurrent.futures.ThreadPoolExecutor(WARM_AT_ONCE) as pool:
            for job, (status, _, text) in zip(jobs, pool.map(one, jobs)):
                if status != 0:
                    print(f"# {' '.join(job)}: not compiled ahead: {last_lines(text, 1)[0][:200]}")
        print(f"# {len(jobs)} models compiled ahead in {time.time() - start:.0f} s", flush=True)

    # a part

    def keep(self, told, first):
        for g in told.groups:
            self.groups[g.name] = g
        if not first:
            self.names += told.names + told.share_names
        for r in told.rows + told.shares:
            self.rows[r.group, r.name] = r

    def part(self, name, *more):
        """Processes until all rows of it are done."""
        print(f"\n== {' '.join((name, *more[1:]))}", flush=True)
        start, first, total = time.time(), 0, None
        only = ["--only", self.o.only] if self.o.only else []
        for _ in range(MOST_LOSSES):
            if self.left() < LEAST_S:
                print("# no time left", flush=True)
                break
            arguments = ["--part", name, *more, *only]
            status, told, _ = self.child([*arguments, "--first", str(first)], min(PROCESS_S, self.left()))
            self.keep(told, first)
            total = len(told.names) if total is None else total
            if status == 0:
                break
            if not told.names:
                print(f"# {name}: the process ended with status {status}", flush=True)
                self.broken = True
                break
            row = told.rows[-1] if told.rows and told.rows[-1].lost else self.died(told.names, told.rows, status)
            if row is None:  # after its rows
                break
            done = max(len(told.rows), told.names.index((row.group, row.name)) + 1)
            self.look_into(arguments, first + done - 1, row)
            first += done
            if first >= total:
                break
        print(f"# {name}: {time.time() - start:.0f} s", flush=True)

    def died(self, names, rows, status):
        """The row in which a process ended."""
        if len(rows) >= len(names):
            print(f"# the process ended with status {status} after its rows", flush=True)
            self.broken = True
            return None
        group, name = names[len(rows)]
        why = "it took too long" if status is None else f"its process ended by signal {-status}" if status < 0 else f"its process ended with status {status}"
        row = results.Row(name, group, why=why)
        self.rows[group, name] = row
        print(row.line(), flush=True)
        return row

    def look_into(self, arguments, index, row):
        """Which of Heald's kernels faults, if it is one of Heald's."""
        if self.o.cpu or self.o.compile_only:
            return
        sanitizer = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
        ways = [("each launch waited for", {"HEALD_CUDA_SYNC": "1"}, [], 2), ("as a graph", {}, [], 2)]
        if sanitizer:
            ways.append(("memcheck", {"HEALD_CUDA_GRAPH": "0"}, [sanitizer, "--tool", "memcheck", "--print-limit", "3"], 14))
        else:
            print("# compute-sanitizer is not here")
        for what, env, before, lines in ways:
            if self.left() < 2 * LEAST_S:
                return
            status, _, text = self.child([*arguments, "--first", str(index), "--count", "1", "--alone"], min(LOOK_S, self.left()),
                                         quiet=True, before=before, env=env)
            print(f"# {row.name}, Heald alone, {what}: {'ends' if status == 0 else 'FAILS' if status else 'takes too long'}")
            for line in last_lines(text, lines):
                print(f"#   {line[:200]}", flush=True)

    # all

    def run(self):
        """The exit status."""
        if not importlib.util.find_spec("torch"):
            print("PyTorch is not here: it has the peers", file=sys.stderr)
            return 2
        build()
        find_nvrtc()
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(ROOT / "build" / "gpu" / "inductor"))
        o = self.o
        if "models" in o.parts and not (o.no_compile or o.compile_only or o.cpu):
            self.warm()
        for name in o.parts:
            if name != "models":
                self.part(name)
                continue
            for model in dict(self.model_rows()):
                self.part(name, "--model", model)
        rows = [self.rows.get(n) or results.Row(n[1], n[0], why="it was not run") for n in self.names]
        if o.compile_only:
            return int(self.broken or any(r.why for r in rows))
        met = results.summary(self.groups.values(), rows)
        print(f"# {time.time() - self.start:.0f} s", flush=True)
        return 0 if met and rows and not self.broken else 1
