# SPDX-License-Identifier: Apache-2.0
"""Masks, boxes and points move with the image. They are compared with torchvision's v2 for the same windows; a mask whose values are the numbers
of its pixels shows which windows were drawn."""

import io

import numpy as np
import pytest
import torch
from PIL import Image
from stoker import Loader, fn, pipeline_def, types
from stoker import transforms as T
from stoker.batching import RaggedBatch
from stoker.errors import InvalidArgumentError
from support import SEED, import_torchvision, photograph

KINDS = {"image": "Image", "mask": "Mask", "boxes": "BoundingBoxes", "points": "KeyPoints", "label": None}


def png(array, **kwargs):
    out = io.BytesIO()
    Image.fromarray(array, **kwargs).save(out, "png")
    return out.getvalue()


class Scenes:
    """Pictures, each with a mask whose values are the numbers of its pixels, 0 to 3 boxes, and three points."""

    def __init__(self, count=6, format="XYXY", dtype=np.float32, encoded=True):
        rng = np.random.default_rng(SEED)
        self.encoded, self.format, self.scenes = encoded, format, []
        for k in range(count):
            h, w = (int(v) for v in rng.integers(20, 40, 2))
            corner, extent = rng.uniform(0, 0.7, (k % 4, 2)), rng.uniform(0.05, 0.3, (k % 4, 2))
            boxes = {
                "XYXY": np.concatenate([corner, corner + extent], 1),
                "XYWH": np.concatenate([corner, extent], 1),
                "CXCYWH": np.concatenate([corner + extent / 2, extent], 1),
            }[format] * [w, h, w, h]
            points = rng.uniform(0, 1, (3, 2)) * [w - 1, h - 1]
            mask = np.arange(h * w).reshape(h, w) + 2**33  # values that do not fit into a float32
            self.scenes.append((photograph(rng, h, w), mask, boxes.astype(dtype), points.astype(dtype)))

    def __len__(self):
        return len(self.scenes)

    def __getitem__(self, i):
        picture, *rest = self.scenes[i]
        return (png(picture) if self.encoded else picture, *rest, i)


def window_of(mask, whole, size, flipped):
    """Returns the windows of `whole`, a mask of Scenes, that become `mask` when they are resized to the nearest pixel and, if `flipped`,
    mirrored: a list of (top, height) and a list of (left, width)."""
    mask = mask[:, ::-1] if flipped else mask
    h, w = whole.shape
    rows, columns = (mask[:, 0] - 2**33) // w, (mask[0] - 2**33) % w

    def axis(seen, extent, out):
        at = (np.arange(out) + 0.5) / out  # if a position is halfway between two pixels, either one is the nearest

        def fits(first, n):
            return all((first + np.floor(at * n - 1e-4) == seen) | (first + np.floor(at * n + 1e-4) == seen))

        return [(a, n) for a in range(extent) for n in range(1, extent - a + 1) if fits(a, n)]

    return axis(rows, h, size[0]), axis(columns, w, size[1])


