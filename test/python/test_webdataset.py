# SPDX-License-Identifier: Apache-2.0
"""readers.webdataset, compared with Python's tarfile, and with DALI if it is installed."""

from __future__ import annotations

import gzip
import importlib
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
import stoker
from PIL import Image
from stoker import fn, types
from storage import Store
from support import SEED

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
ODD = [
    ("d/", None),
    ("d/0.jpg", b"jpg0"),
    ("d/0.cls", b"0"),
    ("d/1.cls", b"1"),
    ("d/1.jpg", b"jpg1!"),
    ("d/2.jpg", b"jpg2"),
    ("d/3.seg.png", b"png3"),
    ("d/3.JPG", b"JPG3"),
    ("noext", b"x"),
    (".hid.jpg", b"h"),
    ("4.jpg", b""),
    ("4.cls", b"1234"),
    ("d/0.txt", b"again"),
    ("5.a", b"1"),
    ("5.jpg", b"x1"),
    ("5.jpg", b"x2"),
]


def write(path, members, form=tarfile.USTAR_FORMAT):
    with tarfile.open(path, "w", format=form) as t:
        for name, data in members:
            info = tarfile.TarInfo(name)
            if data is None:
                info.type = tarfile.DIRTYPE
            else:
                info.size = len(data)
            t.addfile(info, None if data is None else io.BytesIO(data))
    return str(path)


def stems(path):
    """Reads a tar with tarfile. Returns a list of (ending, member, bytes) for each sample. As in DALI, the ending of a name without a dot is the whole name."""
    found, last = [], None
    with tarfile.open(path) as t:
        for m in t:
            folder, _, name = m.name.rpartition("/")
            stem, _, ending = name.partition(".")
            if not m.isreg() or not stem:
                continue
            if (folder, stem) != last:
                found.append([])
                last = (folder, stem)
            found[-1].append((ending or m.name, m, t.extractfile(m).read()))
    return found


def reference(path, endings):
    """Returns, for each sample, the bytes of the first file with each of these endings, or b"" if no file has the ending."""
    samples = [{} for _ in stems(path)]
    for sample, files in zip(samples, stems(path), strict=True):
        for ending, _, data in files:
            sample.setdefault(ending, data)
    return [[s.get(e, b"") for e in endings] for s in samples]


def write_index(tar, path, version="v1.2"):
    """Writes an index as wds2idx does."""
    named = version == "v1.2"
    lines = [" ".join(f"{e} {m.offset_data} {m.size}" + f" {m.name}" * named for e, m, _ in files) for files in stems(tar)]
    with open(path, "w") as f:
        f.write("\n".join([f"{version} {len(lines)}", *lines]) + "\n")
    return str(path)


def build(library=stoker, batch=4, options=None, **kwargs):
    pipe = library.Pipeline(batch_size=batch, num_threads=3, device_id=None, **(options or {}))
    with pipe:
        outputs = library.fn.readers.webdataset(name="R", **kwargs)
        pipe.set_outputs(*(outputs if isinstance(outputs, (list, tuple)) else [outputs]))
    pipe.build()
    return pipe


def samples(outputs):
    """Returns the values as [sample][component]: bytes, or lists of numbers."""
    arrays = [[np.asarray(o.at(i)) for i in range(len(o))] for o in outputs]
    return [[a.tobytes() if a.dtype == np.uint8 else a.tolist() for a in s] for s in zip(*arrays, strict=True)]


def epoch(pipe):
    size = pipe.reader_meta("R")["epoch_size"]
    seen = []
    while len(seen) < size:
        seen += samples(pipe.run())
    return seen[:size]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("indexed", [False, True])
def test_tars_of_every_kind(form, indexed, tmp_path):
    rng = np.random.default_rng(SEED)
    longer = "p" * 90 + "/" + "q" * 60 if form == "ustar" else "p" * 150 + "/" + "ü" * 150
    members = []
    for k in range(9):
        folder = ["", "train/", longer + "/"][k % 3]
        for ending in ("jpg", "cls", "a.b"):
            members.append((f"{folder}{k:04}.{ending}", rng.bytes(int(rng.integers(0, 3000)))))
    tars = [write(tmp_path / f"{k}.tar", members[27 * k : 27 * k + 27] or members[:6], FORMATS[form]) for k in range(2)]
    with tarfile.open(tars[0], "a", format=FORMATS[form]) as t:  # a link that is not a sample's file
        link = tarfile.TarInfo("latest")
        link.type, link.linkname = tarfile.SYMTYPE, "0000.jpg"
        t.addfile(link)
    endings = ["a.b", "jpg", "cls"]
    given = {"index_paths": [write_index(t, t + ".idx", "v1.1" if form == "gnu" else "v1.2") for t in tars]} if indexed else {}
    pipe = build(paths=tars, ext=endings, **given)
    assert epoch(pipe) == reference(tars[0], endings) + reference(tars[1], endings)


