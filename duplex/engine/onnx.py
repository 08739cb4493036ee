"""How onnxruntime sessions are made here, so that every adapter's is quiet and small, and idle between runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duplex.errors import ModelStoreError

# The wheels of onnxruntime 1.32.0 report use to their maker: a database in the user's cache, a thread, and uploads.
# That begins with the import, and `disable_telemetry_events` comes too late for it.
os.putenv("ORT_DISABLE_TELEMETRY", "1")

import onnxruntime as ort

_ERRORS_ONLY = 3
_state = ort.capi.onnxruntime_pybind11_state
# onnxruntime's own errors have no base but Exception.
_UNREADABLE: tuple[type[Exception], ...] = (
    OSError,
    RuntimeError,
    ValueError,
    _state.Fail,
    _state.InvalidArgument,
    _state.InvalidGraph,
    _state.InvalidProtobuf,
    _state.NoSuchFile,
    _state.NotImplemented,
)


class OnnxSession:
    """One model in onnxruntime on the CPU. `run` may be called from several threads at a time.

    With one thread no pool is made and a run uses the caller's thread alone; further threads do not spin while they
    wait. The arena is off by default: it would keep the largest input's memory for good (measured: 540 MB after one
    minute of audio in the recogniser's encoder), and costs 6 % of a decoder step at most when absent.

    Args:
        path: the model's file, ``.onnx`` or ``.ort``.
        threads: that one run may use.
        arena: keep freed memory for the next run; for models whose inputs are small and alike.

    Raises:
        ModelStoreError: the file is absent or is no model.
    """

    def __init__(self, path: Path, *, threads: int = 1, arena: bool = False) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.log_severity_level = _ERRORS_ONLY
        options.enable_cpu_mem_arena = arena
        options.enable_mem_pattern = arena
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.inter_op.allow_spinning", "0")
        try:
            self._session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except _UNREADABLE as error:
            raise ModelStoreError(
                f"the model file {path} cannot be read: run `duplex models verify`, and fetch it anew if it is wrong"
            ) from error
        self.inputs = tuple(each.name for each in self._session.get_inputs())
        self.outputs = tuple(each.name for each in self._session.get_outputs())

    def run(self, feeds: Mapping[str, NDArray[Any]], outputs: Sequence[str] | None = None) -> list[NDArray[np.float32]]:
        """Compute the named outputs (None: all, in the model's order); the inputs are read during the call only."""
        results: list[NDArray[np.float32]] = self._session.run(outputs, feeds)
        return results