@pytest.mark.essential
@pytest.mark.parametrize("format", ["XYXY", "XYWH", "CXCYWH"])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_a_random_window_and_a_flip(format, dtype):
    """The mask shows which window was drawn. Boxes, points and the image equal torchvision's v2 for that window."""
    v2 = import_torchvision().transforms.v2.functional
    from torchvision import tv_tensors

    source = Scenes(format=format, dtype=dtype)
    kinds = {**KINDS, "boxes": ("BoundingBoxes", format)}
    size = (48, 44)
    steps = [T.RandomResizedCrop(size, scale=(0.3, 0.9)), T.RandomHorizontalFlip()]
    turned = 0
    for seed in range(3):
        for batch in Loader(source, 3, transforms=steps, fields=kinds, dtype=torch.uint8, seed=seed):
            assert isinstance(batch.boxes, list) and batch.mask.shape == (3, *size) and batch.mask.dtype is torch.int64
            for k, i in enumerate(batch.label.tolist()):
                picture, mask, boxes, points = source.scenes[i]
                flipped = bool(batch.mask[k, 0, 0] > batch.mask[k, 0, -1])
                turned += flipped
                rows, columns = window_of(batch.mask[k].numpy(), mask, size, flipped)
                assert rows and columns, "the mask is no window"
                errors = []
                for (top, h), (left, w) in ((r, c) for r in rows for c in columns):
                    made = [
                        tv_tensors.BoundingBoxes(torch.from_numpy(boxes), format=format, canvas_size=picture.shape[:2]),
                        tv_tensors.KeyPoints(torch.from_numpy(points), canvas_size=picture.shape[:2]),
                    ]
                    made = [v2.resized_crop(x, top, left, h, w, size) for x in made]
                    made = [v2.horizontal_flip(x) if flipped else x for x in made]
                    pil = v2.resized_crop(Image.fromarray(picture), top, left, h, w, size)
                    pil = np.asarray(v2.horizontal_flip(pil) if flipped else pil, int)
                    close = [
                        abs(a.double() - b.double()).max().item() if len(a) else 0
                        for a, b in zip(made, (batch.boxes[k], batch.points[k]), strict=True)
                    ]
                    errors.append(max(*close, (abs(pil - batch.image[k].permute(1, 2, 0).numpy()).max() - 1) * 1e-3))
                assert min(errors) <= (0 if dtype is np.int64 else 1e-3), (i, errors)
                assert batch.boxes[k].dtype is torch.from_numpy(boxes).dtype and batch.boxes[k].shape == boxes.shape
    assert 0 < turned < 18


FIXED = [
    [T.Resize(30), T.CenterCrop(24)],
    [T.Resize((17, 31)), T.RandomVerticalFlip(1), T.CenterCrop((40, 20))],
    [T.CenterCrop(27), T.Resize(20), T.RandomHorizontalFlip(1), T.RandomHorizontalFlip(0)],
    [T.RandomCrop(40, padding=(7, 3, 15, 20), fill={"Image": (1, 2, 3), "Mask": 255})],
    [T.Resize(20, max_size=25)],
    [T.CenterCrop((30, 44)), T.Resize(20, max_size=28), T.Resize(30, max_size=99)],
    [T.Pad((1, 2, 3, 4)), T.RandomHorizontalFlip(1)],
    [T.RandomShortestSize(20, 25), T.RandomZoomOut(p=0)],
    [T.RandomResize(20, 21), T.RandomPerspective(p=0)],
    [T.RandomRotation((25, 25), center=(9, 12)), T.CenterCrop(16)],
    [T.RandomRotation((25, 25), expand=True)],
    [T.RandomAffine((40, 40), None, (1.3, 1.3), (10, 10, 5, 5))],
    [T.RandomApply([T.RandomVerticalFlip(1)], 1), T.ColorJitter(0.1), T.Resize((9, 9))],
]


