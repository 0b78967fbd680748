# SPDX-License-Identifier: Apache-2.0
"""The scale of fills, thresholds and erasing values: the one that torchvision's images have at that place in the list. Compared with torchvision."""

import random

import numpy as np
import pytest
import stoker
import torch
from PIL import Image
from stoker import Loader
from stoker import transforms as T
from stoker.errors import InvalidArgumentError
from support import SEED, import_torchvision

torchvision = import_torchvision()
from torchvision import datasets, tv_tensors  # noqa: E402
from torchvision import transforms as v1  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

CASES = 40
UNIT = {
    "ToTensor": lambda: [v1.ToTensor()],
    "ConvertImageDtype": lambda: [v1.PILToTensor(), v1.ConvertImageDtype(torch.float32)],
    "ToDtype": lambda: [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)],
}
TO_255 = [v2.ToImage(), v2.ToDtype(torch.float32)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("scales")
    rng = np.random.default_rng(SEED)
    for k in range(3):
        (root / "a").mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (23, 31, 3), np.uint8)).save(root / "a" / f"{k}.png")
    return root


def drawn_fill(draw):
    """Returns a number from 0 to 1, often one that a byte holds."""
    return draw.choice([0, 1, 1.0, 0.5, draw.random(), draw.randrange(256) / 255])


def drawn(draw):
    """Returns a module of torchvision, and a function that makes a transform of a module. The transform does the same in each call."""
    module = draw.choice([v1, v2])
    fill, pixels, angle = drawn_fill(draw), draw.randrange(1, 5), draw.uniform(-170, 170)
    several = [drawn_fill(draw) for _ in range(3)] if module is v2 and draw.random() < 0.5 else fill  # v1 takes one number for tensors
    make = draw.choice(
        [
            lambda m: m.Pad(pixels, fill=several),
            lambda m: m.RandomCrop((23 + 2 * pixels, 31 + 2 * pixels), padding=pixels, fill=several),
            lambda m: m.RandomCrop((30, 41), padding=(5, 4, 5, 3), fill=fill),
            lambda m: m.RandomRotation((angle, angle), fill=fill),
            lambda m: m.RandomAffine((angle, angle), shear=(9, 9), scale=(0.6, 0.6), fill=fill),
            lambda m: m.RandomSolarize(fill, p=1.0),
            lambda m: m.RandomInvert(p=1.0),
            lambda m: m.RandomApply([m.RandomRotation((angle, angle), fill=fill), m.RandomInvert(p=1.0)], p=1.0),
        ]
    )
    return module, make


@pytest.mark.parametrize("number", range(CASES))
def test_numbers_after_a_conversion_to_floats_are_those_of_torchvision(folder, number):
    draw = random.Random(f"{SEED} {number}")
    module, make = drawn(draw)
    name = draw.choice(list(UNIT))
    end = [v1.Normalize([0.4, 0.5, 0.6], [0.25] * 3)] if draw.random() < 0.5 else []
    chain = v1.Compose([*UNIT[name](), make(module), *end])
    data = datasets.ImageFolder(folder, chain)
    wanted = torch.stack([data[k][0] for k in range(3)])
    arrays = np.stack([np.asarray(data.loader(path)) for path, _ in data.samples])
    for loader in (Loader(data, 3), stoker.DataLoader(data, 3), Loader((arrays,), 3, transforms=chain)):
        made = next(iter(loader))[0]
        assert made.shape == wanted.shape and made.dtype == wanted.dtype, chain
        far = (made - wanted).abs() > (1.01 / 255) / (0.25 if end else 1)
        # A position between two pixels may be rounded to either of them.
        assert far.float().mean() < (0.02 if "angle" in make.__code__.co_freevars else 1e-9), (chain, loader)
    own = T.Compose([T.ToTensor(), make(T), *(T.Normalize([0.4, 0.5, 0.6], [0.25] * 3) for _ in end)])
    called = own(data.loader(data.samples[0][0]))
    assert ((called - wanted[0]).abs() > 1.01 / 255 / 0.25).float().mean() < 0.02, own


