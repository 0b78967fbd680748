# SPDX-License-Identifier: Apache-2.0
"""Compiles a user's transform that returns several views of one image as a list of tensors, as the view generators of SimSiam, MoCo v3 and DINO
do.

Such a transform must be the last one of its list. Each view is an output of the graph, so their number must be known when the graph is made: the transform is
called with an image of noise to find out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from stoker import fn, types
from stoker import transforms as T
from stoker.data_node import DataNode
from stoker.errors import InvalidArgumentError
from stoker.loader._changes import SerializedCalls
from stoker.loader._random import random_numbers
from stoker.loader.lower._functions import name_of, notice_python_transform, seeds

_MOST = 64
_SIDE = 256  # height and width in pixels of the image of noise


@dataclass
class Views:
    """A function that returns `count` tensors (C, H, W) for a PIL image."""

    function: Callable[[Any], Any]
    count: int
    name: str

    def apply(self, node: DataNode, channels_last: bool, dtype: types.DALIDataType | None) -> list[DataNode]:
        """Adds an operator that calls the function, and returns the nodes of the views. dtype: the type to which they are converted; None: the type that the
        function returns."""
        notice_python_transform(self.name)
        layout = "HWC" if channels_last else "CHW"
        call = _Call(self, channels_last)
        made = fn.python_function(node.cpu(), seeds(), function=call, num_outputs=self.count, output_layouts=layout)
        nodes: list[DataNode] = list(made)
        if dtype is not None:
            nodes = [fn.cast(view, dtype=dtype) for view in nodes]
        return [view.gpu() for view in nodes] if node.device == "gpu" else nodes


def views_of(t: T.Lambda, dtype: types.DALIDataType | None) -> Views | None:
    """Returns the Views of a function from a PIL image to several tensors. Returns None for other functions, and if the function fails for the image of noise.
    dtype: the Loader's dtype; uint8 raises InvalidArgumentError if the function returns floats."""
    if t.takes != "PIL":
        return None
    try:
        with _generators_kept():
            made = t.lambd(_noise())
    except Exception:  # if this is a fault of the function, the user's first image raises the error again
        return None
    if not isinstance(made, (list, tuple)) or not 2 <= len(made) <= _MOST or not all(map(_is_view, made)):
        return None
    if dtype == types.UINT8 and any(view.is_floating_point() for view in made):
        raise InvalidArgumentError(f"{name_of(t.lambd)} gives floats, which are not cut to whole numbers: leave out dtype=torch.uint8")
    return Views(t.lambd, len(made), name_of(t.lambd))


def _is_view(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.ndim == 3 and value.dtype != torch.bfloat16


def _noise() -> Any:
    import numpy as np
    from PIL import Image

    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (_SIDE, _SIDE, 3), np.uint8))


@contextmanager
def _generators_kept() -> Iterator[None]:
    """A context in which sample_rng() has a fixed seed. Restores the states of the global generators at its end."""
    import random

    import numpy as np
    import torch

    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        with random_numbers((0, 0)):
            yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        torch.set_rng_state(before[2])


class _Call:
    """Wraps the user's function, so that it takes an array and returns a tuple of arrays."""

    def __init__(self, views: Views, channels_last: bool) -> None:
        self.views, self.channels_last = views, channels_last
        self._function = SerializedCalls(views.function, views.name)

    def __call__(self, image: Any, seeds: Any) -> tuple[Any, ...]:
        from PIL import Image

        with random_numbers((int(seeds[0]), int(seeds[1]))):
            made = self._function(Image.fromarray(image if image.shape[2] > 1 else image[..., 0]))
        name, count = self.views.name, self.views.count
        if not isinstance(made, (list, tuple)) or len(made) != count:
            what = f"{len(made)} views" if isinstance(made, (list, tuple)) else type(made).__name__
            raise TypeError(
                f"the transform {name} gave {what} for this image and {count} views for others: return as many for each, or apply it in the Dataset"
            )
        return tuple(self._array(view) for view in made)

    def _array(self, view: Any) -> Any:
        import numpy as np

        if not _is_view(view):
            raise TypeError(f"the transform {self.views.name} gave {type(view).__name__} as a view: its views are tensors (C, H, W)")
        return np.ascontiguousarray((view.permute(1, 2, 0) if self.channels_last else view).detach().numpy())
