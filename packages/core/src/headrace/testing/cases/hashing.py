"""Cases of the hashing family; the buckets of TensorFlow's documentation, and those that TensorFlow gave for others."""

from __future__ import annotations

import numpy as np

from headrace.testing.op_case import OpCase

_TEXT = bytes(range(256)) * 2
_LENGTHS = (0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 192, 300)
_STRINGS = np.array([_TEXT[7 : 7 + length] for length in _LENGTHS], object)
_BUCKETS = [
    1936946117179621456,
    6305636504242451570,
    5427072485207323095,
    5524483800116240661,
    4057525001044127388,
    5936107998684224878,
    2547537370675974775,
    2142989367345601843,
    6696977739852309524,
    6944210397143409580,
    3100793976115851945,
    831534754889776975,
    8188247381739446227,
    425341559734193131,
    5343410966821585799,
    8592511127911826502,
    542797297444419439,
    2167237453221626505,
    3150282132480633314,
    7646046186548344167,
    3630613265215859074,
    5060636774486597348,
]

CASES = [
    OpCase(
        "StringToHashBucketFast/documented",
        "StringToHashBucketFast",
        [np.array([b"Hello", b"TensorFlow", b"2.x"], object)],
        {"num_buckets": 3},
        expected=np.array([0, 2, 2]),
    ),
    OpCase(
        "StringToHashBucketFast/every length",
        "StringToHashBucketFast",
        [_STRINGS],
        {"num_buckets": 2**63 - 1},
        expected=np.array(_BUCKETS),
    ),
    OpCase(
        "StringToHashBucketFast/matrix",
        "StringToHashBucketFast",
        [np.array([[b"a", b"b"], [b"", b"a"]], object)],
        {"num_buckets": 1},
        expected=np.zeros((2, 2), np.int64),
    ),
    OpCase(
        "StringToHashBucketFast/no buckets",
        "StringToHashBucketFast",
        [_STRINGS],
        {"num_buckets": 0},
        raises="attr 'num_buckets' has a wrong value",
    ),
    OpCase(
        "StringToHashBucketStrong/strings",
        "StringToHashBucketStrong",
        [np.array([b"", b"a", b"hello world, this is long"], object)],
        {"num_buckets": 1 << 62, "key": [1, 2]},
        np.array([443797209252341627, 546566331822570742, 4380230445381753376]),
    ),
    OpCase(
        "StringToHashBucketStrong/negative key",
        "StringToHashBucketStrong",
        [np.array([[b"", b"a"]], object)],
        {"num_buckets": 10, "key": [-1, 1 << 62]},
        np.array([[1, 6]]),
    ),
    OpCase(
        "StringToHashBucketStrong/one number",
        "StringToHashBucketStrong",
        [np.array([b"a"], object)],
        {"num_buckets": 10, "key": [1]},
        raises=r"key of a hash has a wrong length",
    ),
]
