"""The large perceptron of the load, served by LitServe; prints where it listens."""

from __future__ import annotations

import json
import socket

import litserve
import numpy as np


class Perceptron(litserve.LitAPI):
    """y = relu(x w)."""

    def setup(self, device: str) -> None:
        """Make the weights."""
        self.weights = np.ones([224, 10], np.float32)

    def decode_request(self, request: dict[str, list[list[float]]]) -> np.ndarray:
        """Return the rows."""
        return np.array(request["instances"], np.float32)

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Compute the outputs."""
        return np.maximum(x @ self.weights, 0)

    def encode_response(self, output: np.ndarray) -> dict[str, list[list[float]]]:
        """Return the answer."""
        return {"predictions": output.tolist()}


if __name__ == "__main__":
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    print(json.dumps({"url": f"http://127.0.0.1:{port}"}), flush=True)
    server = litserve.LitServer(Perceptron(), accelerator="cpu")
    server.run(host="127.0.0.1", port=port, generate_client_file=False, log_level="error", access_log=False)
