# SPDX-License-Identifier: Apache-2.0
"""Reads samples of Datasets that Stoker knows, with a placeholder for each image.

A reader returns the same sample as dataset[index], but with a Placeholder for the transformed image. The rest of the sample comes from the same Python as in
the Dataset, which indexes its lists. The target_transform is called later (LateTarget).
"""

from __future__ import annotations

import bisect
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

from stoker.dataloader._placeholder import (
    DECODED,
    LateTarget,
    NeedsPython,
    Placeholder,
    Reader,
    readable,
    same_attributes,
    same_objects,
    shallow_copy,
)
from stoker.dataloader._reasons import InPython
from stoker.dataloader._user import UserReader, frozen_target
from stoker.loader.sources._known import _IN_MEMORY, _LISTING_FILES, _default_loader, _is, _same_transform

_MOST_IN_PYTHON = 0.02  # share of a data set's files that Pillow may read on the loop's thread


class _TorchvisionReader(Reader):
    def __init__(self, dataset: Any) -> None:
        self._dataset, self._attributes = dataset, dict(vars(dataset))
        self.transform, function = dataset.transform, dataset.target_transform
        self.target_transforms, self.python = ([function], "the target_transform") if function is not None else ([], "")
        self._target_transform = function

    def _target(self, target: Any) -> Any:
        return target if self._target_transform is None else LateTarget(self._target_transform, target)

    def keep_copies(self) -> None:
        if self._target_transform is not None:
            self._target_transform = frozen_target(self._target_transform, self._dataset)

    def unchanged(self) -> bool:
        return same_attributes(self._dataset, self._attributes)


class FilesReader(_TorchvisionReader):
    """Reads samples (image, target) of a torchvision data set that lists files."""

    def __init__(self, dataset: Any, samples: Sequence[Any]) -> None:
        super().__init__(dataset)
        self._samples = samples
        self.summary = f"{len(samples)} files of {type(dataset).__name__}"

    def sample(self, index: Any) -> tuple[Any, list[Placeholder]]:
        path, target = self._samples[index]
        path = str(path)
        if not readable(path):
            raise NeedsPython
        image = Placeholder(path)
        return (image, self._target(target)), [image]

    def keep_copies(self) -> None:
        super().keep_copies()
        self._samples = shallow_copy(self._samples)

    def entry(self, index: Any) -> tuple[Any, ...]:
        return (self._samples[index],) if isinstance(self._samples, (list, tuple)) else ()


class ArrayReader(_TorchvisionReader):
    """Reads samples (image, target) of a torchvision data set that has its images in one array."""

    files = False

    def __init__(self, dataset: Any, images: Any, labels: Any, target_of: Callable[[Any], Any]) -> None:
        super().__init__(dataset)
        self._images, self._labels, self._target_of = images, labels, target_of
        self.channels = images.shape[-1]
        self.summary = f"{len(images)} images of {type(dataset).__name__}"

    def sample(self, index: Any) -> tuple[Any, list[Placeholder]]:
        image, target = self._images[index], self._target_of(self._labels[index])
        undone = Placeholder(image)
        return (undone, self._target(target)), [undone]

    def keep_copies(self) -> None:
        super().keep_copies()
        self._labels = shallow_copy(self._labels)

    def entry(self, index: Any) -> tuple[Any, ...]:
        comparable = self._target_of is int or isinstance(self._labels, (list, tuple))
        return (self._target_of(self._labels[index]),) if comparable else ()


class SubsetReader(Reader):
    def __init__(self, whole: Reader, subset: Any) -> None:
        indices = subset.indices
        self._whole, self._indices = whole, indices
        self._subset, self._attributes = subset, dict(vars(subset))
        self.transform, self.files, self.channels, self.python = whole.transform, whole.files, whole.channels, whole.python
        self.slow, self.target_transforms = whole.slow, whole.target_transforms
        self.summary = f"{len(indices)} of {whole.summary}"

    def sample(self, index: Any) -> tuple[Any, list[Placeholder]]:
        return self._whole.sample(self._indices[index])

    def forget(self) -> None:
        self._whole.forget()

    def keep_copies(self) -> None:
        self._whole.keep_copies()
        self._indices = shallow_copy(self._indices)

    def unchanged(self) -> bool:
        return same_attributes(self._subset, self._attributes) and self._whole.unchanged()

    def entry(self, index: Any) -> tuple[Any, ...]:
        of_whole = self._indices[index]
        try:
            number = operator.index(of_whole)  # an array or a tensor makes a new object each time
        except TypeError:  # the user's Dataset takes other keys than numbers
            number = of_whole
        return (number, *self._whole.entry(of_whole))


class ConcatReader(Reader):
    def __init__(self, parts: list[Reader], concat: Any) -> None:
        self._parts, self._ends = parts, concat.cumulative_sizes
        self._concat, self._attributes, self._datasets = concat, dict(vars(concat)), list(concat.datasets)
        first = parts[0]
        self.transform, self.files, self.channels = first.transform, first.files, first.channels
        self.python = next((part.python for part in parts if part.python), "")
        self.slow = any(part.slow for part in parts)
        self.target_transforms = [function for part in parts for function in part.target_transforms]
        self.summary = " and ".join(part.summary for part in parts)

    def sample(self, index: Any) -> tuple[Any, list[Placeholder]]:
        part, index = self._find(index)
        return part.sample(index)

    def _find(self, index: Any) -> tuple[Reader, Any]:
        """Returns the part that has a sample, and the sample's index in it."""
        if index < 0:
            if -index > self._ends[-1]:
                raise ValueError("absolute value of index should not exceed dataset length")
            index += self._ends[-1]
        part = bisect.bisect_right(self._ends, index)
        return self._parts[part], index if part == 0 else index - self._ends[part - 1]

    def forget(self) -> None:
        for part in self._parts:
            part.forget()

    def keep_copies(self) -> None:
        for part in self._parts:
            part.keep_copies()

    def unchanged(self) -> bool:
        own = same_attributes(self._concat, self._attributes) and same_objects(self._concat.datasets, self._datasets)
        return own and all(part.unchanged() for part in self._parts)

    def entry(self, index: Any) -> tuple[Any, ...]:
        part, index = self._find(index)
        return part.entry(index)


