# SPDX-License-Identifier: Apache-2.0
"""The type of a batch for type checkers. At run time a batch is a NamedTuple of the fields that the user asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch


class Batch(Protocol):
    """A batch, whose fields can be read by name, `batch.image`, or unpacked in order, `images, labels = batch`."""

    @property
    def image(self) -> torch.Tensor: ...
    @property
    def path(self) -> list[str]: ...
    @property
    def index(self) -> torch.Tensor: ...
    @property
    def valid(self) -> torch.Tensor: ...

    label: Any  # a tensor, or a list if the targets are strings or differ in shape
    _fields: tuple[str, ...]

    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, at: Any, /) -> Any: ...
    def __getattr__(self, field: str, /) -> Any: ...  # other fields that the user named
    def _asdict(self) -> dict[str, Any]: ...
    def show(self, images: int = ..., columns: int | None = ..., **options: Any) -> Any: ...  # does the same as stoker.view(batch)
