# SPDX-License-Identifier: Apache-2.0
"""Lists of transforms with functions and objects that Stoker does not know. Each gets the same argument as in torchvision."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageFilter
from stoker import Loader
from stoker import transforms as T
from stoker.dataloader._transforms import InPython, compiled
from stoker.errors import InvalidArgumentError
from support import SEED, import_torchvision, photograph, tar_of

torchvision = import_torchvision()
from torchvision import transforms as tt  # noqa: E402
from torchvision import tv_tensors  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

PICTURE = photograph(np.random.default_rng(SEED), 40, 50)


class Blur:
    """A blur as MoCo and DINO write it."""

    def __call__(self, image):
        return image.filter(ImageFilter.GaussianBlur(1.5))


class Folder:
    """A folder with two PNGs, for which all decoders give the same pixels."""

    def __init__(self, path):
        for name in ("a", "b"):
            (path / name).mkdir()
            Image.fromarray(PICTURE).save(path / name / "0.png")
        self.path = path

    def both(self, transform):
        """Returns the first batch of a DataLoader, and that of the Loader."""
        data = torchvision.datasets.ImageFolder(self.path, transform)
        return next(iter(torch.utils.data.DataLoader(data, 2)))[0], next(iter(Loader(data, 2)))[0]

    def agree(self, transform, within=0.0):
        wanted, got = self.both(transform)
        assert got.dtype == wanted.dtype and got.shape == wanted.shape
        assert float((got.double() - wanted.double()).abs().max()) <= within


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


@pytest.mark.parametrize("mode", ["BOX", "HAMMING"])
def test_filters_that_only_pillow_has(folder, mode):
    """Resizing with filters that the library lacks runs torchvision's own code, and so gives its values."""
    filters = tt.InterpolationMode[mode]
    v2 = torchvision.transforms.v2
    for resize in (tt.Resize((21, 17), filters), v2.Resize((21, 17), filters), tt.RandomResizedCrop(24, (1.0, 1.0), (1.25, 1.25), filters)):
        folder.agree(tt.Compose([resize, tt.PILToTensor()]))


def test_functions_of_torchvisions_lists_get_pil_images(folder):
    crop, end = tt.CenterCrop(32), tt.ToTensor()
    for parts in (
        [lambda image: image.convert("L").convert("RGB"), crop, end],
        [crop, Blur(), end],
        [crop, tt.RandomApply([Blur()], 1.0), end],
        [crop, tt.RandomApply([Blur()], 0.0), end],
        [crop, tt.RandomChoice([Blur()]), end],
        [crop, tt.RandomOrder([Blur()]), tt.RandomHorizontalFlip(1.0), end],
    ):
        folder.agree(tt.Compose(parts), within=1e-6)


def test_functions_of_own_lists_get_arrays_as_before(folder):
    seen = []
    next(iter(Loader(str(folder.path), 2, transforms=[T.CenterCrop(32), lambda image: seen.append(type(image)) or image])))
    assert set(seen) == {np.ndarray}


def test_a_chance_of_a_function_is_drawn_for_each_sample(folder):
    calls = []
    list(Loader(str(folder.path), 2, transforms=[tt.CenterCrop(8), tt.RandomApply([lambda image: calls.append(image.size) or image], 0.0)]))
    assert calls == []
    list(Loader(str(folder.path), 2, transforms=[tt.CenterCrop(8), tt.RandomApply([lambda image: calls.append(image.size) or image], 1.0)]))
    assert set(calls) == {(8, 8)}


def test_a_group_that_cannot_be_compiled_runs_as_torchvisions_own(folder):
    for part in (
        tt.RandomChoice([tt.Resize((16, 16)), tt.Resize((16, 16))]),
        tt.RandomApply([tt.CenterCrop(24)], 1.0),
        tt.RandomOrder([tt.CenterCrop(24), tt.CenterCrop(24)]),
        tt.RandomAffine((30, 30), fill=(124, 116, 104)),
    ):
        folder.agree(tt.Compose([part, tt.ToTensor()]), within=1e-6)


