# SPDX-License-Identifier: Apache-2.0
"""Rows, thresholds and tables. Each part of the benchmark runs in processes of its own, which tell of their rows
in a file, a line of JSON each: so rows before and after one that takes the process with it still count."""
import dataclasses
import json
import math

MODELS = ("resnet50", "mobilenet_v2", "inception_v3", "bert", "gpt2")
KINDS = ("f32", "f16")
LOST = 3  # exit status of a process whose last row lost the GPU's context
HEADING = f"{'work':34} {'heald us':>9} {'peer us':>9} {'ratio':>6} {'error':>8} {'peer':>8} {'GB/s':>5} {'TF/s':>6} {'host':>5}  peer"


@dataclasses.dataclass
class Group:
    """Rows with a threshold: on the geometric mean, and on each where `each` is given."""
    name: str
    least: float
    each: float = None


@dataclasses.dataclass
class Row:
    name: str
    group: str
    bytes_moved: int = 0
    flop: int = 0
    us: float = math.nan
    peer_us: float = math.nan
    peer: str = ""
    error: float = math.nan
    peer_error: float = math.nan
    host_us: float = math.nan  # of the call, which only puts work in the stream
    why: str = ""  # it does not count
    lost: bool = False  # the GPU's context

    @property
    def counts(self):
        return not self.why

    @property
    def ratio(self):
        return self.peer_us / self.us if self.counts else math.nan

    def line(self):
        if math.isnan(self.us):
            return f"{self.name:34} FAILED: {self.why.strip()[:600]}"
        speed = f"{self.bytes_moved / self.us / 1e3:5.0f} {self.flop / self.us / 1e6:6.1f}"
        return (f"{self.name:34} {self.us:9.2f} {self.peer_us:9.2f} {self.peer_us / self.us:6.2f} {self.error:8.1e} {self.peer_error:8.1e} "
                f"{speed} {self.host_us:5.1f}  {self.peer}{'  NOT COUNTED: ' + self.why if self.why else ''}")


class Told:
    """What a process told: thresholds, the names of the rows to come as (group, name), and the rows. Shares are rows
    that come of others, after them."""

    def __init__(self):
        self.groups, self.names, self.rows, self.share_names, self.shares = [], [], [], [], []

    def read(self, path):
        with open(path, encoding="utf-8") as f:
            for line in f:
                if not line.endswith("\n"):  # it ended while it told
                    break
                for kind, value in json.loads(line).items():
                    if isinstance(value, list):
                        getattr(self, kind).extend(map(tuple, value))
                    else:
                        getattr(self, kind).append((Group if kind == "groups" else Row)(**value))
        return self


def tell(path, kind, value):
    if path:
        with open(path, "a", encoding="utf-8") as f:
            f.write(json.dumps({kind: value if isinstance(value, list) else dataclasses.asdict(value)}) + "\n")


def summary(groups, rows):
    """Prints which thresholds are met, and what does not count; whether all are met."""
    bad = [r for r in rows if not r.counts]
    if bad:
        print("\nnot counted")
        for r in bad:
            print(f"  {r.name}: {' '.join(r.why.split())[:300]}")
    print(f"\n{'group':38} {'rows':>7} {'geomean':>8} {'least':>6} {'at least':>8}")
    met, groups = 0, [g for g in groups if any(r.group == g.name for r in rows)]
    for g in groups:
        mine = [r for r in rows if r.group == g.name]
        ratios = [r.ratio for r in mine if r.counts]
        if not ratios:
            print(f"{g.name:38} {0:3}/{len(mine):<3} {'':8} {'':6} {g.least:8.2f}  MISSED")
            continue
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        good = mean >= g.least and len(ratios) == len(mine) and (g.each is None or min(ratios) >= g.each)
        met += good
        text = f"{g.least:.2f}" + (f", each {g.each}" if g.each else "")
        print(f"{g.name:38} {len(ratios):3}/{len(mine):<3} {mean:8.3f} {min(ratios):6.2f} {text:>8}  {'met' if good else 'MISSED'}")
    print(f"{met} of {len(groups)} met", flush=True)
    return met == len(groups)
