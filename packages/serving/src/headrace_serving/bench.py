"""The command `headrace bench-serve`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape

import click
import numpy as np

import headrace as hr
from headrace.errors import HeadraceError
from headrace.graph.proto.types_pb2 import DataType
from headrace_serving.client import Client
from headrace_serving.datatypes import datatype_of, tensor_to_bytes
from headrace_serving.json_tensor import dump_json, tensor_to_json
from headrace_serving.load import Load, LoadRequest, closed_loop, open_loop
from headrace_serving.model import Array

_SHARES = (0.5, 0.9, 0.99, 0.999)
_PLOT_WIDTH, _PLOT_HEIGHT, _PLOT_MARGIN = 720, 360, 48


@click.command("bench-serve")
@click.argument("url")
@click.option("--model", required=True, help="Name of the model.")
@click.option("--signature", default="serving_default", show_default=True, help="Which of its signatures.")
@click.option("--rows", default=1, show_default=True, type=click.IntRange(1), help="Rows in each request.")
@click.option(
    "--protocol",
    default="v1",
    show_default=True,
    type=click.Choice(["v1", "v2"]),
    help="v1: TensorFlow Serving's JSON; v2: the Open Inference Protocol with raw bytes.",
)
@click.option("--clients", default=16, show_default=True, type=click.IntRange(1), help="Clients of the closed loop.")
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    help="Requests per second of an open loop, instead of clients that wait for their answers.",
)
@click.option("--seconds", default=10.0, show_default=True, type=click.FloatRange(0, min_open=True))
@click.option("--api-key", envvar="HEADRACE_API_KEY", help="The server's key.")
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the numbers here too."
)
@click.option(
    "--plot", "plot_file", type=click.Path(dir_okay=False, path_type=Path), help="Draw latencies by share, as SVG."
)
def bench_serve(
    url: str,
    model: str,
    signature: str,
    rows: int,
    protocol: str,
    clients: int,
    rate: float | None,
    seconds: float,
    api_key: str | None,
    json_file: Path | None,
    plot_file: Path | None,
) -> None:
    """Measure how fast a server answers, with inputs made up from what the model takes.

    \b
    headrace bench-serve http://127.0.0.1:8501 --model mnist --clients 16
    headrace bench-serve http://127.0.0.1:8501 --model mnist --rate 500 --plot latencies.svg
    """  # noqa: D301  click keeps lines apart after the character that \b stands for
    try:
        with Client(url, protocol="v1", api_key=api_key) as client:
            described = client.metadata(model)["metadata"]["signature_def"]["signature_def"]
        if signature not in described:
            raise click.ClickException(f"the model has no signature {signature!r}, but {', '.join(sorted(described))}")
        inputs = made_up(described[signature]["inputs"], rows)
        make = _v1_request if protocol == "v1" else _v2_request
        request = make(model, signature, inputs, {} if api_key is None else {"X-API-Key": api_key})
        if rate is None:
            closed_loop(url, request, clients=clients, seconds=min(1.0, seconds / 4))
            load = closed_loop(url, request, clients=clients, seconds=seconds)
        else:
            load = open_loop(url, request, rate=rate, seconds=seconds)
    except HeadraceError as error:
        raise click.ClickException(str(error)) from error
    kind = {"clients": clients} if rate is None else {"rate": rate}
    result = {"model": model, "signature": signature, "rows": rows, "protocol": protocol, **kind, **load.summary()}
    if json_file is not None:
        json_file.write_text(json.dumps(result, indent=2) + "\n")
    if plot_file is not None:
        plot_file.write_text(plot(load, f"{model}: {load.per_second:.0f} answers/s"))
    click.echo(_told(load))
    if load.failed:
        raise click.ClickException(f"{load.failed} answers were not 200")


def made_up(described: dict[str, Any], rows: int) -> dict[str, Array]:
    """Return inputs that a signature takes, the same each time.

    Args:
      described: its inputs, as TensorFlow Serving's metadata has them.
      rows: what an unknown first size becomes; other unknown sizes become 1.
    """
    numbers = np.random.default_rng(0)
    inputs: dict[str, Array] = {}
    for alias, info in described.items():
        dtype = hr.as_dtype(DataType.Value(info["dtype"]))
        sizes = [int(dim["size"]) for dim in info["tensor_shape"].get("dim", [])]
        shape = [size if size >= 0 else (1 if axis else rows) for axis, size in enumerate(sizes)]
        if dtype.name == "string":
            strings = np.empty(shape, object)
            strings.fill(b"text")
            inputs[alias] = strings
        elif dtype.is_floating:
            inputs[alias] = numbers.random(shape).astype(dtype.array_type)
        else:
            inputs[alias] = numbers.integers(0, 2, shape).astype(dtype.array_type)
    return inputs


def _v1_request(model: str, signature: str, inputs: dict[str, Array], headers: dict[str, str]) -> LoadRequest:
    columns = {alias: tensor_to_json(alias, tensor) for alias, tensor in inputs.items()}
    body = dump_json({"signature_name": signature, "inputs": columns})
    return LoadRequest(f"/v1/models/{quote(model, safe='')}:predict", body, headers)


def _v2_request(model: str, signature: str, inputs: dict[str, Array], headers: dict[str, str]) -> LoadRequest:
    raw = {alias: tensor_to_bytes(tensor) for alias, tensor in inputs.items()}
    entries = [
        {
            "name": alias,
            "datatype": datatype_of(hr.as_dtype(tensor.dtype)),
            "shape": list(tensor.shape),
            "parameters": {"binary_data_size": len(raw[alias])},
        }
        for alias, tensor in inputs.items()
    ]
    parameters = {"signature_name": signature, "binary_data_output": True}
    head = dump_json({"parameters": parameters, "inputs": entries})
    length = {"Inference-Header-Content-Length": str(len(head))}
    return LoadRequest(f"/v2/models/{quote(model, safe='')}/infer", b"".join([head, *raw.values()]), headers | length)


def _told(load: Load) -> str:
    latencies = ", ".join(f"p{100 * share:g} {load.quantile(share):.2f} ms" for share in _SHARES)
    return f"{load.per_second:.1f} answers/s, {len(load.latencies)} in {load.seconds:.1f} s; {latencies}"


def plot(load: Load, title: str) -> str:
    """Return a drawing, as SVG, of the latency that each share of the answers is below of.

    The shares lie as their distance from all lies: 90, 99 and 99.9 of a hundred have the same space between them.

    Args:
      load: what was found.
      title: what stands above.
    """
    most = math.log10(max(len(load.latencies), 10))
    top = load.quantile(1.0) * 1.05 if load.latencies else 1.0
    width, height = _PLOT_WIDTH - 2 * _PLOT_MARGIN, _PLOT_HEIGHT - 2 * _PLOT_MARGIN

    def place(nines: float, milliseconds: float) -> str:
        x, y = _PLOT_MARGIN + width * nines / most, _PLOT_HEIGHT - _PLOT_MARGIN - height * milliseconds / top
        return f"{x:.1f},{y:.1f}"

    steps = [most * step / 200 for step in range(201)]
    line = " ".join(place(nines, load.quantile(1 - 10**-nines)) for nines in steps) if load.latencies else ""
    labels = []
    for nines in range(int(most) + 1):
        x, y = place(nines, 0).split(",")
        labels.append(f'<text x="{x}" y="{float(y) + 18:.1f}" text-anchor="middle">{100 * (1 - 10**-nines):g} %</text>')
    for step in range(5):
        x, y = place(0, top * step / 4).split(",")
        labels.append(f'<text x="{float(x) - 6:.1f}" y="{y}" text-anchor="end">{top * step / 4:.3g}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_PLOT_WIDTH} {_PLOT_HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="{_PLOT_MARGIN}" y="20">{escape(title)}; milliseconds by share of answers</text>'
        f'{"".join(labels)}<polyline points="{line}" fill="none" stroke="#0a7ea4" stroke-width="2"/></svg>\n'
    )
