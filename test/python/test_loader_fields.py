# SPDX-License-Identifier: Apache-2.0
"""Several images, masks and maps of floats in one sample: all follow the same crops and flips, as tv_tensors do in torchvision's v2."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stoker
from PIL import Image
from stoker import Loader
from stoker import transforms as T
from stoker.errors import InvalidArgumentError, StokerError, UnsupportedError
from support import import_torchvision

torch = pytest.importorskip("torch")
torchvision = import_torchvision()
from torchvision import tv_tensors  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

SIZE = (40, 52)
MOVES = [
    T.RandomCrop(24, padding=3, fill=7),
    T.RandomResizedCrop(24),
    T.Resize(24),
    T.Resize((20, 30)),
    T.CenterCrop(24),
    T.Pad(4, fill=9),
    T.Pad(4, padding_mode="reflect"),
    T.RandomHorizontalFlip(),
    T.RandomVerticalFlip(),
    T.RandomRotation(30, interpolation=T.InterpolationMode.BILINEAR, fill=5),
    T.RandomAffine(20, (0.1, 0.2), (0.8, 1.2), 5, interpolation=T.InterpolationMode.BILINEAR),
    T.RandomPerspective(p=1.0),
    T.ElasticTransform(),
    T.RandomZoomOut(p=1.0, side_range=(1.5, 1.5)),
]
VALUES = [
    T.ColorJitter(0.4, 0.4, 0.4, 0.1),
    T.GaussianBlur(3),
    T.GaussianNoise(),
    T.RandomGrayscale(0.5),
    T.RandomErasing(1.0),
    T.RandomInvert(),
    T.RandomSolarize(100),
    T.RandomPhotometricDistort(),
    T.RandomAdjustSharpness(2.0),
    T.JPEG((5, 95)),
    T.RandomChannelPermutation(),
]


class Samples:
    """A Dataset whose sample i is make(i)."""

    def __init__(self, make: Any, count: int = 8) -> None:
        self.make, self.count = make, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> Any:
        if i >= self.count:
            raise IndexError(i)
        return self.make(i)


def _picture(i: int, channels: int = 3, size: tuple[int, int] = SIZE) -> np.ndarray:
    return np.random.default_rng(i).integers(0, 256, (*size, channels), np.uint8)


def _smooth(i: int, channels: int = 1) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(i).random((channels, *SIZE), np.float32))


@pytest.mark.essential
@pytest.mark.parametrize("t", [*MOVES, *VALUES], ids=lambda t: type(t).__name__)
def test_the_same_picture_twice_stays_the_same(t: Any) -> None:
    """Both pictures share all draws, even of colours, noise and erasing."""
    data = Samples(lambda i: (_picture(i), _picture(i), i))
    loader = Loader(data, 4, transforms=[t], fields={"image": "Image", "other": "Image", "label": None})
    for image, other, label in loader:
        assert torch.equal(image, other) and image.dtype == torch.float32 and label.dtype == torch.int64
        if t in VALUES and not isinstance(t, (T.RandomGrayscale, T.RandomInvert, T.RandomSolarize)):
            assert all(not torch.equal(image[k] * 255, torch.from_numpy(_picture(int(label[k]))).permute(2, 0, 1)) for k in range(4))


@pytest.mark.parametrize(
    "group",
    [
        lambda parts: [T.RandomApply(parts, p=0.5)],
        lambda parts: [T.RandomChoice(parts)],
        lambda parts: [T.RandomOrder(parts)],
    ],
    ids=["RandomApply", "RandomChoice", "RandomOrder"],
)
def test_groups_draw_once_for_all_images(group: Any) -> None:
    parts = [T.ColorJitter(0.4, 0.4), T.RandomHorizontalFlip(), T.RandomRotation(20)]
    data = Samples(lambda i: {"a": _picture(i), "b": _picture(i), "c": _picture(i)}, 16)
    steps = [*group(parts), T.Normalize([0.5] * 3, [0.5] * 3), T.RandomErasing(1.0, value="random")]
    for batch in Loader(data, 8, transforms=steps, fields={"a": "Image", "b": "Image", "c": "Image"}):
        assert batch._fields == ("a", "b", "c")
        assert torch.equal(batch.a, batch.b) and torch.equal(batch.a, batch.c)


@pytest.mark.essential
def test_draws_repeat_and_differ_between_samples_epochs_and_seeds() -> None:
    data = Samples(lambda i: (_picture(0), _picture(0)))

    def run(seed: int, epochs: int = 2) -> list[torch.Tensor]:
        loader = Loader(data, 8, seed=seed, transforms=[T.ColorJitter(0.5), T.RandomCrop(24)], fields={"image": "Image", "b": "Image"})
        return [batch.b for _ in range(epochs) for batch in loader]

    first, again, other = run(1), run(1), run(2)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], first[1]) and not torch.equal(first[0], other[0])
    assert not torch.equal(first[0][0], first[0][1])


@pytest.mark.essential
@pytest.mark.parametrize("t", MOVES, ids=lambda t: type(t).__name__)
def test_maps_of_floats_follow_like_an_image_of_floats(t: Any) -> None:
    data = Samples(lambda i: (_smooth(i), _smooth(i), (_smooth(i)[0] * 200).to(torch.uint8).numpy()))
    fields = {"image": "FloatMap", "depth": "FloatMap", "mask": "Mask"}
    for image, depth, mask in Loader(data, 4, transforms=[t], fields=fields):
        assert torch.equal(image, depth) and depth.dtype == torch.float32
        assert mask.shape == depth[:, 0].shape and mask.dtype == torch.uint8


@pytest.mark.essential
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (T.Resize((21, 33)), v2.Resize((21, 33))),
        (T.Resize(80), v2.Resize(80)),
        (T.CenterCrop(24), v2.CenterCrop(24)),
        (T.Pad(5, fill=0.25), v2.Pad(5, fill=0.25)),
        (T.Pad(5, padding_mode="edge"), v2.Pad(5, padding_mode="edge")),
        (T.RandomHorizontalFlip(1.0), v2.RandomHorizontalFlip(1.0)),
        (T.RandomVerticalFlip(1.0), v2.RandomVerticalFlip(1.0)),
        (T.RandomRotation((30, 30)), v2.RandomRotation((30, 30))),
        (
            T.RandomRotation((30, 30), interpolation=T.InterpolationMode.BILINEAR),
            v2.RandomRotation((30, 30), interpolation=v2.InterpolationMode.BILINEAR),
        ),
        (
            T.RandomRotation((-50, -50), interpolation=T.InterpolationMode.BILINEAR, fill=0.5, expand=True),
            v2.RandomRotation((-50, -50), interpolation=v2.InterpolationMode.BILINEAR, fill=0.5, expand=True),
        ),
        (
            T.RandomAffine((10, 10), scale=(0.7, 0.7), shear=(5, 5), interpolation=T.InterpolationMode.BILINEAR, fill=0.3),
            v2.RandomAffine((10, 10), scale=(0.7, 0.7), shear=(5, 5), interpolation=v2.InterpolationMode.BILINEAR, fill=0.3),
        ),
        (T.GaussianBlur(5, (1.3, 1.3)), v2.GaussianBlur(5, (1.3, 1.3))),
        (T.ColorJitter((1.3, 1.3)), v2.ColorJitter((1.3, 1.3))),
        (T.ColorJitter(contrast=(1.4, 1.4)), v2.ColorJitter(contrast=(1.4, 1.4))),
        (T.ColorJitter(saturation=(0.3, 0.3)), v2.ColorJitter(saturation=(0.3, 0.3))),
        (T.ColorJitter(hue=(0.2, 0.2)), v2.ColorJitter(hue=(0.2, 0.2))),
        (T.ColorJitter(hue=(-0.4, -0.4)), v2.ColorJitter(hue=(-0.4, -0.4))),
        (T.RandomInvert(1.0), v2.RandomInvert(1.0)),
        (T.RandomSolarize(0.6, 1.0), v2.RandomSolarize(0.6, 1.0)),
        (T.Grayscale(3), v2.Grayscale(3)),
    ],
    ids=lambda t: type(t).__name__,
)
def test_images_of_floats_are_those_of_torchvision(ours: Any, theirs: Any) -> None:
    """Float tensors, both as the image and as a further image, get the values of torchvision."""
    data = Samples(lambda i: {"image": _smooth(i, 3), "b": _smooth(i + 50, 3)}, 4)
    (batch,) = Loader(data, 4, transforms=[ours], fields={"image": "Image", "b": "Image"})
    for i in range(4):
        want, want_b = theirs(tv_tensors.Image(_smooth(i, 3)), tv_tensors.Image(_smooth(i + 50, 3)))
        for got, wanted in ((batch.image[i], want), (batch.b[i], want_b)):
            assert got.shape == wanted.shape
            far = (got - wanted).abs() > 2e-3
            assert far.float().mean() < (0.01 if isinstance(ours, T.RandomAffine) else 1e-9), (got - wanted).abs().max()


def test_jitter_and_noise_of_floats_draw_and_stay_inside() -> None:
    data = Samples(lambda i: _smooth(0, 3))
    for t in (T.ColorJitter(0.4, 0.4, 0.4, 0.2), T.GaussianNoise(0.0, 0.3)):
        (image,) = (b.image for b in Loader(data, 8, transforms=[t]))
        assert image.min() >= 0 and image.max() <= 1 and len({im.numpy().tobytes() for im in image}) == 8
    many = Samples(lambda i: _smooth(0, 31))
    (image,) = (b.image for b in Loader(many, 8, layout="CHW", transforms=[T.ColorJitter(0.4), T.RandomErasing(1.0)]))
    assert image.shape == (8, 31, *SIZE)
    with pytest.raises(InvalidArgumentError, match="1 or 3 channels, and the dataset's have 31"):
        next(iter(Loader(many, 8, layout="CHW", transforms=[T.ColorJitter(contrast=0.4)])))


@pytest.mark.essential
def test_vectors_are_mirrored_scaled_and_turned() -> None:
    flow = torch.tensor([3.0, 1.0]).reshape(2, 1, 1).expand(2, *SIZE).contiguous()
    data = Samples(lambda i: (_picture(i), flow), 2)

    def after(t: Any) -> torch.Tensor:
        (batch,) = Loader(data, 2, transforms=[t], fields={"image": "Image", "flow": ("FloatMap", "vectors")})
        assert batch.flow.shape == (2, 2, *batch.image.shape[2:])
        middle = batch.flow[:, :, batch.flow.shape[2] // 2, batch.flow.shape[3] // 2]
        assert torch.equal(middle[0], middle[1])
        return middle[0]

    assert torch.equal(after(T.RandomHorizontalFlip(1.0)), torch.tensor([-3.0, 1.0]))
    assert torch.equal(after(T.RandomVerticalFlip(1.0)), torch.tensor([3.0, -1.0]))
    assert torch.equal(after(T.CenterCrop(20)), torch.tensor([3.0, 1.0]))
    torch.testing.assert_close(after(T.Resize((20, 104))), torch.tensor([6.0, 0.5]))
    torch.testing.assert_close(after(T.Resize(80)), torch.tensor([6.0, 2.0]))
    # torchvision rotates anticlockwise as seen, while y points down.
    torch.testing.assert_close(after(T.RandomRotation((90, 90))), torch.tensor([1.0, -3.0]), atol=1e-5, rtol=0)
    torch.testing.assert_close(after(T.RandomAffine((0, 0), scale=(2, 2))), torch.tensor([6.0, 2.0]), atol=1e-5, rtol=0)
    (batch,) = Loader(
        data,
        2,
        transforms=[T.RandomResizedCrop((20, 26), (0.25, 0.25), (1.0, 1.0))],
        fields={"image": "Image", "flow": ("FloatMap", "vectors")},
    )
    torch.testing.assert_close(batch.flow[:, 0] / 3, torch.full((2, 20, 26), 26 / 23.0), atol=0.06, rtol=0)
    with pytest.raises(UnsupportedError, match=r"ElasticTransform.*map of vectors cannot follow"):
        after(T.ElasticTransform())
    with pytest.raises(InvalidArgumentError, match="vectors with 3 channels: it has two"):
        next(iter(Loader(Samples(lambda i: (_picture(i), _picture(i))), 2, fields={"image": "Image", "f": ("FloatMap", "vectors")})))


@pytest.fixture
def files(tmp_path: Path) -> list[tuple[str, str, str, int]]:
    """Writes pairs of pictures with a depth map of 16 bits. Returns (picture, picture, depth map, label) for each."""
    cv2 = pytest.importorskip("cv2")
    rows = []
    for i in range(6):
        names = [str(tmp_path / f"{kind}{i}.png") for kind in ("a", "b", "d")]
        picture = _picture(i)
        cv2.imwrite(names[0], picture)
        cv2.imwrite(names[1], 255 - picture)
        cv2.imwrite(names[2], picture[..., 0].astype(np.uint16) * 200)
        rows.append((*names, i))
    return rows


@pytest.mark.essential
def test_lists_and_tables_of_files(files: list[tuple[str, str, str, int]], tmp_path: Path) -> None:
    fields = {"left": "Image", "right": "Image", "depth": "FloatMap", "label": None}
    steps = [T.RandomCrop(24), T.RandomHorizontalFlip()]

    def check(loader: Loader) -> None:
        count = 0
        for batch in loader:
            assert batch._fields == tuple(fields)
            assert (batch.left + batch.right - 1).abs().max() < 1e-6
            assert torch.equal(batch.depth[:, 0], (batch.left[:, 2] * 255).round() * 200)
            count += len(batch.label)
        assert count == 6

    check(Loader(files, 3, fields=fields, transforms=steps))
    with (tmp_path / "table.csv").open("w", newline="") as f:
        csv.writer(f).writerows(
            [("left", "right", "depth", "label"), *((Path(a).name, Path(b).name, Path(d).name, n) for a, b, d, n in files)]
        )
    check(Loader.from_csv(tmp_path / "table.csv", 3, path="left", fields=fields, transforms=steps))
    with pytest.raises(InvalidArgumentError, match="'label' is a Mask, so a column of this name has to hold paths"):
        Loader.from_csv(tmp_path / "table.csv", 3, path="left", fields={"left": "Image", "label": "Mask"})


@pytest.mark.essential
def test_files_of_bands_keep_their_numbers(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    want, rows = [], []
    for i in range(4):
        pixels = np.random.default_rng(i).integers(0, 65536, (*SIZE, 13)).astype(np.uint16)
        (tmp_path / "c").mkdir(exist_ok=True)
        tifffile.imwrite(tmp_path / "c" / f"{i}.tif", pixels, photometric="minisblack", planarconfig="contig")
        want.append(pixels[8:32, 14:38].transpose(2, 0, 1).astype(np.float32))
        rows.append((str(tmp_path / "c" / f"{i}.tif"), i))
    fields = {"image": "FloatMap", "label": None}
    for source in (rows, str(tmp_path), Samples(lambda i: rows[i], 4)):
        (batch,) = Loader(source, 4, fields=fields, transforms=[T.CenterCrop(24)])
        np.testing.assert_array_equal(batch.image.numpy(), want)
        (batch,) = Loader(source, 4, fields=fields, transforms=[T.CenterCrop(24), T.Normalize([100.0] * 13, [50.0] * 13)])
        np.testing.assert_allclose(batch.image.numpy(), (np.stack(want) - 100) / 50, rtol=1e-6, atol=1e-5)
    with pytest.raises(StokerError, match=r"no picture of gray or colours.*FloatMap"):
        next(iter(Loader(rows, 4)))


@pytest.mark.parametrize("dtype", ["uint16", "int16"])
def test_whole_numbers_of_16_bits(tmp_path: Path, dtype: str) -> None:
    low = np.iinfo(dtype).min
    want = [(np.random.default_rng(i).integers(0, 65536, SIZE) + low).astype(dtype) for i in range(4)]
    kind, given = {"image": "FloatMap", "label": None}, getattr(torch, dtype)
    sources: list[Any] = [Samples(lambda i: (want[i], i), 4), Samples(lambda i: (torch.from_numpy(want[i])[None], i), 4)]
    if dtype == "uint16":
        (tmp_path / "c").mkdir()
        for i, image in enumerate(want):
            Image.fromarray(image).save(tmp_path / "c" / f"{i}.png")
        sources.append(str(tmp_path))
    for source in sources:
        for layout in (torch.contiguous_format, torch.channels_last):
            (batch,) = Loader(source, 4, fields=kind, dtype=given, memory_format=layout)
            assert batch.image.dtype == given and batch.image.is_contiguous(memory_format=layout)
            np.testing.assert_array_equal(batch.image.numpy()[:, 0], np.stack(want))
        (floats,) = Loader(source, 4, fields=kind, transforms=[T.RandomResizedCrop(20), T.RandomHorizontalFlip()])
        (whole,) = Loader(source, 4, fields=kind, dtype=given, transforms=[T.RandomResizedCrop(20), T.RandomHorizontalFlip()])
        assert (whole.image.float() - floats.image).abs().max() <= 0.5
    beyond = np.array([[-40000.0, 70000.0, 2.4, 2.6]], np.float32)
    (batch,) = Loader(Samples(lambda i: (beyond, i), 1), 1, fields=kind, dtype=given)
    assert batch.image.flatten().tolist() == [low, np.iinfo(dtype).max, 2, 3]


def test_whole_numbers_of_16_bits_are_refused_with_a_way_out() -> None:
    image = Samples(lambda i: (np.zeros(SIZE, np.uint16), i), 4)
    kind = {"image": "FloatMap", "label": None}
    with pytest.raises(TypeError, match=r"'FloatMap', ...\} and dtype=torch.uint16 the numbers stay"):
        next(iter(Loader(image, 4)))
    with pytest.raises(InvalidArgumentError, match=r"fields=\{'image': 'FloatMap', ...\}"):
        Loader(image, 4, dtype=torch.uint16)
    for t, said in ((T.Normalize([0.0], [1.0]), "cannot be uint16"), (T.RandomErasing(value="random"), "cannot be uint16")):
        with pytest.raises(InvalidArgumentError, match=said):
            Loader(image, 4, fields=kind, dtype=torch.uint16, transforms=[t])
    with pytest.raises(InvalidArgumentError, match=r"leave dtype=torch\.uint16 out"):
        next(iter(Loader(image, 4, fields=kind, dtype=torch.uint16, batch_transforms=[T.MixUp(num_classes=4)])))
    pair = Samples(lambda i: (np.zeros(SIZE, np.uint16), _picture(i)), 4)
    with pytest.raises(InvalidArgumentError, match="a further image has 8 bits"):
        next(iter(Loader(pair, 4, fields={"image": "FloatMap", "b": "Image"}, dtype=torch.uint16)))
    with pytest.raises(InvalidArgumentError, match="of a FloatMap uint16 or int16, not int32"):
        Loader(image, 4, fields=kind, dtype=torch.int32)


def test_declared_floats_need_no_notice_and_followers_refuse_functions(capfd: pytest.CaptureFixture[str]) -> None:
    data = Samples(lambda i: (_smooth(i), _smooth(i)))
    next(iter(Loader(data, 4, fields={"image": "FloatMap", "depth": "FloatMap"})))
    assert "images of floats" not in capfd.readouterr().err
    pair = Samples(lambda i: (_picture(i), _picture(i)))
    for t in (T.Lambda(lambda x: x), T.RandAugment()):
        with pytest.raises(UnsupportedError, match="masks, boxes, points and further images cannot follow"):
            next(iter(Loader(pair, 4, fields={"image": "Image", "b": "Image"}, transforms=[t])))


def test_parts_in_any_order() -> None:
    mask = np.arange(SIZE[0] * SIZE[1], dtype=np.uint8).reshape(SIZE)
    data = Samples(lambda i: (mask, _picture(i), _picture(i)[..., 0].astype(np.float64), i))
    for batch in Loader(
        data, 4, transforms=[T.RandomCrop(20)], fields={"mask": "Mask", "left": "Image", "depth": "FloatMap", "label": None}
    ):
        assert batch._fields == ("mask", "left", "depth", "label")
        assert torch.equal(batch.depth, (batch.left[:, 0] * 255).round()) and batch.depth.shape == (4, 20, 20)
        assert batch.mask.shape == (4, 20, 20)


def test_pictures_that_differ_are_refused_with_a_reason() -> None:
    data = Samples(lambda i: (_picture(i), _picture(i, size=(20, 26))))
    with pytest.raises(ValueError, match=r"the image 'b' has 26 x 20 pixels and the image 52 x 40: they have to be equal.*\(None\)"):
        next(iter(Loader(data, 4, fields={"image": "Image", "b": "Image"})))
    with pytest.raises(InvalidArgumentError, match="only BoundingBoxes, and a FloatMap of 'vectors'"):
        Loader(data, 4, fields={"image": "Image", "b": ("Mask", "vectors")})
    with pytest.raises(InvalidArgumentError, match=r"a field is 'Image'.*'FloatMap'"):
        Loader(data, 4, fields={"image": "Picture"})


def test_tv_tensors_need_no_names() -> None:
    data = Samples(lambda i: (tv_tensors.Image(torch.from_numpy(_picture(i)).permute(2, 0, 1)),) * 2)
    (batch,) = Loader(data, 8, transforms=[T.RandomCrop(24), T.ColorJitter(0.3)])
    assert torch.equal(batch[0], batch[1])
    assert stoker.__version__


@pytest.mark.parametrize(
    "ours, theirs",
    [(T.CenterCrop((24, 24)), v2.CenterCrop((24, 24))), (T.CenterCrop((231, 244)), v2.CenterCrop((231, 244)))]
    + [(T.RandomRotation((a, a), expand=True), v2.RandomRotation((a, a), expand=True)) for a in (10, 45, -33, 90)],
)
def test_boxes_stay_with_the_pixels(ours, theirs):
    """The pixels are torchvision's. Where torchvision's boxes are off by up to a pixel, Stoker's still enclose the white pixels that the given box encloses."""
    image, box = np.zeros((160, 211, 3), np.uint8), [90, 70, 121, 99]
    image[box[1] : box[3], box[0] : box[2]] = 255

    class Data:
        def __len__(self):
            return 1

        def __getitem__(self, i):
            return image, np.float32([box])

    batch = next(iter(Loader(Data(), 1, transforms=[ours], fields={"image": "Image", "boxes": "BoundingBoxes"}, dtype=torch.uint8)))
    given = tv_tensors.BoundingBoxes(torch.tensor([box], dtype=torch.float32), format="XYXY", canvas_size=image.shape[:2])
    pixels, boxes = theirs(tv_tensors.Image(torch.from_numpy(image).permute(2, 0, 1)), given)
    assert torch.equal(batch.image[0], pixels.as_subclass(torch.Tensor))
    assert (batch.boxes[0] - boxes.as_subclass(torch.Tensor)).abs().max() <= 1
    y, x = (batch.image[0, 0] > 127).nonzero(as_tuple=True)
    drawn = torch.stack([x.min(), y.min(), x.max() + 1, y.max() + 1])
    assert (batch.boxes[0][0] - drawn).abs().max() < 0.9  # the tip of a turned corner may have no pixel


