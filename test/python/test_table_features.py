# SPDX-License-Identifier: Apache-2.0
"""What `datasets` writes about columns: files in which a label has different meanings, or sounds different rates, are not joined."""

import io
import json

import numpy as np
import pytest
import stoker
import torch
from PIL import Image, ImageOps
from sound_files import wav
from stoker import Audio, Loader
from stoker.errors import InvalidArgumentError
from stoker.loader.sources import _table_pack
from stoker.loader.sources._table import inspect
from tables import IMAGES, jpeg, pa, write

VALUE = {"dtype": "int64", "_type": "Value"}


def classes(*names):
    return {"names": list(names), "_type": "ClassLabel"}


# Features of a column of labels in two files, and what the error says; None: the Loader joins them.
LABELS = {
    "other order": (
        classes("cat", "dog"),
        classes("dog", "cat"),
        r"'label' are, from number 0 on, \['dog', 'cat'\], and in .*a.parquet \['cat', 'dog'\]",
    ),
    "one more": (classes("cat"), classes("cat", "dog"), r"from number 1 on, \['dog'\], and in .*a.parquet \[\]"),
    "many": (
        classes(*map(str, range(2000))),
        classes(*map(str, range(1000)), *["x"] * 1000),
        r"from number 1000 on, \['x', .{90,100}, and in",
    ),
    "in a list": (
        {"_type": "List", "feature": classes("cat", "dog")},
        {"_type": "List", "feature": classes("dog", "cat")},
        "the classes of the column 'label' are",
    ),
    "in a struct": (
        {"feature": {"kind": [classes("cat")]}, "x": VALUE},
        {"feature": {"kind": [classes("dog")]}, "x": VALUE},
        "the classes of the column 'label.feature.kind' are",
    ),
    "the same": (classes("cat", "dog"), classes("cat", "dog"), None),
    "no names": (classes("cat", "dog"), VALUE, None),
    "no names first": (VALUE, classes("cat", "dog"), None),
    "no features": (classes("cat", "dog"), None, None),
}


@pytest.mark.parametrize("case", LABELS)
def test_files_whose_labels_have_other_classes_are_refused(tmp_path, case):
    first, second, said = LABELS[case]
    for name, feature in (("a", first), ("b", second)):
        features = {"x": VALUE} | ({"label": feature} if feature else {})
        write(tmp_path / f"{name}.parquet", {"label": pa.array([0, 1]), "x": [1, 2]}, features=features)
    assert inspect([f"{tmp_path}/*.parquet"])["alike"] == (said is None)
    if said is None:
        assert [b.label.tolist() for b in Loader(tmp_path, 4)] == [[0, 1, 0, 1]]
        return
    with pytest.raises(InvalidArgumentError, match=rf"b.parquet: .*{said}.*: write the files again"):
        Loader(tmp_path, 4)
    assert [b.x.tolist() for b in Loader(tmp_path, 4, fields=("x",))] == [[1, 2, 1, 2]]


def test_two_files_after_one_without_features(tmp_path):
    write(tmp_path / "a.parquet", {"label": [0]})
    for name in ("cat", "dog"):
        write(tmp_path / f"{name}.parquet", {"label": [0]}, features={"label": classes(name)})
    with pytest.raises(InvalidArgumentError, match=r"dog.parquet: .* \['dog'\], and in .*cat.parquet \['cat'\]"):
        Loader(tmp_path, 1)


@pytest.mark.parametrize("form", ["parquet", "saved"])
@pytest.mark.parametrize("column", ["image", "mask"])
def test_packing_refuses_modes_of_images(tmp_path, form, column, capsys):
    """The tars would hold the files as they are, and no Loader would convert them."""
    source, _ = pictures(tmp_path, *(("L", None) if column == "image" else (None, "L")))
    plain, _ = pictures(tmp_path, "RGB")
    if form == "saved":
        folder = tmp_path / "saved"
        folder.mkdir()
        (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "a.arrow"}]}))
        table = pa.parquet.read_table(source)
        with pa.OSFile(str(folder / "a.arrow"), "wb") as f, pa.ipc.new_stream(f, table.schema) as out:
            out.write_table(table)
        sources = [str(folder)]
    else:
        sources = [str(plain), str(source)]  # the mode of the second file
    out = str(tmp_path / "out")
    assert _table_pack.main([*sources, "-o", out]) == 1
    error = capsys.readouterr().err
    assert f"{'a.arrow' if form == 'saved' else source.name}: the column '{column}' has the feature Image(mode='L')" in error
    assert f".cast_column('{column}', datasets.Image())" in error and ("--columns" in error) == (column == "mask")
    assert not (tmp_path / "out").exists()
    assert _table_pack.main([str(plain), "-o", out, "--quiet"]) == 0
    if column == "mask":
        assert _table_pack.main([*sources, "-o", f"{out}2", "--columns", "image", "--quiet"]) == 0


