"""Answers to infer requests: what stands before raw tensors, and whose answer it is."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from headrace_serving.infer import InferRequest, RequestedOutput
from headrace_serving.infer_answer import format_infer

OUTPUTS: dict[str, Any] = {"y": np.array([1.5], np.float32), "label": np.array([b"a"], object)}


def request(half: Any, *, binary: tuple[bool, bool] = (True, True), id: str | None = None) -> InferRequest:
    outputs = tuple(RequestedOutput(name, raw) for name, raw in zip(OUTPUTS, binary, strict=True))
    return InferRequest("serving_default", half.signatures["serving_default"], {}, outputs, id)


def test_the_answer_names_the_request_the_model_and_its_version(half: Any) -> None:
    for model, version, name in (("m", 3, None), ("m", 3, "a"), ("m", 4, None), ("n", 4, None), ("m", 3, "b")):
        answer = format_infer(model, version, request(half, id=name), OUTPUTS)
        assert answer.json_bytes is not None
        head = json.loads(answer.body[: answer.json_bytes])
        assert (head["model_name"], head["model_version"], head.get("id")) == (model, str(version), name)
        sizes = [(output["name"], output["parameters"]["binary_data_size"]) for output in head["outputs"]]
        assert sizes == [("y", 4), ("label", 5)]
        assert answer.body[answer.json_bytes :] == OUTPUTS["y"].tobytes() + b"\x01\x00\x00\x00a"


def test_answers_of_other_shapes_and_dtypes_have_documents_of_their_own(half: Any) -> None:
    for tensor, datatype in ((np.zeros([2, 1], np.float32), "FP32"), (np.zeros([2], np.int64), "INT64")):
        outputs = OUTPUTS | {"y": tensor}
        answer = format_infer("m", 3, request(half), outputs)
        entry = json.loads(answer.body[: answer.json_bytes])["outputs"][0]
        assert (entry["shape"], entry["datatype"]) == (list(tensor.shape), datatype)
        assert entry["parameters"]["binary_data_size"] == tensor.nbytes


@pytest.mark.parametrize("binary", [(True, False), (False, True), (False, False)])
def test_json_and_raw_tensors_in_one_answer(half: Any, binary: tuple[bool, bool]) -> None:
    answer = format_infer("m", 3, request(half, binary=binary), OUTPUTS)
    assert (answer.json_bytes is None) == (not any(binary))
    found = json.loads(answer.body[: answer.json_bytes])["outputs"]
    values: list[object] = [[1.5], ["a"]]
    for entry, raw, value in zip(found, binary, values, strict=True):
        assert ("binary_data_size" in entry.get("parameters", {}), entry.get("data")) == (raw, None if raw else value)
