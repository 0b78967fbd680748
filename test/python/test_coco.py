# SPDX-License-Identifier: Apache-2.0
"""readers.coco, compared with the annotations that the tests write, and with DALI if it is installed."""

from __future__ import annotations

import ctypes
import importlib
import json

import numpy as np
import pytest
import stoker
from support import SEED

try:
    DALI = importlib.import_module("nvidia.dali")
    importlib.import_module("nvidia.dali.fn")
except ImportError:
    DALI = None


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Writes files whose names contain their images' ids, and annotations that list the images in random order."""
    root = tmp_path_factory.mktemp("coco")
    rng = np.random.default_rng(SEED)
    ids = [int(i) * 7 + 3 for i in rng.permutation(12)]
    names = {i: f"é{i:04}.jpg" if k % 5 == 0 else f"{i:04}.jpg" for k, i in enumerate(ids)}
    for i in ids:
        (root / names[i]).write_bytes(b"image %d" % i)
    images = [{"license": None, "id": i, "file_name": names[i], "height": 30 + i, "width": 50 + 2 * i, "x": [{"y": 'a"\\'}]} for i in ids]
    annotations = []
    for k in range(40):
        crowd = k % 9 == 0
        polygons = [[round(float(v), 2) for v in rng.uniform(0, 30, 2 * int(rng.integers(3, 6)))] for _ in range(int(rng.integers(1, 3)))]
        box = [round(float(v), 3) for v in rng.uniform(0, 20, 4)]
        if k % 11 == 0:
            box[2] = 0.04
        annotations.append(
            {
                "segmentation": {"counts": [3, 4, 1e2], "size": [7, 8]} if crowd else polygons,
                "area": 1.5e-3,
                "iscrowd": int(crowd),
                "image_id": ids[int(rng.integers(0, 10))],
                "bbox": box,
                "category_id": int(rng.choice([3, 1, 90])),
                "id": k,
            }
        )
    whole = {"info": {"a": [1, -2.5e3, True, None]}, "annotations": annotations, "images": images}
    whole["categories"] = [{"id": c, "name": f"c{c}"} for c in (3, 1, 90)]
    (root / "a.json").write_text(json.dumps(whole))
    return root, whole


def build(root, library=stoker, batch=4, options=None, **kwargs):
    pipe = library.Pipeline(batch_size=batch, num_threads=2, device_id=None, **(options or {}))
    given = {"file_root": str(root), "annotations_file": str(root / "a.json"), **kwargs}
    with pipe:
        pipe.set_outputs(*library.fn.readers.coco(name="R", **given))
    pipe.build()
    return pipe


def epoch(pipe):
    size, seen = pipe.reader_meta("R")["epoch_size"], []
    while len(seen) < size:
        outputs = pipe.run()
        seen += [[np.asarray(o.at(i)) for o in outputs] for i in range(len(outputs[0]))]
    return seen[:size]


CASES = [
    {},
    {"ltrb": True},
    {"ratio": True},
    {"ratio": True, "ltrb": True, "image_ids": True},
    {"skip_empty": True, "include_iscrowd": False},
    {"avoid_class_remapping": True, "size_threshold": 5.0},
    {"polygon_masks": True},
    {"polygon_masks": True, "ratio": True, "image_ids": True, "skip_empty": True},
]


@pytest.mark.dali
@pytest.mark.parametrize("case", CASES, ids=[" ".join(c) for c in CASES])
def test_as_dali_reads_it(case, data):
    dali = pytest.importorskip("nvidia.dali", reason="NVIDIA DALI is not installed")
    importlib.import_module("nvidia.dali.fn")
    ours, theirs = epoch(build(data[0], **case)), epoch(build(data[0], dali, **case))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        for k, (x, y) in enumerate(zip(a, b, strict=True)):
            assert x.dtype == y.dtype and x.shape == y.shape and np.array_equal(x, y), (k, x, y)


