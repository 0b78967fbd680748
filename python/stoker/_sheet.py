# SPDX-License-Identifier: Apache-2.0
"""Draws contact sheets: pictures of the images of a batch, for a notebook or a file."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stoker import _drawing, _files, _numbers, _png
from stoker._signatures import suggests
from stoker.errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np

GAP = 4  # pixels between cells
SHADE = 32  # gray value of the background, from 0 to 255
MOST_IMAGES = 64
CELL = 224  # most pixels of a cell's height or width; larger images are reduced


class Sheet:
    """A picture of several images in rows. A notebook shows it, save() writes it. pixels: an array (height, width, 3) of uint8."""

    def __init__(self, pixels: np.ndarray, text: str) -> None:
        self.pixels = pixels
        self._text = text

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the sheet to a PNG file. Raises InvalidArgumentError for a name with the ending of another format."""
        _files.refuse_ending(path, "a sheet", ".png")
        _files.write(path, self._repr_png_())

    def _repr_png_(self) -> bytes:
        height, width, _ = self.pixels.shape
        return _png.encode(width, height, (row.tobytes() for row in self.pixels))

    def __repr__(self) -> str:
        return f'<{self._text}; a notebook shows them, .save("sheet.png") writes them>'


@suggests
def view(
    batch: Any,
    images: int = MOST_IMAGES,
    columns: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    boxes: Any = None,
    box_format: str = "XYXY",
) -> Any:
    """Draws the first images of a batch as a contact sheet, or a Pipeline as a diagram.

    batch: a Loader's batch, the outputs of a Pipeline, a TensorList, a tensor or array of images, or a list of images. If it has several fields, the first
    one with images is drawn. A batch of stoker.structured is searched at all depths. Images are (channels, height, width), (height, width, channels) or
    (height, width), with 1, 3 or 4 channels (the fourth is dropped), on the CPU or on a GPU.
    For a Pipeline, the result is a Drawing: an SVG of its levels, chains and passes, and of the device of each.
    images: the most images to draw, at most 4096. columns: number of images in a row; None: about as many columns as rows.
    mean, std: undo `Normalize(mean, std)`. Without them, values of uint8 are shown as they are, and so are values of other types if all lie between 0 and 1
    or all between 0 and 255; other batches are stretched so that the smallest value is black and the largest white.
    boxes: the name of the field that holds the images' boxes, or the boxes themselves: an array (boxes, 4 or more) for each image, in pixels, or a
    RaggedBatch. None: the field `boxes`, if there is one. box_format: "XYXY" (left, top, right, bottom), "XYWH" or "CXCYWH".
    Returns a Sheet, or a Drawing of a Pipeline. Raises InvalidArgumentError if nothing in the batch is an image.
    """
    if hasattr(batch, "explain") and hasattr(batch, "counters"):  # a Pipeline
        return _drawing.of_pipeline(batch.explain(as_json=True), repr(batch))
    if box_format not in _CORNERS:
        raise InvalidArgumentError(f"view: box_format is one of {', '.join(_CORNERS)}, not {box_format!r}")
    if isinstance(batch, (str, os.PathLike)):
        raise InvalidArgumentError(f"view: it draws images, not their names: view(imread({os.fspath(batch)!r})) shows one file")
    images = min(_numbers.whole("view: images", images, 1, _numbers.INT64_MAX), MOST_IMAGES * 64)
    if columns is not None:
        columns = _numbers.whole("view: columns", columns, 1, _numbers.INT64_MAX)
    found = _images_of(batch, images)
    if not found and hasattr(batch, "state_dict") and hasattr(batch, "__iter__"):
        raise InvalidArgumentError(
            f"view: a {type(batch).__name__} gives batches: view(next(iter(loader))) shows one, and Loader.show() the next images"
        )
    if not found:
        raise InvalidArgumentError(
            f"view: a {type(batch).__name__} holds no images: they have 1, 3 or 4 channels, as (channels, height, width), (height, width, channels) or "
            "(height, width)"
        )
    drawn = [_small(image) for image in _bytes_of(found, mean, std)]
    for i, rows in enumerate(_boxes_of(batch, boxes, len(drawn))):
        drawn[i] = _with_boxes(drawn[i], _CORNERS[box_format](rows), drawn[i].shape[1] / found[i].shape[1])
    columns = min(len(drawn), columns or max(1, math.ceil(math.sqrt(len(drawn)))))
    shape = found[0].shape
    text = f"{len(drawn)} {'image' if len(drawn) == 1 else 'images'} of {shape[1]}x{shape[0]}"
    if any(image.shape != shape for image in found):
        text = f"{len(drawn)} images of several sizes"
    return Sheet(_grid(drawn, columns), text)


