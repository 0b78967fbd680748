# SPDX-License-Identifier: Apache-2.0
"""The layout of images that a Loader gets as arrays or tensors comes from layout=, or else from their extents; unclear extents are refused."""

import contextlib

import numpy as np
import pytest
import torch
from stoker import Loader, fn, pipeline_def
from stoker import transforms as T
from stoker.errors import InvalidArgumentError, UnsupportedError
from support import SEED, import_torchvision


class Set:
    """A map-style Dataset of images, whose targets are their numbers."""

    def __init__(self, images, count=None):
        self.images, self.count = images, len(images) if count is None else count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return self.images[i], i


class Stream(torch.utils.data.IterableDataset):
    def __init__(self, images):
        self.images = images

    def __iter__(self):
        return ((x, i) for i, x in enumerate(self.images))


@pytest.fixture
def draws(request):
    seed = [SEED, *request.node.name.encode()]
    print("seed", seed)
    return np.random.default_rng(seed)


def batches(source, size=4, **kwargs):
    return list(Loader(source, size, last_batch="keep", **{"dtype": torch.uint8, **kwargs}))


def images(source, size=4, **kwargs):
    return torch.cat([b.image for b in batches(source, size, **kwargs)])


def planes(draws, count, channels, low=6, high=40):
    """Returns images in the order (N, C, H, W), which users of torch expect."""
    height, width = (int(n) for n in draws.integers(low, high, 2))
    return draws.integers(0, 256, (count, channels, height, width), dtype=np.uint8)


def pixels_of(x):
    return np.ascontiguousarray(np.moveaxis(x, -3, -1))


FORMS = {"array": lambda x: x, "tensor": torch.from_numpy}
SOURCES = {
    "X": lambda x: (x, np.arange(len(x))),
    "Dataset": Set,
    "stream": Stream,
    "dicts": lambda x: [{"image": image, "label": i} for i, image in enumerate(x)],
}


def source_of(kind, x):
    made = SOURCES[kind](x)
    return Dicts(made) if kind == "dicts" else made


class Dicts(Set):
    def __getitem__(self, i):
        return self.images[i]


@pytest.mark.essential
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", SOURCES)
def test_layout_names_the_order_of_dimensions(draws, form, kind):
    """layout= determines the layout for any number of channels, rows and columns."""
    for _ in range(8):
        channels = int(draws.choice([1, 2, 3, 4, 5, 8, 31, 200]))
        x = planes(draws, 5, channels, *((1, 6) if draws.random() < 0.5 else (6, 40)))
        for layout, given in (("CHW", x), ("HWC", pixels_of(x))):
            got = images(source_of(kind, FORMS[form](given)), layout=layout)
            assert torch.equal(got, torch.from_numpy(x)), (layout, given.shape)


@pytest.mark.parametrize("kind", SOURCES)
def test_arrays_with_an_obvious_layout_need_none(draws, kind):
    for channels in (1, 2, 3, 4):
        x = planes(draws, 5, channels)
        for given in (pixels_of(x), torch.from_numpy(x), torch.from_numpy(pixels_of(x))):
            assert torch.equal(images(source_of(kind, given)), torch.from_numpy(x)), given.shape
    for rows in (2, 4):
        x = draws.integers(0, 256, (5, rows, int(draws.integers(1, 9)), 3), dtype=np.uint8)
        assert torch.equal(images(source_of(kind, x)), torch.from_numpy(x).permute(0, 3, 1, 2))
    gray = draws.integers(0, 256, (5, *draws.integers(1, 9, 2)), dtype=np.uint8)
    for form in FORMS.values():
        for layout in (None, "HWC", "CHW"):
            assert torch.equal(images(source_of(kind, form(gray)), layout=layout), torch.from_numpy(gray)[:, None])