def test_what_was_written(data):
    root, whole = data
    images = sorted(whole["images"], key=lambda i: i["id"])
    numbers = {3: 1, 1: 2, 90: 3}
    for image, (data_, boxes, labels, polygons, vertices, number) in zip(
        images, epoch(build(root, polygon_masks=True, image_ids=True, size_threshold=0.0)), strict=True
    ):
        own = [a for a in whole["annotations"] if a["image_id"] == image["id"]]
        assert data_.tobytes() == b"image %d" % image["id"] and number.tolist() == [image["id"]]
        assert np.array_equal(boxes, np.array([a["bbox"] for a in own], "f4").reshape(-1, 4))
        assert labels.tolist() == [numbers[a["category_id"]] for a in own]
        flat = [(k, p) for k, a in enumerate(own) if not a["iscrowd"] for p in a["segmentation"]]
        assert polygons[:, 0].tolist() == [k for k, _ in flat]
        for (_, begin, end), (_, p) in zip(polygons.tolist(), flat, strict=True):
            assert np.array_equal(vertices[begin:end].ravel(), np.array(p, "f4"))


STAR = [8.5, 0.5, 10.2, 4.1, 15.0, 4.4, 11.3, 7.0, 12.9, 11.2, 8.4, 8.8, 3.7, 11.0, 5.6, 6.9, 1.5, 4.0, 6.9, 4.2]
# For each of 12 rows of 17 pixels, the columns that pycocotools 2.0.11 fills for the star; and its run-length strings for a disc and a pattern.
STARS_ROWS = ["", " 8", " 8-9", " 7-9", " 2-14", " 4-12", " 5-11", " 5-11", " 5-11", " 4-6 10-11", " 4 12", ""]
DISC = "d1374N0O2O0001N102L^1"
PATTERN = (
    "011010O01000O010O01000O010O01000O010O01000O010O10O10O01000O010O01000O010O01000O010O01000O010O10O10O01000O010O01000O010O01000O"
    "010O01000O010O10O10O01000O010O010"
)


def annotated(root, segments, height=12, width=17):
    """Writes annotations of one image with an object for each (label, segmentation). The image's file has one byte, because it is not decoded. Returns the
    folder."""
    notes = [
        {"id": k, "image_id": 1, "bbox": [0, 0, 9, 9], "category_id": label, "iscrowd": int(isinstance(s, dict)), "segmentation": s}
        for k, (label, s) in enumerate(segments)
    ]
    image = {"id": 1, "file_name": "a.jpg", "height": height, "width": width}
    (root / "a.jpg").write_bytes(b"x")
    (root / "a.json").write_text(json.dumps({"images": [image], "annotations": notes, "categories": [{"id": c} for c in (1, 2, 3)]}))
    return root


def mask_of(root, segments, library=stoker, **size):
    return epoch(build(annotated(root, segments, **size), library, batch=1, pixelwise_masks=True))[0][3]


def test_masks_are_those_of_pycocotools(tmp_path):
    y, x = np.mgrid[0:12, 0:17]
    disc, pattern, star = ((x - 8) ** 2 + (y - 5) ** 2 < 20, (x * 7 + y * 3) % 5 < 2, np.zeros((12, 17), bool))
    for row, runs in zip(star, STARS_ROWS, strict=True):
        for run in runs.split():
            first, _, last = run.partition("-")
            row[int(first) : int(last or first) + 1] = True
    for segments, want in (([STAR], star), ({"size": [12, 17], "counts": DISC}, disc), ({"size": [12, 17], "counts": PATTERN}, pattern)):
        got = mask_of(tmp_path, [(2, segments)])
        assert got.shape == (12, 17, 1) and got.dtype == np.int32
        np.testing.assert_array_equal(got[..., 0], 2 * want)
    flat = pattern.ravel("F")
    counts = np.diff([0, *(np.flatnonzero(flat[1:] != flat[:-1]) + 1), flat.size]).tolist()
    counts = [0, *counts] if flat[0] else counts
    over = [(3, {"size": [12, 17], "counts": counts}), (1, {"size": [12, 17], "counts": DISC}), (1, [STAR])]
    np.testing.assert_array_equal(mask_of(tmp_path, over)[..., 0], np.where(pattern, 3, disc | star))
    assert not mask_of(tmp_path, []).any()


