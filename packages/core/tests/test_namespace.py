"""The constants and the inspection of the namespace."""

from __future__ import annotations

import math

import pytest

import headrace as hr

INFO = hr.__array_namespace_info__()


def test_constants_are_those_of_the_standard():
    assert (hr.e, hr.pi, hr.inf, hr.newaxis) == (math.e, math.pi, math.inf, None)
    assert math.isnan(hr.nan)
    assert hr.__array_api_version__ == "2024.12"
    with hr.Graph().as_default():
        assert hr.ones([2])[hr.newaxis].shape == [1, 2]


def test_capabilities_hold():
    assert INFO.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    with hr.Graph().as_default() as graph:
        masked = hr.constant([1, 2, 3])[[True, False, True]]
        many = hr.zeros([1] * 64)
    assert hr.Session(graph).run(masked).tolist() == [1, 3]
    assert hr.Session(graph).run(many).ndim == 64


def test_default_device_is_one_of_the_devices():
    assert INFO.default_device() in INFO.devices()
    with hr.Graph().as_default(), hr.device(INFO.default_device()):
        assert hr.constant(1).op.device.endswith("CPU:0")


def test_default_dtypes_are_those_that_values_take():
    defaults = INFO.default_dtypes()
    with hr.Graph().as_default():
        assert hr.asarray(1.0).dtype is defaults["real floating"]
        assert hr.asarray(1j).dtype is defaults["complex floating"]
        assert hr.asarray(1).dtype is defaults["integral"]
        for indices in (hr.argmax([1]), hr.argsort([1]), hr.searchsorted([1], 1), hr.unique_inverse([1])[1]):
            assert indices.dtype is defaults["indexing"]


@pytest.mark.parametrize("kind", [None, "bool", "signed integer", "numeric", ("bool", "real floating")])
def test_dtypes_are_found_by_kind(kind):
    found = INFO.dtypes(kind=kind)
    assert all(getattr(hr, name) is dtype for name, dtype in found.items())
    assert len(found) == {None: 13, "bool": 1, "signed integer": 4, "numeric": 12}.get(kind, 3)
