# SPDX-License-Identifier: Apache-2.0
"""One comparison: Heald and its peers on the same data, checked against float64, timed in turn.

A sample is: fill a buffer larger than L2, event, work, event. Contenders take turns, so a change of
clocks meets all of them. A row counts only if Heald's relative error is at most twice the error of
the peer that it is compared with."""
import concurrent.futures
import dataclasses
import math
import statistics
import time
import typing

import heald
import torch

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
    limit: float = None  # Heald's error may also be as large as this: where a peer is exact by chance


@dataclasses.dataclass
class Group:
    """Rows with a threshold: on the geometric mean, and on each where `each` is given."""
    name: str
    least: float
    each: float = None


@dataclasses.dataclass
class Row:
    work: Work
    us: float = math.nan
    peer_us: float = math.nan
    peer: str = ""
    error: float = math.nan
    peer_error: float = math.nan
    host_us: float = math.nan  # of the call, which only puts work in the stream
    why: str = ""

    @property
    def counts(self):
        return not self.why

    @property
    def ratio(self):
        return self.peer_us / self.us if self.counts else math.nan


class Race:
    def __init__(self, lib, options):
        self.lib, self.o = lib, options
        self.cuda = not options.cpu and not options.compile_only
        self.device = "cuda" if self.cuda else "cpu" if options.cpu else "meta"
        self.rows, self.groups, self.start = [], [], time.time()
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

    def run(self, work):
        row = Row(work)
        c = self.context(work.precision)
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
        row.us, row.peer_us = self.medians([run, found[row.peer]], self.o.samples)
        c.synchronise()
        row.host_us = self.host_cost(run) if self.cuda else math.nan
        again = self.error(out, want)
        if not again == row.error:
            row.why = f"the result changed from run to run: {again:.2e}"
        elif not row.error <= max(2 * row.peer_error, work.limit or 0):
            row.why = "error too large"
        model.close()
        self.lib.heald_context_destroy(c.handle)
        return row

    def part(self, groups, works, ahead=True):
        if self.o.only:
            works = [w for w in works if any(x in w.name or x in w.group for x in self.o.only.split(","))]
        if not works:
            return
        self.groups += groups
        whys = self.compile_ahead(works) if ahead or self.o.compile_only else [""] * len(works)
        if self.o.compile_only:
            for w, why in zip(works, whys):
                self.rows.append(Row(w, why=why))
                if why:
                    self.show(self.rows[-1])
            return
        print(f"{'work':34} {'heald us':>9} {'peer us':>9} {'ratio':>6} {'error':>8} {'peer':>8} {'GB/s':>5} {'TF/s':>6} {'host':>5}  peer", flush=True)
        for w, why in zip(works, whys):
            if not why and time.time() - self.start > self.o.seconds:
                why = "no time left"
            row = Row(w, why=why)
            if not why:
                try:
                    with torch.no_grad():
                        row = self.run(w)
                except Exception as e:  # a row that fails does not take the others with it
                    row.why = str(e) or type(e).__name__
            self.rows.append(row)
            self.show(row)

    def show(self, r):
        w = r.work
        if math.isnan(r.us):
            print(f"{w.name:34} FAILED: {r.why.strip()[:400]}", flush=True)
            return
        speed = f"{w.bytes_moved / r.us / 1e3:5.0f} {w.flop / r.us / 1e6:6.1f}"
        ratio = f"{r.peer_us / r.us:6.2f}"
        print(f"{w.name:34} {r.us:9.2f} {r.peer_us:9.2f} {ratio} {r.error:8.1e} {r.peer_error:8.1e} {speed} {r.host_us:5.1f}  "
              f"{r.peer}{'  NOT COUNTED: ' + r.why if r.why else ''}", flush=True)

    def shares(self, group, ratios, least):
        """Rows that are shares of something measured rather than races."""
        for name, share in ratios:
            row = Row(Work(group, name, None, None, None), 1.0, share)
            self.rows.append(row)
        self.groups.append(Group(group, least))
        print(f"# {group}: " + ", ".join(f"{n} {s:.2f}" for n, s in ratios))

    def summary(self):
        print(f"\n{'group':38} {'rows':>7} {'geomean':>8} {'least':>6} {'at least':>8}")
        met = 0
        for g in self.groups:
            rows = [r for r in self.rows if r.work.group == g.name]
            ratios = [r.ratio for r in rows if r.counts]
            if not rows:
                continue
            if not ratios:
                print(f"{g.name:38} {0:3}/{len(rows):<3} {'':8} {'':6} {g.least:8.2f}  MISSED")
                continue
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            good = mean >= g.least and len(ratios) == len(rows) and (g.each is None or min(ratios) >= g.each)
            met += good
            text = f"{g.least:.2f}" + (f", each {g.each}" if g.each else "")
            print(f"{g.name:38} {len(ratios):3}/{len(rows):<3} {mean:8.3f} {min(ratios):6.2f} {text:>8}  {'met' if good else 'MISSED'}")
        print(f"{met} of {len(self.groups)} met", flush=True)
        return met == len(self.groups)