CASES = [
    {"ext": ["jpg"]},
    {"ext": ["jpg", "cls"]},
    {"ext": ["cls", "jpg"], "missing_component_behavior": "skip"},
    {"ext": ["cls;seg.png", "jpg"]},
    {"ext": ["jpg;cls", "jpg"]},
    {"ext": ["cls;jpg", "jpg;a"]},
    {"ext": ["JPG", "cls"], "case_sensitive_extensions": False},
    {"ext": ["noext", "txt"]},
    {"ext": ["zip"], "missing_component_behavior": "empty"},
    {"ext": ["jpg", "cls"], "missing_component_behavior": ""},
]


@pytest.mark.dali
@pytest.mark.parametrize("case", CASES, ids=[" ".join(c["ext"]) + c.get("missing_component_behavior", "") for c in CASES])
@pytest.mark.parametrize("indexed", [False, True])
def test_components_as_dali_has_them(case, indexed, tmp_path):
    dali = pytest.importorskip("nvidia.dali", reason="NVIDIA DALI is not installed")
    importlib.import_module("nvidia.dali.fn")
    given = {"paths": [write(tmp_path / "w.tar", ODD)], **case}
    if indexed:
        given["index_paths"] = [write_index(given["paths"][0], tmp_path / "w.idx")]
    ours, theirs = build(**given), build(dali, **given)
    assert ours.reader_meta("R")["epoch_size"] == theirs.reader_meta("R")["epoch_size"]
    assert epoch(ours) == epoch(theirs)


def test_types_of_components(tmp_path):
    tar = write(tmp_path / "w.tar", [("0.jpg", b"A" * 7), ("0.cls", np.array([3, -4], "<i4").tobytes())])
    assert samples(build(paths=tar, ext=["jpg", "cls"], dtypes=[types.UINT8, types.INT32], batch=1).run()) == [[b"A" * 7, [3, -4]]]
    for given, message in [
        ({"ext": ["jpg"], "dtypes": types.INT32}, r'w.tar, at byte 512: component "jpg" of 0.jpg has 7 bytes'),
        ({"ext": ["jpg", "cls"], "dtypes": [types.INT32]}, "2 components in ext and 1 dtypes"),
        ({"ext": ["jpg", "txt"], "missing_component_behavior": "error"}, 'begins with 0.jpg has no component "txt"'),
        ({"ext": ["jpg"], "dtypes": types.BOOL}, r"dtypes\[0\] is BOOL, .*: read UINT8"),
        ({"ext": ["jpg"], "missing_component_behavior": "raise"}, "missing_component_behavior"),
        ({"ext": ["zip"], "missing_component_behavior": "skip"}, "no samples"),
        ({"ext": ["jpg", "zip"]}, 'no sample has a component "zip"; there are: jpg, cls'),
        ({"ext": []}, "ext"),
        ({"ext": ["jpg"], "index_paths": ["a", "b"]}, "1 files in paths and 2 indexes"),
        ({"ext": ["jpg"], "paths": []}, "paths"),
    ]:
        with pytest.raises(stoker.StokerError, match=message):
            build(**{"paths": tar, **given})


def header(name, size, kind=b"0", form=b"ustar  \0"):
    h = bytearray(512)
    h[: len(name)] = name
    h[100:108], h[124:136], h[156:157], h[257:265] = b"0000644\0", size, kind, form
    h[148:156] = b" " * 8
    h[148:156] = b"%06o\0 " % sum(h)
    return bytes(h)


def padded(data):
    return data + bytes(-len(data) % 512)


def test_rarer_features_of_tar(tmp_path):
    """Reads sizes in base 256, signed sums, a tar without zero blocks at its end, and names as only old programs wrote them."""
    size = b"\x80" + (5).to_bytes(11, "big")
    whole = header(b"0.jpg", size) + padded(b"hello") + header(b"0.cls", b"          3 ") + padded(b"cls")
    high = bytearray(header(b"\xff\xfe.jpg", b"00000000002\0"))
    high[148:156] = b"%06o\0 " % (sum(x - 256 if x > 127 else x for x in high[:148] + b" " * 8 + high[156:]) & 0o777777)
    whole += bytes(high) + padded(b"ab")
    (tmp_path / "a.tar").write_bytes(whole)
    assert epoch(build(paths=str(tmp_path / "a.tar"), ext=["jpg", "cls"])) == [[b"hello", b"cls"], [b"ab", b""]]