def test_functions_after_to_tensor_get_tensors(folder):
    crop = tt.CenterCrop(32)
    for parts in (
        [crop, tt.ToTensor(), tt.Lambda(lambda x: x * 2 - 1)],
        [crop, tt.ToTensor(), lambda x: x * 2 - 1, tt.Normalize([0.1] * 3, [0.5] * 3)],
        [crop, tt.ToTensor(), tt.Normalize([0.1] * 3, [0.5] * 3), tt.Lambda(lambda x: x.flip(0)[:2])],
        [crop, tt.PILToTensor(), tt.Lambda(lambda x: x.float() / 255)],
        [crop, tt.ToTensor(), tt.Lambda(lambda x: x - 1), tt.RandomHorizontalFlip(1.0)],
    ):
        folder.agree(tt.Compose(parts), within=1e-6)
    parts = [T.CenterCrop(32), T.ToTensor(), T.Lambda(lambda x: x - 1), T.Normalize([0.5] * 3, [0.5] * 3)]
    got = next(iter(Loader(str(folder.path), 2, transforms=parts)))[0]
    plain = next(iter(Loader(str(folder.path), 2, transforms=parts[:2])))[0]
    assert torch.allclose(got, (plain - 1.5) / 0.5, atol=1e-6)


def test_modules_get_tensors_that_they_may_view(folder):
    flat = torch.nn.Sequential(torch.nn.Flatten(1), torch.nn.Unflatten(1, (40, 50)))

    class Viewed(torch.nn.Module):
        def forward(self, image):
            return flat(image.view(3, -1))

    assert torch.equal(*folder.both(tt.Compose([tt.PILToTensor(), Viewed()])))
    batch = next(iter(Loader(folder.path, 2, transforms=[Viewed()], dtype=torch.uint8)))
    assert torch.equal(batch.image[0], torch.from_numpy(PICTURE).permute(2, 0, 1))


def test_functions_in_groups_after_to_tensor_get_tensors(folder):
    folder.agree(tt.Compose([tt.CenterCrop(32), tt.ToTensor(), tt.RandomApply([tt.Lambda(lambda x: 1 - x)], 1.0)]), within=1e-6)
    with pytest.raises(InvalidArgumentError, match=r"put it before the function"):
        Loader(str(folder.path), 2, transforms=[T.CenterCrop(32), T.ToTensor(), T.RandomApply([T.Lambda(lambda x: 1 - x)], 1.0)])


def test_normalize_after_noise_changes_the_noise_too(folder):
    parts = [tt.CenterCrop(32), tt.ToTensor(), tt.RandomErasing(1.0, scale=(1.0, 1.0), ratio=(1.0, 1.0), value="random")]
    shifted = next(iter(Loader(str(folder.path), 2, transforms=[*parts, tt.Normalize([10.0] * 3, [1.0] * 3)], seed=3)))[0]
    assert -12 < float(shifted.mean()) < -8


def test_dtype_and_memory_format_apply_after_a_function(folder):
    parts = [T.CenterCrop(32), T.ToTensor(), T.Lambda(lambda x: x * 2)]
    wanted = next(iter(Loader(str(folder.path), 2, transforms=parts)))[0]
    for more in ({"dtype": torch.float16}, {"dtype": torch.bfloat16}, {"memory_format": torch.channels_last}):
        got = next(iter(Loader(str(folder.path), 2, transforms=parts, **more)))[0]
        assert got.dtype == more.get("dtype", torch.float32) and torch.allclose(got.float(), wanted, atol=0.02), more
    halves = [T.CenterCrop(32), T.ToDtype(torch.bfloat16, scale=True), T.Lambda(lambda x: x * (2 if x.dtype == torch.bfloat16 else 0))]
    got = next(iter(Loader(str(folder.path), 2, transforms=halves)))[0]
    assert got.dtype == torch.bfloat16 and torch.allclose(got.float(), wanted, atol=0.02)
    with pytest.raises(InvalidArgumentError, match=r"leave out dtype=torch\.uint8"):
        Loader(str(folder.path), 2, transforms=parts, dtype=torch.uint8)


def test_a_dataloader_leaves_such_lists_to_torch():
    for parts in (
        [tt.RandomChoice([tt.Resize((16, 16)), tt.CenterCrop(16)]), tt.ToTensor()],
        [tt.RandomAffine(30, fill=(1, 2, 3)), tt.ToTensor()],
        [tt.ToTensor(), tt.RandomErasing(value="random"), tt.Normalize([0.5] * 3, [0.5] * 3)],
    ):
        with pytest.raises(InPython):
            compiled(tt.Compose(parts))


