# SPDX-License-Identifier: Apache-2.0
"""Transforms that depend on boxes give torchvision's windows, boxes, labels and masks; images of different sizes in one batch."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from stoker import Loader
from stoker import transforms as T
from stoker.errors import InvalidArgumentError, StokerError
from stoker.loader.lower import _boxes
from support import import_torchvision

torch = pytest.importorskip("torch")
torchvision = import_torchvision()
from torchvision import tv_tensors  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

FORMATS = ["XYXY", "XYWH", "CXCYWH"]


class Scenes:
    """Pictures whose pixels store their own coordinates, with 0 to 6 boxes, and labels and a mask for each box."""

    def __init__(self, format: str = "XYXY", count: int = 24, dtype: Any = torch.float32) -> None:
        self.format, self.count = format, count
        rng = np.random.default_rng(3)
        self.scenes = []
        for i in range(count):
            height, width = (int(n) for n in rng.integers(40, 120, 2))
            picture = np.stack([*np.mgrid[:height, :width], np.full((height, width), i)], -1).astype(np.uint8)
            low = rng.random((i % 7, 2)) * 0.7
            edges = np.concatenate([low, low + 0.05 + rng.random((i % 7, 2)) * 0.25], 1)
            boxes = torch.tensor(edges * np.array([width, height, width, height]))
            boxes = v2.functional.convert_bounding_box_format(
                boxes.to(dtype), tv_tensors.BoundingBoxFormat.XYXY, tv_tensors.BoundingBoxFormat[format]
            )
            masks = torch.zeros((i % 7, height, width), dtype=torch.uint8)
            for k in range(i % 7):
                masks[k, k::7] = k + 1
            self.scenes.append((torch.from_numpy(picture).permute(2, 0, 1), boxes, torch.arange(i % 7), masks))

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> Any:
        image, boxes, labels, masks = self.scenes[i]
        return image, {"boxes": boxes, "labels": labels, "masks": masks}

    def of_torchvision(self, i: int) -> Any:
        image, boxes, labels, masks = self.scenes[i]
        size = tuple(image.shape[1:])
        return tv_tensors.Image(image), {
            "boxes": tv_tensors.BoundingBoxes(boxes, format=self.format, canvas_size=size),
            "labels": labels,
            "masks": tv_tensors.Mask(masks),
        }

    def loader(self, steps: list[Any], **more: Any) -> Loader:
        fields = {"image": list, "boxes": ("BoundingBoxes", self.format), "labels": list, "masks": "Mask"}
        return Loader(self, 8, dtype=torch.uint8, transforms=steps, fields=fields, **more)


def _window(image: torch.Tensor) -> tuple[int, int, int, int]:
    """Returns (top, left, height, width) of the crop `image` in its scene's picture. Channels 0 and 1 of a pixel are its row and column there."""
    return int(image[0, 0, 0]), int(image[1, 0, 0]), image.shape[1], image.shape[2]


def _same(got: Any, want: Any) -> None:
    assert torch.equal(got[0], want[0].as_subclass(torch.Tensor))
    torch.testing.assert_close(got[1], want[1]["boxes"].as_subclass(torch.Tensor), atol=1e-4, rtol=1e-5)
    assert torch.equal(got[2], want[1]["labels"])
    assert torch.equal(got[3], want[1]["masks"].as_subclass(torch.Tensor))


@pytest.mark.essential
@pytest.mark.parametrize("sanitized", [False, True])
@pytest.mark.parametrize("format", FORMATS)
def test_iou_crop_is_that_of_torchvision(format: str, sanitized: bool) -> None:
    """Picture, boxes, labels and masks equal torchvision's crop of the window that was drawn."""
    scenes = Scenes(format)
    steps = [T.RandomIoUCrop(), *([T.SanitizeBoundingBoxes()] if sanitized else [])]
    i = cut = 0
    for batch in scenes.loader(steps):
        for got in zip(*batch, strict=True):
            image, target = scenes.of_torchvision(i)
            top, left, height, width = _window(got[0])
            theirs = v2.RandomIoUCrop()
            if (height, width) != tuple(image.shape[1:]):
                cut += 1
                boxes = v2.functional.convert_bounding_box_format(target["boxes"], new_format=tv_tensors.BoundingBoxFormat.XYXY)
                middle = (boxes[:, :2] + boxes[:, 2:]) / 2
                inside = ((middle > torch.tensor([left, top])) & (middle < torch.tensor([left + width, top + height]))).all(1)
                assert inside.any() and 0.5 <= width / height <= 2
                params = {"top": top, "left": left, "height": height, "width": width, "is_within_crop_area": inside}
                image, target = (
                    theirs.transform(image, params),
                    {
                        **target,
                        "boxes": theirs.transform(target["boxes"], params),
                        "masks": theirs.transform(target["masks"], params),
                    },
                )
            if sanitized:
                image, target = v2.SanitizeBoundingBoxes()(image, target)
            _same(got, (image, target))
            i += 1
    assert i == len(scenes) and cut > 5