def _images_of(batch: Any, most: int) -> list[np.ndarray]:
    """Returns at most `most` images of the batch's first field with images, as arrays (height, width, channels) or (height, width); [] if there are none."""
    for _, field in _fields_of(batch):
        arrays = _arrays_of(field, most)
        if arrays:
            return arrays
    return []


def _fields_of(batch: Any) -> Iterator[tuple[str, Any]]:
    """Yields (name, value) of each field of a batch, including the fields of nested groups. A batch that is one value is one field."""
    if hasattr(batch, "to_dictionary"):  # a batch of stoker.structured
        batch = batch.to_dictionary()
    if isinstance(batch, Mapping):
        for name, value in batch.items():
            for inner, field in _fields_of(value):
                yield inner or str(name), field
    elif isinstance(batch, tuple):
        yield from zip(getattr(batch, "_fields", [""] * len(batch)), batch, strict=True)
    else:
        yield "", batch


# For each format of boxes, a function that converts them to (left, top, right, bottom).
_CORNERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "XYXY": lambda b: b[:, :4],
    "XYWH": lambda b: _stacked(b[:, :2], b[:, :2] + b[:, 2:4]),
    "CXCYWH": lambda b: _stacked(b[:, :2] - b[:, 2:4] / 2, b[:, :2] + b[:, 2:4] / 2),
}