class Crops:
    """A view generator as DINO writes it: two large views and three small ones."""

    def __init__(self):
        self.large = tt.Compose([tt.CenterCrop(32), tt.ToTensor(), tt.Normalize([0.5] * 3, [0.25] * 3)])
        self.small = tt.Compose([tt.CenterCrop(16), tt.ToTensor()])

    def __call__(self, image):
        return [self.large(image), self.large(image), *(self.small(image) for _ in range(3))]


@pytest.mark.parametrize(
    "transform", [Crops(), tt.Compose([tt.RandomHorizontalFlip(1.0), Crops()]), lambda image: tuple(Crops()(image)[:2])]
)
def test_several_views_of_one_call_are_a_list_of_tensors(folder, transform):
    wanted, got = folder.both(transform)
    assert type(got) is list and [view.shape for view in got] == [view.shape for view in wanted]
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(got, wanted, strict=True))


def test_several_views_hold_to_their_number_and_type(folder):
    base = tt.Compose([tt.CenterCrop(32), tt.ToTensor()])

    def uneven(image):
        return [base(image)] * (2 if image.size == (256, 256) else 3)

    with pytest.raises(Exception, match=r"uneven gave 3 views for this image and 2 views for others"):
        next(iter(Loader(torchvision.datasets.ImageFolder(folder.path, uneven), 2)))
    data = torchvision.datasets.ImageFolder(folder.path, Crops())
    with pytest.raises(InvalidArgumentError, match=r"Crops gives floats.*leave out dtype=torch\.uint8"):
        Loader(data, 2, dtype=torch.uint8)
    halves = next(iter(Loader(data, 2, dtype=torch.float16, memory_format=torch.channels_last)))[0]
    assert [view.dtype for view in halves] == [torch.float16] * 5 and halves[0].is_contiguous(memory_format=torch.channels_last)
    for made in (
        lambda image: [image, image],
        lambda image: [np.asarray(image)] * 2,
    ):  # these return no tensors; torch's default_collate refuses images too
        with pytest.raises(Exception, match=r"gave 2 values for one image: views="):
            next(iter(Loader(torchvision.datasets.ImageFolder(folder.path, made), 2)))


def test_looking_at_the_views_draws_nothing(folder):
    def drawn(image):
        return [torch.rand(3, 4, 4), torch.rand(3, 4, 4)]

    torch.manual_seed(4)
    before = torch.get_rng_state()
    Loader(torchvision.datasets.ImageFolder(folder.path, drawn), 2).close()
    assert torch.equal(torch.get_rng_state(), before)


def test_transforms_of_weights_are_compiled(folder, capfd):
    for weights in (torchvision.models.ResNet50_Weights.IMAGENET1K_V2, torchvision.models.segmentation.FCN_ResNet50_Weights.DEFAULT):
        wanted, got = folder.both(weights.transforms())
        assert got.shape == wanted.shape and float((got - wanted).abs().max()) < 0.03, weights
    assert "runs in Python" not in capfd.readouterr().err


KINDS = {"first": [], "ToImage": [v2.ToImage()], "PILToTensor": [v2.PILToTensor()], "ToTensor": [tt.ToTensor()]}


def mirrored(image):
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if isinstance(image, Image.Image) else image.flip(-1)


@pytest.mark.parametrize("before", KINDS)
@pytest.mark.parametrize("group", [False, True])
def test_types_of_lambda_are_those_of_torchvision(before, group):
    """The function is called for an image if torchvision calls it for one. Otherwise the Lambda is refused."""
    called = 0
    for types in ([], [Image.Image], [tv_tensors.Image], [torch.Tensor], [tv_tensors.Mask], [tv_tensors.Mask, torch.Tensor], [int]):
        mirror = v2.Lambda(mirrored, *types)
        chain = [*KINDS[before], v2.RandomApply([mirror], p=1.0) if group else mirror]
        start, wanted = (tt.Compose([*steps, v2.ToImage()])(Image.fromarray(PICTURE)) for steps in (KINDS[before], chain))
        if torch.equal(start, wanted):
            with pytest.raises(InvalidArgumentError, match=r"Lambda\(mirrored, .* does not call this one for an image, which is a"):
                Loader((PICTURE[None],), 1, transforms=chain)
            continue
        called += 1
        made = next(iter(Loader((PICTURE[None],), 1, transforms=chain)))[0][0]
        assert torch.allclose(made if before == "ToTensor" or made.dtype == torch.uint8 else made * 255, wanted.to(made.dtype), atol=1e-4)
    assert called >= 2


