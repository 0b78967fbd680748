# SPDX-License-Identifier: Apache-2.0
"""The settings of a pipeline: DALI's arguments and ours, checked."""

from __future__ import annotations

import contextlib
import difflib
import json
import operator
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker import types
from stoker.errors import InvalidArgumentError

_ON_ERROR = {"raise": 0, "skip": 1, "replace": 2}

# Positional arguments of DALI's Pipeline after seed.
_POSITIONAL = (
    "exec_pipelined",
    "prefetch_queue_depth",
    "exec_async",
    "bytes_per_sample",
    "set_affinity",
    "max_streams",
    "default_cuda_stream_priority",
)
_ACCEPTED = {
    *_POSITIONAL,
    "enable_memory_stats",
    "enable_checkpointing",
    "py_num_workers",
    "py_start_method",
    "py_callback_pickler",
    "exec_dynamic",
    "experimental_exec_dynamic",
    "stream_policy",
    "concurrency",
    "enable_conditionals",
} - {"prefetch_queue_depth"}
_MEANT = (
    "batch_size",
    "max_batch_size",
    "num_threads",
    "device_id",
    "seed",
    "prefetch_queue_depth",
    "checkpoint",
    "output_dtype",
    "output_ndim",
    "output_layout",
    "on_error",
    "max_errors",
    "timeout",
    "memory_limit",
    "trace",
    "strict",
    "fuse",
    "max_batches",
    "read_requests",
    "read_bytes",
    "gpu_memory_limit",
    "held_limit",
)
SETTING_NAMES = {*_MEANT, *_ACCEPTED}


@dataclass
class Settings:
    """One pipeline's settings."""

    batch_size: int
    num_threads: int | None
    device_id: int | None
    seed: int
    prefetch: int
    checkpoint: Any
    output_dtype: Any
    output_ndim: Any
    output_layout: Any
    on_error: str
    max_errors: float
    timeout: float
    memory_limit: int
    trace: str | None
    strict: bool
    fuse: bool
    max_batches: int
    read_requests: int
    read_bytes: int
    gpu_memory_limit: int
    held_limit: int

    @classmethod
    def from_arguments(
        cls, batch_size: Any, num_threads: Any, device_id: Any, seed: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Settings:
        if len(args) > len(_POSITIONAL):
            raise TypeError(f"Pipeline takes at most {4 + len(_POSITIONAL)} positional arguments")
        k = {**dict(zip(_POSITIONAL, args, strict=False)), **kwargs}
        for name in k:
            if name not in _MEANT and name not in _ACCEPTED:
                close = difflib.get_close_matches(name, [*_MEANT, *_ACCEPTED], 1, 0.6)
                raise TypeError(f"Pipeline: there is no argument '{name}'" + (f"; did you mean '{close[0]}'?" if close else ""))
        if k.get("enable_conditionals"):
            from stoker.errors import UnsupportedError

            raise UnsupportedError("enable_conditionals=True: if, and, or, not of DataNodes are not in Stoker yet")
        batch_size = k.get("max_batch_size") if batch_size is None else batch_size
        if batch_size is None:
            raise InvalidArgumentError("Pipeline: batch_size is needed: Pipeline(batch_size=...) or @pipeline_def(batch_size=...)")
        on_error = k.get("on_error", "raise")
        if on_error not in _ON_ERROR:
            raise InvalidArgumentError(f"Pipeline: on_error is 'raise', 'skip' or 'replace', not {on_error!r}")
        dtype = k.get("output_dtype")
        if dtype is not None:
            dtype = [None if d is None else types.to_dtype(d) for d in dtype] if isinstance(dtype, (list, tuple)) else types.to_dtype(dtype)
        return cls(
            batch_size=_whole("batch_size", batch_size, 1),
            num_threads=None if num_threads in (None, -1) else _whole("num_threads", num_threads, 1),
            device_id=None if device_id in (None, types.CPU_ONLY_DEVICE_ID) else _whole("device_id", device_id, 0),
            seed=_seed(seed, k.get("checkpoint")),
            prefetch=_prefetch(k.get("prefetch_queue_depth", 2)),
            checkpoint=k.get("checkpoint"),
            output_dtype=dtype,
            output_ndim=k.get("output_ndim"),
            output_layout=k.get("output_layout"),
            on_error=on_error,
            max_errors=float(k.get("max_errors") or 0),
            timeout=-1.0 if k.get("timeout") is None else float(k["timeout"]),
            memory_limit=_whole("memory_limit", k.get("memory_limit") or 0, 0),
            trace=None if k.get("trace") is None else os.fspath(k["trace"]),
            strict=bool(k.get("strict", True)),
            fuse=bool(k.get("fuse", True)),
            max_batches=_whole("max_batches", k.get("max_batches") or 0, 0),
            read_requests=_whole("read_requests", k.get("read_requests") or 0, 0),
            read_bytes=_whole("read_bytes", k.get("read_bytes") or 0, 0),
            gpu_memory_limit=_whole("gpu_memory_limit", k.get("gpu_memory_limit") or 0, 0),
            held_limit=_whole("held_limit", k.get("held_limit") or 0, 0),
        )

    def core_arguments(self) -> dict[str, Any]:
        """As the extension module takes them."""
        return {
            "batch_size": self.batch_size,
            "prefetch": self.prefetch,
            "device_id": -1 if self.device_id is None else self.device_id,
            "seed": self.seed,
            "on_error": _ON_ERROR[self.on_error],
            "max_errors": self.max_errors,
            "memory_limit": self.memory_limit,
            "read_requests": self.read_requests,
            "read_bytes": self.read_bytes,
            "max_batches": self.max_batches,
            "trace": self.trace,
            "lenient": not self.strict,
            "no_fuse": not self.fuse,
            "gpu_memory": self.gpu_memory_limit,
            "held_limit": self.held_limit,
        }

    def as_json(self) -> dict[str, Any]:
        """What serialize() keeps."""
        return {
            "batch_size": self.batch_size,
            "num_threads": self.num_threads,
            "device_id": self.device_id,
            "seed": self.seed,
            "prefetch_queue_depth": self.prefetch,
            "on_error": self.on_error,
            "max_errors": self.max_errors,
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments from what as_json gave; what is unknown is left out."""
        return {k: v for k, v in data.items() if k in _MEANT}


def _whole(name: str, value: Any, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"Pipeline: {name} is a whole number, not {value!r}") from None
    if number < least:
        raise InvalidArgumentError(f"Pipeline: {name} is at least {least}, not {number}")
    return number


def _prefetch(value: Any) -> int:
    if isinstance(value, dict):  # DALI's separate queues
        value = max(value.get("cpu_size", 2), value.get("gpu_size", 2))
    return _whole("prefetch_queue_depth", value, 1)


def read_state(state: str | bytes | os.PathLike[str]) -> str:
    """A state given as text or as the file that holds it."""
    if isinstance(state, bytes):
        return state.decode()
    if isinstance(state, str) and state.lstrip().startswith("{"):
        return state
    return Path(state).read_text()


def _seed(seed: Any, checkpoint: Any) -> int:
    """None and DALI's -1 draw one, or take that of the state."""
    if seed is None or seed == -1:
        if checkpoint is not None:
            with contextlib.suppress(ValueError, TypeError, KeyError):  # a damaged state is refused by who reads it all
                return int(json.loads(read_state(checkpoint))["seed"])
        return int.from_bytes(os.urandom(7), "little")
    return operator.index(seed) & (2**64 - 1)
