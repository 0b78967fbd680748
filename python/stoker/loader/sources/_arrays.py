# SPDX-License-Identifier: Apache-2.0
"""Images and targets in arrays, (X, y), and files that contain such arrays (CIFAR's pickles, MNIST's idx files)."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker import _files
from stoker._arrays import refuse_masked
from stoker.errors import InvalidArgumentError
from stoker.loader import _layout, _targets
from stoker.loader._pixels import on_cores

_LARGEST = 1 << 34  # the most bytes that are decompressed from one file
# The folders that CIFAR's archives create, of pickles and of binary files.
_CIFAR = {"CIFAR-10": ("cifar-10-batches-py", "cifar-10-batches-bin"), "CIFAR-100": ("cifar-100-python", "cifar-100-binary")}


@dataclass
class Arrays:
    """Images and targets in memory."""

    images: Any  # uint8, (N, H, W, C) or (N, C, H, W), as `layout` says
    targets: Any  # an array or a list of N elements, or None
    transform: Any = None  # the data set's own transform, or None
    layout: str = "HWC"  # the order of the dimensions after N: "HWC" or "CHW"
    classes: Sequence[str] = ()  # the names of the classes, if the files have them

    @classmethod
    def of(cls, images: Any, targets: Any, transform: Any = None, layout: str | None = None) -> Arrays:
        """Makes Arrays from the user's arrays or tensors. images: uint8, of shape (N, H, W), or with four dimensions in `layout`. layout: "HWC" or "CHW"; None:
        the shape of the images decides. targets: one for each image, or None. Raises InvalidArgumentError for other arrays."""
        import numpy as np

        tensor = hasattr(images, "permute")
        _refuse_type(images, tensor)
        refuse_masked(images)
        images = np.asarray(images)
        if images.ndim not in (3, 4):
            raise InvalidArgumentError(
                f"images in an array are (N, H, W, C), (N, C, H, W) or (N, H, W); these have the shape {images.shape}"
            )
        if 0 in images.shape[1:]:
            raise InvalidArgumentError(f"images of the shape {images.shape} have no pixels")
        if images.ndim == 3 and _layout.looks_like_one_image(images.shape):
            raise InvalidArgumentError(
                f"images of the shape {images.shape} look like one image: give x[None] for that, and x[..., None] for {len(images)} gray images"
            )
        order = "HWC" if images.ndim == 3 else layout or _layout.shown_layout(images.shape[1:], tensor)
        if order is None:
            looks = "look like NCHW" if _layout.looks_like_chw(images.shape[1:]) else "may be NCHW as well as NHWC"
            raise InvalidArgumentError(f"images of the shape {images.shape} {looks}: {_layout.advice(images.shape[1:])}")
        images = images[..., None] if images.ndim == 3 else images
        if len(images) == 0:
            raise InvalidArgumentError("the array holds no images")
        targets = None if targets is None else _targets_of(targets, len(images))
        images, order = _layout.in_memory_order(images, order)
        return cls(images, targets, transform, order)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, i: int) -> tuple[Any, ...]:
        return (self.images[i],) if self.targets is None else (self.images[i], self.targets[i])

    def take(self, indices: Sequence[int]) -> tuple[Any, ...]:
        """Returns (images, targets) of the samples with these indices, or (images,) if there are no targets."""
        if self.targets is None:
            return (self.images[indices],)
        return self.images[indices], [self.targets[i] for i in indices] if isinstance(self.targets, list) else self.targets[indices]

    def part(self, indices: Sequence[int]) -> Arrays:
        images, *targets = self.take(list(indices))
        return Arrays(images, targets[0] if targets else None, self.transform, self.layout)

    def joins(self, other: Arrays) -> bool:
        return bool(self.images.shape[1:] == other._in_layout(self.layout).shape[1:] and type(self.targets) is type(other.targets))

    def _in_layout(self, layout: str) -> Any:
        return self.images if self.layout == layout else _layout.transposed(self.images, self.layout)

    def joined(self, others: Sequence[Arrays]) -> Arrays:
        import numpy as np

        every = [self, *others]
        targets = self.targets
        if isinstance(targets, list):
            targets = [t for a in every for t in a.targets]
        elif targets is not None:
            targets = np.concatenate([a.targets for a in every])
        return Arrays(np.concatenate([a._in_layout(self.layout) for a in every]), targets, self.transform, self.layout)


def _targets_of(targets: Any, count: int) -> Any:
    """Returns the targets as a list of str, or as an array of int64 or float32. Raises InvalidArgumentError unless they are `count` strings, numbers, or
    arrays of numbers of one shape."""
    import numpy as np

    if not hasattr(targets, "__len__"):
        raise InvalidArgumentError(
            f"targets are an array, a tensor or a list, one for each of {count} images, not {type(targets).__name__}"
        )
    if len(targets) != count:
        raise InvalidArgumentError(f"Loader: (X, y) has {count} images and {len(targets)} targets: give one target for each image")
    refuse_masked(targets)
    if hasattr(targets, "detach"):
        targets = on_cores(targets)
    if all(isinstance(t, str) for t in targets):
        return [str(t) for t in targets]
    try:
        array = np.asarray(targets if hasattr(targets, "dtype") else [_targets.known(t) for t in targets])
    except ValueError:
        raise InvalidArgumentError("targets differ in shape: give arrays of one shape, or a Dataset") from None
    if array.dtype.kind not in "iufb" and not any(_targets.beyond_int64(t) for t in targets):
        raise InvalidArgumentError(f"targets in an array are numbers or strings, the same for all images, not {array.dtype}")
    return _targets.in_common_type(array, targets, "targets in an array")


def _refuse_type(images: Any, tensor: bool) -> None:
    """Raises InvalidArgumentError for images that are not uint8. Call before the conversion to NumPy, which lacks some of torch's types."""
    name = getattr(images.dtype, "name", str(images.dtype)).removeprefix("torch.")
    if name == "uint8":
        return
    as_bytes = ".to(torch.uint8)" if tensor else ".astype(np.uint8)"
    pair = "X, y" if tensor else "torch.from_numpy(X), torch.as_tensor(y)"
    ways = {
        "float": f"give (X * 255).round(){as_bytes} of values from 0 to 1; or TensorDataset({pair}) of torch.utils.data, whose floats stay as they are",
        "bool": f"give X{as_bytes} * 255",
        "int": f"give X{as_bytes} where all of them are 0 to 255",
        "complex": "give real numbers from 0 to 255",
    }
    advice = next((w for part, w in ways.items() if part in name), "give numbers from 0 to 255")
    raise InvalidArgumentError(f"images in an array are uint8, and these are {name}: {advice}")