class Painter:
    """Paints images with a value that a training loop may change, and counts its calls."""

    def __init__(self):
        self.value, self.calls = 0, 0

    def __call__(self, image):
        self.calls += 1
        return Image.new("RGB", (4, 4), (self.value, 0, 0))

    def views(self, image):
        return [tt.functional.pil_to_tensor(self(image))] * 2

    def tensor(self, image):
        self.calls += 1
        return torch.full_like(image, self.value)


class Zeros(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return np.zeros((6, 6, 3), np.uint8), index


def sources(path):
    """Returns a dict of arguments of Loaders that read eight images, each Loader from another kind of source."""
    import pyarrow
    import pyarrow.parquet

    (path / "folder" / "a").mkdir(parents=True)
    files = [path / "folder" / "a" / f"{k}.png" for k in range(8)]
    for file in files:
        Image.fromarray(PICTURE).save(file)
    data = [file.read_bytes() for file in files]
    members = ((f"{k}{end}", part) for k in range(8) for end, part in ((".png", data[k]), (".cls", b"1")))
    (path / "samples.tar").write_bytes(tar_of(members))
    columns = pyarrow.table({"image": [{"bytes": part, "path": None} for part in data], "label": list(range(8))})
    pyarrow.parquet.write_table(columns, path / "rows.parquet")
    arrays = np.stack([PICTURE] * 8), np.arange(8)
    return {
        "folder": {"source": path / "folder"},
        "shuffled": {"source": path / "folder", "shuffle": True, "prefetch": 4},
        "data set": {"source": torchvision.datasets.ImageFolder(path / "folder")},
        "list": {"source": [(str(file), k) for k, file in enumerate(files)]},
        "tar": {"source": path / "samples.tar"},
        "arrays": {"source": arrays},
        "table": {"source": path / "rows.parquet"},
        "Dataset": {"source": Zeros()},
        "processes": {"source": Zeros(), "python_workers": 1},
        "sampler": {"source": path / "folder", "sampler": lambda epoch: range(8)},
        "batches": {"source": arrays, "batch_size": None, "batch_sampler": [[0, 1, 2, 3], [4, 5, 6, 7]]},
    }


def painted(batch):
    """Returns the red values in a batch."""
    image = batch.image[0] if isinstance(batch.image, (list, tuple)) else batch.image
    return set(image[:, 0].flatten().tolist())


@pytest.mark.parametrize(
    "transforms",
    [
        lambda painter: [T.Lambda(painter), T.ToImage()],
        lambda painter: tt.Compose([tt.RandomApply([painter], 1.0), tt.PILToTensor()]),
        lambda painter: tt.Compose([tt.CenterCrop(4), tt.PILToTensor(), painter.tensor]),
        lambda painter: tt.Compose([tt.CenterCrop(4), painter.views]),
    ],
)
def test_a_function_that_changes_between_epochs(tmp_path, transforms):
    """No image of an epoch is made before the loop begins the epoch, so each epoch has the function's new value, after all ways to begin one."""
    for name, given in sources(tmp_path).items():
        painter = Painter()
        loader = Loader(**{"batch_size": 4, **given}, transforms=transforms(painter))
        values = iter(range(1, 100))

        def epoch(loader=loader, painter=painter, values=values, name=name):
            painter.value = next(values)
            assert [painted(batch) for batch in loader] == [{painter.value}] * 2, name

        painter.calls = 0
        for count in range(1, 4):
            epoch()
            assert painter.calls == 8 * count, name
        painter.value = next(values)
        begun = iter(loader)
        painter.value = next(values)
        assert painted(next(begun)) == {painter.value}  # the loop leaves this epoch
        epoch()
        loader.set_epoch(1)
        epoch()
        state = loader.state_dict()
        painter.value = next(values)
        next(iter(loader))
        loader.load_state_dict(state)
        epoch()
        loader.close()
        epoch()
        loader.close()