@pytest.mark.dali
def test_masks_of_polygons_are_dalis(tmp_path):
    dali = pytest.importorskip("nvidia.dali", reason="NVIDIA DALI is not installed")
    importlib.import_module("nvidia.dali.fn")
    rng = np.random.default_rng(SEED)
    segments = [
        (int(rng.integers(1, 4)), [[round(float(v), 2) for v in rng.uniform(-9, 60, 2 * int(rng.integers(3, 9)))] for _ in range(2)])
        for _ in range(12)
    ]
    size = {"height": 41, "width": 53}
    np.testing.assert_array_equal(mask_of(tmp_path, segments, **size), mask_of(tmp_path, segments, dali, **size))


def test_runs_that_do_not_fit_are_errors(tmp_path):
    for counts, size, message in (
        (DISC, [17, 12], r"annotation 0: its runs of pixels are of size \[17, 12\], where the image is of size \[12, 17\]"),
        ([200, 3], [12, 17], r"annotation 0: its runs, .* add up to 203 pixels, where the image of size \[12, 17\] has 204"),
        ([200, -4, 8], [12, 17], "out of range"),
        ("d1374", [12, 17], "pixels"),
        ("d137~", [12, 17], "no runs of pixels"),
        ("oooooooooo", [12, 17], "no runs of pixels"),
        (7, [12, 17], "a list or a string"),
        (DISC, [12, 17, 1], "more than two"),
    ):
        with pytest.raises(stoker.StokerError, match=message):
            mask_of(tmp_path, [(1, {"size": size, "counts": counts})])
    with pytest.raises(stoker.StokerError, match=r"annotation 0: a polygon's vertex lies at 1e\+30, far outside"):
        mask_of(tmp_path, [(1, [[1e30, 0, 1, 1, 2, 2]])])


WITHOUT_RUNS = (
    {},
    {"size": [12, 17]},
    {"size": [12, 17], "counts": []},
    {"size": [12, 17], "counts": ""},
    {"size": [12, 17], "counts": None},
)


@pytest.mark.parametrize("segments", [*WITHOUT_RUNS, {"counts": DISC}, {"size": [12], "counts": DISC}])
def test_missing_runs_are_errors(tmp_path, segments):
    """A segmentation without runs or size is refused, as by DALI. It must not become an empty mask."""
    message = "lacks its size" if segments.get("counts") else "runs of pixels (lacks its counts, or they are empty|are a list or a string)"
    for library, wanted in ((stoker, rf"{message}.*, in the annotation with the id 1;"), (DALI, "counts|mask sizes")):
        if library is None:
            continue
        with pytest.raises(RuntimeError, match=wanted):
            mask_of(tmp_path, [(2, [STAR]), (1, segments)], library)


@pytest.mark.parametrize("masks", ["polygon_masks", "pixelwise_masks"])
@pytest.mark.parametrize("segments", [None, []])
def test_objects_without_segmentation(tmp_path, masks, segments):
    """An object without segmentation has no mask. DALI also leaves out the masks of all larger labels; here this object has the largest label."""
    root = annotated(tmp_path, [(2, [STAR]), (3, segments)])
    (_, boxes, labels, *rest), *others = epoch(build(root, batch=1, **{masks: True}))
    assert boxes.shape == (2, 4) and labels.tolist() == [2, 3] and not others
    if DALI:
        for ours, theirs in zip((boxes, labels, *rest), epoch(build(root, DALI, batch=1, **{masks: True}))[0][1:], strict=True):
            np.testing.assert_array_equal(ours, theirs)
    if masks == "pixelwise_masks":
        np.testing.assert_array_equal(mask_of(tmp_path, [(1, segments), (2, [STAR])]), mask_of(tmp_path, [(2, [STAR])]))