def _stacked(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    import numpy as np

    return np.concatenate([first, second], 1)


def _boxes_of(batch: Any, given: Any, count: int) -> list[np.ndarray]:
    """Returns an array of boxes for each of the first `count` images; [] if the batch has no boxes. given: the argument `boxes` of view. Raises
    InvalidArgumentError if it is the name of no field, or if the field or the value does not have the form of boxes."""
    if given is None or isinstance(given, str):
        found = [field for name, field in _fields_of(batch) if name == (given or "boxes")]
        if not found and given is not None:
            raise InvalidArgumentError(f"view: the batch has no field {given!r}")
        named, given = given is not None, found[0] if found else None
    else:
        named = True
    rows = None if given is None else _rows_of(given, count)
    if rows is None and named:
        raise InvalidArgumentError(
            f"view: boxes are an array (boxes, 4 or more) for each image, or a RaggedBatch of them, not {type(given).__name__}"
        )
    return rows or []


def _rows_of(boxes: Any, count: int) -> list[np.ndarray] | None:
    """Returns an array (boxes, 4 or more) for each of the first `count` images; None if the value does not hold boxes."""
    import numpy as np

    if hasattr(boxes, "as_cpu"):
        boxes = boxes.as_cpu()
        rows: list[Any] = [np.asarray(boxes[i]) for i in range(min(count, len(boxes)))]
    elif hasattr(boxes, "sample_sizes"):  # a RaggedBatch
        sizes = boxes.sample_sizes.tolist()
        rows = [_host(boxes.tensor[i]) for i in range(min(count, len(boxes)))]
        rows = [row if row is None else row[: int(size)] for row, size in zip(rows, sizes, strict=False)]
    else:
        rows = [_host(row) for row in boxes[:count]] if hasattr(boxes, "__getitem__") else []
    if not rows or any(row is None or row.dtype.kind not in "iuf" or row.ndim != 2 or row.shape[1] < 4 for row in rows):
        return None
    return [row.astype(np.float32) for row in rows]


_COLORS = ((255, 64, 64), (64, 224, 96), (80, 144, 255), (255, 200, 0), (255, 96, 255), (0, 224, 224))


def _with_boxes(image: np.ndarray, boxes: np.ndarray, scale: float) -> np.ndarray:
    """Returns a copy of the image on which the outlines of boxes are drawn. Boxes may reach out of the image. scale: factor from the pixels in which the boxes
    are given to those of the image."""
    import numpy as np

    image = image.copy()
    height, width = image.shape[:2]
    for i, box in enumerate(boxes[np.isfinite(boxes).all(1)] * scale):
        left, top = (int(v) for v in np.clip(np.floor(box[:2]), -1, (width, height)))
        right, bottom = (int(v) for v in np.clip(np.ceil(box[2:]) - 1, -1, (width, height)))
        color = _COLORS[i % len(_COLORS)]
        for x in (left, right):
            if 0 <= x < width and top <= bottom:
                image[max(top, 0) : bottom + 1, x] = color
        for y in (top, bottom):
            if 0 <= y < height and left <= right:
                image[y, max(left, 0) : right + 1] = color
    return image


def _arrays_of(field: Any, most: int) -> list[np.ndarray]:
    """Returns at most `most` images of one field; [] if the field does not hold images."""
    import numpy as np

    items: list[np.ndarray | None]
    if hasattr(field, "as_cpu") and hasattr(field, "as_tensor"):  # a TensorList
        field = field.as_cpu()
        items = [np.asarray(field[i]) for i in range(min(most, len(field)))]
    elif isinstance(field, list):
        items = [_host(item) for item in field[:most]]
    else:
        whole = _host(field)
        if whole is None or whole.ndim < 2:
            return []
        items = [whole] if whole.ndim == 2 or (whole.ndim == 3 and _channels_at(whole.shape) is not None) else list(whole[:most])
    images = []
    for item in items:
        image = None if item is None else _upright(item)
        if image is None:
            return []
        images.append(image)
    return images


def _host(value: Any) -> np.ndarray | None:
    """Returns a tensor, array or PIL image as an array; None for anything else."""
    import numpy as np

    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        return np.asarray(value.float() if value.dtype == torch.bfloat16 else value)
    pil = sys.modules.get("PIL.Image")
    if hasattr(value, "as_cpu"):  # a tensor of a TensorList
        return np.asarray(value.as_cpu())
    if isinstance(value, np.ndarray) or (pil is not None and isinstance(value, pil.Image)):
        return np.asarray(value)
    return None


def _channels_at(shape: tuple[int, ...]) -> int | None:
    """Returns the axis of the channels in an array of three dimensions: 0 if possible, else 2; None if neither has 1, 3 or 4 entries or the array is empty."""
    for axis in (0, 2):
        if shape[axis] in (1, 3, 4) and min(shape) > 0:
            return axis
    return None


def _upright(item: np.ndarray) -> np.ndarray | None:
    """Returns an image as (height, width, channels) or (height, width); None if the array is not an image."""
    if item.dtype.kind not in "biuf" or item.size == 0:
        return None
    if item.ndim == 2:
        return item
    axis = _channels_at(item.shape) if item.ndim == 3 else None
    if axis is None:
        return None
    return item.transpose(1, 2, 0) if axis == 0 else item


def _bytes_of(images: list[np.ndarray], mean: Sequence[float] | None, std: Sequence[float] | None) -> list[np.ndarray]:
    """Returns the images as uint8 (height, width, 3). mean and std: the arguments of `view`, which also describes how floats are scaled."""
    import numpy as np

    if images[0].dtype == np.bool_:
        images = [image.astype(np.uint8) * 255 for image in images]
    if images[0].dtype != np.uint8 or mean is not None or std is not None:
        images = [image.astype(np.float32) for image in images]
        if mean is not None or std is not None:
            for name, given in (("mean", mean), ("std", std)):
                if given is not None and not (np.isfinite(given).all() and (name == "mean" or np.greater(given, 0).all())):
                    raise InvalidArgumentError(f"view: {name} is {given!r}; Normalize takes finite numbers, and a std above 0")
            scale, shift = (np.asarray(value, np.float32) for value in (1 if std is None else std, 0 if mean is None else mean))
            images = [(image * scale + shift) * 255 for image in images]
        else:
            finite = np.concatenate([image[np.isfinite(image)].ravel() for image in images])
            low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
            if low >= -1e-3 and high <= 1 + 1e-3:
                low, high = 0.0, 1.0
            elif low >= 0 and high <= 255.5:
                low, high = 0.0, 255.0
            images = [(image - low) * (255 / max(high - low, 1e-12)) for image in images]
        images = [np.nan_to_num(np.clip(image + 0.5, 0, 255)).astype(np.uint8) for image in images]
    colored = []
    for image in images:
        image = image[:, :, None] if image.ndim == 2 else image[:, :, :3]
        colored.append(np.broadcast_to(image, (*image.shape[:2], 3)))
    return colored


def _small(image: np.ndarray) -> np.ndarray:
    """Returns the image, reduced by averaging blocks of pixels if it does not fit into a cell."""
    import numpy as np

    step = -(-max(image.shape[:2]) // CELL)
    if step == 1:
        return image
    height, width = (max(1, size // step) for size in image.shape[:2])
    step_y, step_x = min(step, image.shape[0]), min(step, image.shape[1])
    blocks = image[: height * step_y, : width * step_x].reshape(height, step_y, width, step_x, 3)
    return (blocks.mean((1, 3)) + 0.5).astype(np.uint8)


def _grid(images: list[np.ndarray], columns: int) -> np.ndarray:
    import numpy as np

    height, width = (max(image.shape[axis] for image in images) for axis in (0, 1))
    rows = -(-len(images) // columns)
    sheet = np.full((rows * (height + GAP) + GAP, columns * (width + GAP) + GAP, 3), SHADE, np.uint8)
    for i, image in enumerate(images):
        y, x = GAP + i // columns * (height + GAP), GAP + i % columns * (width + GAP)
        sheet[y : y + image.shape[0], x : x + image.shape[1]] = image
    return sheet