SHAPES = {  # the shape of one image, and a word that the error message contains
    "many channels": ((8, 40, 50), "may be"),
    "many channels last": ((40, 50, 8), "may be"),
    "few rows of many channels": ((3, 40, 50), "look"),
    "one row of many channels": ((1, 40, 5), "look"),
    "three rows": ((3, 40, 3), "may be"),
    "three columns": ((3, 40, 2), "may be"),
    "a signal": ((3, 40, 1), "may be"),
    "a point": ((1, 1, 3), "may be"),
}


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", SHAPES)
def test_arrays_with_an_ambiguous_layout_are_refused(draws, case, form, dtype):
    shape, said = SHAPES[case]
    x = FORMS[form](draws.integers(0, 256, (4, *shape)).astype(dtype))
    if form == "tensor" and said == "look":  # the Loader reads a tensor of few channels as CHW
        assert torch.equal(images(Set(x), dtype=None if dtype == "float32" else torch.uint8), x)
        return
    a, b, c = shape
    ways = rf"layout='CHW'\) means {a} channels of {b} x {c} pixels, layout='HWC' {c} channels of {a} x {b}"
    for kind in SOURCES:
        if kind == "X" and dtype == "float32":
            continue
        error = InvalidArgumentError if kind == "X" else TypeError
        with pytest.raises(error, match=rf"{said}.*CHW.*{ways}"):
            batches(source_of(kind, x), dtype=None)
        for layout, channels in (("CHW", a), ("HWC", c)):  # each remedy of the message works
            assert images(source_of(kind, x), layout=layout, dtype=None).shape[1] == channels


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("channels", [3, 4])
def test_one_image_is_not_taken_for_gray_ones(draws, form, channels):
    """An array that looks like one image is refused as a set of images, and not read as many gray images, one for each row. The message names two
    solutions."""
    x = FORMS[form](draws.integers(0, 256, (*draws.integers(9, 40, 2), channels), dtype=np.uint8))
    with pytest.raises(InvalidArgumentError, match=rf"look like one image: give x\[None\] for that, and x\[..., None\] for {len(x)} gray"):
        Loader((x, np.arange(len(x))), 1)
    assert images((x[None], [0])).shape == (1, channels, *x.shape[:2])
    assert images((x[..., None], np.arange(len(x)))).shape == (len(x), 1, *x.shape[1:])


def test_all_images_of_a_data_set_have_one_layout(draws):
    tall, wide = torch.from_numpy(planes(draws, 1, 3)[0]), torch.from_numpy(pixels_of(planes(draws, 1, 3)[0]))
    for first, other, found, seen in ((tall, wide, "CHW", "HWC"), (wide, tall, "HWC", "CHW")):
        with pytest.raises(TypeError, match=rf"looks like {seen}; those before were {found}.*permute") as caught:
            batches(Set([first, first, other, first]), 1)
        assert caught.value.__notes__[0] == "in dataset[2]"
    # An image that is too small to show its layout has the layout of the others, if it has their number of channels.
    narrow = torch.from_numpy(draws.integers(0, 256, (3, 9, 2), dtype=np.uint8))
    made = batches(Set([tall, narrow]), 1)
    assert torch.equal(made[1].image[0], narrow)
    with pytest.raises(TypeError, match="may be CHW as well as HWC"):
        batches(Set([wide, narrow]), 1)
    strip = draws.integers(0, 256, (3, 9, 3), dtype=np.uint8)
    assert torch.equal(batches(Set([wide.numpy(), strip]), 1)[1].image[0], torch.from_numpy(strip).permute(2, 0, 1))
    # Arrays and tensors have separate rules, even if one data set has both, in either order.
    for order in ((0, 1), (1, 0)):
        both = [tall, tall.permute(1, 2, 0).numpy()]
        got = images(Set([both[k] for k in order]), 2)
        assert torch.equal(got, torch.stack([tall, tall]))