def test_a_file_that_is_not_a_tar_is_named(tmp_path):
    tar = tmp_path / "w.tar"
    write(tar, [("0.jpg", b"A" * 700), ("1.jpg", b"B" * 700)])
    data = tar.read_bytes()
    pax = io.BytesIO()
    with tarfile.open(fileobj=pax, mode="w", format=tarfile.PAX_FORMAT) as t:
        info = tarfile.TarInfo("0.jpg")
        info.pax_headers = {"GNU.sparse.major": "1"}
        t.addfile(info)
    record = b"30 path=0.jpg\n"
    bad = {
        "gz": (gzip.compress(data), "gunzip"),
        "zst": (b"\x28\xb5\x2f\xfd" + bytes(600), "unzstd"),
        "zip": (b"PK\3\4" + bytes(600), "a .zip"),
        "sparse": (header(b"0.jpg", b"00000000000\0", b"S"), "sparse file"),
        "pax-sparse": (pax.getvalue(), "sparse file"),
        "volume": (header(b"0.jpg", b"00000000000\0", b"M"), "another volume"),
        "text": (b"hello " * 200, "no tar: it does not begin"),
        "empty": (b"", "is empty"),
        "short": (data[:300], "cut short, or no tar"),
        "sum": (data[:1540] + b"x" + data[1541:], "at byte 1536: the header of a file is damaged"),
        "attributes": (header(b"x", b"%011o\0" % len(record), b"x") + padded(record), "attributes of a file are damaged"),
        "attributes-cut": (header(b"x", b"00000001000\0", b"x") + b"12", "cut short"),
        "negative": (header(b"0.jpg", b"\xff" * 12), "damaged|does not begin"),
        "huge": (header(b"0.jpg", b"\x80" + b"\x7f" + b"\xff" * 10), "damaged|does not begin"),
        "long": (header(b"L", b"%011o\0" % (70 << 10), b"L") + b"n" * (70 << 10), "longer than 64 KiB"),
    }
    for name, (content, message) in bad.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(stoker.StokerError, match=message) as e:
            build(paths=str(tmp_path / name), ext="jpg")
        assert name in str(e.value), name


def test_a_file_that_is_not_an_index_is_named(tmp_path):
    tar, index = write(tmp_path / "w.tar", [("0.jpg", b"A" * 700)]), tmp_path / "w.idx"
    for text, message in [
        ("v1.0 1\njpg 512 4\n", "line 0: not an index"),
        ("", "line 0: not an index"),
        ("v1.1\njpg 512 4\n", "number of samples"),
        ("v1.2 2\njpg 512 4 n\n", "announces 2 samples and has 1"),
        ("v1.1 1\njpg 513 4\n", "line 1: a place that no file"),
        ("v1.1 1\njpg 0 4\n", "line 1: a place that no file"),
        ("v1.1 1\n\n", "without components"),
        ("v1.2 1\njpg 512 4\n", "without a name"),
        ("v1.1 1\njpg 512 -4\n", "without an offset and a size"),
        ("v1.1 1\njpg 512\n", "without an offset and a size"),
        ("v1.1 1\njpg 99999999999999999999 4\n", "without an offset and a size"),
        ("v1.1 1\njpg 512 9223372036854775807\n", "a place that no file"),
        ("v1.1 99999999999\njpg 512 4\n", "cut short"),
    ]:
        index.write_text(text)
        with pytest.raises(stoker.StokerError, match=message):
            build(paths=tar, index_paths=str(index), ext="jpg")
    index.write_text("v1.1 1\njpg 512 99999\n")  # an index of another archive; the error appears when a sample is read
    with pytest.raises(stoker.StokerError, match=r"w\.tar.*ends before byte 100511"):
        build(paths=tar, index_paths=str(index), ext="jpg").run()


