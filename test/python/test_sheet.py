# SPDX-License-Identifier: Apache-2.0
"""stoker.view and Loader.show: contact sheets of batches."""

import io

import numpy as np
import pytest
import stoker
from PIL import Image
from stoker.errors import InvalidArgumentError, StateError
from support import SEED

torch = pytest.importorskip("torch")


def pictures(*shape, dtype=np.uint8):
    return np.random.default_rng(SEED).integers(0, 256, shape).astype(dtype)


def cell(sheet, i, columns, height, width, gap=4):
    y, x = gap + i // columns * (height + gap), gap + i % columns * (width + gap)
    return sheet.pixels[y : y + height, x : x + width]


@pytest.mark.parametrize(
    "form",
    [
        lambda x: x,
        torch.from_numpy,
        lambda x: torch.from_numpy(x).permute(0, 3, 1, 2),
        lambda x: [Image.fromarray(image) for image in x],
        lambda x: (torch.arange(5), list(x)),
        lambda x: {"label": torch.arange(5), "image": torch.from_numpy(x)},
        lambda x: torch.from_numpy(x).permute(0, 3, 1, 2).float() / 255,
        lambda x: torch.from_numpy(x).float(),
    ],
    ids=["array", "tensor", "channels-first", "PIL", "tuple", "dict", "floats to 1", "floats to 255"],
)
def test_every_form_of_a_batch_gives_its_pixels(form):
    images = pictures(5, 20, 30, 3)
    sheet = stoker.view(form(images), columns=3)
    assert sheet.pixels.shape == (2 * 24 + 4, 3 * 34 + 4, 3)
    for i in range(5):
        assert np.array_equal(cell(sheet, i, 3, 20, 30), images[i])
    assert (sheet.pixels[24:28] == 32).all() and "5 images of 30x20" in repr(sheet)


def test_the_picture_is_a_png_that_others_read(tmp_path):
    sheet = stoker.view(pictures(4, 9, 13, 3))
    sheet.save(tmp_path / "sheet.png")
    assert np.array_equal(np.asarray(Image.open(tmp_path / "sheet.png")), sheet.pixels)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(sheet._repr_png_()))), sheet.pixels)


def test_gray_alpha_bool_and_stretched_images():
    gray = pictures(2, 8, 9, 1)
    assert np.array_equal(cell(stoker.view(gray, columns=2), 1, 2, 8, 9), np.repeat(gray[1], 3, 2))
    alpha = pictures(2, 8, 9, 4)
    assert np.array_equal(cell(stoker.view(alpha, columns=2), 1, 2, 8, 9), alpha[1, :, :, :3])
    mask = pictures(2, 8, 9) > 99
    assert np.array_equal(cell(stoker.view(mask, columns=2), 0, 2, 8, 9), np.repeat(mask[0, :, :, None] * 255, 3, 2))
    wide = np.array([[-2.0, 0, 2, np.nan]], np.float32)
    assert cell(stoker.view(wide), 0, 1, 1, 4)[0, :, 0].tolist() == [0, 128, 255, 0]


def test_images_of_several_sizes_and_large_ones():
    images = [pictures(10, 12, 3), pictures(20, 8, 3)]
    sheet = stoker.view(images, columns=2)
    assert np.array_equal(sheet.pixels[4:14, 4:16], images[0]) and "several sizes" in repr(sheet)
    large = np.full((1, 3, 900, 1200), 77, np.uint8)
    sheet = stoker.view(large)
    assert max(sheet.pixels.shape) <= 232 and (sheet.pixels[4:-4, 4:-4] == 77).all()


def test_outputs_of_a_pipeline():
    images = pictures(4, 20, 30, 3)

    @stoker.pipeline_def(batch_size=4, num_threads=1, device_id=None)
    def made():
        return stoker.fn.external_source(lambda: images, layout="HWC")

    with made() as pipe:
        outputs = pipe.run()
    assert np.array_equal(cell(stoker.view(outputs, columns=4), 2, 4, 20, 30), images[2])
    assert np.array_equal(cell(stoker.view(outputs[0], columns=4), 2, 4, 20, 30), images[2])


def test_show_of_a_loader_undoes_normalize_and_moves_nothing():
    images = pictures(12, 20, 30, 3)
    steps = [stoker.transforms.Normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.4))]

    def loader():
        return stoker.Loader((images, np.arange(12)), 4, shuffle=True, seed=5, transforms=steps)

    with loader() as shown, loader() as plain:
        sheet = shown.show(4, columns=2)
        first, second = list(shown), list(plain)
        assert all(torch.equal(a.image, b.image) and torch.equal(a.label, b.label) for a, b in zip(first, second, strict=True))
        for i in range(4):
            assert np.abs(cell(sheet, i, 2, 20, 30).astype(int) - images[int(first[0].label[i])]).max() <= 1
        sheet = shown.show(4, columns=2)  # of the next epoch
        batch = next(iter(shown))
        assert np.abs(cell(sheet, 0, 2, 20, 30).astype(int) - images[int(batch.label[0])]).max() <= 1
        with pytest.raises(StateError, match=r"stoker\.view\(batch\)"):
            shown.show()


@pytest.mark.parametrize("what", [3, "x", torch.arange(4), [], np.zeros((4, 5, 6, 7)), {"a": 1}, None, np.zeros((2, 0, 3, 3))])
def test_what_holds_no_images_is_refused(what):
    with pytest.raises(InvalidArgumentError, match="holds no images"):
        stoker.view(what)


def test_wrong_numbers():
    with pytest.raises(InvalidArgumentError, match="at least 1"):
        stoker.view(pictures(2, 8, 8, 3), images=0)
    with pytest.raises(InvalidArgumentError, match="at least 1"):
        stoker.view(pictures(2, 8, 8, 3), columns=0)


def test_notebooks_show_batches_and_how_they_are_made():
    import base64
    import re
    from html.parser import HTMLParser

    images = np.random.default_rng(1).integers(0, 255, (12, 8, 8, 3), dtype=np.uint8)
    with stoker.Loader((images, np.arange(12)), batch_size=6, shuffle=False) as loader:
        before = loader._repr_html_()
        assert "12 samples" in before and "<details>" not in before
        batch = next(iter(loader))
        shown = batch._repr_html_()
        picture = base64.b64decode(re.search('base64,([^"]+)"', shown)[1])
        with Image.open(io.BytesIO(picture)) as opened:
            assert np.array_equal(np.asarray(opened), stoker.view(batch, 16).pixels)
        assert "torch.uint8 (6, 3, 8, 8)" in shown and "torch.int64 (6,)" in shown
        assert "<details>" in loader._repr_html_() and "batches of 6" in loader._repr_html_()
    without = type(batch)(["<b>", "c"], {"a": 1})._repr_html_()
    assert "<img" not in without and "&lt;b&gt;" in without
    for page in (before, shown, without):
        HTMLParser().feed(page)


def test_a_pipeline_shows_its_graph_when_it_is_built():
    @stoker.pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def define():
        return stoker.fn.random.uniform(range=(0, 1), shape=(2,))

    pipe = define()
    assert "not built" in pipe._repr_html_()
    pipe.build()
    assert "<details>" in pipe._repr_html_() and "random.uniform" in pipe._repr_html_()