def test_memory_may_lie_in_any_order(draws):
    """Views are read with their strides: pixels stored as planes, every other column, mirrored, BGR as RGB."""
    x = planes(draws, 6, 3, 9, 30)
    rows = pixels_of(x)
    views = {
        "pixels": rows,
        "planes as pixels": x.transpose(0, 2, 3, 1),
        "every other": np.repeat(np.repeat(rows, 2, 2), 2, 0)[::2, :, ::2],
        "mirrored": rows[:, :, ::-1].copy()[:, :, ::-1],
        "turned": rows[..., ::-1].copy()[..., ::-1],
        "a part": np.concatenate([rows, rows], 3)[..., :3],
        "columns first": np.asfortranarray(rows),
    }
    for name, view in views.items():
        assert not name.startswith("pixels") or view.flags.c_contiguous
        for kind in ("X", "Dataset"):
            assert torch.equal(images(source_of(kind, view)), torch.from_numpy(x)), (name, kind)
            assert torch.equal(images(source_of(kind, view.transpose(0, 3, 1, 2)), layout="CHW"), torch.from_numpy(x)), (name, kind)
    mixed = [x[0], *(view[1].transpose(2, 0, 1) for view in views.values())]
    want = torch.from_numpy(np.stack([x[0], *[x[1]] * len(views)]))
    assert torch.equal(images(Set(mixed), layout="CHW"), want)
    assert torch.equal(images(Set(mixed[::-1]), layout="CHW"), want.flip(0))


@pytest.mark.parametrize("layout", ["HWC", "CHW"])
def test_transforms_of_many_channels(draws, layout):
    v2 = import_torchvision().transforms.v2
    channels = int(draws.integers(5, 20))
    x = torch.from_numpy(planes(draws, 4, channels, 24, 40))
    mean, std = draws.uniform(0.2, 0.8, channels).tolist(), draws.uniform(0.1, 0.4, channels).tolist()
    size = [int(n) for n in draws.integers(8, 30, 2)]
    for mine, theirs in (
        ([T.Resize(size)], [v2.Resize(size, antialias=True)]),
        ([T.CenterCrop(20), T.RandomHorizontalFlip(1)], [v2.CenterCrop(20), v2.RandomHorizontalFlip(1)]),
        ([T.Pad(3), T.RandomVerticalFlip(1)], [v2.Pad(3), v2.RandomVerticalFlip(1)]),
        ([T.RandomInvert(1), T.RandomSolarize(128, 1)], [v2.RandomInvert(1), v2.RandomSolarize(128, 1)]),
    ):
        for values in (x, x / 255):
            if values.is_floating_point() and isinstance(mine[0], T.RandomInvert):
                continue
            given = values if layout == "CHW" else values.permute(0, 2, 3, 1).contiguous()
            want = v2.Compose(theirs)(values) / (1 if values.is_floating_point() else 255)
            want = v2.Normalize(mean, std)(want)
            for source in (Set(given), Set(given.numpy())):
                got = images(source, transforms=[*mine, T.ToTensor(), T.Normalize(mean, std)], layout=layout, dtype=None)
                assert got.shape == want.shape
                far = ((got - want).abs() * torch.tensor(std)[:, None, None]).max() * 255
                assert far <= (1e-2 if values.is_floating_point() else 1.01)


def test_colours_of_other_channels_are_refused_when_the_loader_is_made(draws):
    """Transforms of colours are refused for images without three channels. Permuting channels, for example, would drop all but three of them."""
    for channels in (2, 4, 9):
        source = Set(planes(draws, 4, channels))
        for t, count in (
            (T.RandomChannelPermutation(), "3"),
            (T.RandomPhotometricDistort(), "3"),
            (T.Grayscale(), "3"),
            (T.RandomGrayscale(0.5), "3"),
            (T.JPEG((50, 60)), "3"),
            (T.ColorJitter(saturation=0.5), "1 or 3"),
            (T.RandomApply([T.TrivialAugmentWide()]), "1 or 3"),
            (T.RandomChoice([T.RandAugment(), T.Identity()]), "1 or 3"),
        ):
            with pytest.raises(InvalidArgumentError, match=rf"images of {count} channels, and the dataset's have {channels}: leave it out"):
                batches(source, transforms=[t], layout="CHW")
    picture = planes(draws, 4, 5)
    kept = images(Set(picture), transforms=[T.Lambda(lambda x: np.ascontiguousarray(x[..., :3])), T.RandomGrayscale(0)], layout="CHW")
    assert torch.equal(kept, torch.from_numpy(picture[:, :3]))