# ---- files that hold arrays ----


def _load_pickle(path: Path) -> Any:
    """Loads a pickle of arrays in plain containers. Raises InvalidArgumentError if it is damaged, or names other classes or functions."""
    import pickle

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            if (module.replace("numpy._core", "numpy.core"), name) in (
                ("numpy.core.multiarray", "_reconstruct"),
                ("numpy.core.multiarray", "scalar"),
                ("numpy.core.numeric", "_frombuffer"),  # in pickles of arrays from protocol 5 on, which Python 3.14 writes by default
                ("numpy", "ndarray"),
                ("numpy", "dtype"),
                ("_codecs", "encode"),
            ):
                return super().find_class(module, name)
            raise pickle.UnpicklingError(f"it names {module}.{name}, and a file of CIFAR holds only arrays")

    try:
        with _files.open_binary(path) as f:
            return Unpickler(f, encoding="latin1").load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, IndexError, KeyError, ImportError) as e:
        raise InvalidArgumentError(f"{path}: no pickle of CIFAR: {e}") from None


def _unpickle(path: Path) -> dict[Any, Any]:
    loaded = _load_pickle(path)
    if not isinstance(loaded, dict) or "data" not in loaded:
        raise InvalidArgumentError(f"{path}: no pickle of CIFAR: it has no entry 'data'")
    return loaded


