# SPDX-License-Identifier: Apache-2.0
"""Data pipelines that keep GPUs fed: read, decode, augment and batch.

    from stoker import DataLoader          # torch's DataLoader, faster
    from stoker import Loader, transforms  # batches for training, in C
    from stoker import pipeline_def, fn, types  # the API of NVIDIA DALI
    from stoker import structured          # samples of many fields, as in
                                           # NVIDIA ACCV-Lab's framework

    loader = Loader("data/train", 256, shuffle=True)
    for images, labels in loader:
        ...

Batches       Loader, DataLoader, Pipeline, pipeline_def; plugin.pytorch
Operators     fn.resize(...), fn.readers.file(...); fn.eager calls one
Transforms    transforms.Resize(224), in a Loader or called on one image
One file      imread, imdecode, audioread, audiodecode, VideoDecoder
Looking       view(batch), Loader.show(8), advise (what slows a loop down)
Running jobs  metrics, and the command `stoker top`
More          Audio, Video, AddNoise, Storage, sample_rng, to_device,
              batching
Errors        errors.StokerError and the classes below it

help(stoker.Loader), help(stoker.fn.resize) and so on describe each one.
Importing this package imports neither torch nor NumPy: a name is loaded
when it is first used. The pages in doc/ are the manual.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stoker import (
        auto_aug,
        backend,
        backend_impl,
        batching,
        data_node,
        errors,
        experimental,
        fn,
        math,
        metrics,
        ops,
        pipeline,
        plugin,
        samplers,
        structured,
        tensors,
        tfrecord,
        transforms,
        types,
    )
    from stoker._advise import advise
    from stoker._audio import AddNoise, Audio, AudioDecoder, audiodecode, audioread
    from stoker._image import imdecode, imread
    from stoker._sheet import view
    from stoker._storage import Storage
    from stoker._video import VideoDecoder
    from stoker.data_node import DataNode, newaxis
    from stoker.dataloader import DataLoader
    from stoker.errors import ShapeError, StokerError
    from stoker.loader import Loader, Video, sample_rng
    from stoker.pipeline import Pipeline, do_not_convert, pipeline_def

_MODULES = (
    "auto_aug",
    "backend",
    "backend_impl",
    "batching",
    "data_node",
    "errors",
    "experimental",
    "fn",
    "math",
    "metrics",
    "ops",
    "pipeline",
    "plugin",
    "samplers",
    "structured",
    "tensors",
    "tfrecord",
    "transforms",
    "types",
)
_NAMES = {
    "AddNoise": "stoker._audio",
    "Audio": "stoker._audio",
    "DataLoader": "stoker.dataloader",
    "DataNode": "stoker.data_node",
    "newaxis": "stoker.data_node",
    "ShapeError": "stoker.errors",
    "Storage": "stoker._storage",
    "StokerError": "stoker.errors",
    "advise": "stoker._advise",
    "audiodecode": "stoker._audio",
    "AudioDecoder": "stoker._audio",
    "audioread": "stoker._audio",
    "imdecode": "stoker._image",
    "imread": "stoker._image",
    "Loader": "stoker.loader",
    "Pipeline": "stoker.pipeline",
    "do_not_convert": "stoker.pipeline",
    "pipeline_def": "stoker.pipeline",
    "Video": "stoker.loader",
    "VideoDecoder": "stoker._video",
    "sample_rng": "stoker.loader",
    "to_device": "stoker._to_device",
    "view": "stoker._sheet",
}

__all__ = [
    "AddNoise",
    "Audio",
    "AudioDecoder",
    "DataLoader",
    "DataNode",
    "Loader",
    "Pipeline",
    "ShapeError",
    "StokerError",
    "Storage",
    "Video",
    "VideoDecoder",
    "advise",
    "audiodecode",
    "audioread",
    "auto_aug",
    "backend",
    "backend_impl",
    "batching",
    "data_node",
    "do_not_convert",
    "errors",
    "experimental",
    "fn",
    "imdecode",
    "imread",
    "math",
    "metrics",
    "newaxis",
    "ops",
    "pipeline",
    "pipeline_def",
    "plugin",
    "sample_rng",
    "samplers",
    "structured",
    "tensors",
    "tfrecord",
    "to_device",
    "transforms",
    "types",
    "view",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = importlib.import_module("stoker._core").version()
    elif name in _MODULES:
        value = importlib.import_module(f"stoker.{name}")
    elif name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
    else:
        from stoker._elsewhere import no_attribute

        raise no_attribute("stoker", name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])


class _Elsewhere:
    """The last finder of sys.meta_path, which Python asks only for a module that no other finder has found. Raises an error if there is advice: the
    replacement for a module of DALI, or how to install NumPy or torch."""

    @staticmethod
    def find_spec(name: str, *_: Any) -> None:
        if name.startswith("stoker."):
            from stoker._elsewhere import instead

            if advice := instead(name):
                raise ModuleNotFoundError(f"No module named {name!r}{advice}", name=name)
        elif name in ("numpy", "torch"):
            from stoker import _needs

            if advice := _needs.advice(name):
                raise ModuleNotFoundError(f"No module named {name!r}{advice}", name=name)


if not any(getattr(finder, "__qualname__", "") == "_Elsewhere" for finder in sys.meta_path):  # the package may be loaded a second time
    sys.meta_path.append(_Elsewhere)