@pytest.mark.parametrize("channels", [3, 7])
def test_masks_and_boxes_follow_planes(draws, channels):
    x = planes(draws, 6, channels, 30, 50)
    height, width = x.shape[2:]
    masks = draws.integers(0, 9, (6, 2, height, width), dtype=np.uint8)
    boxes = np.float32([[1, 2, 9, 8], [3, 4, width - 1, height - 2]])

    class Scenes(Set):
        def __getitem__(self, i):
            return {"image": self.images[i], "mask": masks[i, 0], "masks": masks[i], "boxes": boxes}

    fields = {"image": "Image", "mask": "Mask", "masks": "Mask", "boxes": "BoundingBoxes"}
    steps = [T.RandomResizedCrop(24), T.RandomHorizontalFlip()]
    made = [
        batches(Scenes(images), 3, transforms=steps, fields=fields, layout=layout, seed=int(SEED))
        for images, layout in ((x, "CHW"), (pixels_of(x), "HWC"), (torch.from_numpy(x), "CHW"))
    ]
    for a, *others in zip(*made, strict=True):
        for b in others:
            assert torch.equal(a.image, b.image) and torch.equal(a.mask, b.mask)
            assert all(torch.equal(p, q) for p, q in zip(a.masks, b.masks, strict=True))
            assert all(torch.equal(p, q) for p, q in zip(a.boxes, b.boxes, strict=True))
    wrong = Scenes(x)
    masks = masks.transpose(0, 1, 3, 2)
    if height != width:
        with pytest.raises(ValueError, match=f"its image {width} x {height}"):
            batches(wrong, fields=fields, layout="CHW")


def test_shuffled_resumed_and_in_processes(draws):
    x = planes(draws, 23, 6)
    kwargs = {"shuffle": True, "seed": 5, "layout": "CHW", "fields": ("image", "index")}
    for source in ((x, np.arange(23)), Set(x)):
        whole = batches(source, 4, **kwargs)
        assert all(torch.equal(b.image, torch.from_numpy(x[b.index.numpy()])) for b in whole)
        loader = Loader(source, 4, last_batch="keep", dtype=torch.uint8, **kwargs)
        next(iter(loader))
        other = Loader(source, 4, last_batch="keep", dtype=torch.uint8, **kwargs)
        other.load_state_dict(loader.state_dict())
        assert all(torch.equal(a.image, b.image) for a, b in zip(whole[1:], other, strict=True))
    made = batches(Set(torch.from_numpy(x)), 4, python_workers=2, **kwargs)
    assert all(torch.equal(b.image, torch.from_numpy(x[b.index.numpy()])) for b in made)
    tensors = torch.from_numpy(planes(draws, 9, 3))
    narrow = [*tensors, torch.zeros(3, 9, 2, dtype=torch.uint8), tensors[0].permute(1, 2, 0)]
    with contextlib.closing(Loader(Set(narrow), 1, python_workers=2, dtype=torch.uint8)) as loader:
        seen = iter(loader)
        assert [next(seen).image.shape[1] for _ in range(10)] == [3] * 10
        with pytest.raises(TypeError, match="looks like HWC; those before were CHW"):
            next(seen)


def test_torchvisions_planes_and_pixels_side_by_side(draws):
    datasets, tv = (lambda m: (m.datasets, m.transforms))(import_torchvision())
    steps = tv.Compose([tv.ToTensor()])
    svhn, stl, cifar = (datasets.__dict__[name].__new__(datasets.__dict__[name]) for name in ("SVHN", "STL10", "CIFAR10"))
    svhn.data, svhn.labels = draws.integers(0, 256, (5, 3, 32, 32), dtype=np.uint8), np.arange(5)
    stl.data, stl.labels = draws.integers(0, 256, (4, 3, 32, 32), dtype=np.uint8), np.arange(4)
    cifar.data, cifar.targets = draws.integers(0, 256, (6, 32, 32, 3), dtype=np.uint8), list(range(6))
    for source in (svhn, stl, cifar):
        source.transform, source.target_transform = steps, None
    want = [np.moveaxis(cifar.data, -1, 1), svhn.data, stl.data]
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        sets = [(cifar, svhn, stl)[k] for k in order]
        whole = torch.utils.data.ConcatDataset(sets)
        if sets[0] is not cifar:
            for source in sets:  # targets must have one type in all parts of a joined data set
                if hasattr(source, "targets"):
                    source.targets = np.asarray(source.targets)
        assert torch.equal(images(whole), torch.from_numpy(np.concatenate([want[k] for k in order]))), order
    assert torch.equal(images(torch.utils.data.Subset(svhn, [3, 0])), torch.from_numpy(svhn.data[[3, 0]]))