@pytest.mark.essential
def test_windows_are_those_of_torchvision_for_the_same_draws() -> None:
    scenes = Scenes()
    ours, theirs = T.RandomIoUCrop(), v2.RandomIoUCrop()
    compared = 0
    for seed in range(6):
        for i in range(1, len(scenes)):
            if i % 7 == 0:
                continue
            image, target = scenes.of_torchvision(i)
            torch.manual_seed(seed)
            want = theirs.make_params([image, target["boxes"]])
            torch.manual_seed(seed)

            def trials(n: int, size: Any = image.shape[1:]) -> Any:
                """Draws in torchvision's order: a position is drawn only for a window of an allowed aspect ratio."""
                scales, places = np.zeros((n, 2), np.float32), np.zeros((n, 2), np.float32)
                for k in range(n):
                    scales[k] = torch.rand(2).numpy()
                    if _boxes.extents_of(scales[k : k + 1], *size, ours)[1][0]:
                        places[k] = torch.rand(2).numpy()
                return scales, places

            got = _boxes.window_of(
                target["boxes"].as_subclass(torch.Tensor).numpy(),
                *image.shape[1:],
                ours,
                lambda n: int(torch.randint(low=0, high=n, size=(1,))),
                trials,
            )
            assert got == ((want["top"], want["left"], want["height"], want["width"]) if want else None)
            compared += 1
    assert compared > 100


@pytest.mark.essential
@pytest.mark.parametrize("format", FORMATS)
def test_lists_of_references(format: str) -> None:
    """In the list of transforms for SSD, RandomIoUCrop gets boxes that earlier transforms have moved. After SanitizeBoundingBoxes no box is empty."""
    scenes = Scenes(format)
    steps = [
        T.RandomPhotometricDistort(),
        T.RandomZoomOut(fill={"Image": 200, "Mask": 0}),
        T.RandomIoUCrop(),
        T.RandomHorizontalFlip(),
        T.SanitizeBoundingBoxes(),
    ]
    loader = scenes.loader(steps)
    seen = 0
    for _ in range(2):
        for batch in loader:
            for image, boxes, labels, masks in zip(*batch, strict=True):
                assert len(boxes) == len(labels) == len(masks) and masks.shape[1:] == image.shape[1:]
                edges = torch.from_numpy(_boxes.xyxy(boxes.numpy(), format))
                assert (
                    (edges >= -1e-3).all() and (edges[:, 2] <= image.shape[2] + 1e-3).all() and (edges[:, 3] <= image.shape[1] + 1e-3).all()
                )
                assert (edges[:, 2:] - edges[:, :2] >= 0.999).all()
                for label, mask in zip(labels, masks, strict=True):
                    assert set(mask.unique().tolist()) <= {0, int(label) + 1}
                seen += len(boxes)
    assert seen > 20
    first = [[b.clone() for b in batch.boxes] for batch in scenes.loader(steps, seed=5)]
    again = [[b.clone() for b in batch.boxes] for batch in scenes.loader(steps, seed=5)]
    assert all(torch.equal(a, b) for x, y in zip(first, again, strict=True) for a, b in zip(x, y, strict=True))


