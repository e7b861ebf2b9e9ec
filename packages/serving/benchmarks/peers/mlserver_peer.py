"""The large perceptron of the load, served by MLServer: `mlserver_peer.py WORKERS`; prints where it listens.

With 0 workers it is one process; its default is 1, a second process that computes.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import tempfile

import numpy as np
from mlserver import MLModel, MLServer
from mlserver.codecs import NumpyCodec
from mlserver.settings import ModelSettings, Settings
from mlserver.types import InferenceRequest, InferenceResponse


class Perceptron(MLModel):
    """y = relu(x w)."""

    async def load(self) -> bool:
        """Make the weights."""
        self.weights = np.ones([224, 10], np.float32)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Compute the outputs."""
        x = NumpyCodec.decode_input(payload.inputs[0])
        y = np.maximum(x @ self.weights, 0)
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("y", y)])


def free_ports(count: int) -> list[int]:
    """Return ports that nobody has."""
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


async def main() -> None:
    """Serve until killed."""
    http, grpc, metrics = free_ports(3)
    settings = Settings(
        host="127.0.0.1",
        http_port=http,
        grpc_port=grpc,
        metrics_port=metrics,
        metrics_dir=tempfile.gettempdir(),  # else files of its own stay in the folder that it was started in
        parallel_workers=int(sys.argv[1]),
        debug=False,
    )
    print(json.dumps({"url": f"http://127.0.0.1:{http}"}), flush=True)
    await MLServer(settings).start([ModelSettings(name="m", implementation=Perceptron)])


if __name__ == "__main__":
    asyncio.run(main())