@pytest.mark.parametrize("where", ["unit", "255", "bytes"])
@pytest.mark.parametrize(
    "make",
    [
        lambda fill: v2.RandomPerspective(0.9, p=1.0, fill=fill),
        lambda fill: v2.RandomPerspective(0.9, p=1.0, interpolation=v2.InterpolationMode.NEAREST, fill=fill),
        lambda fill: v2.RandomRotation((40, 40), v2.InterpolationMode.BILINEAR, fill=fill),
        lambda fill: v2.ElasticTransform(400.0, 2.0, fill=fill),
        lambda fill: v2.RandomZoomOut(fill=fill, side_range=(2, 2), p=1.0),
        lambda fill: T.FixedSizeCrop(40, fill=fill),
        lambda fill: v2.RandomChoice([v2.RandomRotation((40, 40), fill=fill), v2.RandomAffine((50, 50), fill=fill)]),
        lambda fill: v2.TrivialAugmentWide(fill=fill),
    ],
)
def test_random_moves_fill_with_the_number_on_the_scale_of_the_images(make, where):
    """On white images, a fill is the only other value, apart from mixtures of the two and the results of changes of colours."""
    fill, most = {"unit": (0.4, 1.0), "255": (102.0, 255.0), "bytes": (102, 255)}[where]
    if where == "255" and "TrivialAugmentWide" in make.__code__.co_names:
        pytest.skip("is refused after ToDtype(scale=False)")
    chain = [*{"unit": UNIT["ToDtype"](), "255": TO_255, "bytes": [v2.ToImage()]}[where], make(fill)]
    white = np.full((40, 24, 24, 3), 255, np.uint8)
    made = next(iter(Loader((white,), 40, transforms=chain)))[0].double() / most
    assert made.max() == 1
    if "TrivialAugmentWide" not in make.__code__.co_names:
        # The edge of ElasticTransform is s * s + (1 - s) * fill, as in torchvision: at least 0.36.
        assert made.min() >= 0.36 - 1.01 / 255
    assert ((made - 0.4).abs() < 1.01 / 255).any()


def test_fills_of_masks_and_of_further_images_have_their_own_scales():
    """The scale of a fill is that of the field: a mask keeps class numbers, images of bytes become floats, and images of floats stay as they are."""
    image, mask = np.zeros((6, 6, 3), np.uint8), np.zeros((6, 6), np.uint8)

    class Samples(torch.utils.data.Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, k):
            return {"image": image, "mask": mask, "more": image, "map": np.zeros((6, 6, 1), np.float32)}

    fields = {"image": "Image", "mask": "Mask", "more": "Image", "map": "FloatMap"}
    fill = {"Image": 1.0, "Mask": 7, "others": 0.5}
    for pad in (T.Pad(1, fill=fill), T.RandomCrop(8, padding=1, fill=fill)):
        batch = next(iter(Loader(Samples(), 2, fields=fields, transforms=[T.ToTensor(), pad])))
        corners = [getattr(batch, name)[0].reshape(-1, 8, 8)[0, 0, 0].item() for name in ("image", "mask", "more", "map")]
        assert corners == pytest.approx([1.0, 7, 1.0, 0.5]), pad


@pytest.mark.parametrize(
    "transform",
    [
        v1.Pad(2, fill=255),
        v1.RandomCrop(36, padding=9, fill=-1.0),
        v1.RandomRotation(30, fill=2),
        v1.RandomSolarize(128, p=1.0),
        v1.RandomErasing(1.0, value=-1),
        v1.RandomErasing(1.0, value=(0.5, 128, 0.5)),
        v1.RandomApply([v1.RandomRotation(30, fill=255)]),
    ],
    ids=repr,
)
def test_numbers_that_bytes_cannot_hold_are_refused_by_a_loader(folder, transform):
    """stoker.DataLoader gives such transforms to torchvision."""
    chain = v1.Compose([v1.ToTensor(), transform])
    data = datasets.ImageFolder(folder, chain)
    with pytest.raises(InvalidArgumentError, match=r"values from 0 to 1: give a number from 0 to 1\. .* stoker\.DataLoader calls"):
        next(iter(Loader(data, 3)))
    torch.manual_seed(1)
    try:
        wanted = next(iter(torch.utils.data.DataLoader(data, 3)))[0]
    except TypeError:  # torchvision refuses this threshold
        return
    torch.manual_seed(1)
    assert torch.equal(next(iter(stoker.DataLoader(data, 3)))[0], wanted)