def _reference_crop(image: Any, target: Any, top: int, left: int, size: tuple[int, int], fill: int) -> Any:
    """Crops at a given position as FixedSizeCrop of torchvision's references does, with functions of v2."""
    height, width = image.shape[1:]
    new = min(height, size[0]), min(width, size[1])
    target = copy.copy(target)
    if new != (height, width):
        image = v2.functional.crop(image, top, left, *new)
        target["boxes"] = v2.functional.crop(target["boxes"], top, left, *new)
        target["masks"] = v2.functional.crop(target["masks"], top, left, *new)
        edges = v2.functional.convert_bounding_box_format(target["boxes"], new_format=tv_tensors.BoundingBoxFormat.XYXY)
        valid = (edges[:, 0] < edges[:, 2]) & (edges[:, 1] < edges[:, 3])
        target = {name: tv_tensors.wrap(v[valid], like=v) for name, v in target.items()}
    padding = [0, 0, size[1] - new[1], size[0] - new[0]]
    pads = {"image": fill, "masks": 0}
    image = v2.functional.pad(image, padding, fill=pads["image"])
    return image, {**target, "boxes": v2.functional.pad(target["boxes"], padding), "masks": v2.functional.pad(target["masks"], padding)}


@pytest.mark.essential
@pytest.mark.parametrize(("earlier", "size"), [(None, (70, 60)), (40, (70, 60)), (40, (30, 60))])
@pytest.mark.parametrize("format", FORMATS)
def test_fixed_size_crop_is_that_of_the_references(format: str, earlier: int | None, size: tuple[int, int]) -> None:
    """earlier: a transform before the crop gives all images this size, so that it is known before the first sample is read."""
    scenes, i = Scenes(format), 0
    steps: list[Any] = [] if earlier is None else [T.CenterCrop(earlier)]
    for batch in scenes.loader([*steps, T.FixedSizeCrop(size, fill={"Image": 250, "Mask": 0})]):
        for got in zip(*batch, strict=True):
            image, target = scenes.of_torchvision(i)
            if earlier is not None:
                image, target = v2.CenterCrop(earlier)(image, target)
            first, (top, left, *_) = image[:, 0, 0], _window(got[0])
            top, left = top - int(first[0]), left - int(first[1])
            assert top == 0 or image.shape[1] > size[0]
            _same(got, _reference_crop(image, target, top, left, size, 250))
            i += 1


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (T.ScaleJitter((80, 90), (0.9, 0.9)), v2.ScaleJitter((80, 90), (0.9, 0.9))),
        (T.RandomShortestSize([64], 100), v2.RandomShortestSize([64], 100)),
        (T.SanitizeBoundingBoxes(8.0, 100.0), v2.SanitizeBoundingBoxes(8.0, 100.0)),
        (T.SanitizeBoundingBoxes(10.0, labels_getter=None), v2.SanitizeBoundingBoxes(10.0, labels_getter=None)),
    ],
    ids=lambda t: type(t).__name__,
)
@pytest.mark.parametrize("format", FORMATS)
def test_sizes_boxes_and_labels_are_those_of_torchvision(format: str, ours: Any, theirs: Any) -> None:
    scenes = Scenes(format)
    i = 0
    for batch in scenes.loader([ours]):
        for image, boxes, labels, masks in zip(*batch, strict=True):
            want, target = theirs(*scenes.of_torchvision(i))
            assert image.shape == want.shape and (image.int() - want.int()).abs().max() <= 1
            torch.testing.assert_close(boxes, target["boxes"].as_subclass(torch.Tensor), atol=1e-4, rtol=1e-5)
            assert torch.equal(labels, target["labels"]) and masks.shape == target["masks"].shape
            i += 1


def test_torchvision_s_own_objects_are_taken() -> None:
    scenes = Scenes()
    batch = next(iter(scenes.loader([v2.RandomIoUCrop(), v2.SanitizeBoundingBoxes()])))
    assert all(len(b) == len(k) for b, k in zip(batch.boxes, batch.labels, strict=True))
    with pytest.raises(TypeError, match="labels_getter is the name of a field"):
        scenes.loader([v2.SanitizeBoundingBoxes(labels_getter=lambda x: x[1]["labels"])])
    with pytest.raises(InvalidArgumentError, match="labels_getter is 'ids'; the fields are boxes, labels, masks"):
        next(iter(scenes.loader([T.SanitizeBoundingBoxes(labels_getter="ids")])))
    with pytest.raises(ValueError, match="have no 1"):
        T.RandomIoUCrop(sampler_options=[0.5])
    with pytest.raises(ValueError, match="min_size is a number of at least 1"):
        T.SanitizeBoundingBoxes(0.5)


