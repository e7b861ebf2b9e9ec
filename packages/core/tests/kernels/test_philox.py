"""The generator against the paper's vectors, a scalar reading of the paper, and itself cut into pieces."""

from __future__ import annotations

import itertools
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from headrace.kernels.philox import CHUNK, PhiloxState, PhiloxStream, philox_planes, philox_words, state_chunks

ALL_ONES = PhiloxState(2**64 - 1, 2**128 - 1)
PI_DIGITS = PhiloxState(0x299F31D0_A4093822, 0x03707344_13198A2E_85A308D3_243F6A88)


def scalar_block(key: int, counter: int) -> list[int]:
    """One block, word by word with Python integers, as section 3.3 of the paper states the rounds."""
    words = [counter >> shift & 0xFFFFFFFF for shift in (0, 32, 64, 96)]
    keys = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        first, second = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [
            (second >> 32) ^ words[1] ^ keys[0],
            second & 0xFFFFFFFF,
            (first >> 32) ^ words[3] ^ keys[1],
            first & 0xFFFFFFFF,
        ]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return words


@pytest.mark.parametrize(
    ("state", "block"),
    [
        (PhiloxState(0, 0), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        (ALL_ONES, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (PI_DIGITS, [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]),
    ],
    ids=["zeros", "ones", "pi"],
)
def test_known_answers_of_the_paper(state: PhiloxState, block: list[int]) -> None:
    assert philox_words(state, 1).tolist() == [block]


@pytest.mark.parametrize("edge", [0, 2**32, 2**64, 2**96, 2**128], ids=["0", "32", "64", "96", "128"])
def test_counter_carries_over_every_word(edge: int) -> None:
    state = PhiloxState(0x0123456789ABCDEF, (edge - 3) % 2**128)
    expected = [scalar_block(state.key, (edge - 3 + block) % 2**128) for block in range(6)]
    assert philox_words(state, 6).tolist() == expected


def test_random_states_agree_with_the_scalar_generator() -> None:
    source = random.Random(11)
    for _ in range(50):
        state = PhiloxState(source.getrandbits(64), source.getrandbits(128))
        assert philox_words(state, 1).tolist() == [scalar_block(state.key, state.counter)]


@pytest.mark.parametrize("blocks", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 5])
def test_words_do_not_depend_on_how_they_are_cut(blocks: int) -> None:
    state = PhiloxState.from_seeds(5, 2**62)
    whole = philox_words(state, blocks)
    cuts = [0, blocks // 7, blocks // 2, blocks]
    pieces = [philox_words(state.skip(start), stop - start) for start, stop in itertools.pairwise(cuts)]
    assert whole.shape == (blocks, 4)
    assert np.array_equal(whole, np.concatenate(pieces))


def test_planes_at_any_offsets_in_any_order() -> None:
    state = PhiloxState(99, 2**64 - 500)
    offsets = np.random.default_rng(3).permutation(1000).astype(np.uint64)
    even, odd = philox_planes(state, offsets)
    words = philox_words(state, 1000)[offsets]
    assert np.array_equal(even, words[:, ::2].T)
    assert np.array_equal(odd, words[:, 1::2].T)


def test_chunks_cover_every_block_once() -> None:
    chunks = list(state_chunks(PhiloxState(1, 10), 25, chunk=10))
    assert [(state.counter, first, count) for state, first, count in chunks] == [
        (10, 0, 10),
        (20, 10, 10),
        (30, 20, 5),
    ]


def test_seeds_become_key_and_upper_counter() -> None:
    assert PhiloxState.from_seeds(7, 42) == PhiloxState(7, 42 << 64)
    assert PhiloxState.from_seeds(-1, -2) == PhiloxState(2**64 - 1, (2**64 - 2) << 64)


def test_stateless_seeds_give_unrelated_streams() -> None:
    seeds = [(0, 0), (0, 1), (1, 0), (1, 1), (-1, 0), (2**31, 0)]
    states = [PhiloxState.from_stateless_seed(seed) for seed in seeds]
    assert len({state.key for state in states}) == len({state.counter for state in states}) == len(seeds)
    assert all(state.counter % 2**64 == 0 for state in states)


def test_skip_wraps_at_the_end_of_the_counter() -> None:
    assert PhiloxState(1, 2**128 - 1).skip(3) == PhiloxState(1, 2)
    assert PhiloxState(1, 5).skip(2**130) == PhiloxState(1, 5)


def test_stream_reserves_disjoint_stretches_for_concurrent_steps() -> None:
    stream = PhiloxStream(PhiloxState(4, 100))
    with ThreadPoolExecutor(8) as pool:
        reserved = list(pool.map(stream.reserve, [3] * 500))
    assert sorted(state.counter for state in reserved) == list(range(100, 100 + 1500, 3))
    assert stream.reserve(0) == PhiloxState(4, 1600)