# ---- what is refused ----


def test_layout_is_refused_where_it_would_have_no_effect(tree, files, draws):
    image = import_torchvision() and __import__("PIL.Image").Image.open(files[0])
    for source, what in (
        (Set([str(f) for f in files]), "a path"),
        (Set([f.read_bytes() for f in files]), "the bytes of a file"),
        (Set([torch.from_numpy(np.frombuffer(f.read_bytes(), np.uint8).copy()) for f in files]), "the bytes of a file"),
        (Set([image] * 4), "a PIL image"),
    ):
        with pytest.raises(
            TypeError, match=rf"layout='HWC' is for images that are arrays or tensors.*{what}: leave it out .memory_format sets"
        ):
            batches(source, layout="HWC")

    @pipeline_def(batch_size=4, num_threads=2, device_id=None)
    def pipe():
        data, label = fn.readers.file(file_root=str(tree))
        return fn.resize(fn.decoders.image(data), size=[16, 16]), label

    folder = import_torchvision().datasets.ImageFolder(tree)
    for source in (tree, [str(f) for f in files], folder, torch.utils.data.Subset(folder, [0, 1])):
        with pytest.raises(InvalidArgumentError, match=r"layout='CHW' is for images .* no effect here: leave it out .*memory_format"):
            Loader(source, 2, layout="CHW")
    with pytest.raises(InvalidArgumentError, match="layout would have no effect on a Pipeline"):
        Loader(pipe(), layout="CHW")


def test_files_in_tensors(files):
    """Tensors and arrays of the bytes of a file, as torchvision.io.read_file returns them, give the images of the files."""
    data = [np.frombuffer(f.read_bytes(), np.uint8).copy() for f in files[:4]]
    want = images([str(f) for f in files[:4]], transforms=[T.Resize((16, 20))])
    for form in FORMS.values():
        assert torch.equal(images(Set([form(d) for d in data]), transforms=[T.Resize((16, 20))]), want)


@pytest.mark.parametrize("wrong", ["NCHW", "hwc", "", 3, True, ("HWC",), torch.channels_last])
def test_another_layout(wrong):
    with pytest.raises(InvalidArgumentError, match="layout is 'HWC', 'CHW' or None"):
        Loader((np.zeros((4, 9, 9, 3), np.uint8), range(4)), 2, layout=wrong)


def test_images_without_pixels():
    for shape in ((0, 9, 3), (9, 0, 3), (9, 9, 0), (0, 9), (9, 0)):
        for form in FORMS.values():
            for layout in (None, "HWC", "CHW"):
                with pytest.raises(ValueError, match=rf"the shape {str(shape)[:-1]}\), which has no pixels".replace("(", r"\(", 1)):
                    batches(Set(form(np.zeros((4, *shape), np.uint8))), layout=layout)
                with pytest.raises(InvalidArgumentError, match="have no pixels"):
                    batches((form(np.zeros((4, *shape), np.uint8)), range(4)), layout=layout)