def test_a_data_loader_compiles_values_that_bytes_can_hold(folder):
    data = datasets.ImageFolder(folder, v1.Compose([v1.ToTensor(), v1.RandomErasing(1.0, value=(0.5, 0, 1))]))
    loader = stoker.DataLoader(data, 3, num_workers=1)
    first = next(iter(loader))[0]
    assert "cutout" in loader.explain()
    changed = (first - torch.stack([v1.ToTensor()(data.loader(path)) for path, _ in data.samples])).abs() > 1e-3
    assert changed[:, 2].any() and (first[:, 2][changed[:, 2]] == 1).all()


def test_erasing_values_after_normalize_are_of_any_size(folder):
    chain = v1.Compose([v1.ToTensor(), v1.Normalize([0.5] * 3, [0.5] * 3), v1.RandomErasing(1.0, value=-7)])
    data = datasets.ImageFolder(folder, chain)
    for loader in (Loader(data, 3), stoker.DataLoader(data, 3)):
        assert next(iter(loader))[0].min() == -7


@pytest.mark.parametrize("group", [lambda t: t, lambda t: v1.RandomApply([t], p=1.0)], ids=["outside", "in a group"])
def test_erasing_values_are_floats_from_0_to_1_unless_the_images_are_uint8(group):
    black = np.zeros((3, 40, 40, 3), np.uint8)
    erasing = v1.RandomErasing(1.0, value=0.2)
    for first in ([], [v1.ToTensor()]):
        assert next(iter(Loader((black,), 3, transforms=[*first, group(erasing)])))[0].max() == pytest.approx(0.2)
    made = next(iter(Loader((black,), 3, transforms=[v1.PILToTensor(), group(v1.RandomErasing(1.0, value=51))])))[0]
    assert made.max() == 51


@pytest.mark.parametrize(
    "transform",
    [
        v2.RandomInvert(1.0),
        v2.RandomSolarize(0.5, p=1.0),
        v2.ColorJitter(0.5),
        v2.RandomAutocontrast(1.0),
        v2.RandomEqualize(1.0),
        v2.RandomPosterize(2, p=1.0),
        v2.RandomAdjustSharpness(2.0, p=1.0),
        v2.RandomPhotometricDistort(),
        v2.GaussianNoise(),
        v2.RandAugment(),
        v2.RandomApply([v2.RandomInvert(1.0)]),
    ],
    ids=lambda t: type(t).__name__,
)
def test_colours_of_floats_from_0_to_255_are_refused(folder, transform):
    """torchvision computes with floats as if they were from 0 to 1. A data set's own floats may have this scale, so they are not refused."""
    data = datasets.ImageFolder(folder, v2.Compose([*TO_255, transform]))
    with pytest.raises(InvalidArgumentError, match="give scale=True"):
        next(iter(Loader(data, 3)))


def test_floats_of_the_data_set_keep_their_scale():
    images = torch.rand(2, 3, 9, 9, generator=torch.Generator().manual_seed(SEED))
    data = torch.utils.data.TensorDataset(images)
    for transform in (v2.RandomInvert(1.0), v2.Pad(1, fill=-3.0), v2.RandomSolarize(0.5, p=1.0)):
        for scale in (False, True):
            (made,) = next(iter(Loader(data, 2, layout="CHW", transforms=[v2.ToDtype(torch.float32, scale=scale), transform])))
            assert torch.allclose(made, transform(images), atol=1e-6), (transform, scale)


def test_an_erasing_after_one_with_noise_replaces_the_noise():
    steps = [T.RandomErasing(1.0, scale=(0.9, 0.95), ratio=(1, 1), value="random"), T.RandomErasing(1.0, scale=(0.4, 0.5), value=0.2)]
    made = next(iter(Loader((np.zeros((3, 40, 40, 3), np.uint8),), 3, transforms=steps)))[0]
    assert 0.39 < (made == np.float32(0.2)).float().mean() < 0.51


# ---- types for kinds of fields ----


class Boxed(torch.utils.data.Dataset):
    """Samples with an image, a mask and boxes, as tv_tensors."""

    def __init__(self, transform=None):
        rng = np.random.default_rng(SEED)
        self.images, self.masks = rng.integers(0, 256, (4, 3, 8, 9), np.uint8), rng.integers(0, 5, (4, 8, 9)).astype(np.uint8)
        self.transform = transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, k):
        sample = {
            "image": tv_tensors.Image(torch.from_numpy(self.images[k])),
            "mask": tv_tensors.Mask(torch.as_tensor(self.masks[k])),
            "boxes": tv_tensors.BoundingBoxes(torch.tensor([[1.0, 2, 5, 6]]), format="XYXY", canvas_size=(8, 9)),
        }
        return sample if self.transform is None else self.transform(sample)