@pytest.mark.parametrize("form", ["parquet", "saved"])
def test_packing_refuses_other_classes(tmp_path, rng, form, capsys):
    folder = tmp_path / "in"
    folder.mkdir()
    names = [f"{name}.{'parquet' if form == 'parquet' else 'arrow'}" for name in ("cat", "dog")]
    for name in names:
        features = {"image": {"_type": "Image"}, "label": classes(name[:3])}
        path = write(folder / f"{name[:3]}.parquet", {"image": pa.array([jpeg(rng)]), "label": pa.array([0])}, features=features)
        if form == "saved":
            table = pa.parquet.read_table(path)
            path.unlink()
            with pa.OSFile(str(folder / name), "wb") as f, pa.ipc.new_stream(f, table.schema) as out:
                out.write_table(table)
    if form == "saved":
        (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    assert _table_pack.main([str(folder), "-o", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert f"{names[1]}: the classes of the column 'label' are, from number 0 on, ['dog'], and in" in error
    assert not (tmp_path / "out").exists()


def test_sounds_of_two_rates_need_a_rate_of_the_user(tmp_path, rng):
    sound = wav(np.int16(rng.integers(-999, 999, (1600, 1))), 16000)
    for rate in (8000, 16000):
        write(tmp_path / f"{rate}.parquet", {"audio": pa.array([sound])}, features={"audio": {"_type": "Audio", "sampling_rate": rate}})
    with pytest.raises(InvalidArgumentError, match=r"'audio' have the rate 8000 in Hz, and in .*16000.parquet 16000: .*Audio\(rate=...\)"):
        Loader(tmp_path, 2, fields={"audio": Audio()})
    (batch,) = Loader(tmp_path, 2, fields={"audio": Audio(rate=4000)})
    assert batch.audio.shape == (2, 400)


# ---- conversions by Image(mode=...) and Audio(num_channels=...) ----


def palette(values, exif=None):
    """Returns the bytes of a PNG with a palette whose index i stands for the gray value 40 i."""
    picture, out = Image.fromarray(values, "P"), io.BytesIO()
    picture.putpalette([gray for i in range(6) for gray in (40 * i,) * 3])
    picture.save(out, "PNG", exif=exif)
    return out.getvalue()


def pictures(tmp_path, mode, mask=None, form="table"):
    """Returns rows with the columns image and mask, whose features have these modes: as Parquet files, or as a data set of `datasets`."""
    rng = np.random.default_rng(0)
    columns = {"image": [jpeg(rng) for _ in range(4)]}
    sizes = [Image.open(io.BytesIO(data)).size for data in columns["image"]]
    indices = [rng.integers(0, 6, size[::-1], np.uint8) for size in sizes]
    columns["mask"] = [palette(values) for values in indices]
    features = {name: {"_type": "Image"} | ({"mode": m} if m else {}) for name, m in (("image", mode), ("mask", mask))}
    if form == "table":
        return write(tmp_path / f"{mode}-{mask}.parquet", columns, features=features), indices
    datasets = pytest.importorskip("datasets")
    files = {name: [{"bytes": data, "path": None} for data in values] for name, values in columns.items()}
    made = datasets.Dataset.from_dict(files, features=datasets.Features({"image": datasets.Image(mode), "mask": datasets.Image(mask)}))
    return made if form == "rows" else made.to_iterable_dataset(), indices


FORMS = ["table", "rows", "stream"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mode", [None, "RGB", "L", "RGBA", "HSV"])
def test_images_that_datasets_converts_to_other_colors_are_refused(tmp_path, form, mode):
    source, _ = pictures(tmp_path, mode, form=form)
    fields = {"image": ("Image", list)}
    if mode in (None, "RGB"):
        assert len(next(iter(Loader(source, 4, fields=fields))).image) == 4
        return
    with pytest.raises(InvalidArgumentError, match=rf"'image' has the feature Image\(mode='{mode}'\), .* RGB: .*cast_column"):
        Loader(source, 4, fields=fields)
    if form == "table":
        first, _ = pictures(tmp_path, None)
        with pytest.raises(InvalidArgumentError, match=rf"mode='{mode}'\), .*from_parquet\('.*{mode}-None.parquet'\)"):
            Loader([str(first), str(source)], 4, fields=fields)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mode", [None, "L", "P", "I", "RGB"])
def test_masks_are_converted_as_datasets_does(tmp_path, form, mode):
    """Pillow converts the palette's colors to gray, while a mask without a mode has the palette's indices."""
    source, indices = pictures(tmp_path, None, mode, form)
    loader = Loader(source, 4, fields={"image": ("Image", list), "mask": ("Mask", list)})
    if mode == "RGB":
        with pytest.raises(TypeError, match="image of the mode RGB"):
            next(iter(loader))
        return
    masks = next(iter(loader)).mask
    for mask, values in zip(masks, indices, strict=True):
        assert np.array_equal(mask.numpy().reshape(values.shape), values if mode in (None, "P") else 40 * values)
    if form == "rows":
        theirs = [np.asarray(source[k]["mask"]) for k in range(4)]
        assert all(np.array_equal(mask.numpy().reshape(want.shape), want) for mask, want in zip(masks, theirs, strict=True))
    if form == "table" and mode:
        first, _ = pictures(tmp_path, None)
        with pytest.raises(InvalidArgumentError, match=rf"None-{mode}.parquet: the masks of the column 'mask' have another mode"):
            Loader([str(first), str(source)], 4, fields={"image": "Image", "mask": "Mask"})


@pytest.mark.parametrize("form", [*FORMS, "no features"])
@pytest.mark.parametrize("mode", [None, "L"])
@pytest.mark.parametrize("orientation", [None, 2, 3, 6, 8])
def test_masks_are_turned_as_their_images(tmp_path, rng, form, mode, orientation):
    if form == "no features" and mode:
        pytest.skip("without features there is no mode")
    exif = Image.Exif()
    if orientation:
        exif[0x0112] = orientation
    indices = rng.integers(0, 6, (4, 6), np.uint8)
    files = {"image": palette(indices, exif), "mask": palette(indices, exif)}
    features = {"image": {"_type": "Image"}, "mask": {"_type": "Image"} | ({"mode": mode} if mode else {})}
    source = str(write(tmp_path / "a.parquet", {name: [data] * 2 for name, data in files.items()}, features=features))
    if form != "table":
        datasets = pytest.importorskip("datasets")
        rows = {name: [{"bytes": data, "path": None}] * 2 for name, data in files.items()}
        source = datasets.Dataset.from_dict(rows, datasets.Features({"image": datasets.Image(), "mask": datasets.Image(mode)}))
        source = source if form == "rows" else source.to_iterable_dataset()
        if form == "no features":
            source = datasets.IterableDataset.from_generator(lambda: iter([{name: row[0] for name, row in rows.items()}] * 2))
    batch = next(iter(Loader(source, 2, dtype=torch.uint8, fields={"image": "Image", "mask": "Mask"})))
    want = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(files["mask"]))))
    assert (want.shape == (6, 4)) == (orientation in (6, 8))
    for image, mask in zip(batch.image, batch.mask, strict=True):
        assert np.array_equal(image[0], 40 * want)
        assert np.array_equal(mask.numpy().reshape(want.shape), 40 * want if mode else want)


def test_masks_keep_their_pixels_where_images_do(tmp_path, rng):
    exif = Image.Exif()
    exif[0x0112] = 3
    indices = rng.integers(0, 6, (4, 6), np.uint8)
    path = write(tmp_path / "a.parquet", {name: [palette(indices, exif)] for name in ("image", "mask")})
    batch = next(iter(Loader(path, 1, dtype=torch.uint8, fields={"image": "Image", "mask": "Mask"})))
    assert np.array_equal(batch.image[0, 0], 40 * indices) and np.array_equal(batch.mask.numpy().reshape(4, 6), indices)


@pytest.mark.parametrize("mode", [None, "L"])
def test_nulls_of_masks_are_filled_by_arrays(tmp_path, mode):
    columns = {"image": [palette(np.zeros((8, 8), np.uint8))] * 2, "mask": [palette(np.full((8, 8), 1, np.uint8)), None]}
    features = {"image": {"_type": "Image"}, "mask": {"_type": "Image"} | ({"mode": mode} if mode else {})}
    path = write(tmp_path / "a.parquet", columns, features=features)
    for fill in (np.full((8, 8), 7, np.uint8), Image.new("L", (8, 8), 7)):
        batch = next(iter(Loader.from_parquet(path, 2, fields={"image": "Image", "mask": "Mask"}, nulls={"mask": fill})))
        assert [set(mask.ravel().tolist()) for mask in batch.mask] == [{40 if mode else 1}, {7}]
    fill = palette(np.full((8, 8), 2, np.uint8))  # a file is converted as those of the column
    batch = next(iter(Loader.from_parquet(path, 2, fields={"image": "Image", "mask": "Mask"}, nulls={"mask": fill})))
    assert [set(mask.ravel().tolist()) for mask in batch.mask] == [{40 if mode else 1}, {80 if mode else 2}]


@pytest.mark.parametrize("form", FORMS)
def test_channels_that_contradict_the_users_audio_are_refused(tmp_path, form):
    def make(**given):
        data = [wav(np.zeros((800, 2), np.float32), 8000) for _ in range(2)]
        if form == "table":
            return write(tmp_path / "a.parquet", {"audio": data}, features={"audio": {"_type": "Audio", **given}})
        datasets = pytest.importorskip("datasets")
        made = datasets.Dataset.from_dict({"audio": [{"bytes": d, "path": None} for d in data]})
        made = made.cast_column("audio", datasets.Audio(**given))
        return made if form == "rows" else made.to_iterable_dataset()

    for given, mono in (({"num_channels": 1}, True), ({}, True), ({"stream_index": 0}, True), ({}, False)):
        batch = next(iter(Loader(make(**given), 2, fields={"audio": Audio(mono=mono)})))
        assert tuple(batch.audio.shape) == ((2, 800) if mono else (2, 2, 800))
    for given, mono in (
        ({"num_channels": 1}, False),
        ({"num_channels": 2}, True),
        ({"num_channels": 2}, False),  # files of other numbers of channels are not converted
        ({"stream_index": 1}, True),
    ):
        said = "".join(f"{name}={value}" for name, value in given.items())
        with pytest.raises(InvalidArgumentError, match=rf"'audio' has the feature Audio\({said}\), .*cast_column"):
            Loader(make(**given), 2, fields={"audio": Audio(mono=mono)})


# ---- several columns of images ----


@pytest.mark.parametrize("form", [*FORMS, "from_parquet", "no features"])
@pytest.mark.parametrize("first", ["a", "image"])
@pytest.mark.parametrize("wanted", [0, 1])
def test_the_kind_image_chooses_between_columns_of_images(tmp_path, form, first, wanted):
    def image(value):
        out = io.BytesIO()
        Image.fromarray(np.full((4, 4, 3), value, np.uint8)).save(out, "PNG")
        return out.getvalue()

    def levels(image):
        return set((255 * image).round().ravel().tolist())

    columns = {name: [image(value)] * 2 for name, value in ((first, 10), ("b", 20))} | {"label": [1, 2]}
    name = [first, "b"][wanted]
    if form in ("table", "from_parquet"):
        source = str(write(tmp_path / "t.parquet", columns, features={first: {"_type": "Image"}, "b": {"_type": "Image"}}))
    else:
        datasets = pytest.importorskip("datasets")
        source = datasets.Dataset.from_dict(columns)
        for c in (first, "b"):
            source = source.cast_column(c, datasets.Image())
        source = source if form == "rows" else source.to_iterable_dataset()
        source = source.map(dict) if form == "no features" else source
    make = Loader.from_parquet if form == "from_parquet" else Loader
    for fields in ({name: "Image"}, {name: "Image", "label": None}):
        batch = next(iter(make(source, 2, fields=fields)))
        assert batch._fields == tuple(fields) and levels(getattr(batch, name)) == {10 + 10 * wanted}
    if form != "no features":
        both = next(iter(make(source, 2, fields={name: "Image", [first, "b"][1 - wanted]: "Image"})))
        main = first if first == "image" else name  # a field `image` is always the first image
        assert levels(getattr(both, main)) == {10 if main == first else 20}


def test_image_names_the_column_although_another_has_that_name(tmp_path):
    columns = {"image": [1.5, 2.5], "b": [palette(np.full((4, 4), 2, np.uint8))] * 2, "label": [1, 2]}
    floats = write(tmp_path / "f.parquet", columns)
    pictures = write(tmp_path / "p.parquet", columns | {"image": [palette(np.full((4, 4), 5, np.uint8))] * 2})
    for path in (floats, pictures):
        for fields in (None, ("image", "label"), {"image": "Image", "label": None}):
            batch = next(iter(Loader.from_parquet(path, 2, image="b", fields=fields)))
            assert batch._fields == (tuple(fields) if fields else ("image", "label"))
            assert torch.equal((255 * batch[0]).round(), torch.full((2, 3, 4, 4), 80.0)) and batch.label.tolist() == [1, 2]
    with pytest.raises(InvalidArgumentError, match=r"image='image' contradicts fields, by which the column 'b' has the images"):
        Loader.from_parquet(pictures, 2, image="image", fields={"b": "Image", "label": None})


@pytest.mark.parametrize("form", [*FORMS, "paths", "dicts", "dataset"])
def test_a_mask_is_not_called_image(tmp_path, rng, form):
    """Otherwise the mask would be read as the image."""
    if form in FORMS:
        source, _ = pictures(tmp_path, None, form=form)
    else:
        for name in "ab":
            (tmp_path / f"{name}.png").write_bytes(palette(np.zeros((4, 4), np.uint8)))
        pair = str(tmp_path / "a.png"), str(tmp_path / "b.png")
        source = [pair if form == "paths" else {"b": pair[0], "image": pair[1]}] * 2
        source = DictsOf(source) if form == "dataset" else source
    for fields in ({"b": "Image", "image": "Mask"}, {"image": "Mask"}, {"image": "BoundingBoxes", "b": None}):
        with pytest.raises(
            InvalidArgumentError, match=r"fields: 'image' is a (Mask|BoundingBoxes), and a field of this name is always the image"
        ):
            Loader(source, 2, fields=fields)


class DictsOf(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def test_a_column_image_next_to_a_sound_is_left_out(tmp_path):
    data = [wav(np.full(800, 100, np.int16), 8000) for _ in range(2)]
    path = write(tmp_path / "a.parquet", {"image": [b"x", b"y"], "audio": data, "label": [1, 2]})
    for make in (Loader, Loader.from_parquet):
        batch = next(iter(make(str(path), 2, fields={"audio": Audio(), "label": None})))
        assert tuple(batch.audio.shape) == (2, 800) and batch.label.tolist() == [1, 2]


@pytest.mark.parametrize("written", [True, False], ids=["features", "no features"])
@pytest.mark.parametrize("form", ["bytes", "paths"])
def test_a_second_column_of_images_needs_a_kind(tmp_path, form, written):
    """Without a kind, batches would hold the bytes or the paths of its files, as if they were the user's numbers or texts."""
    Image.fromarray(np.full((24, 24), 3, np.uint8)).save(tmp_path / "m.png")
    file = (
        {"bytes": (tmp_path / "m.png").read_bytes(), "path": None} if form == "bytes" else {"bytes": None, "path": str(tmp_path / "m.png")}
    )
    columns = {name: pa.array([file] * 2, IMAGES) for name in ("image", "annotation")} | {"label": [4, 5]}
    feature = {"_type": "Image"}
    path = write(tmp_path / "t.parquet", columns, features={"image": feature, "annotation": feature} if written else None)
    for make in (Loader, Loader.from_parquet):
        for names in (None, ("image", "annotation"), ("image", "label", "annotation")):
            with pytest.raises(
                InvalidArgumentError, match=r"has columns of images: .*annotation: .*fields=\{'image': 'Image', 'mask': 'Mask'\}"
            ):
                make(path, 2, fields=names)
        for names in (("image", "label"), {"image": "Image", "label": None}):
            assert next(iter(make(path, 2, fields=names))).label.tolist() == [4, 5]
        mask = next(iter(make(path, 2, fields={"image": "Image", "annotation": "Mask"}))).annotation
        assert (mask == 3).all() and mask.shape == (2, 24, 24)
        given = next(iter(make(path, 2, fields={"image": "Image", "annotation": None}))).annotation
        assert given == [file["path"]] * 2 if form == "paths" else given.numpy().tobytes() == file["bytes"] * 2


def test_sounds_that_are_named_without_their_kind_are_refused(tmp_path):
    sound = wav(np.full((800, 1), 100, np.int16), 8000)
    columns = {"audio": pa.array([{"bytes": sound, "path": None}] * 2, IMAGES), "text": ["a", "b"]}
    path = write(tmp_path / "a.parquet", columns, features={"audio": {"_type": "Audio"}})
    for make in (Loader, Loader.from_parquet):
        with pytest.raises(
            InvalidArgumentError, match=r"has a column of sounds, 'audio': fields=\{'audio': stoker.Audio\(\), ...\} decodes it"
        ):
            make(path, 2, fields=("audio", "text"))
        assert next(iter(make(path, 2, fields=("text",)))).text == ["a", "b"]
        assert next(iter(make(path, 2, fields={"audio": None, "text": None}))).audio.numpy().tobytes() == sound * 2
        assert next(iter(make(path, 2, fields={"audio": Audio(), "text": None}))).audio.shape == (2, 800)


@pytest.mark.parametrize("form", ["table", "datasets", "stream"])
def test_sounds_without_fields_say_how_they_are_read(tmp_path, form):
    sound = wav(np.full((800, 1), 100, np.int16), 8000)
    columns = {"text": ["a", "b"], "audio": [{"bytes": sound, "path": None}] * 2}
    if form == "table":
        source = write(
            tmp_path / "a.parquet", {**columns, "audio": pa.array(columns["audio"], IMAGES)}, features={"audio": {"_type": "Audio"}}
        )
    else:
        datasets = pytest.importorskip("datasets")
        source = datasets.Dataset.from_dict(columns).cast_column("audio", datasets.Audio())
        source = source.to_iterable_dataset() if form == "stream" else source
    with pytest.raises(InvalidArgumentError, match="no column of images, and sounds in the column 'audio'") as e:
        Loader(source, 2)
    advised = "fields={'text': None, 'audio': stoker.Audio()}"
    assert f": {advised} reads them" in str(e.value) and "image=" not in str(e.value) and "cast_column" not in str(e.value)
    batch = next(iter(Loader(source, 2, **eval(f"dict({advised})", {"stoker": stoker}))))
    assert batch.audio.shape == (2, 800) and batch.text == ["a", "b"]


def test_advised_fields_for_sounds_name_no_column_that_is_refused(tmp_path):
    sound = wav(np.full((800, 1), 100, np.int16), 8000)
    columns = {
        "audio": pa.array([{"bytes": sound, "path": None}] * 2, IMAGES),
        "rate": [1, 2],
        "audio_lengths": [3, 4],
        "pairs": pa.array([[("a", 1)]] * 2, pa.map_(pa.string(), pa.int64())),
        "price": pa.array([1, 2], pa.decimal128(5, 2)),
        "text": ["a", "b"],
    }
    source = write(tmp_path / "a.parquet", columns, features={"audio": {"_type": "Audio"}})
    with pytest.raises(InvalidArgumentError, match="sounds in the column 'audio'") as e:
        Loader(source, 2)
    advised = "fields={'audio': stoker.Audio(), 'text': None}"
    assert f": {advised} reads them" in str(e.value)
    batch = next(iter(Loader(source, 2, **eval(f"dict({advised})", {"stoker": stoker}))))
    assert batch.audio.shape == (2, 800) and batch.text == ["a", "b"]