def test_a_missing_image_is_named_with_its_list(tmp_path):
    root = annotated(tmp_path, [])
    (root / "a.jpg").unlink()
    (root / "list.txt").write_text("a.jpg 0\n")
    (root / "arrays.txt").write_text("a.npy\n")
    for define, named in (
        (lambda: stoker.fn.readers.coco(file_root=str(root), annotations_file=str(root / "a.json"))[0], "a.json"),
        (lambda: stoker.fn.readers.file(file_root=str(root), file_list=str(root / "list.txt"))[0], "list.txt"),
        (lambda: stoker.fn.readers.numpy(file_root=str(root), file_list=str(root / "arrays.txt")), "arrays.txt"),
    ):
        pipe = stoker.pipeline_def(batch_size=1, num_threads=1, device_id=None)(define)()
        with pytest.raises(
            stoker.errors.NotFoundError, match=rf"No such file or directory; .*{named} names it; sample 0 of epoch 0, .*test_coco.py:\d+"
        ):
            pipe.run()
    pipe = stoker.pipeline_def(batch_size=1, num_threads=1, device_id=None)(
        lambda: stoker.fn.readers.file(files=[str(root / "a.jpg")])[0]
    )()
    with pytest.raises(stoker.errors.NotFoundError, match="No such file or directory; sample 0"):
        pipe.run()


def test_chosen_shuffled_and_resumed(data):
    root, whole = data
    names = [i["file_name"] for i in whole["images"]][7:2:-1]
    got = epoch(build(root, images=names))
    assert [int(s[0].tobytes().split()[1]) for s in got] == [i["id"] for i in whole["images"]][7:2:-1]
    options = {"enable_checkpointing": True}
    given = {"random_shuffle": True, "shuffle_seed": SEED, "save_img_ids": True, "batch": 5}  # DALI's older name of the argument image_ids
    first = build(root, options=options, **given)
    expected = [[int(x) for x in np.concatenate([np.asarray(o.at(i)) for i in range(5)])] for o in (first.run()[3] for _ in range(6))]
    second = build(root, options=options, **given)
    second.run()
    resumed = build(root, options=options | {"checkpoint": second.checkpoint()}, **given)
    step = resumed.run()[3]
    assert [int(np.asarray(step.at(i))[0]) for i in range(5)] == expected[1]
    (root / "other.json").write_text(json.dumps({**whole, "annotations": whole["annotations"][2:]}))
    with pytest.raises(stoker.errors.StateError, match="changed"):
        other = {"annotations_file": str(root / "other.json")}
        build(root, options=options | {"checkpoint": second.checkpoint()}, **given, **other).run()


def test_annotations_of_images_that_are_not_listed_are_left_out(data, tmp_path):
    """Users filter the list of images, and keep all annotations. The categories of annotations without a listed image are not checked either."""
    root, whole = data
    for kept in (whole["images"][::2], whole["images"][3:5], whole["images"][-1:]):
        stray = [{**whole["annotations"][0], "image_id": number, "category_id": 12345} for number in (-5, 10**12)]
        text = {**whole, "images": kept}
        texts = {}
        ids = {image["id"] for image in kept}
        listed = [a for a in whole["annotations"] if a["image_id"] in ids]
        for name, objects in (("subset", whole["annotations"] + stray), ("filtered", listed)):
            path = tmp_path / f"{name}.json"
            path.write_text(json.dumps({**text, "annotations": objects}))
            texts[name] = epoch(build(root, annotations_file=str(path), polygon_masks=True))
        for got, want in zip(texts["subset"], texts["filtered"], strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))