@pytest.mark.parametrize("number", range(CASES))
def test_types_of_fields_are_those_of_torchvision(number):
    draw = random.Random(f"{SEED} types {number}")
    kinds = {
        tv_tensors.Image: [None, torch.float32, torch.uint8],
        tv_tensors.Mask: [None, torch.int64, torch.uint8, torch.float32],
        tv_tensors.BoundingBoxes: [None, torch.float32, torch.int64],
        torch.Tensor: [None, torch.float32],
    }
    chosen = {kind: draw.choice(options) for kind, options in kinds.items() if draw.random() < 0.5}
    if draw.random() < 0.8:
        chosen["others"] = draw.choice([None, torch.float32, torch.int64])
    moves = draw.choice([[], [v2.RandomHorizontalFlip(1.0)], [v2.RandomHorizontalFlip(1.0), v2.RandomCrop((5, 6))]])
    chain = v2.Compose([*moves, v2.ToImage(), v2.ToDtype(chosen, scale=draw.random() < 0.7)])
    try:
        wanted = Boxed(chain)[0]
    except ValueError:  # torchvision demands a type for each kind that samples have
        return
    try:
        batch = next(iter(Loader(Boxed(), 1, transforms=chain, fields=("image", "mask", "boxes"))))
    except InvalidArgumentError as e:
        image, boxes = wanted["image"].dtype, wanted["boxes"].dtype
        assert ("images are float32" in str(e) and image == torch.int64) or (
            "a Loader keeps their type" in str(e) and boxes != torch.float32
        ), e
        return
    for name in ("image", "mask"):
        made = getattr(batch, name)[0]
        assert made.dtype == wanted[name].dtype, (chosen, name)
        if len(moves) < 2:
            assert torch.allclose(made.double(), wanted[name].double(), atol=1e-6), (chosen, name)
    assert batch.boxes[0].dtype == wanted["boxes"].dtype


@pytest.mark.parametrize("first", [v2.ToImage, v2.PILToTensor])
@pytest.mark.parametrize(
    "chosen",
    [
        {tv_tensors.Image: None, "others": torch.float32},
        {tv_tensors.Image: torch.float32, "others": None},
        {tv_tensors.Image: torch.float32, tv_tensors.Mask: torch.int64, "others": None},
        {tv_tensors.Mask: torch.int64, "others": None},
        {tv_tensors.Mask: torch.int64, "others": torch.float32},
        {torch.Tensor: torch.float32, "others": None},
    ],
    ids=str,
)
def test_types_of_images_are_those_of_torchvision(folder, first, chosen):
    """PILToTensor makes plain tensors, for which ToDtype does not take the type of tv_tensors.Image."""
    data = datasets.ImageFolder(folder, v2.Compose([first(), v2.ToDtype(chosen, scale=True)]))
    wanted = torch.stack([data[k][0] for k in range(3)])
    for loader in (Loader(data, 3), stoker.DataLoader(data, 3, num_workers=1)):
        made = next(iter(loader))[0]
        assert made.dtype == wanted.dtype and torch.allclose(made.double(), wanted.double(), atol=1e-6), loader


@pytest.mark.parametrize(
    ("given", "wanted", "fits"),
    [
        (torch.int64, torch.uint8, False),
        (torch.uint8, torch.int8, False),
        (torch.int64, torch.int32, False),
        (torch.int32, torch.int64, True),
        (torch.uint8, torch.int16, True),
        (torch.bool, torch.uint8, True),
        (torch.int16, torch.bool, True),
        (torch.int64, torch.float32, True),
    ],
    ids=str,
)
def test_types_of_masks_hold_all_values(given, wanted, fits):
    """torchvision keeps the lowest bits of values that a type cannot hold: the label -1 becomes 255, for example."""
    mask = torch.arange(72).reshape(8, 9).to(given)
    data = Boxed()
    data.images, data.masks = np.zeros((2, 3, 8, 9), np.uint8), [mask] * 2
    chain = [v2.ToImage(), v2.ToDtype({tv_tensors.Mask: wanted, "others": None})]
    if fits:
        made = next(iter(Loader(data, 2, transforms=chain, fields=("image", "mask", "boxes")))).mask
        assert made[0].dtype == wanted and torch.equal(made[0], v2.Compose(chain)(data[0])["mask"])
    else:
        with pytest.raises(InvalidArgumentError, match=r"cannot hold all values of .* convert masks in the Dataset"):
            next(iter(Loader(data, 2, transforms=chain, fields=("image", "mask", "boxes"))))


