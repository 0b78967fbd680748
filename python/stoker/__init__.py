# SPDX-License-Identifier: Apache-2.0
"""Data pipelines that keep GPUs fed: read, decode, augment and batch, with the API of NVIDIA DALI.

    from stoker import pipeline_def, fn, types      # DALI's way
    from stoker import Loader, transforms           # torchvision's way
    from stoker import structured                   # samples of many fields, as NVIDIA ACCV-Lab's framework has them

Importing this package imports neither torch nor numpy; each name below is loaded when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stoker import (
        auto_aug,
        backend,
        backend_impl,
        batching,
        errors,
        fn,
        math,
        ops,
        plugin,
        structured,
        tensors,
        tfrecord,
        transforms,
        types,
    )
    from stoker._advise import advise
    from stoker._image import imdecode, imread
    from stoker._storage import Storage
    from stoker.data_node import DataNode, newaxis
    from stoker.errors import ShapeError, StokerError
    from stoker.loader import Loader, sample_rng
    from stoker.pipeline import Pipeline, do_not_convert, pipeline_def

_MODULES = (
    "auto_aug",
    "backend",
    "backend_impl",
    "batching",
    "errors",
    "fn",
    "math",
    "ops",
    "plugin",
    "structured",
    "tensors",
    "tfrecord",
    "transforms",
    "types",
)
_NAMES = {
    "DataNode": "stoker.data_node",
    "newaxis": "stoker.data_node",
    "ShapeError": "stoker.errors",
    "Storage": "stoker._storage",
    "StokerError": "stoker.errors",
    "advise": "stoker._advise",
    "imdecode": "stoker._image",
    "imread": "stoker._image",
    "Loader": "stoker.loader",
    "Pipeline": "stoker.pipeline",
    "do_not_convert": "stoker.pipeline",
    "pipeline_def": "stoker.pipeline",
    "sample_rng": "stoker.loader",
}

# Of nvidia.dali, and not here: what to do instead.
_DALI = {
    "OperatorConcurrency": "how operators run side by side is decided by the library",
    "StreamPolicy": "streams are the library's own; TensorListGPU.use_stream names those that read a batch",
    "experimental": "stoker.fn and stoker.ops have the operators; fn.eager calls one by itself",
    "plugin_manager": "operators of one's own are Python functions: fn.external_source",
}

__all__ = [
    "DataNode",
    "Loader",
    "Pipeline",
    "ShapeError",
    "StokerError",
    "Storage",
    "advise",
    "auto_aug",
    "backend",
    "backend_impl",
    "batching",
    "do_not_convert",
    "errors",
    "fn",
    "imdecode",
    "imread",
    "math",
    "newaxis",
    "ops",
    "pipeline_def",
    "plugin",
    "sample_rng",
    "structured",
    "tensors",
    "tfrecord",
    "transforms",
    "types",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = importlib.import_module("stoker._core").version()
    elif name in _MODULES:
        value = importlib.import_module(f"stoker.{name}")
    elif name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
    else:
        from stoker._where import missing

        only_there = f": it is of DALI alone; {_DALI[name]}" if name in _DALI else ""
        raise missing(f"module 'stoker' has no attribute {name!r}{only_there}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])
