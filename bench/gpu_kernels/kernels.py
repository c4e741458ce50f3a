# SPDX-License-Identifier: Apache-2.0
"""Kernels by Heald beside PyTorch's: kernels.c as classes, and fair times.

Both run in this process on PyTorch's stream and on the same tensors, in turn: fill a buffer larger than
L2, event, work, event.
"""
import ctypes
import multiprocessing
import os
import statistics

FLUSH_BYTES = 512 << 20
MESSAGE_BYTES = 4000


class Wanted(ctypes.Structure):
    """What to compile; the fields of the struct of that name in kernels.c."""

    _fields_ = [(n, ctypes.c_char_p) for n in ("op", "template", "inputs", "attrs", "then", "choices", "arch")]
    _fields_ += [("packing", ctypes.c_int)]


def library():
    lib = ctypes.CDLL(os.environ["HEALD_GPU_KERNELS"])
    lib.gk_workspace.restype = lib.gk_elements.restype = ctypes.c_int64
    lib.gk_folder.restype = ctypes.c_char_p
    return lib


def compiled(lib, job, packing=-1):
    """(handle, what went wrong or "")"""
    message, handle = ctypes.create_string_buffer(MESSAGE_BYTES), ctypes.c_void_p()
    wanted = Wanted(*[field.encode() for field in job], packing)
    failed = lib.gk_compile(ctypes.byref(wanted), ctypes.byref(handle), message, MESSAGE_BYTES)
    return handle, message.value.decode(errors="replace") if failed else ""


def compile_one(job):
    """In a process of its own, into the cache: what went wrong, or ""."""
    lib = library()
    handle, why = compiled(lib, job)
    i = 0
    while not why and lib.gk_preferred(handle, i) >= 0:
        why = compiled(lib, job, lib.gk_preferred(handle, i))[1]
        i += 1
    return why


def compile_all(jobs):
    """Job -> what went wrong, or ""."""
    with multiprocessing.get_context("spawn").Pool(min(os.cpu_count(), 16)) as pool:
        return dict(zip(jobs, pool.imap(compile_one, jobs)))


class Kernel:
    """A job (op, template, inputs, attrs, then, choices, arch), compiled and ready to launch."""

    def __init__(self, torch, lib, job, packing=-1):
        self.torch, self.lib, self.job = torch, lib, job
        message = ctypes.create_string_buffer(MESSAGE_BYTES)
        self.handle, why = compiled(lib, job, packing)
        if why or lib.gk_load(self.handle, message, MESSAGE_BYTES):
            raise RuntimeError(why or message.value.decode())
        lib.gk_describe(self.handle, message, MESSAGE_BYTES)
        self.text = message.value.decode()
        self.workspace = torch.empty(max(lib.gk_workspace(self.handle), 16), dtype=torch.uint8, device="cuda")
        self.stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

    def packed(self, tensors):
        """The inputs that the template prefers in another layout, in that layout."""
        out = []
        while (i := self.lib.gk_preferred(self.handle, len(out))) >= 0:
            pack = Kernel(self.torch, self.lib, self.job, i)
            y = self.torch.empty(self.lib.gk_elements(pack.handle), dtype=tensors[i].dtype, device="cuda")
            pack.bind([*tensors, y])()
            out.append(y)
        return out

    def bind(self, tensors):
        """A function that launches it on these tensors, in the order that gk_launch wants."""
        pointers = (ctypes.c_void_p * len(tensors))(*[t.data_ptr() for t in tensors])
        space = ctypes.c_void_p(self.workspace.data_ptr())

        def run(_kept=tensors):  # the memory behind the pointers
            error = self.lib.gk_launch(self.handle, self.stream, pointers, space)
            if error:
                raise RuntimeError(f"launch: driver error {error}")

        return run


def measure(torch, flush, contenders, samples):
    """Median microseconds of each contender, in turn."""
    times = [[] for _ in contenders]
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for i in range(samples + 3):
        for c, run in enumerate(contenders):
            flush.zero_()
            begin.record()
            run()
            end.record()
            end.synchronize()
            if i >= 3:
                times[c].append(begin.elapsed_time(end) * 1e3)
    return [statistics.median(t) for t in times]


def add_compiled(torch, found, function, *tensors):
    """Adds `function` of these tensors by torch.compile to the peers, where that works."""
    try:
        compiled_function = torch.compile(function)
        compiled_function(*tensors)
        found["compile"] = lambda: compiled_function(*tensors)
    except Exception as e:  # no Triton, no compiler
        print(f"# torch.compile: {str(e).splitlines()[0][:100]}")