def test_without_boxes_nothing_is_cut(capfd: pytest.CaptureFixture[str]) -> None:
    data = (np.zeros((4, 20, 30, 3), np.uint8), np.arange(4))
    batch = next(iter(Loader(data, 4, transforms=[T.RandomIoUCrop(), T.SanitizeBoundingBoxes()])))
    assert batch.image.shape == (4, 3, 20, 30)
    assert capfd.readouterr().err.count("RandomIoUCrop leaves the images whole: the samples have no boxes") <= 1


def test_rows_that_are_not_one_for_each_box_are_named() -> None:
    class Wrong(Scenes):
        def __getitem__(self, i: int) -> Any:
            image, target = super().__getitem__(i)
            return image, {**target, "labels": torch.arange(99)}

    with pytest.raises(ValueError, match=r"'labels' has the shape \(99,\) in a sample of \d+ boxes"):
        next(iter(Wrong().loader([T.SanitizeBoundingBoxes()])))


# ---- batches of images that differ in size ----


@pytest.mark.essential
def test_images_are_padded_to_the_largest_of_their_batch() -> None:
    scenes = Scenes()
    fields = {"image": "Image", "boxes": "BoundingBoxes", "masks": "Mask", "padding_mask": None, "labels": list, "size": None}
    loader = Loader(scenes, 5, dtype=torch.uint8, fields=fields, pad={"Image": 9, "Mask": 255})
    i = 0
    for batch in loader:
        assert batch._fields == tuple(fields)
        height, width = (int(n) for n in batch.size.max(0).values)
        assert batch.image.shape[1:] == (3, height, width) and batch.padding_mask.shape == (len(batch.image), height, width)
        for k in range(len(batch.image)):
            image, boxes, _, masks = scenes.scenes[i]
            assert batch.size[k].tolist() == list(image.shape[1:])
            shown = ~batch.padding_mask[k]
            assert int(shown.sum()) == image[0].numel() and (batch.image[k][:, ~shown] == 9).all()
            assert torch.equal(batch.image[k][:, : image.shape[1], : image.shape[2]], image) and torch.equal(batch.boxes[k], boxes)
            assert torch.equal(batch.masks[k][:, : image.shape[1], : image.shape[2]], masks) and (batch.masks[k][:, ~shown] == 255).all()
            i += 1
    assert i == len(scenes)


def test_padding_of_files_floats_and_channels_last(tmp_path: Any) -> None:
    cv2 = pytest.importorskip("cv2")
    rows = []
    for i, (image, *_) in enumerate(Scenes(count=6).scenes):
        rows.append((str(tmp_path / f"{i}.png"), i))
        cv2.imwrite(rows[-1][0], image.permute(1, 2, 0).numpy()[..., ::-1])
    plain = [batch for batch in Loader(rows, 3, pad="zeros", transforms=[T.Normalize([0.5] * 3, [0.5] * 3)])]
    assert [batch._fields for batch in plain] == [("image", "label", "size")] * 2
    last = [batch for batch in Loader(rows, 3, pad=0, transforms=[T.Normalize([0.5] * 3, [0.5] * 3)], memory_format=torch.channels_last)]
    for a, b in zip(plain, last, strict=True):
        assert torch.equal(a.image, b.image) and b.image.is_contiguous(memory_format=torch.channels_last) and torch.equal(a.size, b.size)
        for k, (height, width) in enumerate(a.size.tolist()):
            assert (
                (a.image[k][:, height:] == 0).all()
                and (a.image[k][:, :, width:] == 0).all()
                and (a.image[k][:, :height, :width] != 0).any()
            )
    with pytest.raises(InvalidArgumentError, match="pad is 'zeros', a number"):
        Loader(rows, 3, pad="edge")
    with pytest.raises(InvalidArgumentError, match="pad makes one tensor of images"):
        Loader(rows, 3, pad=0, fields={"image": list, "label": None})


