# SPDX-License-Identifier: Apache-2.0
"""Samples of Datasets that Stoker knows, with a place in each of them that the compiled image will take.

A reader gives for an index what dataset[index] gives, except that an Undone stands in place of the transformed image. Everything else of the sample is made
by the same Python as in the Dataset: its lists are indexed and its target_transform is called.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from typing import Any

from stoker.dataloader._reasons import InPython
from stoker.loader._known import _HELD, _LISTED, _alike, _default_loader, _is

# Files of other formats are read by Pillow: Stoker's pixels may differ from Pillow's there, or it has no decoder.
_DECODED = (".jpg", ".jpeg", ".png", ".JPG", ".JPEG", ".PNG", ".jpe", ".jfif")
_MOST_IN_PYTHON = 0.02  # share of a data set's files that Pillow may read on the loop's thread


class Undone:
    """The place of an image that is compiled. source: the file's path, or the image as an array (H, W, C) of uint8."""

    __slots__ = ("number", "source")

    def __init__(self, source: Any) -> None:
        self.source = source
        self.number = -1  # among the images of the batch, once the batch is complete


class Left(Exception):
    """The Dataset's own Python has to make this sample."""


class Reader:
    """sample(index) gives dataset[index] with an Undone in it, and all that are in it. transform: of all images. files: whether sources are paths; otherwise
    they are arrays with this number of `channels`. told: describes the data set in explain()."""

    transform: Any
    files = True
    channels = 3
    told = ""
    python = ""  # names the user's Python that runs for each sample

    def sample(self, index: Any) -> tuple[Any, list[Undone]]:
        raise NotImplementedError


class FilesReader(Reader):
    """A torchvision data set that lists its files: (image, target)."""

    def __init__(self, dataset: Any, samples: Sequence[Any]) -> None:
        self._samples = samples
        self.transform, self._target_transform = dataset.transform, dataset.target_transform
        self.told = f"{len(samples)} files of {type(dataset).__name__}"
        self.python = "the target_transform" if self._target_transform is not None else ""

    def sample(self, index: Any) -> tuple[Any, list[Undone]]:
        path, target = self._samples[index]
        path = str(path)
        if not path.endswith(_DECODED) or _deep(path):
            raise Left
        if self._target_transform is not None:
            target = self._target_transform(target)
        image = Undone(path)
        return (image, target), [image]


class HeldReader(Reader):
    """A torchvision data set that holds its images in one array: (image, target)."""

    files = False

    def __init__(self, dataset: Any, images: Any, target_of: Callable[[Any], Any]) -> None:
        self._images, self._target_of = images, target_of
        self.channels = images.shape[-1]
        self.transform, self._target_transform = dataset.transform, dataset.target_transform
        self.told = f"{len(images)} images of {type(dataset).__name__}"
        self.python = "the target_transform" if self._target_transform is not None else ""

    def sample(self, index: Any) -> tuple[Any, list[Undone]]:
        image, target = self._images[index], self._target_of(index)
        if self._target_transform is not None:
            target = self._target_transform(target)
        undone = Undone(image)
        return (undone, target), [undone]


class PartReader(Reader):
    """A Subset."""

    def __init__(self, whole: Reader, indices: Any) -> None:
        self._whole, self._indices = whole, indices
        self.transform, self.files, self.channels, self.python = whole.transform, whole.files, whole.channels, whole.python
        self.told = f"{len(indices)} of {whole.told}"

    def sample(self, index: Any) -> tuple[Any, list[Undone]]:
        return self._whole.sample(self._indices[index])


class SumReader(Reader):
    """A ConcatDataset."""

    def __init__(self, parts: list[Reader], ends: list[int]) -> None:
        self._parts, self._ends = parts, ends
        first = parts[0]
        self.transform, self.files, self.channels = first.transform, first.files, first.channels
        self.python = next((part.python for part in parts if part.python), "")
        self.told = " and ".join(part.told for part in parts)

    def sample(self, index: Any) -> tuple[Any, list[Undone]]:
        if index < 0:
            if -index > self._ends[-1]:
                raise ValueError("absolute value of index should not exceed dataset length")
            index += self._ends[-1]
        part = bisect.bisect_right(self._ends, index)
        return self._parts[part].sample(index if part == 0 else index - self._ends[part - 1])