@pytest.mark.parametrize("size, kernel", [((4, 5), 9), ((4, 12), 9), ((4, 5), (3, 9)), ((2, 2), 23)])
def test_a_kernel_that_is_wider_than_the_image(size, kernel):
    """torchvision refuses such a kernel. Stoker mirrors the image as often as needed, as numpy.pad does."""
    kx, ky = (kernel, kernel) if isinstance(kernel, int) else kernel
    image = np.random.default_rng(0).random((*size, 3), np.float32)

    class Data:
        def __len__(self):
            return 1

        def __getitem__(self, i):
            return image, 0

    def weights(n):
        w = np.exp(-0.5 * ((np.arange(n) - n // 2) / 1.5) ** 2)
        return w / w.sum()

    with pytest.raises(RuntimeError, match="Padding size should be less"):
        v2.GaussianBlur(kernel, (1.5, 1.5))(torch.from_numpy(image).permute(2, 0, 1))
    want = np.pad(image.astype(np.float64), ((ky // 2,) * 2, (kx // 2,) * 2, (0, 0)), mode="reflect")
    want = sum(w * want[i : i + size[0]] for i, w in enumerate(weights(ky)))
    want = sum(w * want[:, i : i + size[1]] for i, w in enumerate(weights(kx)))
    got = next(iter(Loader(Data(), 1, transforms=[T.GaussianBlur(kernel, (1.5, 1.5))], layout="HWC"))).image[0].numpy()
    assert np.abs(got.reshape(3, *size).transpose(1, 2, 0) - want).max() < 1e-5
