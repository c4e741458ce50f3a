# SPDX-License-Identifier: Apache-2.0
"""The public library through ctypes, as far as the benchmark needs it: models from text or ONNX, run
on PyTorch's tensors where they are, in PyTorch's stream."""
import ctypes
import os

VERSION = 100  # HEALD_VERSION of heald.h
c_void_p, c_int, c_int64, c_char_p, c_size_t = (
    ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_char_p, ctypes.c_size_t)
DTYPES = {"bool": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint8": 6, "float16": 10,
          "bfloat16": 11, "float32": 12, "float64": 13}


class Options(ctypes.Structure):
    """heald_context_options"""
    _fields_ = [("struct_size", c_size_t), ("target", c_char_p), ("threads", c_int),
                ("search_space", c_int), ("cache_dir", c_char_p), ("cache_limit_bytes", c_int64),
                ("library_path", c_char_p), ("progress", c_void_p), ("cancel", c_void_p),
                ("parallel_for", c_void_p), ("user", c_void_p), ("device", c_int),
                ("stream", c_void_p), ("debug", c_int), ("precision", c_char_p)]


class Error(Exception):
    pass


def library(path):
    l = ctypes.CDLL(path)
    l.heald_last_error.restype = c_char_p
    l.heald_last_error.argtypes = [c_void_p]
    l.heald_tensor_data.restype = c_void_p
    l.heald_tensor_dims.restype = ctypes.POINTER(c_int64)
    for name in ("heald_tensor_data", "heald_tensor_dims", "heald_tensor_release", "heald_tensor_rank",
                 "heald_context_destroy", "heald_model_destroy", "heald_model_output_count",
                 "heald_context_synchronise"):
        getattr(l, name).argtypes = [c_void_p]
    l.heald_tensor_release.restype = l.heald_context_destroy.restype = None
    l.heald_model_destroy.restype = None
    l.heald_model_run.argtypes = l.heald_model_prepare.argtypes = None
    return l


class Context:
    """One heald_context. stream: an address of a CUstream, or None where the device is the CPU."""

    def __init__(self, lib, target, stream=None, precision=None):
        self.lib, self.handle, self.on_device = lib, c_void_p(), target.startswith("cuda")
        path = os.environ.get("HEALD_PATH")
        o = Options(struct_size=ctypes.sizeof(Options), target=target.encode(), threads=0,
                    library_path=path.encode() if path else None, stream=stream,
                    cache_dir=os.environ["HEALD_CACHE_DIR"].encode() if "HEALD_CACHE_DIR" in os.environ else None,
                    precision=precision.encode() if precision else None)
        status = lib.heald_context_create(VERSION, ctypes.byref(o), ctypes.byref(self.handle))
        self.check(status)

    def check(self, status):
        if status:
            text = self.lib.heald_last_error(self.handle) or b"no message"
            raise Error(f"status {status}: " + text.decode(errors="replace"))

    def synchronise(self):
        if self.on_device:
            self.check(self.lib.heald_context_synchronise(self.handle))

    def tensor(self, t):
        """A heald_tensor on the memory of a contiguous PyTorch tensor."""
        assert t.is_contiguous()
        dims, out = (c_int64 * max(t.dim(), 1))(*t.shape), c_void_p()
        kind = DTYPES[str(t.dtype).split(".")[1]]
        rest = (c_int(kind), c_int(t.dim()), dims, c_void_p(t.data_ptr()), None, None, ctypes.byref(out))
        if t.is_cuda:
            self.check(self.lib.heald_tensor_from_device_memory(self.handle, *rest))
        else:
            self.check(self.lib.heald_tensor_from_memory(*rest))
        return out


class Model:
    def __init__(self, context, text=None, onnx=None):
        self.c, self.handle = context, c_void_p()
        lib = context.lib
        if text:
            context.check(lib.heald_model_load_text(context.handle, b"bench", text.encode(), None,
                                                    ctypes.byref(self.handle)))
        else:
            self.kept = onnx  # it stays in memory as long as the model
            context.check(lib.heald_model_load_onnx_memory(context.handle, b"bench", onnx, c_size_t(len(onnx)),
                                                           ctypes.byref(self.handle)))

    def array(self, tensors):
        return (c_void_p * max(len(tensors), 1))(*[self.c.tensor(t).value for t in tensors])

    def prepare(self, tensors):
        """Compiles for tensors of these shapes; their elements do not matter."""
        a = self.array(tensors)
        status = self.c.lib.heald_model_prepare(self.handle, a)
        for i in range(len(tensors)):
            self.c.lib.heald_tensor_release(c_void_p(a[i]))
        self.c.check(status)

    def bind(self, inputs, outputs):
        """A function that runs the model on these tensors and only puts work in the stream."""
        ins, outs = self.array(inputs), self.array(outputs)
        run, handle, c = self.c.lib.heald_model_run, self.handle, self.c
        self.bound = (ins, outs, inputs, outputs)

        def call():
            status = run(handle, ins, outs)
            if status:
                c.check(status)

        return call

    def close(self):
        for a in self.bound[:2] if hasattr(self, "bound") else ():
            for t in a:
                if t:
                    self.c.lib.heald_tensor_release(c_void_p(t))
        self.c.lib.heald_model_destroy(self.handle)