def reader(dataset: Any) -> Reader:
    """Returns the Reader of a torchvision or user's Dataset, or of Subsets and ConcatDatasets with such parts. Raises InPython for all others."""
    if _is(dataset, "torch.utils.data.dataset", "Subset"):
        return SubsetReader(reader(dataset.dataset), dataset)
    if _is(dataset, "torch.utils.data.dataset", "ConcatDataset"):
        parts = [reader(part) for part in dataset.datasets]
        if any(
            (part.files, part.channels) != (parts[0].files, parts[0].channels) or not _same_transform(part.transform, parts[0].transform)
            for part in parts
        ):
            raise InPython("the parts of the ConcatDataset have different transforms")
        return ConcatReader(parts, dataset)
    if any(kind.__module__.startswith("torchvision.datasets.") for kind in type(dataset).__mro__):
        found = _of_torchvision(dataset)
        if found is not None:
            return found
    return UserReader(dataset, reader)


def _of_torchvision(dataset: Any) -> Reader | None:
    if _is(dataset, "torchvision.datasets.folder", "DatasetFolder"):
        if isinstance(dataset.loader, types.FunctionType) and not _default_loader(dataset.loader):
            return UserReader(dataset, reader)
        _check_loader(dataset)
        return _of_files(dataset, dataset.samples)
    for module, name in _IN_MEMORY:
        if _is(dataset, f"torchvision.datasets.{module}", name):
            return _of_arrays(dataset, name)
    for name, (module, _, samples) in _LISTING_FILES.items():
        if _is(dataset, f"torchvision.datasets.{module}", name):
            pairs = samples(dataset)
            if not pairs:
                return None  # no samples with the chosen targets, as for OxfordIIITPet's segmentation
            _check_loader(dataset)
            return _of_files(dataset, pairs)
    return None


def _check_loader(dataset: Any) -> None:
    import torchvision

    given = getattr(dataset, "loader", None)
    if not _default_loader(given):
        raise InPython(f"the dataset reads its files with {getattr(given, '__name__', given)!r}")
    if torchvision.get_image_backend() != "PIL":
        raise InPython(f"torchvision's image backend is {torchvision.get_image_backend()}")


def _of_files(dataset: Any, samples: Sequence[Any]) -> Reader:
    others = sum(not str(path).endswith(DECODED) for path, _ in samples)
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
    labels = dataset.labels if name in ("SVHN", "STL10") else dataset.targets
    return ArrayReader(dataset, images, labels, (lambda label: label) if name == "CIFAR10" else int)


# ---- tensors ----


class Gather:
    """Makes batches of a TensorDataset or a tensor: indexes each tensor once for a whole batch. parts: the indices of the Subsets around the data set, the
    innermost Subset first."""

    def __init__(self, tensors: Sequence[Any], single: bool, summary: str) -> None:
        self._tensors, self._is_single, self.summary = tensors, single, summary
        self.parts: list[Any] = []
        self._attributes: list[tuple[Any, dict[str, Any]]] = []

    def around(self, dataset: Any) -> None:
        """Adds a Dataset whose attributes are compared by unchanged()."""
        self._attributes.append((dataset, dict(vars(dataset))))

    def keep_copies(self) -> None:
        self.parts = [shallow_copy(part) for part in self.parts]

    def unchanged(self) -> bool:
        return all(same_attributes(dataset, attributes) for dataset, attributes in self._attributes)

    def batch(self, indices: Sequence[Any]) -> Any:
        """Returns the batch of these samples. Raises NeedsPython for an empty batch, or if an index is not an int."""
        import torch

        for part in reversed(self.parts):
            indices = [part[i] for i in indices]
        if not indices or not all(type(i) is int for i in indices):
            raise NeedsPython
        chosen = torch.tensor(indices, dtype=torch.int64, device="cpu")
        made = [tensor[chosen].contiguous() for tensor in self._tensors]
        return made[0] if self._is_single else made


def gather(dataset: Any) -> Gather | None:
    """Returns a Gather for a Dataset that only indexes plain tensors in host memory, or for a Subset of one; None for others."""
    import torch

    if _is(dataset, "torch.utils.data.dataset", "Subset"):
        whole = gather(dataset.dataset)
        if whole is not None:
            whole.parts.append(dataset.indices)
            whole.around(dataset)
        return whole
    if _is(dataset, "torch.utils.data.dataset", "TensorDataset"):
        tensors, single = list(dataset.tensors), False
    elif type(dataset) is torch.Tensor and dataset.ndim > 0:
        tensors, single = [dataset], True
    else:
        return None
    for tensor in tensors:
        plain = type(tensor) is torch.Tensor and tensor.layout is torch.strided and not tensor.is_nested
        if not plain or tensor.device.type != "cpu" or tensor.requires_grad or tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
            return None
    if not tensors:
        return None
    made = Gather(tensors, single, f"{type(dataset).__name__} of {len(tensors[0])}")
    if not single:
        made.around(dataset)
    return made
