"""Writes the saved models beside this file with TensorFlow, and what they answer: run it in an environment that has it.

    python packages/checkpoint/tests/data/write_saved_models.py

`tf221_loop` has a `while` and a `cond` in functions that call each other, a variable and a captured constant;
`tf221_lookup` has a table of constants and one that an asset fills; `tf221_builder` is as TensorFlow 1 wrote models,
with a variable by reference, one in parts, and a loop and a branch of primitives. `answers.json` is what TensorFlow
gives.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from pathlib import Path

import tensorflow as tf

HERE = Path(__file__).resolve().parent


class Loop(tf.Module):
    """Doubles, or takes 1 away once the sum is over 100."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = tf.Variable(2.0, name="factor")
        self.limit = tf.constant([100.0, 50.0])

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32, name="n"), tf.TensorSpec([None], tf.float32, name="x")])
    def __call__(self, n: tf.Tensor, x: tf.Tensor) -> dict[str, tf.Tensor]:
        """Run the loop `n` times."""
        for _ in tf.range(n):
            x = tf.cond(tf.reduce_sum(x) > self.limit[0], lambda x=x: x - 1.0, lambda x=x: x * self.factor)
        return {"y": x}


class Lookup(tf.Module):
    """Numbers of words, by a table of two and by a vocabulary."""

    def __init__(self, vocabulary: str) -> None:
        super().__init__()
        pairs = tf.lookup.KeyValueTensorInitializer(tf.constant(["a", "b"]), tf.constant([10, 20], tf.int64))
        self.table = tf.lookup.StaticHashTable(pairs, -1)
        lines = tf.lookup.TextFileInitializer(
            vocabulary, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
        )
        self.vocabulary = tf.lookup.StaticVocabularyTable(lines, 2)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="words")])
    def __call__(self, words: tf.Tensor) -> dict[str, tf.Tensor]:
        """Look the words up."""
        return {"table": self.table.lookup(words), "vocabulary": self.vocabulary.lookup(words)}


def builder(path: Path) -> list[float]:
    """Write a model as programs of TensorFlow 1 did; returns what it gives for [1, 2]."""
    v1 = tf.compat.v1
    v1.disable_control_flow_v2()
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [2], name="x")
        factor = v1.get_variable("factor", initializer=2.0, use_resource=False)
        step = v1.get_variable("step", initializer=1.0, use_resource=True)
        halves = v1.get_variable(
            "offsets", [4], initializer=v1.ones_initializer(), partitioner=v1.fixed_size_partitioner(2)
        )

        def body(i: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return i + 1, v1.cond(tf.reduce_sum(y) > 20.0, lambda: y - step, lambda: y * factor)

        y = v1.while_loop(lambda i, y: i < 5, body, (0, x))[1]
        y = tf.add(y, tf.reduce_sum(tf.concat(list(halves), 0)), name="y")
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(path), {"x": x}, {"y": y})
        answer: list[float] = session.run(y, {x: [1.0, 2.0]}).tolist()
        return answer


def main() -> None:
    """Write both models and their answers."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # the path becomes a part of the model
        Path("vocabulary.txt").write_bytes(b"x\ny\n\xff\n")
        models = {"tf221_loop": Loop(), "tf221_lookup": Lookup("vocabulary.txt")}
        for name, model in models.items():
            shutil.rmtree(HERE / name, ignore_errors=True)
            tf.saved_model.save(model, str(HERE / name), signatures=model.__call__)
            (HERE / name / "fingerprint.pb").unlink()
    looped = models["tf221_loop"](tf.constant(8), tf.constant([1.0, 2.0, 3.0]))
    words = tf.constant([b"a", b"x", b"\xff", b"unknown", b""])
    found = models["tf221_lookup"](words)
    shutil.rmtree(HERE / "tf221_builder", ignore_errors=True)
    answers = {
        "builder": {"x": [1.0, 2.0], "y": builder(HERE / "tf221_builder")},
        "loop": {"n": 8, "x": [1.0, 2.0, 3.0], "y": looped["y"].numpy().tolist()},
        "lookup": {
            "words": [word.decode("latin-1") for word in words.numpy().tolist()],
            **{name: value.numpy().tolist() for name, value in found.items()},
        },
    }
    (HERE / "answers.json").write_text(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    main()