@pytest.mark.parametrize("scale", [False, True])
def test_images_that_to_dtype_leaves_as_they_are_need_a_type(scale):
    chain = [v2.RandomHorizontalFlip(1.0), v2.ToDtype({tv_tensors.Mask: torch.int64, "others": None}, scale=scale)]
    with pytest.raises(InvalidArgumentError, match=r"put ToImage\(\) before it"):
        next(iter(Loader(Boxed(), 1, transforms=chain, fields=("image", "mask", "boxes"))))


def test_to_pure_tensor_makes_images_plain_tensors(folder):
    """torchvision then takes the entry of ToDtype for torch.Tensor, and calls no function for tv_tensors.Image."""
    pure = [v2.ToImage(), v2.ToPureTensor()]
    for chosen in ({tv_tensors.Image: torch.float32, "others": None}, {tv_tensors.Image: None, "others": torch.float32}):
        data = datasets.ImageFolder(folder, v2.Compose([*pure, v2.ToDtype(chosen, scale=True)]))
        wanted = torch.stack([data[k][0] for k in range(3)])
        for loader in (Loader(data, 3), stoker.DataLoader(data, 3, num_workers=1)):
            made = next(iter(loader))[0]
            assert made.dtype == wanted.dtype and torch.allclose(made.double(), wanted.double(), atol=1e-6), loader
    for first in (pure, [v2.ToImage(), v2.Lambda(torch.neg), v2.ToPureTensor()]):
        with pytest.raises(
            InvalidArgumentError, match=r"does not call this one for an image, which is a torch\.Tensor: leave out the Lambda"
        ):
            Loader(folder, 3, transforms=[*first, v2.Lambda(torch.neg, tv_tensors.Image)])
    with pytest.raises(InvalidArgumentError, match=r"if the data set gives tensors, put ToImage\(\) before it"):
        Loader(folder, 3, transforms=[v2.Lambda(torch.neg, tv_tensors.Image)])


def test_types_of_masks_after_to_pure_tensor_do_not_hold():
    chain = [
        v2.ToImage(),
        v2.ToPureTensor(),
        v2.ToDtype({tv_tensors.Mask: torch.int64, torch.Tensor: torch.float32, "others": None}, scale=True),
    ]
    batch = next(iter(Loader(Boxed(), 1, transforms=chain, fields=("image", "mask", "boxes"))))
    assert batch.image.dtype == torch.float32 and batch.mask[0].dtype == v2.Compose(chain)(Boxed()[0])["mask"].dtype == torch.uint8


def test_to_dtype_takes_names_of_kinds():
    image = np.full((4, 4, 3), 51, np.uint8)
    assert T.ToDtype({"Image": torch.float32, "others": None}, scale=True)(image).max() == pytest.approx(0.2)
    unchanged = T.ToDtype({"Image": None, "Mask": torch.int64})
    assert unchanged(image).dtype == np.uint8 and repr(unchanged) == "ToDtype({'Image': None, 'Mask': torch.int64})"
    with pytest.raises(ValueError, match="names no type for images: add one for Image or others"):
        T.ToDtype({"Mask": torch.int64})


class OfKind(torch.utils.data.Dataset):
    """Images as PIL images, images of tv_tensors, plain tensors or arrays."""

    def __init__(self, kind, transform=None):
        self.images, self.kind, self.transform = np.random.default_rng(SEED).integers(0, 256, (4, 8, 9, 3), np.uint8), kind, transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, k):
        tensor = torch.from_numpy(self.images[k]).permute(2, 0, 1)
        given = {"PIL": Image.fromarray, "array": np.asarray, "Tensor": lambda _: tensor, "Image": lambda _: tv_tensors.Image(tensor)}
        image = given[self.kind](self.images[k])
        return (image if self.transform is None else self.transform(image)), k