@pytest.mark.parametrize("steps", FIXED, ids=[str(k) for k in range(len(FIXED))])
def test_moves_that_are_known(steps):
    """Compares with torchvision's own transforms. A random crop may be anywhere, but is the same for image, mask, boxes and points."""
    v2 = import_torchvision().transforms.v2
    from torchvision import tv_tensors

    source = Scenes(encoded=False)

    def center_crop(x, size):
        """Pads boxes and points too. torchvision pads only images and masks, and shifts boxes and points a pixel too far if the padding is odd."""
        height, width = x.shape[-2:] if isinstance(x, tv_tensors.Mask) else x.canvas_size
        y, x_ = (max(wanted - extent, 0) for wanted, extent in zip(size, (height, width), strict=True))
        return v2.functional.center_crop(v2.functional.pad(x, [x_ // 2, y // 2, (x_ + 1) // 2, (y + 1) // 2]), size)

    def theirs(t):
        name, arguments = type(t).__name__, dict(vars(t))
        if name == "RandomApply":
            return v2.RandomApply([theirs(x) for x in t.transforms], p=t.p)
        if name == "ColorJitter":
            return v2.Identity()
        if name == "RandomAffine":
            shear = (t.shear[0], t.shear[2])
            return v2.Lambda(lambda x: v2.functional.affine(x, t.degrees[0], [0, 0], t.scale[0], shear))
        if name == "RandomRotation":
            return v2.RandomRotation((-t.degrees[0], -t.degrees[0]), expand=t.expand, center=t.center)
        if name == "CenterCrop":
            return v2.Lambda(lambda x: center_crop(x, t.size))
        if name == "Resize":
            arguments = {"size": t.size, "max_size": t.max_size, "interpolation": v2.InterpolationMode.NEAREST_EXACT}
        if name in ("RandomShortestSize", "RandomResize"):
            arguments = {"min_size": t.min_size, "max_size": t.max_size, "interpolation": v2.InterpolationMode.NEAREST_EXACT}
        if name in ("RandomPerspective", "RandomZoomOut"):
            arguments = {"p": t.p}
        return getattr(v2, name)(**arguments)

    for batch in Loader(source, 1, transforms=steps, fields=KINDS, dtype=torch.uint8):
        picture, mask, boxes, points = source.scenes[int(batch.label)]
        out = batch.mask[0]
        if isinstance(steps[0], T.RandomCrop):
            inside = out >= 2**33
            y, x = np.argwhere(inside.numpy())[0]
            at_y, at_x = divmod(int(out[y, x]) - 2**33, mask.shape[1])
            shift = np.array([x - at_x, y - at_y])
            assert (out[~inside] == 255).all()
            assert torch.equal(
                batch.image[0].permute(1, 2, 0)[~inside], torch.tensor([1, 2, 3], dtype=torch.uint8).expand((~inside).sum(), 3)
            )
            assert np.allclose(batch.points[0].numpy(), points + shift, atol=1e-3)
            assert np.allclose(batch.boxes[0].numpy(), np.clip(boxes + [*shift, *shift], 0, 40), atol=1e-3)
            continue
        chain = v2.Compose([theirs(t) for t in steps])
        size = picture.shape[:2]
        # torchvision resizes masks as float32, which represents only smaller values exactly
        want_mask = chain(tv_tensors.Mask(torch.from_numpy(mask - 2**33 + 1)))
        want_boxes = chain(tv_tensors.BoundingBoxes(torch.from_numpy(boxes), format="XYXY", canvas_size=size))
        want_points = chain(tv_tensors.KeyPoints(torch.from_numpy(points), canvas_size=size))
        # If a position is halfway between two pixels, either one is the nearest.
        assert ((out - 2**33 + 1).clamp(min=0) == want_mask).double().mean() >= 0.9
        away = (
            1 if getattr(steps[0], "expand", False) else 1e-3
        )  # with expand, torchvision's boxes and points are up to a pixel off its images
        assert torch.allclose(batch.boxes[0], want_boxes.as_subclass(torch.Tensor), atol=away)
        assert torch.allclose(batch.points[0], want_points.as_subclass(torch.Tensor), atol=away)


def test_forms_of_masks(tmp_path):
    """A mask may be an array, the bytes of an image, or a file. The indices of a palette image are the mask, not its colours. A sample may have several masks.
    A tv_tensor needs no `fields`."""
    rng = np.random.default_rng(SEED)
    h, w = 20, 30
    picture, classes = photograph(rng, h, w), rng.integers(0, 5, (h, w)).astype(np.uint8)
    palette = Image.fromarray(classes, "P")
    palette.putpalette(rng.integers(0, 256, 768).astype(np.uint8).tobytes())
    palette.save(tmp_path / "mask.png")
    several = np.stack([classes == k for k in range(4)])
    import_torchvision()
    from torchvision import tv_tensors

    sample = {
        "image": picture,
        "palette": tmp_path / "mask.png",
        "gray": png(classes),
        "array": torch.from_numpy(classes).long(),
        "several": several,
        "own": tv_tensors.Mask(torch.from_numpy(classes)),
        "boxes": tv_tensors.BoundingBoxes([[1.0, 2, 3, 4]], format="XYWH", canvas_size=(h, w)),
    }
    kinds = {
        "image": "Image",
        **dict.fromkeys(("palette", "gray", "array"), "Mask"),
        "several": tv_tensors.Mask,
        "own": "Mask",
        "boxes": tv_tensors.BoundingBoxes,
    }

    class One:
        def __len__(self):
            return 2

        def __getitem__(self, i):
            return sample

    for fields in (kinds, {k: v for k, v in kinds.items() if k not in ("own", "boxes")} | {"index": None}):
        batch = next(iter(Loader(One(), 2, transforms=[T.RandomHorizontalFlip(1)], fields=fields)))
        want = torch.from_numpy(classes[:, ::-1].copy())
        for name in ("palette", "gray", "array"):
            assert torch.equal(getattr(batch, name)[1].long(), want.long()), name
        assert batch.several[0].dtype is torch.bool and torch.equal(batch.several[0], torch.from_numpy(several[:, :, ::-1].copy()))
    sample = {k: sample[k] for k in ("image", "own", "boxes")}
    batch = next(iter(Loader(One(), 2, transforms=[T.RandomHorizontalFlip(1)])))
    assert torch.equal(batch.own[0], want) and batch.boxes[0].tolist() == [[30 - 1 - 3, 2, 3, 4]]


def test_ragged_and_detection_samples():
    source = Scenes()

    class Detection(Scenes):
        def __getitem__(self, i):
            picture, _, boxes, _ = self.scenes[i]
            return png(picture), {"boxes": boxes, "labels": np.arange(len(boxes))}

    kinds = {"image": "Image", "boxes": "BoundingBoxes", "labels": list}
    for ragged in ((), ("boxes", "labels"), ("labels",)):
        (batch,) = list(Loader(Detection(), 6, transforms=[T.Resize((16, 16))], fields=kinds, ragged=ragged))
        for name in ("boxes", "labels"):
            value = getattr(batch, name)
            if name in ragged:
                assert isinstance(value, RaggedBatch) and value.sample_sizes.tolist() == [0, 1, 2, 3, 0, 1]
                value = [value.tensor[k, :n] for k, n in enumerate(value.sample_sizes.tolist())]
            assert isinstance(value, list)
            for k, v in enumerate(value):
                picture, _, boxes, _ = source.scenes[k]
                scale = np.array([16 / picture.shape[1], 16 / picture.shape[0]] * 2, np.float32)
                want = boxes * scale if name == "boxes" else np.arange(len(boxes))
                assert np.allclose(v.numpy(), want, atol=1e-4)
    with pytest.raises(InvalidArgumentError, match="no target 'boxs'"):
        next(iter(Loader(Detection(), 6, transforms=[T.Resize((16, 16))], fields=kinds, ragged=("boxs",))))


def test_a_target_is_a_tensor_or_a_list_in_all_batches():
    def source(lengths):
        class Rows:
            def __len__(self):
                return len(lengths)

            def __getitem__(self, i):
                return np.zeros((4, 4, 3), np.uint8), np.arange(lengths[i])

        return Rows()

    assert [b.label.shape for b in Loader(source([3, 3, 2, 2]), 2)] == [(2, 3), (2, 2)]
    for lengths in ([3, 3, 1, 2], [1, 2, 3, 3]):
        with pytest.raises(InvalidArgumentError, match=r"differ in the shape of 'label'.*ragged="):
            list(Loader(source(lengths), 2))
        listed = [b.label for b in Loader(source(lengths), 2, fields={"image": "Image", "label": list})]
        assert [[len(v) for v in label] for label in listed] == [lengths[:2], lengths[2:]]


@pytest.mark.parametrize("counts", [[1, 2, 2, 2], [2, 2, 1, 2], [2, 2, 2, 2]])
def test_parts_with_a_row_for_each_box_are_lists_in_all_batches(counts):
    import_torchvision()
    from torchvision import tv_tensors

    class Detection:
        def __len__(self):
            return len(counts)

        def __getitem__(self, i):
            n = counts[i]
            boxes = tv_tensors.BoundingBoxes(torch.tensor([[1.0, 1, 9, 9]]).repeat(n, 1), format="XYXY", canvas_size=(20, 20))
            masks = tv_tensors.Mask(torch.full((n, 20, 20), i, dtype=torch.uint8))
            return np.zeros((20, 20, 3), np.uint8), {"boxes": boxes, "labels": torch.arange(n), "masks": masks, "id": i}

    for place, batch in enumerate(Loader(Detection(), 2)):
        here = counts[2 * place : 2 * place + 2]
        assert [v.tolist() for v in batch.labels] == [list(range(n)) for n in here] and isinstance(batch.labels, list)
        assert isinstance(batch.masks, list) and [tuple(m.shape) for m in batch.masks] == [(n, 20, 20) for n in here]
        assert [int(m.max()) for m in batch.masks] == batch.id.tolist() == [2 * place, 2 * place + 1]
    declared = {"image": "Image", "boxes": "BoundingBoxes", "labels": None, "masks": "Mask"}
    if len(set(counts)) == 1:
        assert next(iter(Loader(Detection(), 2, fields=declared))).labels.shape == (2, 2)
    else:
        with pytest.raises(InvalidArgumentError, match="differ in the shape of 'labels'"):
            list(Loader(Detection(), 2, fields=declared))


def test_stacks_of_masks_without_boxes_are_tensors_unless_declared():
    class Parts:
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return np.zeros((8, 8, 3), np.uint8), np.full((1 + i // 2, 8, 8), i, np.uint8)

    even = {"image": "Image", "mask": "Mask"}
    assert [b.mask.shape[1] for b in Loader(Parts(), 2, fields=even)] == [1, 2]
    with pytest.raises(InvalidArgumentError, match=r"have 1 and 2 masks: .*\('Mask', list\)"):
        list(Loader(Parts(), 4, fields=even))
    (batch,) = Loader(Parts(), 4, fields={"image": "Image", "mask": ("Mask", list)})
    assert [tuple(m.shape) for m in batch.mask] == [(1, 8, 8), (1, 8, 8), (2, 8, 8), (2, 8, 8)]
    assert [int(m.max()) for m in batch.mask] == [0, 1, 2, 3]


def test_targets_of_a_list_of_files_that_would_have_to_follow(tmp_path):
    Image.fromarray(photograph(np.random.default_rng(SEED), 24, 32)).save(tmp_path / "0.png")
    path, boxes, crop = str(tmp_path / "0.png"), np.array([[2.0, 3, 10, 12]], np.float32), [T.CenterCrop((20, 30))]
    for source in ([(path, boxes)], ([path], [boxes.tolist()]), [(path, torch.from_numpy(boxes))]):
        with pytest.raises(InvalidArgumentError, match=r"the target 'label' of a file has the shape \(1, 4\).*'label': 'Mask'"):
            Loader(source, 1, transforms=crop)
        named = next(iter(Loader(source, 1, transforms=crop, fields={"image": "Image", "label": None})))
        assert named.label.tolist() == [boxes.tolist()]
        assert next(iter(Loader(source, 1))).label.tolist() == [boxes.tolist()]  # no transform moves pixels
        assert next(iter(Loader(source, 1, transforms=crop, fields=("image",)))).image.shape == (1, 3, 20, 30)
    fields = {"image": "Image", "boxes": "BoundingBoxes"}
    assert next(iter(Loader([(path, boxes)], 1, transforms=crop, fields=fields))).boxes[0].tolist() == [[1, 1, 9, 10]]
    assert next(iter(Loader([(path, [1.0, 2.0])], 1, transforms=crop))).label.tolist() == [[1, 2]]  # a vector is no mask


def test_what_is_refused():
    def loader(give, fields=None, **kwargs):
        class Two:
            def __len__(self):
                return 2

            def __getitem__(self, i):
                return give

        return next(iter(Loader(Two(), 2, transforms=[T.RandomHorizontalFlip()], fields=fields, **kwargs)))

    picture, mask = np.zeros((20, 30, 3), np.uint8), np.zeros((30, 20), np.uint8)
    named = {"image": "Image", "mask": "Mask"}
    for image in (picture, png(picture)):
        with pytest.raises(ValueError, match=r"mask \(target 1\) has 20 x 30 pixels and its image 30 x 20"):
            loader((image, mask), named)
    exif = Image.Exif()
    exif[0x0112] = 6
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "jpeg", exif=exif)
    with pytest.raises(
        ValueError, match=r"30 x 20 pixels and its image 20 x 30, which its EXIF orientation turned: .* or files without that orientation"
    ):
        loader((file.getvalue(), mask.T), named, exif_orientation=True)
    for target in (mask, np.zeros((3, 4), np.float32)):
        with pytest.raises(InvalidArgumentError, match="Say what it is"):
            loader((picture, target), ("image", "mask"))
        assert loader((picture, target), {"image": "Image", "mask": None}).mask.shape == (2, *target.shape)
    with pytest.raises(TypeError, match="the mask 'mask' is an image of the mode RGB"):
        loader((picture, png(picture)), named)
    with pytest.raises(FileNotFoundError, match=r"the mask 'mask': .*nowhere/mask.png"):
        loader((picture, "/nowhere/mask.png"), named)
    with pytest.raises(OSError, match=r"the mask 'mask': .*identify"):
        loader((picture, b"no image"), named)
    with pytest.raises(InvalidArgumentError, match="a field is 'Image', 'Mask'"):
        loader((picture, mask), {"image": "Image", "mask": "Masks"})
    with pytest.raises(ValueError, match="the image 'mask' has 20 x 30 pixels and the image 30 x 20"):
        loader((picture, mask), {"image": "Image", "mask": "Image"})
    with pytest.raises(InvalidArgumentError, match="boxes are XYXY, XYWH, CXCYWH"):
        loader((picture, mask), {"image": "Image", "mask": ("BoundingBoxes", "XYXYXYXY")})
    with pytest.raises(InvalidArgumentError, match="a folder or tars have an image and a label"):
        Loader(["a.jpg"], 1, fields={"image": "Image", "label": "Mask"})
    with pytest.raises(ValueError, match="boxes have 4 numbers"):
        loader((picture, np.zeros((2, 5), np.float32)), {"image": "Image", "boxes": "BoundingBoxes"})


def test_the_window_generator_draws_what_random_resized_crop_does():
    rng = np.random.default_rng(SEED)
    pictures = [photograph(rng, *(int(v) for v in rng.integers(9, 60, 2))) for _ in range(8)]
    draws = {"random_area": [0.1, 0.5], "random_aspect_ratio": [0.5, 2.0], "seed": 7}

    @pipeline_def(batch_size=8, num_threads=1, device_id=None)
    def define():
        image = fn.external_source(lambda: pictures, layout="HWC")
        anchor, shape = fn.random_crop_generator(image.shape(), **draws)
        window = fn.slice(image, start=anchor, shape=shape, axes=[0, 1])
        whole = {"size": [5, 7], "interp_type": types.INTERP_NN, "antialias": False}
        return fn.resize(window, **whole), fn.random_resized_crop(image, **whole, **draws), anchor, shape

    pipe = define()
    pipe.build()
    for _ in range(2):
        a, b, anchor, shape = pipe.run()
        for k, picture in enumerate(pictures):
            # If a position is halfway between two pixels, either one is the nearest.
            assert (np.asarray(a[k]) == np.asarray(b[k])).mean() > 0.8
            (y, x), (h, w) = np.asarray(anchor[k]), np.asarray(shape[k])
            assert 0 <= y < y + h <= picture.shape[0] and 0 <= x < x + w <= picture.shape[1]