def reader(dataset: Any) -> Reader:
    """Returns the reader of a Dataset whose code is known. Raises InPython for others."""
    if _is(dataset, "torch.utils.data.dataset", "Subset"):
        return PartReader(reader(dataset.dataset), dataset.indices)
    if _is(dataset, "torch.utils.data.dataset", "ConcatDataset"):
        parts = [reader(part) for part in dataset.datasets]
        if any(
            (part.files, part.channels) != (parts[0].files, parts[0].channels) or not _alike(part.transform, parts[0].transform)
            for part in parts
        ):
            raise InPython("the parts of the ConcatDataset have different transforms")
        return SumReader(parts, dataset.cumulative_sizes)
    if any(kind.__module__.startswith("torchvision.datasets.") for kind in type(dataset).__mro__):
        found = _of_torchvision(dataset)
        if found is not None:
            return found
    raise InPython(f"{type(dataset).__name__}.__getitem__ is Python")


def _of_torchvision(dataset: Any) -> Reader | None:
    if _is(dataset, "torchvision.datasets.folder", "DatasetFolder"):
        _check_loader(dataset)
        return _of_files(dataset, dataset.samples)
    for (module, name), read in _HELD.items():
        if _is(dataset, f"torchvision.datasets.{module}", name):
            return _of_arrays(dataset, name) if read is not None else None
    for name, (module, samples) in _LISTED.items():
        if _is(dataset, f"torchvision.datasets.{module}", name):
            _check_loader(dataset)
            return _of_files(dataset, list(samples(dataset)))
    return None


def _check_loader(dataset: Any) -> None:
    import torchvision

    given = getattr(dataset, "loader", None)
    if not _default_loader(given):
        raise InPython(f"the dataset reads its files with {getattr(given, '__name__', given)!r}")
    if torchvision.get_image_backend() != "PIL":
        raise InPython(f"torchvision's image backend is {torchvision.get_image_backend()}")


def _of_files(dataset: Any, samples: Sequence[Any]) -> Reader:
    others = sum(not str(path).endswith(_DECODED) for path, _ in samples)
    if others > _MOST_IN_PYTHON * len(samples):
        raise InPython(f"{others} of {len(samples)} files are neither JPEG nor PNG")
    return FilesReader(dataset, samples)


def _of_arrays(dataset: Any, name: str) -> Reader | None:
    import numpy as np

    data = dataset.data
    images = data.numpy() if hasattr(data, "numpy") else np.asarray(data)
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        return None
    if name in ("SVHN", "STL10"):
        images = images.transpose(0, 2, 3, 1)
    elif images.ndim == 3:
        images = images[..., None]
    if name == "STL10" and dataset.labels is None:
        return None
    held = dataset.labels if name in ("SVHN", "STL10") else dataset.targets
    return HeldReader(dataset, images, held.__getitem__ if name == "CIFAR10" else lambda index: int(held[index]))


def _deep(path: str) -> bool:
    """Whether a PNG file has 16 bits a channel, which Pillow cuts to 8 and Stoker rounds."""
    if not path.endswith((".png", ".PNG")):
        return False
    try:
        with open(path, "rb") as f:
            head = f.read(25)
    except OSError:
        return True  # the Dataset's own Python raises the error
    return head[:4] != b"\x89PNG" or head[24:25] == b"\x10"


# ---- tensors ----


class Gather:
    """A TensorDataset, or a tensor by itself: a batch is one indexing of each tensor. parts: the indices of Subsets around it, the innermost first."""

    def __init__(self, tensors: Sequence[Any], alone: bool, told: str) -> None:
        self._tensors, self._alone, self.told = tensors, alone, told
        self.parts: list[Any] = []

    def batch(self, indices: Sequence[Any]) -> Any:
        """Returns the batch. Raises Left if there is no index, or if one is not an int."""
        import torch

        for part in reversed(self.parts):
            indices = [part[i] for i in indices]
        if not indices or not all(type(i) is int for i in indices):
            raise Left
        chosen = torch.tensor(indices, dtype=torch.int64)
        made = [tensor[chosen].contiguous() for tensor in self._tensors]
        return made[0] if self._alone else made


def gather(dataset: Any) -> Gather | None:
    """Returns a Gather for a Dataset that only indexes tensors, None for others."""
    import torch

    if _is(dataset, "torch.utils.data.dataset", "Subset"):
        whole = gather(dataset.dataset)
        if whole is not None:
            whole.parts.append(dataset.indices)
        return whole
    if _is(dataset, "torch.utils.data.dataset", "TensorDataset"):
        tensors, alone = list(dataset.tensors), False
    elif type(dataset) is torch.Tensor and dataset.ndim > 0:
        tensors, alone = [dataset], True
    else:
        return None
    for tensor in tensors:
        plain = type(tensor) is torch.Tensor and tensor.layout is torch.strided and not tensor.is_nested
        if not plain or tensor.device.type != "cpu" or tensor.requires_grad or tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
            return None
    return Gather(tensors, alone, f"{type(dataset).__name__} of {len(tensors[0])}") if tensors else None
