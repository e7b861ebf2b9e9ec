"""Save and restore variables, and export models in TensorFlow's SavedModel layout."""

from headrace_checkpoint import ops as _ops  # noqa: F401  # registers the operations
from headrace_checkpoint.boxes import Box
from headrace_checkpoint.bundle_state import newest_bundle, write_bundle_state
from headrace_checkpoint.callback import Checkpoints
from headrace_checkpoint.frozen_graph import FrozenGraph, freeze
from headrace_checkpoint.restore import Mismatch, Part, RestoreReport
from headrace_checkpoint.retention import Best
from headrace_checkpoint.safetensors import SafetensorsFile, load_safetensors, save_safetensors
from headrace_checkpoint.saved_model import LoadedModel, LoadedSignature, SignatureTensor, load_model, save_model
from headrace_checkpoint.saver import CheckpointManager, Saver
from headrace_checkpoint.shared import Writers
from headrace_checkpoint.sources import HuggingFaceIndex
from headrace_checkpoint.stateful import Stateful
from headrace_checkpoint.store import CheckpointWarning
from headrace_checkpoint.targets import save_indexed_safetensors
from headrace_checkpoint.tensor_bundle import TensorBundle, merge_bundles, save_bundle

__all__ = [
    "Best",
    "Box",
    "CheckpointManager",
    "CheckpointWarning",
    "Checkpoints",
    "FrozenGraph",
    "HuggingFaceIndex",
    "LoadedModel",
    "LoadedSignature",
    "Mismatch",
    "Part",
    "RestoreReport",
    "SafetensorsFile",
    "Saver",
    "SignatureTensor",
    "Stateful",
    "TensorBundle",
    "Writers",
    "freeze",
    "load_model",
    "load_safetensors",
    "merge_bundles",
    "newest_bundle",
    "save_bundle",
    "save_indexed_safetensors",
    "save_model",
    "save_safetensors",
    "write_bundle_state",
]
