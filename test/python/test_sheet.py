# SPDX-License-Identifier: Apache-2.0
"""stoker.view and Loader.show: contact sheets of batches, boxes on their images, and drawings of pipelines."""

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
    for name in ("sheet.jpg", "sheet.SVG"):
        with pytest.raises(InvalidArgumentError, match=r"a sheet is written in the format PNG: give a name that ends in \.png"):
            sheet.save(tmp_path / name)
    with pytest.raises(FileNotFoundError) as caught:
        sheet.save(tmp_path / "none" / "sheet.png")
    assert caught.value.filename == str(tmp_path / "none" / "sheet.png") and "part" not in str(caught.value).replace(str(tmp_path), "")
    assert [p.name for p in tmp_path.iterdir()] == ["sheet.png"]
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
        sheet = shown.show(4, columns=2)  # a second call shows the next epoch
        batch = next(iter(shown))
        assert np.abs(cell(sheet, 0, 2, 20, 30).astype(int) - images[int(batch.label[0])]).max() <= 1
        with pytest.raises(StateError, match=r"stoker\.view\(batch\)"):
            shown.show()


@pytest.mark.parametrize("what", [3, "x", torch.arange(4), [], np.zeros((4, 5, 6, 7)), {"a": 1}, None, np.zeros((2, 0, 3, 3))])
def test_what_holds_no_images_is_refused(what):
    with pytest.raises(InvalidArgumentError, match="not their names" if isinstance(what, str) else "holds no images"):
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


# ---- boxes, drawings, letters ----


def outline(pixels, left, top, right, bottom):
    """Returns the colours of the outline of a box (right and bottom excluded)."""
    edge = np.concatenate(
        [pixels[top, left:right], pixels[bottom - 1, left:right], pixels[top:bottom, left], pixels[top:bottom, right - 1]]
    )
    return {tuple(color) for color in edge.tolist()}


@pytest.mark.parametrize("form", ["list", "ragged", "dict", "named", "group"])
def test_boxes_are_drawn_on_their_images(form):
    images = np.zeros((2, 40, 60, 3), np.uint8)
    boxes = [np.array([[5, 6, 20, 30], [30, 0, 60, 40]], np.float32), np.array([[1, 1, 3, 3]], np.float32)]
    if form == "list":
        sheet = stoker.view(images, columns=2, boxes=boxes)
    elif form == "ragged":
        padded = torch.zeros(2, 2, 4)
        padded[0], padded[1, :1] = torch.from_numpy(boxes[0]), torch.from_numpy(boxes[1])
        ragged = stoker.batching.RaggedBatch(padded, sample_sizes=torch.tensor([2, 1]))
        sheet = stoker.view(images, columns=2, boxes=ragged)
    elif form == "dict":
        sheet = stoker.view({"image": images, "boxes": [torch.from_numpy(b) for b in boxes], "label": torch.arange(2)}, columns=2)
    elif form == "named":
        widths = [np.concatenate([b[:, :2], b[:, 2:] - b[:, :2]], 1) for b in boxes]
        sheet = stoker.view({"image": images, "objects": widths}, columns=2, boxes="objects", box_format="XYWH")
    else:

        class Group:
            def to_dictionary(self):
                return {"camera": {"image": images}, "objects": {"boxes": boxes}}

        sheet = stoker.view(Group(), columns=2)
    first, second = cell(sheet, 0, 2, 40, 60), cell(sheet, 1, 2, 40, 60)
    assert outline(first, 5, 6, 20, 30) == {(255, 64, 64)} and outline(first, 30, 0, 60, 40) == {(64, 224, 96)}
    assert outline(second, 1, 1, 3, 3) == {(255, 64, 64)} and not second[5:].any()