def test_sizes_of_images_are_needed_for_masks_and_ratio_only(data, tmp_path):
    root, whole = data
    bare = [{k: v for k, v in image.items() if k not in ("width", "height")} for image in whole["images"]]
    path = tmp_path / "bare.json"
    path.write_text(json.dumps({**whole, "images": bare}))
    for got, want in zip(epoch(build(root, annotations_file=str(path))), epoch(build(root)), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))
    for needs in ("polygon_masks", "pixelwise_masks", "ratio"):
        with pytest.raises(
            stoker.StokerError, match=rf"lacks its width or height, which masks and ratio need, in the image with the id {bare[0]['id']}"
        ):
            build(root, annotations_file=str(path), **{needs: True})


def test_files_that_are_not_annotations_are_named(data, tmp_path):
    root, whole = data
    image, note = whole["images"][0], whole["annotations"][1]
    text = json.dumps(whole)
    bad = [
        ("", r"a\.json is empty: an object is expected"),
        (" \n ", r"a\.json is empty: an object is expected"),
        ("\n[]", r"a\.json, at byte 1 \(line 2\): an object is expected"),
        (text[:-1], rf"a\.json ends early, at byte {len(text) - 1} \(line 1\): a comma or the end"),
        (json.dumps(whole, indent=1)[:-2], rf"ends early, at byte \d+ \(line {json.dumps(whole, indent=1).count(chr(10))}\): a comma"),
        ('{"info": "a', r"ends early, at byte 11 \(line 1\): a string without end"),
        (text + "x", "something follows"),
        (text.replace('"id"', '"jd"'), "lacks its id"),
        (text.replace('"bbox": [', '"bbox": [1, '), "more than four"),
        (text.replace('"bbox": [', '"bbox": ["a", '), "a number is expected"),
        (text.replace('"a\\"', '"a\\q"', 1), "escape"),
        (json.dumps({**whole, "images": [image, image], "annotations": []}), "two images have the id"),
        (json.dumps({**whole, "images": []}), "no images in it"),
        (json.dumps({**whole, "categories": []}), r"annotation \d+ is of category \d+, .* avoid_class_remapping=True"),
        (
            json.dumps({**whole, "images": [{k: v for k, v in image.items() if k != "width"}]}),
            f"lacks its width .*, in the image with the id {image['id']};",
        ),
        (json.dumps({**whole, "images": [{k: v for k, v in image.items() if k != "file_name"}]}), "lacks its file_name"),
        (json.dumps({"images": []}), "no images in it"),
        (json.dumps({**whole, "annotations": [{**note, "segmentation": [[1, 2, 3]]}]}), "odd count .*, in the annotation with the id 1;"),
        (json.dumps({**whole, "annotations": [{**note, "id": "a", "segmentation": [[1, 2, 3]]}]}), "odd count of coordinates; readers"),
        (
            json.dumps({**whole, "annotations": [{**note, "bbox": [1, 2, 3]}]}),
            "a bbox of 3 numbers, where four .*, in the annotation with the id 1;",
        ),
        (json.dumps({**whole, "annotations": [{**note, "bbox": []}]}), "a bbox of 0 numbers"),
        (
            json.dumps({**whole, "annotations": [{k: v for k, v in note.items() if k != "bbox"}]}),
            "lacks its bbox, in the annotation with the id 1;",
        ),
        (json.dumps({**whole, "annotations": [{k: v for k, v in note.items() if k != "category_id"}]}), "lacks its category_id"),
        (json.dumps({**whole, "annotations": [{k: v for k, v in note.items() if k != "image_id"}]}), "lacks its image_id"),
        (json.dumps({**whole, "annotations": [{**note, "image_id": 1.5}]}), "whole number"),
        (json.dumps({**whole, "annotations": [{**note, "category_id": 1e12}]}), "category_id that is out of range"),
        ('{"a": ' + "[" * 100 + "]" * 100 + "}", "nested too deeply"),
        ('{"images": [{"id": 1, "file_name": "\\ud800"}]}', "escape"),
        ('{"images": [{"id": 1, "file_name": "a\\u0000"}]}', "escape|zero byte"),
    ]
    for content, message in bad:
        (tmp_path / "a.json").write_text(content)
        with pytest.raises(stoker.StokerError, match=message):
            build(tmp_path, polygon_masks=True)
    for given, message in [
        ({"images": ["nobody.jpg"]}, 'no image "nobody.jpg"'),
        ({"pixelwise_masks": True, "polygon_masks": True}, "choose one"),
        ({"preprocessed_annotations": "x"}, "annotations_file"),
        ({"annotations_file": str(tmp_path / "none")}, "cannot open"),
    ]:
        with pytest.raises(stoker.StokerError, match=message):
            build(root, **given)


