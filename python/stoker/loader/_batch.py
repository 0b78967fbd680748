# SPDX-License-Identifier: Apache-2.0
"""What type checkers know of a batch. The real one is a NamedTuple of the fields that the Loader was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch


class Batch(Protocol):
    """By name or in order: `batch.image`, or `images, labels = batch`."""

    @property
    def image(self) -> torch.Tensor: ...
    @property
    def path(self) -> list[str]: ...
    @property
    def index(self) -> torch.Tensor: ...
    @property
    def valid(self) -> torch.Tensor: ...

    label: Any  # a tensor, or a list where the targets are strings or of many shapes
    _fields: tuple[str, ...]

    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, at: Any, /) -> Any: ...
    def __getattr__(self, field: str, /) -> Any: ...  # fields of the user's own
    def _asdict(self) -> dict[str, Any]: ...
