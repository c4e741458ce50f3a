# SPDX-License-Identifier: Apache-2.0
"""One comparison: Heald and its peers on the same data, checked against float64, timed in turn.

A sample is: fill a buffer larger than L2, event, work, event. Contenders take turns, so a change of
clocks meets all of them. A row counts only if Heald's relative error is at most twice the error of
the peer that it is compared with."""
import concurrent.futures
import dataclasses
import math
import os
import statistics
import sys
import time
import typing

import heald
import results
import torch
from results import Row

FLUSH_BYTES = 512 << 20


@dataclasses.dataclass
class Work:
    group: str
    name: str
    inputs: typing.Callable  # () -> tensors
    peers: typing.Callable  # (*tensors) -> {name: function that returns a tensor}
    reference: typing.Callable  # (*tensors in float64) -> a tensor
    text: str = None  # Heald's side: a graph, or
    onnx: typing.Callable = None  # () -> bytes of a model
    output: typing.Callable = None  # (*tensors) -> an empty tensor for Heald's result; default: as the reference, of the first input's type
    compiled: typing.Callable = None  # (*tensors) -> a function for torch.compile and its arguments
    compile_mode: str = "default"
    precision: str = None
    bytes_moved: int = 0
    flop: int = 0


class Race:
    def __init__(self, lib, options):
        self.lib, self.o = lib, options
        self.cuda = not options.cpu and not options.compile_only
        self.device = "cuda" if self.cuda else "cpu" if options.cpu else "meta"
        self.rows, self.start = [], time.time()
        self.flush = torch.empty(FLUSH_BYTES if self.cuda else 1, dtype=torch.uint8, device=self.device if self.cuda else "cpu")
        self.stream = torch.cuda.Stream() if self.cuda else None

    # Heald's side

    def context(self, precision=None):
        precision = precision or self.o.precision
        return heald.Context(self.lib, "cpu" if self.o.cpu else "cuda",
                             self.stream.cuda_stream if self.cuda else None, precision)

    def load(self, work, c, shapes):
        m = heald.Model(c, text=work.text, onnx=work.onnx() if work.onnx else None)
        m.prepare([torch.zeros(s, dtype=t) for s, t in shapes])
        return m

    def compile_ahead(self, works):
        """Fills the cache: a context and a thread for each work, as contexts are of one thread."""
        shapes = {}
        for w in works:
            with torch.no_grad():
                shapes[id(w)] = [(t.shape, t.dtype) for t in w.inputs()]

        def one(w):
            try:
                c = self.context(w.precision)
                m = self.load(w, c, shapes[id(w)])
                m.close()
                self.lib.heald_context_destroy(c.handle)
            except (heald.Error, RuntimeError) as e:
                return str(e)
            return ""

        start = time.time()
        with concurrent.futures.ThreadPoolExecutor(self.o.jobs) as pool:
            whys = list(pool.map(one, works))
        print(f"# {len(works)} compiled in {time.time() - start:.1f} s", flush=True)
        return whys

    # timing

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def sample(self, run):
        if not self.cuda:
            t = time.perf_counter()
            run()
            return (time.perf_counter() - t) * 1e6
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self.flush.zero_()
        begin.record()
        run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3

    def medians(self, runs, n, warm=3):
        times = [[] for _ in runs]
        for i in range(n + warm):
            for k, run in enumerate(runs):
                t = self.sample(run)
                if i >= warm:
                    times[k].append(t)
        return [statistics.median(t) for t in times]

    def host_cost(self, run, n=20):
        self.wait()
        start = time.perf_counter()
        for _ in range(n):
            run()
        us = (time.perf_counter() - start) / n * 1e6
        self.wait()
        return us

    def graphed(self, fn):
        """fn() as a graph. A graph reads its tensors where they were: what fn holds has to live as long."""
        for _ in range(3):
            fn()
        self.wait()
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g, stream=self.stream):
            out = fn()

        def replay():
            g.replay()
            return out

        replay.kept = fn
        return replay

    # one row

    def peers(self, work, tensors):
        found = dict(work.peers(*tensors))
        if work.compiled and self.cuda and not self.o.no_compile:
            fn, args = work.compiled(*tensors)
            try:
                torch._dynamo.reset()
                c = torch.compile(fn, mode=work.compile_mode)
                for _ in range(3):
                    c(*args)
                found["compile"] = lambda: c(*args)
            except Exception as e:  # no Triton, no compiler
                print(f"# {work.name}: torch.compile: {str(e).strip().splitlines()[0][:100]}")
        return found

    def error(self, x, want):
        d = torch.linalg.vector_norm(x.double() - want) / torch.linalg.vector_norm(want)
        return float(d)

    def run(self, work, c):
        row = self.row(work)
        torch.manual_seed(1)
        tensors = work.inputs()
        want = work.reference(*[t.double() if t.is_floating_point() else t for t in tensors])
        out = work.output(*tensors) if work.output else torch.empty(want.shape, dtype=tensors[0].dtype, device=self.device)
        out.fill_(float("nan"))
        model = self.load(work, c, [(t.shape, t.dtype) for t in tensors])
        run = model.bind(tensors, [out])
        self.wait()
        for _ in range(3):
            run()
        c.synchronise()
        row.error = self.error(out, want)
        found = self.peers(work, tensors)
        errors = {n: self.error(f(), want) for n, f in found.items()}
        names = list(found)
        quick = self.medians([found[n] for n in names], 5, 2) if len(names) > 1 else [0]
        row.peer = names[quick.index(min(quick))]
        row.peer_error = errors[row.peer]
        out.fill_(float("nan"))  # what is timed has to write it again
        row.us, row.peer_us = self.medians([run, found[row.peer]], self.o.samples)
        c.synchronise()
        row.host_us = self.host_cost(run) if self.cuda else math.nan
        again = self.error(out, want)
        if not again == row.error:
            row.why = f"the result changed from run to run: {again:.2e}"
        elif not row.error <= 2 * row.peer_error:
            row.why = "error too large"
        model.close()
        self.lib.heald_context_destroy(c.handle)
        return row

    def row(self, work, **more):
        return Row(work.name, work.group, work.bytes_moved, work.flop, **more)

    def tell(self, kind, value):
        results.tell(self.o.child, kind, value)

    def try_row(self, work):
        """A row, also where it fails: then with what PyTorch says and what Heald says."""
        c = None
        try:
            c = self.context(work.precision)
            with torch.no_grad():
                return self.run(work, c)
        except Exception as e:  # a row that fails does not take the others with it
            text = str(e).strip() or type(e).__name__
            row = self.row(work, why=text if isinstance(e, heald.Error) else text.split("\n")[0])
        try:
            self.wait()
            if c:
                c.synchronise()
        except (heald.Error, RuntimeError) as e:
            row.lost = True
            if isinstance(e, RuntimeError) and c:  # PyTorch heard of it first
                try:
                    c.synchronise()
                except heald.Error as own:
                    row.why += f"; Heald: {own}"
        return row

    def part(self, groups, works, ahead=True, shares=None):
        """Runs the works. shares: the group of what comes of their rows later."""
        if self.o.only:
            works = [w for w in works if any(x in w.name or x in w.group for x in self.o.only.split(","))]
        works = works[self.o.first:][:self.o.count]
        if self.o.warm or self.o.alone:
            sys.exit(any([(self.warm if self.o.warm else self.alone)(w) for w in works]))
        if not works:
            return
        for g in groups + ([shares] if shares else []):
            self.tell("groups", g)
        self.tell("names", [(w.group, w.name) for w in works])
        self.tell("share_names", [(shares.name, w.name) for w in works] if shares else [])
        whys = self.compile_ahead(works) if ahead or self.o.compile_only else [""] * len(works)
        if not self.o.compile_only:
            print(results.HEADING, flush=True)
        for w, why in zip(works, whys):
            if not why and time.time() - self.start > self.o.seconds:
                why = "no time left"
            row = self.row(w, why=why) if why or self.o.compile_only else self.try_row(w)
            self.rows.append(row)
            self.tell("rows", row)
            if row.why or not self.o.compile_only:
                print(row.line(), flush=True)
            if row.lost:  # what PyTorch would free may no longer be freed
                sys.stdout.flush()
                os._exit(results.LOST)

    def shares(self, group, ratios):
        """Rows that are shares of something measured rather than races."""
        for name, share in ratios:
            self.tell("shares", Row(name, group, us=1.0, peer_us=share))
        print(f"# {group}: " + ", ".join(f"{n} {s:.2f}" for n, s in ratios))

    # beside the rows

    def warm(self, work):
        """Lets torch.compile and Heald fill their caches. 0, or 1 if that fails."""
        with torch.no_grad():
            tensors = work.inputs()
            c = self.context(work.precision)
            self.load(work, c, [(t.shape, t.dtype) for t in tensors]).close()
            if work.compiled:
                fn, args = work.compiled(*tensors)
                compiled = torch.compile(fn, mode=work.compile_mode)
                for _ in range(3):
                    compiled(*args)
                self.wait()
        return 0

    def alone(self, work):
        """Heald's side without any peer. 0, or 1 if that fails."""
        try:
            torch.manual_seed(1)
            tensors = work.inputs()
            c = self.context(work.precision)
            out = work.output(*tensors) if work.output else work.reference(*tensors).to(tensors[0].dtype)
            run = self.load(work, c, [(t.shape, t.dtype) for t in tensors]).bind(tensors, [out])
            self.wait()
            for _ in range(20):
                run()
            c.synchronise()
            self.wait()
        except (heald.Error, RuntimeError) as e:
            print(f"{work.name}: {e}")
            return 1
        print(f"{work.name}: 20 runs without a fault")
        return 0