def _in_use():
    """Returns the number of bytes in use in the C library's heap."""
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    kind = type("mallinfo2", (ctypes.Structure,), {"_fields_": [(n, ctypes.c_size_t) for n in names]})
    about = ctypes.CDLL(None).mallinfo2
    about.restype = kind
    found = about()
    return int(found.uordblks + found.hblkhd)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="glibc before 2.33 does not tell")
def test_an_image_with_a_box_takes_less_than_a_hundred_bytes(tmp_path):
    count = 100_000

    def listed(n):
        path = tmp_path / f"{n}.json"
        images = [{"id": i, "file_name": f"{i:012d}.jpg", "width": 640, "height": 480} for i in range(n)]
        boxes = [{"id": i, "image_id": i, "category_id": 1, "bbox": [1, 2, 30, 40], "iscrowd": 0} for i in range(n)]
        path.write_text(json.dumps({"images": images, "annotations": boxes, "categories": [{"id": 1}]}))
        pipe = stoker.pipeline_def(batch_size=1, num_threads=1, device_id=None)(
            lambda: tuple(stoker.fn.readers.coco(file_root=str(tmp_path), annotations_file=str(path), name="reader"))
        )()
        before = _in_use()
        pipe.build()
        return pipe, _in_use() - before

    _, fixed = listed(1)
    pipe, taken = listed(count)
    assert pipe.reader_meta("reader")["epoch_size"] == count
    print((taken - fixed) / count)
    assert (taken - fixed) / count < 100


def one(**image):
    """Returns annotations of one image and one object. image: fields of the image that differ from the defaults."""
    note = {"id": 5, "image_id": image.get("id", 1), "bbox": [1, 2, 3, 4], "category_id": 1, "segmentation": [[1, 1, 3, 1, 3, 3]]}
    given = {"id": 1, "file_name": "a.jpg", "height": 9, "width": 9, **image}
    return {"images": [given], "annotations": [note], "categories": [{"id": 1}]}


def put(root, whole, encoding="utf-8"):
    (root / "a.jpg").write_bytes(b"x")
    (root / "a.json").write_bytes(json.dumps(whole).encode(encoding))
    return root


@pytest.mark.parametrize("number", [2**31 - 1, -(2**31), 2**31, 2**40 + 1])
def test_ids_that_the_output_cannot_hold_are_refused(tmp_path, number):
    put(tmp_path, one(id=number))
    assert len(epoch(build(tmp_path, batch=1))) == 1, "an id that is no output may be any"
    if number < 2**31:
        assert epoch(build(tmp_path, batch=1, image_ids=True))[0][3].tolist() == [number]
        return
    with pytest.raises(stoker.errors.LimitError, match=f"the id {number}, which does not fit .* leave out image_ids"):
        build(tmp_path, image_ids=True)


def test_coordinates_are_finite(tmp_path):
    for field, value in (("bbox", [0, 0, 1e300, 5]), ("bbox", [-1e39, 0, 5, 5]), ("segmentation", [[1, 1, 1e39, 1, 3, 3]])):
        whole = one()
        whole["annotations"][0][field] = value
        with pytest.raises(stoker.errors.CorruptError, match=r"a coordinate that is out of range.*, in the annotation with the id 5;"):
            build(put(tmp_path, whole), polygon_masks=True)