def upside_down(image):
    return image.transpose(Image.Transpose.FLIP_TOP_BOTTOM)


TO_FLOAT = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
WHITE = {tv_tensors.Image: 200, "others": 0}
BY_KIND = {
    "Lambda": [v2.Lambda(upside_down, Image.Image), *TO_FLOAT],
    "Lambda in a group": [v2.RandomApply([v2.Lambda(upside_down, Image.Image)], p=1.0), *TO_FLOAT],
    "ToDtype": [v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True)],
    "ToDtype of tensors": [v2.ToDtype({tv_tensors.Image: torch.float32, torch.Tensor: torch.uint8, "others": None}, scale=True)],
    "ToDtype after ToPureTensor": [v2.ToPureTensor(), v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True)],
    "Pad": [v2.Pad(2, fill=dict(WHITE)), *TO_FLOAT],
    "Pad in a group": [v2.RandomApply([v2.RandomRotation((45, 45), fill=dict(WHITE))], p=1.0), *TO_FLOAT],
    "Pad without others": [v2.Pad(2, fill={tv_tensors.Image: 200, tv_tensors.Mask: 0}), *TO_FLOAT],
    "Pad of PIL images": [v2.Pad(2, fill={Image.Image: 200, "others": 0}), *TO_FLOAT],
    "Pad of all": [v2.Pad(2, fill={tv_tensors.Image: (7, 7, 7), tv_tensors.Mask: 0, "others": 7}), *TO_FLOAT],
    "Pad after ToImage": [v2.ToImage(), v2.Pad(2, fill=dict(WHITE)), v2.ToDtype(torch.float32, scale=True)],
    "RandomCrop": [v2.RandomCrop(12, pad_if_needed=True, padding=4, fill=dict(WHITE)), *TO_FLOAT],
    "RandomZoomOut": [v2.RandomZoomOut(fill=dict(WHITE), side_range=(2.0, 2.0), p=1.0), *TO_FLOAT],
    "RandAugment": [v2.RandAugment(fill=dict(WHITE)), *TO_FLOAT],
}
# The types of images for which torchvision does something else than a Loader, which refuses them.
REFUSED = {
    **dict.fromkeys(("Lambda", "Lambda in a group", "ToDtype after ToPureTensor", "Pad of PIL images"), ("Image", "Tensor")),
    **dict.fromkeys(("ToDtype", "ToDtype of tensors"), ("Tensor",)),
    **dict.fromkeys(("Pad", "Pad in a group", "Pad without others", "RandomCrop", "RandomZoomOut", "RandAugment"), ("PIL", "Tensor")),
}


@pytest.mark.parametrize("kind", ["PIL", "Image", "Tensor", "array"])
@pytest.mark.parametrize("name", BY_KIND)
def test_transforms_that_depend_on_the_type_of_the_images_of_a_data_set(name, kind):
    """The Loader gives torchvision's images, or refuses."""
    chain = BY_KIND[name]
    if kind in REFUSED.get(name, ()):
        does = "that of tv_tensors.Image:" if kind == "PIL" else r"does something else than for PIL images.*"
        with pytest.raises(InvalidArgumentError, match=rf"{does} put ToImage\(\) before it"):
            next(iter(Loader(OfKind(kind), 4, transforms=chain, shuffle=False)))
        return
    made = next(iter(Loader(OfKind(kind), 4, transforms=chain, shuffle=False)))[0]
    if kind != "array" and not name.startswith("Rand") and not (kind == "PIL" and "ToDtype" in name):
        # The draws of the two are others. A Loader makes tensors of images where torchvision leaves PIL images or arrays.
        wanted = torch.stack([torch.as_tensor(OfKind(kind, v2.Compose(chain))[k][0]) for k in range(4)])
        assert made.dtype == wanted.dtype and torch.allclose(made, wanted, atol=1e-2 if "Pad" in name else 1e-6)


def test_fills_depend_on_the_type_of_images_of_files(folder):
    for name in ("Pad", "Pad without others"):
        with pytest.raises(InvalidArgumentError, match=r"that of tv_tensors.Image: put ToImage\(\) before it"):
            next(iter(Loader(folder, 3, transforms=BY_KIND[name])))
    with pytest.raises(InvalidArgumentError, match=r"give the fill of tv_tensors\.Image in place of that of PIL"):
        Loader(folder, 3, transforms=[v2.ToImage(), v2.Pad(2, fill={Image.Image: 200, "others": 0})])
    for name in ("Pad of PIL images", "Pad of all", "Pad after ToImage"):
        data = datasets.ImageFolder(folder, v2.Compose(BY_KIND[name]))
        wanted = torch.stack([data[k][0] for k in range(3)])
        assert torch.allclose(next(iter(Loader(folder, 3, transforms=BY_KIND[name], shuffle=False)))[0], wanted, atol=1e-6)