def image(value, size=24):
    out = io.BytesIO()
    Image.new("RGB", (size, size), (value, 0, 0)).save(out, "JPEG", quality=95)
    return out.getvalue()


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Writes three tars of images and their numbers, with 23 samples in all."""
    root = tmp_path_factory.mktemp("shards")
    tars = []
    for k, (begin, end) in enumerate([(0, 10), (10, 11), (11, 23)]):
        members = [m for i in range(begin, end) for m in ((f"{i:04}.jpg", image(10 * i)), (f"{i:04}.cls", str(i).encode()))]
        tars.append(write(root / f"s-{k}.tar", members))
    return tars


def numbers(outputs):
    return [int(s[1]) for s in samples(outputs)]


def test_shuffled_shared_and_resumed(shards):
    given = {"paths": shards, "ext": ["jpg", "cls"], "random_shuffle": True, "shuffle_seed": SEED, "batch": 3}
    checkpointing = {"enable_checkpointing": True}
    whole = build(options=checkpointing, **given)
    expected = [numbers(whole.run()) for _ in range(16)]
    flat = [n for step in expected for n in step]
    assert sorted(flat[:23]) == sorted(flat[23:46]) == list(range(23)) and flat[:23] != flat[23:46] != list(range(23))
    for stop in (2, 9):
        first = build(options=checkpointing, **given)
        for _ in range(stop):
            first.run()
        resumed = build(options=checkpointing | {"checkpoint": first.checkpoint()}, **given)
        assert [numbers(resumed.run()) for _ in range(3)] == expected[stop : stop + 3]
    ranks = [build(num_shards=2, shard_id=r, **given) for r in range(2)]
    steps = [[numbers(p.run()) for p in ranks] for _ in range(3)]
    assert [n for step in steps for part in step for n in part] == flat[:18]
    with pytest.raises(stoker.errors.StateError, match="changed"):
        build(options=checkpointing | {"checkpoint": first.checkpoint()}, **{**given, "paths": shards[::-1]}).run()


def test_paths_with_braces_and_globs(tmp_path):
    names = ["s-08", "s-09", "s-10", "val-a", "val-b", "odd{1..2}", "odd[1]"]
    for name in names:
        write_index(write(tmp_path / f"{name}.tar", [("0.txt", name.encode())]), tmp_path / f"{name}.idx")

    def read(paths, **given):
        paths = [f"{tmp_path}/{p}" for p in paths]
        return [s[0].decode() for s in epoch(build(paths=paths[0] if len(paths) == 1 else paths, ext="txt", **given))]

    assert read(["s-{08..10}.tar"]) == names[:3] and read(["s-{10..09}.tar"]) == ["s-10", "s-09"]
    assert read(["val-{b,a}.tar", "s-{09..09}.tar"]) == ["val-b", "val-a", "s-09"]
    assert read(["s-*.tar"]) == names[:3] and read(["[sv]*[0b].tar"]) == ["s-10", "val-b"]
    assert read(["odd{1..2}.tar"]) == ["odd{1..2}"] and read(["odd[1].tar"]) == ["odd[1]"]
    assert read(["{s-08,val-a}.tar"], index_paths=f"{tmp_path}/{{s-08,val-a}}.idx") == ["s-08", "val-a"]
    for path, message in [
        ("t-*.tar", "no file matches"),
        ("s-{08..11}.tar", r"s-11\.tar"),
        ("s-{08}.tar", "between braces stand"),
        ("s-{0..99999999}.tar", "more than"),
    ]:
        with pytest.raises(stoker.StokerError, match=message):
            read([path])
    with pytest.raises(stoker.StokerError, match="only be after the last slash"):
        build(paths="s3://b/*/a.tar", ext="txt")


def test_damage_is_named_by_archive_place_and_member(shards, tmp_path):
    data = bytearray(Path(shards[2]).read_bytes())
    with tarfile.open(shards[2]) as t:
        broken, last = t.getmembers()[6], t.getmembers()[-2]
    data[broken.offset_data : broken.offset_data + 8] = b"not jpeg"
    (tmp_path / "bad.tar").write_bytes(data[: last.offset_data + 100])
    pipe = stoker.Pipeline(batch_size=4, num_threads=2, on_error="skip", max_errors=10)
    with pipe:
        jpg, cls = fn.readers.webdataset(
            paths=[str(tmp_path / "bad.tar"), shards[1]], ext=["jpg", "cls"], pad_last_batch=False, tail="keep"
        )
        pipe.set_outputs(fn.decoders.image(jpg), cls)
    seen = []
    for _ in range(4):
        seen += numbers(pipe.run())
    assert sorted(seen) == sorted([n for n in range(11, 22) if n != 14] + [10])
    failed = [(b.uri, str(b)) for b in pipe.bad_samples()]
    assert failed[0][0] == f"{tmp_path}/bad.tar:{broken.offset_data}:0014.jpg"
    assert failed[1][0].startswith(f"{tmp_path}/bad.tar") and "ends before byte" in failed[1][1]


def test_a_cut_image_ends_where_its_file_does(tmp_path):
    """A truncated image gives the same result in an archive as in a file of its own. The archive's bytes after it were read too, but must not be used."""
    whole = image(200, 64)
    cut = whole[: len(whole) * 2 // 3]
    write(tmp_path / "a.tar", [("0.jpg", cut), ("0.seg.jpg", whole)])
    (tmp_path / "cut.jpg").write_bytes(cut)
    found = []
    for form in ("tar", "file"):
        pipe = stoker.Pipeline(batch_size=1, num_threads=1)
        with pipe:
            if form == "tar":
                a, b = fn.readers.webdataset(paths=str(tmp_path / "a.tar"), ext=["jpg", "seg.jpg"])
                pipe.set_outputs(fn.decoders.image(a), b)
            else:
                pipe.set_outputs(fn.decoders.image(fn.readers.file(files=[str(tmp_path / "cut.jpg")])[0]))
        try:
            found.append(np.asarray(pipe.run()[0].at(0)).tolist())
        except stoker.StokerError as e:
            found.append(str(e).split(": ")[1].split(";")[0])
    assert found[0] == found[1]


@pytest.mark.parametrize("where", ["disk", "disk, without a given index", "store"])
@pytest.mark.parametrize(
    "endings", [["txt", "a"], ["a", "txt"], ["txt"], ["a", "b", "far"]], ids=["first", "last", "alone", "after other data"]
)
def test_the_headers_of_empty_files_are_checked(where, endings, tmp_path, monkeypatch):
    """A file that is empty according to the index gives an empty value. It is an error if the tar was replaced by one in which the file has content."""
    empty = endings[-1] if "far" in endings else "txt"
    folder = tmp_path / "b"
    folder.mkdir()

    def pack(content):
        rest = {"a": 2000, "b": 100_000, "far": 0, "txt": 0}
        members = [(f"{k}.{e}", bytes(rest[e])) for k in range(3) for e in endings]
        write(folder / "new", [(n, content if n == f"1.{empty}" else b) for n, b in members])
        return str((folder / "new").replace(folder / "s.tar"))  # at once, since the pipeline may be reading

    tar = pack(b"")
    ext = [e for e in endings if e != "b"]
    given = {"paths": tar, "ext": ext, "batch": 3, "missing_component_behavior": "error"}
    if where != "disk, without a given index":
        given["index_paths"] = write_index(tar, tar + ".idx")
    store = Store(tmp_path) if where == "store" else None
    try:
        if store:
            for key, value in store.environment.items():
                monkeypatch.setenv(key, value)
            given |= {"paths": "s3://b/s.tar", "index_paths": "s3://b/s.tar.idx"}
        pipe = build(**given)
        assert epoch(pipe) == reference(tar, ext)
        pipe = build(**given)
        pack(b"now there is a text")
        with pytest.raises(stoker.StokerError, match=r"the tar was changed or replaced"):
            for _ in range(5):
                epoch(pipe)
    finally:
        if store:
            store.close()


def test_neighbours_come_in_one_request_from_a_store(shards, tmp_path, monkeypatch):
    """If the tar has an index, the components of a sample are read from s3:// in one request, unless much other data is between them."""
    (tmp_path / "b").mkdir()
    members = [m for i in range(6) for m in ((f"{i}.jpg", image(10 * i)), (f"{i}.cls", str(i).encode()), (f"{i}.big", bytes(100_000)))]
    members += [(f"{i}.far", b"%d" % i) for i in range(5, 6)]
    tar = write(tmp_path / "b" / "s.tar", members)
    write_index(tar, tmp_path / "b" / "s.idx")
    store = Store(tmp_path)
    try:
        for key, value in store.environment.items():
            monkeypatch.setenv(key, value)
        given = {"paths": "s3://b/s.tar", "index_paths": "s3://b/s.idx", "ext": ["cls", "jpg", "far"], "batch": 6}
        pipe = build(options={"read_requests": 1, "prefetch_queue_depth": 1}, **given)
        before = store.counts()["requests"]
        got = [samples(pipe.run()) for _ in range(6)]
        requests = store.counts()["requests"] - before
    finally:
        store.close()
    for step in got:
        assert [int(s[0]) for s in step] == list(range(6)) and [s[1] for s in step] == [image(10 * i) for i in range(6)]
        assert [s[2] for s in step] == [b""] * 5 + [b"5"]
    assert 6 * 7 <= requests < 6 * 13, "7 a batch, some of them of the next"