def _of_cifar(paths: Sequence[Path]) -> Arrays:
    import numpy as np

    images: list[Any] = []
    labels: list[Any] = []
    for path in paths:
        loaded = _unpickle(path)
        data = loaded["data"]
        if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != 3072:
            raise InvalidArgumentError(f"{path}: no pickle of CIFAR: its data is not uint8 of the shape (N, 3072)")
        own = loaded.get("labels", loaded.get("fine_labels"))
        own = own.tolist() if isinstance(own, np.ndarray) else own
        if not isinstance(own, (list, tuple)) or len(own) != len(data):
            held = f"{len(own)} labels" if isinstance(own, (list, tuple)) else "no list of labels"
            raise InvalidArgumentError(f"{path}: no pickle of CIFAR: it holds {len(data)} images and {held}")
        images.append(data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        labels += own
    arrays = Arrays.of(np.ascontiguousarray(np.concatenate(images)), labels, layout="HWC")
    arrays.classes = _names_of_cifar(paths[0].parent, max(labels))
    return arrays


def _names_of_cifar(folder: Path, last: int) -> Sequence[str]:
    """Returns the names of the classes from the pickle of names next to CIFAR's images. Returns () if that pickle is missing or damaged, or does not name the
    label `last`."""
    for file, entry in (("batches.meta", "label_names"), ("meta", "fine_label_names")):
        try:
            loaded = _load_pickle(folder / file)
        except (OSError, InvalidArgumentError):
            continue
        names = loaded.get(entry) if isinstance(loaded, dict) else None
        if isinstance(names, (list, tuple)) and len(names) > last and all(isinstance(name, str) for name in names):
            return tuple(names)
    return ()


def _cifar_files(folder: Path, split: str) -> list[Path]:
    """Returns the paths of CIFAR's pickles of one split. They may lie in the folder, or in the subfolder that the archive creates. Returns [] if neither holds
    CIFAR. If only the other split was copied, the paths do not exist."""
    for candidate in (folder, *(folder / pickles for pickles, _ in _CIFAR.values())):
        names = [f"data_batch_{k}" for k in range(1, 6)] if split == "train" else ["test_batch"]
        if (candidate / "data_batch_1").is_file() or (candidate / "test_batch").is_file():
            return [candidate / n for n in names]
        if (candidate / "meta").is_file() and ((candidate / "train").is_file() or (candidate / "test").is_file()):
            return [candidate / split]
    return []


def _read_idx(path: Path) -> Any:
    """Returns the array in a file of MNIST's idx format: a magic number, which holds the type and the number of dimensions, then the extents, then the values.
    The file may be compressed by gzip. Raises InvalidArgumentError if the values are not bytes, and for other and damaged files."""
    import numpy as np

    raw = _files.read_bytes(path)
    if raw[:2] == b"\x1f\x8b":
        import gzip
        import zlib

        try:
            with gzip.open(io.BytesIO(raw)) as f:
                raw = f.read(_LARGEST)
        except (OSError, EOFError, zlib.error) as e:
            raise InvalidArgumentError(f"{path}: it is damaged or cut short ({e}): copy or download it again") from None
    dims = raw[3] if len(raw) > 3 else 0
    if raw[:3] != b"\0\0\x08" or not 1 <= dims <= 4 or len(raw) < 4 + 4 * dims:
        raise InvalidArgumentError(f"{path}: no idx file of bytes (starts with {raw[:4]!r})")
    shape = tuple(int.from_bytes(raw[4 + 4 * d : 8 + 4 * d], "big") for d in range(dims))
    values = np.frombuffer(raw, np.uint8, offset=4 + 4 * dims)
    if values.size != int(np.prod(shape, dtype=np.int64)):
        raise InvalidArgumentError(f"{path}: it says that it holds {' x '.join(map(str, shape))} values, and holds {values.size}")
    return values.reshape(shape)


def _idx_files(folder: Path, split: str) -> list[Path]:
    """Returns the paths of one split's images and labels, in the folder or in a subfolder as torchvision makes it; [] if there are no idx files of images.
    Raises InvalidArgumentError if only files of this split are missing, or if there are several data sets."""
    prefix = {"train": "train", "test": "t10k"}[split]
    places = [p for p in (folder, folder / "raw", *sorted(folder.glob("*/raw"))) if any(p.glob("*-images-idx3-ubyte*"))]
    if len(places) > 1:
        raise InvalidArgumentError(
            f"Loader: {folder} holds several data sets ({', '.join(p.parent.name for p in places)}): give the folder of one"
        )
    files: list[Path] = []
    for part in ("images-idx3", "labels-idx1") if places else ():
        path = next((p for end in ("-ubyte", "-ubyte.gz") if (p := places[0] / f"{prefix}-{part}{end}").is_file()), None)
        if path is None:
            raise InvalidArgumentError(f"Loader: {places[0]} has no {prefix}-{part}-ubyte")
        files.append(path)
    return files


def _refuse_several(folder: Path) -> None:
    """Raises InvalidArgumentError if the folder, as torchvision's `root` may, has the subfolders of several data sets: no argument would choose one of them."""
    found = {kind: n for kind, names in _CIFAR.items() for n in names if (folder / n).is_dir()}
    found |= {p.parent.name: p.parent.name for p in sorted(folder.glob("*/raw")) if any(p.glob("*-images-idx3-ubyte*"))}
    if len(found) > 1:
        raise InvalidArgumentError(f"Loader: {folder} holds several data sets ({', '.join(found.values())}): give the folder of one")


def in_folder(folder: Path, split: str) -> Arrays | None:
    """Reads a folder of CIFAR's pickles or MNIST's idx files. Returns None for other folders, and if `split` is neither "train" nor "test". Raises an error if
    a file of the split is missing, or if there are several data sets."""
    if split not in ("train", "test"):
        return None
    if not os.path.isdir(folder) or not os.access(folder, os.R_OK | os.X_OK):
        return None  # the reader of files says why the folder cannot be read
    cifar = _cifar_files(folder, split)
    if not cifar or cifar[0].parent != folder:
        _refuse_several(folder)
    if cifar:
        return _of_cifar(cifar)
    idx = _idx_files(folder, split)
    return Arrays.of(_read_idx(idx[0]), _read_idx(idx[1])) if idx else None