def test_values_that_a_padded_type_does_not_hold() -> None:
    """A value for padding or filling is refused if the type of the masks cannot hold it. For example, -100, which cross_entropy ignores by default, would
    become class 0 in masks of bytes."""
    fields: dict[str, Any] = {"image": "Image", "mask": "Mask"}

    def loader(mask: Any, kind: str = "Mask", **more: Any) -> Any:
        rows = [(np.zeros((8 + i, 9, 3), np.uint8), np.ones((8 + i, 9), mask)) for i in range(3)]
        return next(iter(Loader(rows, 3, fields={**fields, "mask": kind}, **more)))

    wider = r"mask\.astype\('int64'\)"
    for mask, value, said in ((np.uint8, -100, "uint8.* from 0 to 255: "), (np.int8, 255, "from -128 to 127"), (bool, 255, "0 to 1")):
        with pytest.raises(InvalidArgumentError, match=f"pad is {value} for a field of the kind Mask.*{said}.*{wider}"):
            loader(mask, pad={"Image": 0, "Mask": value})
        for step in (T.Pad(2, fill={"Mask": value}), T.RandomApply([T.RandomRotation(9, fill={"Mask": value})], 1.0)):
            with pytest.raises(InvalidArgumentError, match=f"fill is {value} for a field of the kind Mask.*{said}"):
                loader(mask, pad=0, transforms=[step])
    for mask in (torch.zeros((9, 9), dtype=torch.uint8), np.zeros((9, 9), ">u2")):
        with pytest.raises(InvalidArgumentError, match="pad is -100 for a field of the kind Mask, whose tensors are uint"):
            next(iter(Loader([(np.zeros((9, 9, 3), np.uint8), mask)] * 2, 2, fields=fields, pad={"Mask": -100})))
    assert int(loader(np.int64, pad={"Image": 0, "Mask": -100}).mask[0, -1, 0]) == -100
    assert int(loader(np.int16, pad=0, transforms=[T.Pad(2, fill={"Image": 0, "Mask": -100})]).mask[0, 0, 0]) == -100
    for dtype, value in ((torch.uint8, 256), (torch.uint8, 0.5), (torch.float16, 65520), (torch.bfloat16, 1e39), (None, 1e39)):
        with pytest.raises(InvalidArgumentError, match=f"pad is {value:g} for a field of the kind Image".replace("+", r"\+")):
            loader(np.uint8, dtype=dtype, transforms=[T.RandomHorizontalFlip()], pad={"Image": value})
    assert loader(np.float32, "FloatMap", pad={"FloatMap": -1e30}).mask[0, -1, 0] < -1e29


class Sized:
    """Images of random sizes, whose targets are their numbers. get_height_and_width returns an image's size without making the image."""

    def __init__(self, count: int) -> None:
        rng = np.random.default_rng(1)
        self.sizes = [(int(h), int(w)) for h, w in rng.integers(20, 90, (count, 2))]

    def __len__(self) -> int:
        return len(self.sizes)

    def get_height_and_width(self, i: int) -> tuple[int, int]:
        return self.sizes[i]

    def __getitem__(self, i: int) -> Any:
        return np.full((*self.sizes[i], 3), i, np.uint8), i


def _group(size: tuple[int, int]) -> int:
    return int(np.searchsorted(2 ** np.linspace(-1, 1, 7), size[1] / size[0], side="right"))


@pytest.mark.essential
def test_buckets_of_aspect_ratios() -> None:
    data = Sized(200)
    loader = Loader(data, 8, bucket_by="aspect_ratio", shuffle=True, pad="zeros", seed=3, fields=("image", "label"))
    epochs = [[batch.label.tolist() for batch in loader] for _ in range(2)]
    for batches in epochs:
        assert sorted(i for batch in batches for i in batch) == list(range(200)) and len(batches) == len(loader) == 25
        assert sum(len({_group(data.sizes[i]) for i in batch}) == 1 for batch in batches) >= 25 - 7
    assert epochs[0] != epochs[1]
    again = Loader(data, 8, bucket_by="aspect_ratio", shuffle=True, pad="zeros", seed=3, fields=("image", "label"))
    assert [batch.label.tolist() for batch in again] == epochs[0]
    resumed = Loader(data, 8, bucket_by="aspect_ratio", shuffle=True, pad="zeros", seed=3, fields=("image", "label"))
    iterator = iter(resumed)
    first = [next(iterator).label.tolist() for _ in range(7)]
    state = resumed.state_dict()
    other = Loader(data, 8, bucket_by="aspect_ratio", shuffle=True, pad="zeros", seed=3, fields=("image", "label"))
    other.load_state_dict(state)
    assert first + [batch.label.tolist() for batch in other] == epochs[0]


