# SPDX-License-Identifier: Apache-2.0
"""ONNX models as bytes: single convolutions, and whole models whose weights are made from seeds.

strip() leaves of each large weight its name, shape, mean and deviation, so a model becomes a file of
some KB; fill() makes it whole again with random numbers of that mean and deviation, the same on every
machine. What a model computes fast or slowly does not depend on which numbers these are."""
import numpy
import onnx
import onnx.numpy_helper
import torch
from onnx import TensorProto, helper

ONNX_TYPES = {"f32": TensorProto.FLOAT, "f16": TensorProto.FLOAT16}
LARGE = 256  # elements


def tensor(name, t):
    kind = ONNX_TYPES["f16" if t.dtype == torch.float16 else "f32"]
    return helper.make_tensor(name, kind, list(t.shape), t.contiguous().numpy().tobytes(), raw=True)


def conv_relu(kind, shape, w, b, stride, pad, groups):
    info = helper.make_tensor_value_info
    out = [shape[0], w.shape[0]] + [(s + 2 * pad - w.shape[2]) // stride + 1 for s in shape[2:]]
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], strides=[stride] * 2, pads=[pad] * 4, group=groups),
             helper.make_node("Relu", ["c"], ["y"])]
    graph = helper.make_graph(nodes, "conv", [info("x", ONNX_TYPES[kind], list(shape))],
                              [info("y", ONNX_TYPES[kind], out)], [tensor("w", w), tensor("b", b)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)])
    model.ir_version = 8
    return model.SerializeToString()


def tensors_of(graph):
    """The initialisers, and the constants among the nodes."""
    yield from graph.initializer
    for n in graph.node:
        for a in n.attribute:
            if n.op_type == "Constant" and a.name == "value":
                yield a.t


def strip(path, out):
    strip_model(onnx.load(path), out)


def strip_model(model, out):
    for t in tensors_of(model.graph):
        x = onnx.numpy_helper.to_array(t)
        # masks and tables of numbers keep what they are
        if t.data_type != TensorProto.FLOAT or x.size < LARGE or not numpy.isfinite(x).all():
            continue
        for field in ("raw_data", "float_data"):
            t.ClearField(field)
        t.doc_string = f"random {float(x.mean())!r} {float(x.std())!r}"
    onnx.save(model, out)


def fill(path):
    """The model as a ModelProto with all its weights."""
    model = onnx.load(path)
    g = numpy.random.Generator(numpy.random.PCG64(1))
    for t in tensors_of(model.graph):
        if not t.doc_string.startswith("random "):
            continue
        mean, deviation = map(float, t.doc_string.split()[1:])
        x = g.standard_normal(numpy.prod(t.dims, dtype=int), dtype=numpy.float32) * numpy.float32(deviation) + numpy.float32(mean)
        t.raw_data = x.tobytes()
        t.doc_string = ""
    return model