@pytest.mark.parametrize("crop", [v2.RandomCrop(32, padding=16, fill=dict(WHITE)), v2.RandAugment(fill=dict(WHITE))], ids=repr)
def test_a_dataloader_leaves_fills_of_other_types_to_torchvision(folder, crop):
    data = datasets.ImageFolder(folder, v2.Compose([crop, *TO_FLOAT]))
    torch.manual_seed(3)
    wanted = next(iter(torch.utils.data.DataLoader(data, 3)))[0]
    torch.manual_seed(3)
    assert torch.equal(next(iter(stoker.DataLoader(data, 3)))[0], wanted)


@pytest.mark.parametrize("first", [v2.PILToTensor(), v2.ToPureTensor()], ids=repr)
def test_fills_of_images_are_not_those_of_plain_tensors(folder, first):
    chain = [*([v2.ToImage()] if isinstance(first, v2.ToPureTensor) else []), first]
    with pytest.raises(InvalidArgumentError, match="images are plain tensors, for which torchvision takes the fill of"):
        Loader(folder, 3, transforms=[*chain, v2.Pad(2, fill={tv_tensors.Image: 200, "others": 0})])
    same = [*chain, v2.Pad(2, fill={tv_tensors.Mask: 200, "others": 7}), v2.ToDtype(torch.float32, scale=True)]
    data = datasets.ImageFolder(folder, v2.Compose(same))
    wanted = torch.stack([data[k][0] for k in range(3)])
    assert torch.allclose(next(iter(Loader(folder, 3, transforms=same, shuffle=False)))[0], wanted, atol=1e-6)


@pytest.mark.parametrize(
    "returns", [lambda image: 255 - image, lambda image: tv_tensors.wrap(255 - image, like=image)], ids=["plain", "image"]
)
@pytest.mark.parametrize("typed", [v2.Lambda(torch.neg, tv_tensors.Image), v2.Lambda(torch.neg, torch.Tensor)], ids=["Image", "Tensor"])
@pytest.mark.parametrize("grouped", [False, True])
def test_types_of_a_function_after_another_function_are_those_of_its_result(folder, returns, typed, grouped):
    first = v2.Lambda(returns)
    chain = [v2.ToImage(), v2.RandomApply([first], p=1.0) if grouped else first, typed, v2.ToDtype(torch.float32, scale=True)]
    data = datasets.ImageFolder(folder, v2.Compose(chain))
    wanted = torch.stack([data[k][0] for k in range(3)])
    assert torch.allclose(next(iter(Loader(folder, 3, transforms=chain, shuffle=False)))[0], wanted, atol=1e-6)


@pytest.mark.parametrize(
    "moving", [v2.RandomHorizontalFlip(1.0), v2.RandomApply([v2.RandomVerticalFlip(1.0)], p=1.0), v2.CenterCrop(4)], ids=repr
)
def test_masks_do_not_follow_after_to_pure_tensor(moving):
    fields = ("image", "mask", "boxes")
    chain = [v2.ToImage(), v2.ToPureTensor(), moving, v2.ToDtype(torch.float32, scale=True)]
    with pytest.raises(InvalidArgumentError, match=r"comes after ToPureTensor.*Put ToPureTensor\(\) at the end"):
        next(iter(Loader(Boxed(), 2, transforms=chain, fields=fields)))
    for allowed in ([v2.ToImage(), moving, v2.ToPureTensor()], [v2.ToImage(), v2.ToPureTensor(), v2.RandomInvert(1.0)]):
        chain = [*allowed, v2.ToDtype(torch.float32, scale=True)]
        batch, wanted = next(iter(Loader(Boxed(), 1, transforms=chain, fields=fields, shuffle=False))), v2.Compose(chain)(Boxed()[0])
        assert torch.allclose(batch.image[0], wanted["image"], atol=1e-2) and torch.equal(batch.mask[0], wanted["mask"])