def test_boxes_outside_of_images_and_wrong_ones():
    images = np.zeros((1, 20, 20, 3), np.uint8)
    sheet = stoker.view(images, boxes=[np.array([[-5, -5, 100, 10], [np.nan, 0, 5, 5], [30, 30, 40, 40]], np.float32)])
    drawn = cell(sheet, 0, 1, 20, 20)
    assert (drawn[9] == (255, 64, 64)).all() and not drawn[10:].any() and not drawn[:9].any()
    large = stoker.view(np.zeros((1, 448, 448, 3), np.uint8), boxes=[np.array([[100, 100, 200, 300]], np.float32)])
    assert outline(cell(large, 0, 1, 224, 224), 50, 50, 100, 150) == {(255, 64, 64)}
    for wrong in ("nothing", [np.zeros(4)], 3):
        with pytest.raises(InvalidArgumentError, match=r"no field 'nothing'|boxes are an array"):
            stoker.view(images, boxes=wrong)
    with pytest.raises(InvalidArgumentError, match="XYXY, XYWH, CXCYWH"):
        stoker.view(images, boxes=[np.zeros((1, 4))], box_format="YXYX")
    # A field that is called "boxes" but holds none is not drawn.
    assert stoker.view({"image": images, "boxes": ["a text"]}).pixels.shape == (28, 28, 3)


def test_a_loader_shows_its_boxes_and_batches_show_themselves():
    class Samples:
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return {"image": np.zeros((40, 60, 3), np.uint8), "boxes": np.array([[10, 10, 20, 15]], np.float32)}

    with stoker.Loader(Samples(), 2, fields={"image": "Image", "boxes": ("BoundingBoxes", "XYWH")}) as loader:
        shown = cell(loader.show(2), 0, 2, 40, 60)
        assert outline(shown, 10, 10, 30, 25) == {(255, 64, 64)}
        batch = next(iter(loader))
        assert "2 images of 60x40" in repr(batch.show())

    @stoker.pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def made():
        return stoker.fn.external_source(lambda: np.full((2, 8, 9, 3), 7, np.uint8), layout="HWC")

    images = made().run()[0]
    assert "2 images of 9x8" in repr(images.show()) and "1 image of 9x8" in repr(images[0].show())
    assert (cell(images[0].show(), 0, 1, 8, 9) == 7).all()


def test_a_pipeline_is_drawn(tmp_path):
    from xml.etree import ElementTree

    from stoker import fn, types

    @stoker.pipeline_def(batch_size=2, num_threads=1, device_id=None, enable_conditionals=True)
    def made():
        image = fn.external_source(lambda: np.full((2, 30, 40, 3), 7, np.uint8), layout="HWC")
        image = fn.crop_mirror_normalize(fn.resize(image, size=[20, 20]), std=[2.0], dtype=types.FLOAT)
        if fn.random.coin_flip(dtype=types.BOOL):
            image = image * 2
        return fn.pad(fn.python_function(image, function=lambda x: x))

    pipe = made()
    pipe.build()
    drawing = stoker.view(pipe)
    drawing.save(tmp_path / "pipeline.svg")
    tree = ElementTree.parse(tmp_path / "pipeline.svg")
    space = "{http://www.w3.org/2000/svg}"
    words = ["".join(text.itertext()) for text in tree.iter(f"{space}text")]
    explained = pipe.explain(as_json=True)
    for level in explained["levels"]:
        for chain in level["chains"]:
            for group in chain["groups"]:
                for operator in group["operators"]:
                    assert any(word == operator["name"] or word.startswith(operator["name"] + " (") for word in words), operator
    assert (
        any(word.startswith("level 0") for word in words)
        and any(word.startswith("level 1, after") for word in words)
        and any(word.startswith("when ") for word in words)
    )
    assert {"python", "cores", "level", "chain"} <= {box.get("class") for box in tree.iter(f"{space}rect")}
    width, height = (float(tree.getroot().get(name)) for name in ("width", "height"))
    for box in tree.iter(f"{space}rect"):
        x, y, w, h = (float(box.get(name)) for name in ("x", "y", "width", "height"))
        assert x >= 0 and y >= 0 and x + w <= width and y + h <= height
    assert "<svg" in pipe._repr_html_() and "pipeline.svg" in repr(drawing)


def test_charts_escape_characters_that_the_font_lacks():
    from stoker._advise import glyphs

    assert len(glyphs.glyphs("Aé\u4e2d\n")) == len("Aé") + len("\\u4e2d") + len("\\n")
    assert glyphs.glyphs("a") != glyphs.glyphs("A") and any(glyphs.glyphs("ß")[0])