def test_encodings_of_the_file(tmp_path):
    assert len(epoch(build(put(tmp_path, one(), "utf-8-sig"), batch=1))) == 1
    with pytest.raises(stoker.errors.CorruptError, match="in UTF-16: save it as UTF-8"):
        build(put(tmp_path, one(), "utf-16"))


def test_keys_of_any_length_are_passed_over(tmp_path):
    whole = one()
    for held in (whole, whole["images"][0], whole["annotations"][0]):
        held |= {"k" * n: 1 for n in (63, 64, 65, 5000)} | {"\u00e4" * 40: [1]}
    assert len(epoch(build(put(tmp_path, whole), batch=1))) == 1


def test_images_of_one_name_cannot_be_chosen_by_it(tmp_path):
    whole = one()
    whole["images"].append({**whole["images"][0], "id": 2})
    put(tmp_path, whole)
    assert len(epoch(build(tmp_path, batch=1))) == 2
    with pytest.raises(stoker.errors.CorruptError, match=r'several images are called "a\.jpg"'):
        build(tmp_path, images=["a.jpg"])


@pytest.mark.parametrize(("given", "crowd"), [("true", True), ("1", True), ("2", True), ("false", False), ("0", False), ("null", False)])
def test_iscrowd_as_programs_write_it(tmp_path, given, crowd):
    root = put(tmp_path, one())
    (root / "a.json").write_text(json.dumps(one()).replace('"id": 5,', f'"id": 5, "iscrowd": {given},'))
    ((_, boxes, _),) = epoch(build(root, batch=1, include_iscrowd=False))
    assert len(boxes) == (not crowd)


def test_numbers_that_are_passed_over_may_be_infinite(tmp_path):
    """Infinity and NaN are no error in fields that the reader does not use, such as area and score. Python's json writes them, for example as the area of a box
    without extent."""
    whole = one()
    whole["annotations"][0] |= {"area": float("inf"), "score": [-float("inf"), float("nan"), -1.5]}
    assert len(epoch(build(put(tmp_path, whole), batch=1))) == 1
    (tmp_path / "a.json").write_text(json.dumps(whole).replace("-Infinity", "-Infinitx"))
    with pytest.raises(stoker.errors.CorruptError, match="a number is expected"):
        build(tmp_path)


def test_of_two_segmentations_of_an_object_the_last_counts(tmp_path):
    root = put(tmp_path, one())
    text = json.dumps(one())
    runs = '{"size": [9, 9], "counts": [80, 1]}'
    polygon = "[[4, 4, 8, 4, 8, 8]]"
    for first, last, mask in ((polygon, "[[1, 1, 3, 1, 3, 3]]", False), (runs, "[[1, 1, 3, 1, 3, 3]]", False), (polygon, runs, True)):
        (root / "a.json").write_text(
            text.replace('"segmentation": [[1, 1, 3, 1, 3, 3]]', f'"segmentation": {first}, "segmentation": {last}')
        )
        got = epoch(build(root, batch=1, pixelwise_masks=True))[0][3][..., 0]
        (root / "a.json").write_text(text.replace('"segmentation": [[1, 1, 3, 1, 3, 3]]', f'"segmentation": {last}'))
        assert np.array_equal(got, epoch(build(root, batch=1, pixelwise_masks=True))[0][3][..., 0]) and got[8, 8] == mask
        (root / "a.json").write_text(
            text.replace('"segmentation": [[1, 1, 3, 1, 3, 3]]', f'"segmentation": {first}, "segmentation": {last}')
        )
        polygons, vertices = epoch(build(root, batch=1, polygon_masks=True))[0][3:]
        assert len(polygons) == (not mask) and vertices.tolist() == ([] if mask else [[1, 1], [3, 1], [3, 3]])