@pytest.mark.parametrize(
    ("dtype", "said", "of_x"),
    [
        ("bool", "0 and 255 as uint8; a mask is a field", r"X(.astype\(np|.to\(torch).uint8\) \* 255"),
        ("complex64", r"real numbers.*np.abs\(image\)", "real numbers"),
        ("uint16", r"image / 65535\).astype\(np.float32\) of 16 bits", "where all of them are 0 to 255"),
        ("int64", r"convert to uint8 if it is 0 to 255, by image.astype\(np.uint8\), else to float32", "where all of them are 0 to 255"),
        ("float32", None, r"\(X \* 255\).round\(\).*TensorDataset"),
        ("float64", None, r"\(X \* 255\).round\(\).*TensorDataset"),
    ],
)
def test_types_are_refused_with_what_fits_them(dtype, said, of_x):
    x = np.zeros((4, 9, 8, 3), dtype)
    for form in FORMS.values():
        if said is not None:
            with pytest.raises(TypeError, match=rf"of type {dtype}: .*{said}"):
                batches(Set(form(x)))
        with pytest.raises(InvalidArgumentError, match=rf"uint8, and these are {dtype}: give .*{of_x}"):
            batches((form(x), range(4)))
    with pytest.raises(InvalidArgumentError, match=r"these are bfloat16: give \(X \* 255\).round\(\).to\(torch.uint8\)"):
        Loader((torch.zeros(4, 9, 8, 3, dtype=torch.bfloat16), range(4)), 2)


def test_the_ways_out_of_floats(draws):
    """The solutions that messages about images of floats propose have the promised effect."""
    x = draws.uniform(0, 1, (4, 9, 8, 3)).astype(np.float32)
    data = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.as_tensor(range(4)))
    assert torch.equal(images(data, dtype=None), torch.from_numpy(x).permute(0, 3, 1, 2))
    rounded = images(((x * 255).round().astype(np.uint8), range(4)), dtype=torch.float32)
    assert (rounded - torch.from_numpy(x).permute(0, 3, 1, 2)).abs().max() <= 0.5001 / 255


def test_the_message_about_a_list_of_arrays_says_to_stack_them():
    pictures = [np.zeros((9, 8, 3), np.uint8)] * 4
    for source in (pictures, (pictures, [0, 1, 2, 3]), [(x, 0) for x in pictures]):
        with pytest.raises(InvalidArgumentError, match=r"np.stack\(images\), targets\)|holds paths, or pairs"):
            Loader(source, 2)
    assert images((np.stack(pictures), [0, 1, 2, 3])).shape == (4, 3, 9, 8)


def test_sizes_of_resize():
    assert T.Resize(np.int64(7)).size == 7 and T.Resize([7]).size == 7 and T.Resize((7, 8)).size == (7, 8)
    for wrong in (-4, 0, (5, -1), 2.5, None, "7", ()):
        with pytest.raises(ValueError, match="size is a whole number from 1 on"):
            T.Resize(wrong)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("transform", [T.RGB(), T.Grayscale(1), T.Grayscale(3), T.RandomGrayscale(1), T.RandomApply([T.Grayscale(3)], 1)])
def test_gray_among_others_is_refused_where_it_matters(draws, transform, workers):
    """The first image determines what RGB and Grayscale do. Later images with other numbers of channels are refused, because they would get a wrong number
    of channels."""
    gray, color = draws.integers(0, 256, (8, 8), np.uint8), draws.integers(0, 256, (8, 8, 3), np.uint8)
    for images, said in (([gray, color], "3 channels; the first one had 1"), ([color, gray], "1 channels; the first one had 3")):
        with pytest.raises(TypeError, match=said):
            list(Loader(Set(images), 1, transforms=[transform], python_workers=workers))
    with pytest.raises(TypeError, match="1 channels; the first one had 3"):
        list(Loader(Stream([color, gray]), 1, transforms=[transform]))
    shapes = [tuple(images.shape) for images, _ in Loader(Set([gray, color]), 1, transforms=[T.RandomHorizontalFlip()])]
    assert shapes == [(1, 1, 8, 8), (1, 3, 8, 8)], "where nothing follows from it, it is taken"


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_one_channel_inside_a_group_is_refused(dtype):
    """Grayscale(1) is refused in a group that applies it to only some images: these would have one channel, and the others three."""
    pictures = [np.zeros((8, 8, 3), dtype)] * 2
    for group in (T.RandomApply([T.Grayscale(1)], 0.0), T.RandomChoice([T.Grayscale(1), T.RandomHorizontalFlip()])):
        with pytest.raises(UnsupportedError, match=r"Grayscale\(1\) stands inside RandomApply.*RandomGrayscale\(p\).*Grayscale\(3\)"):
            next(iter(Loader(Set(pictures), 2, transforms=[group])))
