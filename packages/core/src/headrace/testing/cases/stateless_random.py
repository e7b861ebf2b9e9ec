"""Cases of the stateless_random family: the expected numbers are those of tensorflow-cpu 2.21."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from headrace.testing.op_case import OpCase

_SEED = np.array([7, -9], np.int64)
_SHAPE = np.array([2, 3], np.int32)
_KEY = np.array([0x0123456789ABCDEF], np.uint64)
_COUNTER = np.array([2**64 - 1, 5], np.uint64)  # the lower half overflows after the first block
_PHILOX = np.int32(1)
_AUTOMATIC = np.int32(3)
_LOGITS = np.array([[0.1, 0.2, 0.3, 0.4], [2.0, -1.0, 0.0, -np.inf]], np.float32)


def _matrix(dtype: type, *values: float) -> np.ndarray:
    return np.array(values, np.float64).astype(dtype).reshape(2, 3)


_UNIFORM = {
    np.float16: (0.576171875, 0.4580078125, 0.0439453125, 0.4033203125, 0.1171875, 0.5048828125),
    ml_dtypes.bfloat16: (0.609375, 0.6640625, 0.3515625, 0.2265625, 0.9375, 0.0390625),
    np.float32: (
        0.32709670066833496, 0.3417307138442993, 0.3736625909805298, 0.6367679834365845, 0.2569723129272461,
        0.42242491245269775,
    ),
    np.float64: (
        0.6167742355572632, 0.9893008705913424, 0.055778837618278176, 0.5026957492042348, 0.8816448407178943,
        0.09766877756513703,
    ),
}  # fmt: skip
_NORMAL = {
    np.float16: (1.25390625, -0.81494140625, -1.0625, -0.916015625, 0.77197265625, -1.4560546875),
    ml_dtypes.bfloat16: (1.25, -0.81640625, -1.0625, -0.91796875, 0.7734375, -1.453125),
    np.float32: (
        1.2534774541854858, -0.8147351741790771, -1.0627541542053223, -0.9161646962165833, 0.7720724940299988,
        -1.4565293788909912,
    ),
    np.float64: (
        -0.0660393945976438, 0.9808890130201849, -0.04069386029010693, -2.402304202448134, 0.2890466925036624,
        0.41034615575153705,
    ),
}  # fmt: skip
_TRUNCATED = {
    np.float16: (1.25390625, -0.81494140625, -1.0625, -0.916015625, 0.818359375, -0.0065155029296875),
    ml_dtypes.bfloat16: (1.25, -0.81640625, -1.0625, -0.91796875, 0.81640625, -0.006500244140625),
    np.float32: (
        1.2534774541854858, -0.8147351741790771, -1.0627541542053223, -0.9161646962165833, 0.8182810544967651,
        -0.006515318062156439,
    ),
    np.float64: (
        -0.0660393945976438, 0.9808890130201849, 0.6827497460347481, -0.9528441254973191, -0.467090359494793,
        0.6545063844951282,
    ),
}  # fmt: skip
_FULL = {
    np.int32: [447340110, -1456751147, 1815073837],
    np.uint32: [447340110, 2838216149, 1815073837],
    np.int64: [-6256698534328148402, 2761130559679747117, 6464374128989234296],
    np.uint64: [12190045539381403214, 2761130559679747117, 6464374128989234296],
}
_FULL_V2 = {
    np.int32: [-265842234, -366991634, 1340553524],
    np.uint32: [4029125062, 3927975662, 1340553524],
    np.int64: [-1576217061906476602, -4506707408530753228, 7703966140085595377],
    np.uint64: [16870527011803075014, 13940036665178798388, 7703966140085595377],
}

CASES = [
    *(
        OpCase(
            f"{op}/{np.dtype(dtype).name}",
            op,
            [_SHAPE, _SEED],
            {"dtype": np.dtype(dtype).name},
            _matrix(dtype, *values),
            exact=op == "StatelessRandomUniform",
        )
        for op, table in (
            ("StatelessRandomUniform", _UNIFORM),
            ("StatelessRandomNormal", _NORMAL),
            ("StatelessTruncatedNormal", _TRUNCATED),
        )
        for dtype, values in table.items()
    ),
    *(
        OpCase(
            f"{op}/empty", op, [np.array([3, 0, 2], np.int64), _SEED], {"dtype": "float32"}, np.zeros((3, 0, 2), "f")
        )
        for op in ("StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal")
    ),
    OpCase(
        "StatelessRandomUniform/scalar with an int32 seed",
        "StatelessRandomUniform",
        [np.zeros(0, np.int32), np.array([7, -9], np.int32)],
        expected=np.float32(0.32709670066833496),
        exact=True,
    ),
    OpCase(
        "StatelessRandomUniform/negative size",
        "StatelessRandomUniform",
        [np.array([2, -1], np.int32), _SEED],
        raises="cannot make a tensor with a negative size",
    ),
    OpCase(
        "StatelessRandomUniform/larger than any memory",
        "StatelessRandomUniform",
        [np.array([2**62, 2**62], np.int64), _SEED],
        raises="cannot make a tensor that large",
        oracle=False,  # TensorFlow may end the process
    ),
    OpCase(
        "StatelessRandomUniform/shape is a matrix",
        "StatelessRandomUniform",
        [np.array([[2, 3]], np.int32), _SEED],
        raises="takes its shape in another shape",
    ),
    OpCase(
        "StatelessRandomUniform/seed of three",
        "StatelessRandomUniform",
        [_SHAPE, np.array([1, 2, 3], np.int64)],
        raises=r"takes its seed in another shape[\s\S]*seed \[3\]|has a wrong seed[\s\S]*\[3\]",
    ),
    OpCase(
        "StatelessRandomUniformInt/int32",
        "StatelessRandomUniformInt",
        [np.array([5], np.int32), _SEED, np.int32(-3), np.int32(4)],
        expected=np.array([-3, 3, 0, 2, -3], np.int32),
    ),
    OpCase(
        "StatelessRandomUniformInt/int64 half of all",
        "StatelessRandomUniformInt",
        [np.array([5], np.int32), _SEED, np.int64(-(2**62)), np.int64(2**62)],
        expected=np.array(
            [
                -1645012515900760498,
                -1850555458747640787,
                1852688110561846392,
                -960751075073717494,
                -2388842164232774857,
            ]
        ),
    ),
    OpCase(
        "StatelessRandomUniformInt/nothing between the bounds",
        "StatelessRandomUniformInt",
        [np.array([5], np.int32), _SEED, np.int32(4), np.int32(4)],
        raises=r"has no integer to draw[\s\S]*minval < maxval[\s\S]*4 and 4",
    ),
    OpCase(
        "StatelessRandomUniformInt/no element, no bounds needed",
        "StatelessRandomUniformInt",
        [np.array([0], np.int32), _SEED, np.int32(4), np.int32(4)],
        expected=np.zeros(0, np.int32),
    ),
    OpCase(
        "StatelessRandomUniformInt/bounds are vectors",
        "StatelessRandomUniformInt",
        [np.array([5], np.int32), _SEED, np.array([4], np.int32), np.int32(9)],
        raises=r"takes its minval in another shape",
    ),
    *(
        OpCase(
            f"StatelessRandomUniformFullInt/{np.dtype(dtype).name}",
            "StatelessRandomUniformFullInt",
            [np.array([3], np.int32), _SEED],
            {"dtype": np.dtype(dtype).name},
            np.array(values, dtype),
        )
        for dtype, values in _FULL.items()
    ),
    OpCase(
        "StatelessMultinomial/float32",
        "StatelessMultinomial",
        [_LOGITS, np.int32(6), _SEED],
        expected=np.array([[2, 3, 0, 2, 3, 0], [2, 0, 0, 0, 2, 0]]),
    ),
    OpCase(
        "StatelessMultinomial/float64 to int32",
        "StatelessMultinomial",
        [_LOGITS.astype(np.float64), np.int32(6), _SEED],
        {"output_dtype": "int32"},
        np.array([[2, 3, 0, 2, 3, 0], [2, 0, 0, 0, 2, 0]], np.int32),
    ),
    OpCase(
        "StatelessMultinomial/no draws",
        "StatelessMultinomial",
        [_LOGITS, np.int32(0), _SEED],
        expected=np.zeros((2, 0), np.int64),
    ),
    OpCase(
        "StatelessMultinomial/negative number of draws",
        "StatelessMultinomial",
        [_LOGITS, np.int32(-1), _SEED],
        raises="cannot draw a negative number of times",
    ),
    OpCase(
        "StatelessMultinomial/no classes",
        "StatelessMultinomial",
        [np.zeros((2, 0), np.float32), np.int32(1), _SEED],
        raises=r"cannot draw classes from these inputs[\s\S]*logits \[2, 0\]",
    ),
    OpCase(
        "StatelessMultinomial/logits are a vector",
        "StatelessMultinomial",
        [np.zeros(3, np.float32), np.int32(1), _SEED],
        raises="takes its logits in another shape",
    ),
    OpCase(
        "StatelessRandomGetKeyCounter/seed",
        "StatelessRandomGetKeyCounter",
        [_SEED],
        expected=(np.array([18086304192461037487], np.uint64), np.array([0, 12479374517594410729], np.uint64)),
    ),
    OpCase(
        "StatelessRandomGetKeyCounterAlg/seed",
        "StatelessRandomGetKeyCounterAlg",
        [_SEED],
        expected=(
            np.array([18086304192461037487], np.uint64),
            np.array([0, 12479374517594410729], np.uint64),
            np.int32(1),
        ),
    ),
    OpCase(
        "StatelessRandomUniformV2/counter overflows its lower half",
        "StatelessRandomUniformV2",
        [_SHAPE, _KEY, _COUNTER, _PHILOX],
        expected=_matrix(
            np.float32,
            *(0.30913615226745605, 0.2511880397796631, 0.8064332008361816),
            *(0.9137417078018188, 0.8783246278762817, 0.8280147314071655),
        ),
        exact=True,
    ),
    OpCase(
        "StatelessRandomNormalV2/counter overflows its lower half",
        "StatelessRandomNormalV2",
        [_SHAPE, _KEY, _COUNTER, _PHILOX],
        expected=_matrix(
            np.float32,
            *(1.5322585105895996, -0.01143804844468832, -0.33835819363594055),
            *(0.5619449615478516, -0.44940805435180664, 0.2398134022951126),
        ),
    ),
    OpCase(
        "StatelessTruncatedNormalV2/counter overflows its lower half",
        "StatelessTruncatedNormalV2",
        [_SHAPE, _KEY, _COUNTER, _PHILOX],
        expected=_matrix(
            np.float32,
            *(1.5322585105895996, -0.01143804844468832, -0.33835819363594055),
            *(0.5619449615478516, 0.9137771725654602, -0.03153056278824806),
        ),
    ),
    OpCase(
        "StatelessRandomUniformIntV2/int32",
        "StatelessRandomUniformIntV2",
        [np.array([5], np.int32), _KEY, _COUNTER, _AUTOMATIC, np.int32(2), np.int32(1000)],
        expected=np.array([462, 358, 6, 55, 279], np.int32),
    ),
    OpCase(
        "StatelessRandomUniformIntV2/int64",
        "StatelessRandomUniformIntV2",
        [np.array([5], np.int32), _KEY, _COUNTER, _AUTOMATIC, np.int64(2), np.int64(1000)],
        expected=np.array([842, 584, 511, 340, 979]),
    ),
    *(
        OpCase(
            f"StatelessRandomUniformFullIntV2/{np.dtype(dtype).name}",
            "StatelessRandomUniformFullIntV2",
            [np.array([3], np.int32), _KEY, _COUNTER, _PHILOX],
            {"dtype": np.dtype(dtype).name},
            np.array(values, dtype),
        )
        for dtype, values in _FULL_V2.items()
    ),
    OpCase(
        "StatelessRandomUniformV2/another generator",
        "StatelessRandomUniformV2",
        [_SHAPE, _KEY, _COUNTER, np.int32(2)],
        raises=r"asks for another generator[\s\S]*alg 1 \(Philox\)",
    ),
    OpCase(
        "StatelessRandomUniformV2/short counter",
        "StatelessRandomUniformV2",
        [_SHAPE, _KEY, np.array([0], np.uint64), _PHILOX],
        raises=r"has a wrong state[\s\S]*counter \[1\]",
        deviation="TensorFlow 2.21 reads beyond the end of the counter",
    ),
    OpCase(
        "StatelessRandomUniformV2/two keys",
        "StatelessRandomUniformV2",
        [_SHAPE, np.array([1, 2], np.uint64), _COUNTER, _PHILOX],
        raises=r"takes its key in another shape[\s\S]*key \[2\]|has a wrong state[\s\S]*key \[2\]",
    ),
]
