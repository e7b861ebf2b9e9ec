"""Train a network on real handwritten digits, look at it, export it, serve it, and ask it over HTTP.

`python quickstart.py` starts anew in runs/quickstart. With `--resume` it goes on from the last checkpoint there, and
ends with the same numbers as a run that was never interrupted.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import digits
import headrace as hr
import headrace_checkpoint
import headrace_viz

SEED = 2016
ASKED = 10  # digits sent to the server
COMMANDS = Path(sys.executable).parent  # where `headrace` and `tensorboard` are installed beside this Python


def build_model() -> hr.layers.Sequential:
    """Return a network in the manner of LeNet: two convolutions with pooling, then two dense layers."""
    return hr.layers.Sequential(
        [
            hr.layers.Conv2D(16, 5, activation="relu"),
            hr.layers.MaxPool2D(2),
            hr.layers.Conv2D(32, 5, activation="relu"),
            hr.layers.MaxPool2D(2),
            hr.layers.Flatten(),
            hr.layers.Dense(128, activation="relu"),
            hr.layers.Dropout(0.5),
            hr.layers.Dense(10),
        ],
        name="lenet",
    )


def train(
    folder: Path, train_digits: digits.Digits, test_digits: digits.Digits, epochs: int, *, resume: bool
) -> hr.Trainer:
    """Fit the network, with events and checkpoints under the folder."""
    trainer = hr.Trainer(
        build_model(),
        loss="sparse_softmax_cross_entropy",
        optimizer=hr.optim.Adam(1e-3),
        metrics=["accuracy"],
        callbacks=[
            headrace_viz.TensorBoard(folder / "events"),
            headrace_checkpoint.Checkpoints(folder / "checkpoints", keep=2, every_steps=20, resume=resume),
        ],
        seed=SEED,
    )
    if resume:
        latest = headrace_checkpoint.CheckpointManager(folder / "checkpoints").latest_step
        print("no checkpoint yet: starting anew" if latest is None else f"going on from step {latest}", flush=True)
    batches = hr.data.from_arrays(train_digits.images, train_digits.labels).shuffle(5000, seed=SEED).batch(64)
    trainer.fit(batches, epochs=epochs, validation=(test_digits.images, test_digits.labels))
    return trainer


def export(folder: Path, trainer: hr.Trainer, images: np.ndarray[Any, Any]) -> Mapping[str, np.ndarray[Any, Any]]:
    """Export the trained network as version 1 of a model, and return its answers for some images in this process.

    The answers are computed with one thread of NumPy's linear algebra, as the server computes them: more threads may
    add the same products in another order, and round them to other last bits.
    """
    with trainer.graph.as_default():
        image = hr.placeholder(hr.float32, [None, 28, 28, 1], name="image")
        scores = trainer.model(image, training=False)
        answers = {"digit": hr.argmax(scores, axis=1), "probability": hr.nn.softmax(scores)}
    signature = hr.Signature(inputs={"image": image}, outputs=answers)
    headrace_checkpoint.save_model(folder / "1", trainer.session, signatures={"serving_default": signature})
    with threadpool_limits(limits=1, user_api="blas"):
        answered: dict[str, np.ndarray[Any, Any]] = trainer.session.run(answers, feeds={image: images})
    return answered


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Serve a model as `digits` on a free loopback port and yield the server's address."""
    command = [str(COMMANDS / "headrace"), "serve", "--model", f"digits={folder}", "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        announcement = process.stdout.readline()
        if not announcement:
            sys.exit(f"the server ended with code {process.wait()} before it listened")
        yield str(json.loads(announcement)["url"])
    finally:
        process.terminate()
        process.communicate()


def ask(url: str, request: Path) -> list[dict[str, Any]]:
    """Send a request to the server and return its predictions, one per image."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy cannot reach this machine
    with direct.open(f"{url}/v1/models/digits:predict", request.read_bytes(), timeout=60) as response:
        predictions: list[dict[str, Any]] = json.load(response)["predictions"]
    return predictions


def fingerprint(trainer: hr.Trainer) -> str:
    """Return a hash of every parameter's bits, to compare runs."""
    values = trainer.session.read_variables()
    parts = [name.encode() + values[name].tobytes() for name in sorted(values)]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def look_further(folder: Path, model: Path, request: Path) -> str:
    """Return the commands with which to go on."""
    return f"""To look further:
  {COMMANDS}/tensorboard --logdir {folder / "events"}
  {COMMANDS}/headrace inspect {model / "1"}
  {COMMANDS}/headrace serve --model digits={model} --port 8501
  curl -d @{request} http://127.0.0.1:8501/v1/models/digits:predict"""


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python3 tools/dev.py quickstart",
        description="Train, export, serve and ask",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    parser.add_argument("--folder", type=Path, default=Path("runs/quickstart"), help="where everything goes")
    parser.add_argument("--epochs", type=int, default=10, help="times to go through the digits")
    parser.add_argument("--train", type=int, default=4000, help="digits to train on")
    parser.add_argument("--test", type=int, default=1000, help="digits to test on")
    parser.add_argument("--at-least", type=float, default=0.95, help="accuracy below which the command fails")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Do the whole job; return 1 if the accuracy is too low or the server answers otherwise than the model."""
    options = parse(arguments)
    folder: Path = options.folder
    model, request = folder / "model", folder / "request.json"
    shutil.rmtree(model if options.resume else folder, ignore_errors=True)
    train_digits, test_digits = digits.load(options.train, options.test)
    trainer = train(folder, train_digits, test_digits, options.epochs, resume=options.resume)
    accuracy = trainer.evaluate((test_digits.images, test_digits.labels))["accuracy"]
    print(f"test accuracy {accuracy:.4f} on {len(test_digits.labels)} digits that it has not seen")

    images, truth = test_digits.images[:ASKED], test_digits.labels[:ASKED]
    own = export(model, trainer, images)
    request.write_text(json.dumps({"instances": [{"image": image.tolist()} for image in images]}))
    with server(model) as url:
        print(f"asking {url}/v1/models/digits about {ASKED} digits\n")
        predictions = ask(url, request)
    captions = [f"{p['digit']} (truth {label})" for p, label in zip(predictions, truth, strict=True)]
    print(digits.side_by_side([digits.picture(image) for image in images], captions))
    equal = all(
        np.array_equal(np.array([p[name] for p in predictions], own[name].dtype), own[name])
        for name in ("digit", "probability")
    )
    print(f"the server's answers {'equal' if equal else 'DIFFER FROM'} the model's own, bit for bit\n")
    result = {
        "accuracy": accuracy,
        "answers_equal": equal,
        "history": trainer.history,
        "parameters": fingerprint(trainer),
    }
    (folder / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    print(look_further(folder, model, request))
    if accuracy < options.at_least:
        print(
            f"failed: the test accuracy {accuracy:.4f} is below {options.at_least} (--at-least); "
            "train on more digits (--train) or longer (--epochs)",
            file=sys.stderr,
        )
    return 0 if equal and accuracy >= options.at_least else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