@pytest.mark.essential
def test_buckets_give_ranks_equal_steps_of_one_bucket() -> None:
    data = Sized(203)
    for last, steps in (("drop", 12), ("keep", 13), ("pad", 13)):
        ranks = [
            [
                (b.label.tolist(), b)
                for b in Loader(data, 4, bucket_by="aspect_ratio", shuffle=True, pad=0, shard=(r, 4), last_batch=last, seed=1)
            ]
            for r in range(4)
        ]
        assert [len(r) for r in ranks] == [steps] * 4
        one = sum(len({_group(data.sizes[i]) for r in ranks for i in r[k][0]}) == 1 for k in range(steps))
        assert one >= 12 - 7
        seen = {i for r in ranks for batch, _ in r for i in batch}
        assert len(seen) == (192 if last == "drop" else 203)


@pytest.mark.parametrize("by", ["size", "aspect_ratio"])
@pytest.mark.parametrize("form", ["pairs", "rows"])
def test_bad_files_do_not_end_a_run_with_buckets(by: str, form: str, files: list[Any], tmp_path: Any) -> None:
    (tmp_path / "text.png").write_text("no image")
    bad = [tmp_path / "text.png", tmp_path / "missing.png"]
    paths = [str(p) for p in (*files[:4], bad[0], *files[4:9], bad[1])]
    rows = [(p, i) if form == "pairs" else (p, p, i) for i, p in enumerate(paths)]
    fields: Any = None if form == "pairs" else {"image": "Image", "again": "Image", "label": None}
    more: dict[str, Any] = dict(bucket_by=by, pad="zeros", shuffle=True, fields=fields, transforms=[T.RandomHorizontalFlip()])
    with Loader(rows, 3, on_error="skip", max_errors=2, **more) as loader:
        assert sorted(x for b in loader for x in b.label.tolist()) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
        assert sorted(e.uri for e in loader.pipeline.bad_samples()) == sorted(map(str, bad))
    with pytest.raises((StokerError, OSError), match=r"text\.png|missing\.png"):
        Loader(rows, 3, **more)


def test_buckets_of_sizes_and_of_keys(tmp_path: Any) -> None:
    data = Sized(256)

    def waste(batches: Any) -> float:
        return float(np.mean([(b.size.max(0).values.prod() / b.size.prod(1).float().mean()).item() for b in batches]))

    by_size = waste(Loader(data, 8, bucket_by="size", shuffle=True, pad=0))
    assert by_size < 0.8 * waste(Loader(data, 8, shuffle=True, pad=0))
    keys = [i % 3 for i in range(256)]
    batches = [b.label.tolist() for b in Loader(data, 4, bucket_by=keys, pad=0)]
    assert sum(len({i % 3 for i in batch}) == 1 for batch in batches) >= 63
    cv2 = pytest.importorskip("cv2")
    rows = []
    for i in range(12):
        rows.append((str(tmp_path / f"{i}.png"), i))
        cv2.imwrite(rows[-1][0], data[i][0])
    for batch in Loader(rows, 3, bucket_by="size", pad=0):
        assert batch.size.tolist() == [list(data.sizes[i]) for i in batch.label.tolist()]
    for wrong, words in (
        ("area", "'aspect_ratio', 'size', or a list"),
        ([1, "a"] * 128, "which can be sorted"),
        ([1, 2], "there are 2 keys"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            next(iter(Loader(data, 4, bucket_by=wrong, pad=0)))
    with pytest.raises(InvalidArgumentError, match="objects in a store are not read before the images: give bucket_by a list"):
        Loader(["s3://bucket/a.jpg", "s3://bucket/b.jpg"], 2, bucket_by="size")
    with pytest.raises(InvalidArgumentError, match="leave out sampler"):
        Loader(data, 4, bucket_by="size", sampler=[1, 2])
    with pytest.raises(InvalidArgumentError, match="add get_height_and_width"):
        Loader(Scenes(), 4, bucket_by="size", fields={"image": list, "boxes": "BoundingBoxes", "labels": list, "masks": "Mask"})
