"""The workloads in ONNX Runtime, which does inference only: the models are written as ONNX graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from bench.works import Options, Work

OPSET = 20  # the first that has Gelu


def build(work: Work, weights: dict[str, Any], data: dict[str, Any], options: Options) -> Callable[[], Any]:
    """A step of the workload."""
    if work.kind != "infer" or work.model is None:
        raise NotImplementedError("ONNX Runtime's wheel does not train")
    graph = _Graph()
    v = {name: graph.constant(np.transpose(x, (3, 2, 0, 1)) if x.ndim == 4 else x) for name, x in weights.items()}
    result = work.model(_Words(graph), v, {name: _Edge(graph, name, x.shape) for name, x in data.items()})
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in data.items()]
    output = helper.make_tensor_value_info(result.name, TensorProto.FLOAT, None)
    proto = helper.make_graph(graph.nodes, work.name.replace("-", "_"), inputs, [output], graph.initializers)
    model = helper.make_model(proto, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    chosen = onnxruntime.SessionOptions()
    chosen.intra_op_num_threads = options.threads
    chosen.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), chosen, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, data)[0]


class _Graph:
    """Nodes and constants while a model is written. Mutable."""

    def __init__(self, prefix: str = "e") -> None:
        self.prefix = prefix
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.count = 0

    def name(self) -> str:
        """A new one."""
        self.count += 1
        return f"{self.prefix}{self.count}"

    def constant(self, value: Any) -> _Edge:
        """An edge that carries a constant."""
        name = self.name()
        self.initializers.append(numpy_helper.from_array(np.array(value, order="C"), name))
        return _Edge(self, name)

    def node(self, op_type: str, *inputs: _Edge, outputs: int = 1, **attrs: Any) -> list[_Edge]:
        """The outputs of a new node."""
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op_type, [edge.name for edge in inputs], names, **attrs))
        return [_Edge(self, name) for name in names]


class _Edge:
    """What flows in a graph; its shape is known of what the graph is given."""

    def __init__(self, graph: _Graph, name: str, shape: tuple[int, ...] = ()) -> None:
        self.graph, self.name, self.shape = graph, name, shape

    def _with(self, op_type: str, other: Any) -> _Edge:
        edge = other if isinstance(other, _Edge) else self.graph.constant(np.float32(other))
        return self.graph.node(op_type, self, edge)[0]

    def __add__(self, other: Any) -> _Edge:
        return self._with("Add", other)

    def __mul__(self, other: Any) -> _Edge:
        return self._with("Mul", other)

    def __matmul__(self, other: Any) -> _Edge:
        return self._with("MatMul", other)


class _Words:
    """Those of `models.Words` that models without training use."""

    def __init__(self, graph: _Graph) -> None:
        self.graph = graph

    def images(self, x: Any) -> Any:
        return self.graph.node("Transpose", x, perm=[0, 3, 1, 2])[0]

    def convolution(self, x: Any, kernel: Any, bias: Any | None, stride: int, padding: int) -> Any:
        edges = (x, kernel) if bias is None else (x, kernel, bias)
        return self.graph.node("Conv", *edges, strides=[stride] * 2, pads=[padding] * 4)[0]

    def max_pool(self, x: Any, size: int, stride: int, padding: str, length: int) -> Any:
        pad = "SAME_UPPER" if padding == "SAME" else "VALID"
        return self.graph.node("MaxPool", x, kernel_shape=[size] * 2, strides=[stride] * 2, auto_pad=pad)[0]

    def mean_of_images(self, x: Any) -> Any:
        return self.graph.node("Flatten", self.graph.node("GlobalAveragePool", x)[0])[0]

    def normalized(self, x: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> Any:
        return self.graph.node("BatchNormalization", x, scale, offset, mean, variance, epsilon=1e-5)[0]

    def channels(self, parts: Sequence[Any]) -> Any:
        return self.graph.node("Concat", *parts, axis=1)[0]

    def relu(self, x: Any) -> Any:
        return self.graph.node("Relu", x)[0]

    def gelu(self, x: Any) -> Any:
        return self.graph.node("Gelu", x, approximate="tanh")[0]

    def softmax(self, x: Any) -> Any:
        return self.graph.node("Softmax", x, axis=-1)[0]

    def layer_norm(self, x: Any, gain: Any | None, shift: Any | None) -> Any:
        """ONNX has no form without a gain."""
        ones = gain or self.graph.constant(np.ones(x.shape[-1], np.float32))
        return self.graph.node("LayerNormalization", x, ones, axis=-1)[0]

    def repeat(self, count: int, body: Callable[[Any], Any], x: Any) -> Any:
        inside = _Graph("inside")
        state = _Edge(inside, "state")
        result = body(state)
        condition = inside.node("Identity", _Edge(inside, "go"))[0]
        infos = [
            helper.make_tensor_value_info("number", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, None),
        ]
        outputs = [
            helper.make_tensor_value_info(condition.name, TensorProto.BOOL, []),
            helper.make_tensor_value_info(result.name, TensorProto.FLOAT, None),
        ]
        proto = helper.make_graph(inside.nodes, "body", infos, outputs, inside.initializers)
        times, go = self.graph.constant(np.int64(count)), self.graph.constant(np.bool_(True))
        return self.graph.node("Loop", times, go, x, body=proto)[0]
