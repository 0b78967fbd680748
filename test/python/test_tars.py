# SPDX-License-Identifier: Apache-2.0
"""Tars as a Loader's data set, on disk and in a bucket: every kind of index, even a stale or damaged one, gives the same samples in the same order."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import itertools
import json
import lzma
import os
import pickle
import re
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from stoker import Loader, Storage, _core, fn, pipeline_def
from stoker import transforms as T
from stoker.errors import InvalidArgumentError, StateError, StokerError
from storage import BUILD, PROGRAM, Store, stoker
from support import SEED, tar_of, write_tree

SMALL = [T.RandomResizedCrop(8), T.RandomHorizontalFlip()]
FAULTS = "p503=0.05&p500=0.02&reset=0.1&truncate=0.1&change=0.0&length=0.02&latency_ms=1&jitter_ms=5&seed=7"
COUNTS = [10, 1, 12, 14]


def jpeg(k):
    out = io.BytesIO()
    Image.fromarray(np.full((20, 24, 3), (5 * k % 256, 3 * k % 256, 100), np.uint8)).save(out, "JPEG")
    return out.getvalue()


def write(path, members, form=tarfile.PAX_FORMAT):
    Path(path).write_bytes(tar_of(members, form))
    return str(path)


def sample(k):
    name = f"train/{k:04}" + "-ü" * 60 * (k % 5 == 0)  # some names need a pax header
    return [
        (f"{name}.jpg", jpeg(k)),
        (f"{name}.cls", f"{k}\n".encode()),
        (f"{name}.txt", f"caption {k}".encode()),
        (f"{name}.json", json.dumps({"number": k}).encode()),
    ]


@pytest.fixture(scope="module", autouse=True)
def caches(tmp_path_factory):
    """Lets indexes that cannot be written next to their tar go to a temporary folder, so that tests do not change the user's caches."""
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("caches")))
    yield
    patch.undo()


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Writes four tars with 37 samples in all. Returns their folder, which is also the bucket "b" of the store."""
    root = tmp_path_factory.mktemp("tars")
    (root / "b").mkdir()
    ids = iter(range(sum(COUNTS)))
    for k, count in enumerate(COUNTS):
        write(root / "b" / f"s-{k:03}.tar", [m for _ in range(count) for m in sample(next(ids))])
    return root / "b"


@pytest.fixture(scope="module")
def store(shards):
    server = Store(shards.parent)
    patch = pytest.MonkeyPatch()
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        patch.delenv(name)
    for name, value in server.environment.items():
        patch.setenv(name, value)
    yield server
    patch.undo()
    server.close()


def run(source, epochs=1, **more):
    """Returns (hash of the image, label, index) of each sample, in order of delivery. source: an argument of Loader, or a function that makes a loader."""
    arguments = {"fields": ("image", "label", "index"), "shuffle": True, "seed": 5, "last_batch": "keep", "transforms": SMALL, **more}
    make = source if callable(source) else lambda **a: Loader(source, 4, **a)
    loader, out = make(**arguments), []
    for _ in range(epochs):
        for batch in loader:
            out += [(hashlib.md5(i.numpy().tobytes()).hexdigest(), int(y), int(k)) for i, y, k in zip(*batch, strict=True)]
    loader.close()
    return out


def kept(folder):
    return sorted(p.name for p in folder.iterdir() if p.name.endswith(".stoker"))


@pytest.mark.essential
def test_the_same_samples_from_everywhere(shards, store, tmp_path):
    """Tars give the same samples from disk and from a bucket, and if the source is a glob, braces, a list, a folder or an index. Requests may fail, even those
    for an index."""
    plain = run(str(shards / "s-*.tar"), shuffle=False)
    assert [label for _, label, _ in plain] == [k for _, _, k in plain] == list(range(37))
    whole = run(str(shards / "s-*.tar"), epochs=2)
    assert sorted(k for _, _, k in whole[:37]) == list(range(37)) != [k for _, _, k in whole[:37]] != [k for _, _, k in whole[37:]]
    assert kept(shards) == [f"s-00{k}.tar.stoker" for k in range(4)]
    found = _core.tar_index([os.fsencode(shards / "s-*.tar")], os.fsencode(tmp_path / "all"), None)
    assert found["tars"] == 4 and found["files"] == 148 and found["components"] == dict.fromkeys(["jpg", "cls", "txt", "json"], 37)
    for name in kept(shards):
        (shards / name).unlink()
    assert run(str(tmp_path / "all"), epochs=2) == whole and not kept(shards), "the index says it all"
    tars = [shards / f"s-00{k}.tar" for k in range(4)]
    for source in (str(shards / "s-{000..003}.tar"), str(shards / "s-{000,00{1..2},003}.tar"), tars, str(shards)):
        assert run(source, epochs=2) == whole, source
    before = store.counts()["faults"]
    store.set(FAULTS)
    assert run("s3://b/s-{000..003}.tar", epochs=2)[37:] == whole[37:], "the index is made in the first epoch"
    assert run("s3://b/s-{000..003}.tar", epochs=2) == whole
    assert store.counts()["faults"] > before + 5
    store.set("page=2")
    assert run("s3://b/s-*.tar", epochs=2) == whole
    assert run([f"s3://b/s-00{k}.tar" for k in range(4)], epochs=2) == whole


def test_resuming_with_other_ranks(shards):
    """After a resume with another number of ranks, the global sequence continues at the same position, whether samples or shards are shuffled."""
    for shuffle in (True, "shards"):

        def make(shard=None, batch=4, shuffle=shuffle):
            return Loader(
                str(shards), batch, shuffle=shuffle, seed=SEED, shard=shard, transforms=SMALL, fields=("index",), last_batch="drop"
            )

        whole = [k for batch in make() for k in batch.index.tolist()]
        ranks = [make((r, 2), 2) for r in range(2)]
        steps = [iter(r) for r in ranks]
        seen = [k for _ in range(3) for s in steps for k in next(s).index.tolist()]
        assert seen == whole[:12]
        resumed = make()
        resumed.load_state_dict(ranks[0].state_dict())
        assert seen + [k for batch in resumed for k in batch.index.tolist()] == whole
    with pytest.raises(StateError, match="shuffled whole shards; this one shuffles samples"):
        Loader(str(shards), 4, shuffle=True, seed=SEED, transforms=SMALL).load_state_dict(ranks[0].state_dict())


def test_shuffled_shards(shards):
    """shuffle="shards" gives every sample once, in few runs of neighbours, and in another order for another seed. It is refused for folders of files."""
    seen = [[k for _, _, k in run(str(shards), shuffle="shards", seed=s)] for s in (1, 2)]
    for ids in seen:
        assert sorted(ids) == list(range(37))
        breaks = sum(b != (a + 1) % 37 for a, b in itertools.pairwise(ids))
        assert breaks <= 37 // (37 // 4) + 1
    assert seen[0] != seen[1]
    with pytest.raises(InvalidArgumentError, match='"shards" is for tars'):
        Loader([(str(shards / "x.jpg"), 0)], 1, shuffle="shards")


def test_components_have_the_kinds_of_their_endings(shards, tmp_path):
    """Reads numbers, texts, JSON, bytes and arrays; without `components`, the Loader chooses the components from the files in the tars."""
    parts = {"image": "jpg", "caption": "txt", "meta": "json", "raw": ("cls", "bytes"), "label": "cls"}
    batch = next(iter(Loader.from_tars(str(shards), 3, components=parts, transforms=SMALL)))
    assert batch._fields == tuple(parts) and batch.label.tolist() == [0, 1, 2]
    assert batch.caption == ["caption 0", "caption 1", "caption 2"] and batch.meta[2] == {"number": 2} and batch.raw[1] == b"1\n"
    arrays = []
    for k in range(3):
        out = io.BytesIO()
        np.save(out, np.full((2, 3), k, np.float32))
        arrays += [(f"{k}.png.jpg", jpeg(k)), (f"{k}.a.npy", out.getvalue()), (f"{k}.txt", b"" if k else b"x")]
    tar = write(tmp_path / "a.tar", arrays)
    batch = next(iter(Loader.from_tars(tar, 3, components={"image": "png.jpg", "array": "a.npy", "text": "txt"}, transforms=SMALL)))
    assert batch.array.shape == (3, 2, 3) and batch.array[2, 1, 1] == 2 and batch.text == ["x", "", ""]
    tar = write(tmp_path / "b.tar", [("0.PNG.jpg", b""), ("0.JPG", jpeg(0)), ("0.txt", b"zero"), ("1.jpg", jpeg(1)), ("1.txt", b"one")])
    with pytest.raises(StokerError, match=r'begins with 0\.jpg has no component "cls"'):
        Loader(write(tmp_path / "c.tar", [("0.jpg", jpeg(0)), ("1.cls", b"1")]), 1)
    assert next(iter(Loader(tar, 2, transforms=SMALL))).label == ["zero", "one"]
    images = write(tmp_path / "d.tar", [(f"{k}.jpeg", jpeg(k)) for k in range(2)])
    assert next(iter(Loader(images, 2, transforms=SMALL)))._fields == ("image",)


def test_endings_in_upper_case(tmp_path):
    """The case of endings does not matter: neither for the files that are read, nor for the label that the Loader chooses, nor for the kinds of components.
    Tars and components in lower case are the reference."""

    def read(change, components):
        tar = tmp_path / f"{change.__name__}.tar"
        names = [(*name.rpartition("."), data) for k in range(3) for name, data in sample(k)]
        write(tar, [(stem + dot + change(ending), data) for stem, dot, ending, data in names])
        more = {"transforms": SMALL, "seed": 5, "fields": None}
        loader = Loader(tar, 3, **more) if components is None else Loader.from_tars(tar, 3, components=components, **more)
        batch = next(iter(loader))
        return [(name, value.tolist() if hasattr(value, "tolist") else value) for name, value in batch._asdict().items()], loader

    wanted = {"image": "jpg", "label": "cls", "text": "txt", "meta": "json"}
    for components in (None, wanted):
        expected, _ = read(str.lower, components)
        assert dict(expected)["label"] == [0, 1, 2]
        assert read(str.upper, components)[0] == expected
    assert read(str.lower, {name: ending.upper() for name, ending in wanted.items()})[0] == expected
    (tmp_path / "packing.txt").touch()
    (tmp_path / "classes.txt").write_text("a\nb\nc\n")
    assert read(str.upper, None)[1].classes == read(str.upper, {"image": "JPG", "label": "CLS"})[1].classes == ["a", "b", "c"]
    assert read(str.upper, {"image": "JPG", "label": ("CLS", "bytes")})[1].classes == []
    twice = write(tmp_path / "twice.tar", [("1.jpg", jpeg(1)), ("1.JPG", jpeg(2))])
    with pytest.raises(StokerError, match=r'the sample that begins with 1\.jpg has a second "JPG"'):
        Loader(twice, 1)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (3,)])
def test_arrays_keep_their_shape(shape, tmp_path):
    def npy(k):
        out = io.BytesIO()
        np.save(out, np.full(shape, k, np.float32))
        return out.getvalue()

    write(tmp_path / "a.tar", [m for k in range(4) for m in ((f"{k}.jpg", jpeg(k)), (f"{k}.cls", b"%d" % k), (f"{k}.npy", npy(k)))])
    components = {"image": "jpg", "label": "cls", "y": "npy"}
    for batch in Loader.from_tars(tmp_path / "a.tar", 2, components=components, transforms=[T.Resize((8, 8))]):
        assert batch.label.shape == (2,) and batch.label.dtype == torch.int64
        assert batch.y.numpy().tolist() == [np.full(shape, int(k)).tolist() for k in batch.label]


def test_sources_that_are_refused(shards, tmp_path):
    bad = write(tmp_path / "n.tar", [("0.jpg", jpeg(0)), ("0.cls", b"n0144")])
    with pytest.raises(StokerError, match=r'n\.tar:512:0\.jpg.*the label "n0144" is not a whole number'):
        next(iter(Loader(bad, 1, transforms=SMALL)))
    (tmp_path / "x.tar.gz").write_bytes(b"\x1f\x8b" + bytes(600))
    for make, said in [
        (lambda: Loader.from_tars(str(shards), 2, components={"image": "pgn"}), "component 'pgn'.*there are jpg, cls, txt, json"),
        (lambda: Loader.from_tars(str(shards), 2, components={"label": "cls"}), "a dict with an image"),
        (lambda: Loader.from_tars(str(shards), 2, components={"image": "jpg", "y": ("cls", "number")}), "a pair of it and"),
        (lambda: Loader(write(tmp_path / "t.tar", [("0.txt", b"")]), 1), "have no image.*they have txt"),
        (lambda: Loader(str(tmp_path / "x.tar.gz"), 1), "gunzip"),
        (lambda: Loader(str(tmp_path / "none-*.tar"), 1), "no file matches"),
    ]:
        with pytest.raises(StokerError, match=said):
            make()

    @pipeline_def(batch_size=2, num_threads=1)
    def pipe(**more):
        return fn.readers.webdataset(paths=str(shards / "s-001.tar"), ext=["pgn"], **more)

    with pytest.raises(StokerError, match='no sample has a component "pgn"; there are: jpg, cls, txt, json'):
        pipe().build()
    assert np.asarray(pipe(missing_component_behavior="empty").run()[0].at(0)).size == 0


def test_a_tar_that_is_cut(tmp_path):
    """A tar that is cut in the padding after a file's bytes, or in a header, is an error. Otherwise the samples after the cut would be missing without a
    warning."""
    whole = Path(write(tmp_path / "whole.tar", [(f"{k}.bin", bytes(100 + k)) for k in range(5)]))
    with tarfile.open(whole) as tar:
        member = tar.getmembers()[2]
    cut = tmp_path / "cut.tar"
    for size in (member.offset_data + member.size + 10, member.offset + 100):
        cut.write_bytes(whole.read_bytes()[:size])
        with pytest.raises(StokerError, match="cut"):
            Loader.from_tars(str(cut), 1, components={"image": "bin"})


@pytest.mark.parametrize("kind", ["json", "text"])
def test_bad_texts_by_policy(kind, tmp_path):
    """A text that Python cannot decode fails only its own sample; all other texts arrive. Texts are damaged at random; Python's decoder is the reference."""
    rng = np.random.default_rng(SEED)
    seeds = [
        b'{"a": [1, -2.5e3, true, null, NaN, -Infinity], "b\\u00e9\\ud800": {"c": "\xc3\xa9\\n"}, "d": []}',
        b' [ 0 , {} , "" , "\xf0\x9f\x98\x80" ]\r\n',
        b'\xef\xbb\xbf{"x": 0}',
        b"17",
        b'"' + "ü€".encode() * 3 + b'"',
    ]
    alphabet = b'{}[]",:\\u0123456789eE+-. \n\tntfNI\x00\x1f\x80\xbf\xc0\xc3\xed\xa0\xf4\x90\xff'
    texts = list(seeds)
    while len(texts) < 400:
        data = bytearray(seeds[rng.integers(len(seeds))])
        for _ in range(rng.integers(1, 4)):
            at = int(rng.integers(len(data)))
            data[at : at + int(rng.integers(0, 2))] = bytes([alphabet[rng.integers(len(alphabet))]]) * int(rng.integers(0, 2))
            data = data or bytearray(b"0")
        texts.append(bytes(data))

    def good(text):
        try:
            text.decode() if kind == "text" else json.loads(text.decode("utf-8-sig", "surrogatepass"))
        except ValueError:
            return False
        return True

    picture = jpeg(1)
    tar = write(tmp_path / "t.tar", [m for k, t in enumerate(texts) for m in ((f"{k:04}.jpg", picture), (f"{k:04}.t", t))])
    loader = Loader.from_tars(
        tar,
        50,
        components={"image": "jpg", "t": ("t", kind)},
        transforms=[T.Resize((2, 2))],
        fields=("t", "index"),
        on_error="skip",
        max_errors=1e9,
    )
    seen = {int(k): t for batch in loader for k, t in zip(batch.index, batch.t, strict=True)}
    want = [k for k, text in enumerate(texts) if good(text)]
    assert sorted(seen) == want and 5 <= len(want) < 395
    read = bytes.decode if kind == "text" else json.loads
    assert all(repr(seen[k]) == repr(read(texts[k])) for k in want)
    bad = next(k for k in range(400) if k not in want)
    with pytest.raises(StokerError, match=rf"t\.tar:\d+:{bad:04}\.\w+.* cannot be read: .*at byte \d+ of it"):
        list(Loader.from_tars(tar, 50, components={"image": "jpg", "t": ("t", kind)}, transforms=[T.Resize((2, 2))], fields=("t",)))


@pytest.mark.parametrize(("kind", "name", "said"), [
    (tarfile.LNKTYPE, "b.cls", 'a hard link, "b.cls", .*--hard-dereference'),
    (tarfile.SYMTYPE, "b.jpg", 'a symbolic link, "b.jpg", .*--dereference'),
    *((tarfile.SYMTYPE, name, f'a symbolic link, "{re.escape(name)}", .*--dereference')
      for name in ("b.png", "x.y/b.jpeg", "b.CLS")),
    *((tarfile.SYMTYPE, name, "") for name in ("latest", "x.y/latest", ".hidden", "x/._b.jpg",
      "README.md", "data/v1.0", "lib/libx.so.1", "a.json", "b.wav", "x.y/b.npy", "./b.seg.flac")),
])  # fmt: skip
def test_links_to_files_are_refused(tmp_path, kind, name, said):
    """A link in place of a sample's file, as tar writes for a file's second name, is refused. Otherwise such samples would be missing without a warning."""
    path = write(tmp_path / "t.tar", [("a.jpg", jpeg(1)), ("a.cls", b"1")])
    with tarfile.open(path, "a") as tar:
        link = tarfile.TarInfo(name)
        link.type, link.linkname = kind, "a.jpg"
        tar.addfile(link)
    if not said:
        assert [y for _, y, _ in run(path, shuffle=False)] == [1]
        return
    with pytest.raises(StokerError, match=rf"t\.tar, at byte \d+: {said}"):
        Loader(path, 1)


@pytest.mark.parametrize("stored", [False, True])
def test_links_are_refused_only_by_readers_that_want_them(tmp_path, monkeypatch, stored):
    """A link "0001.json" is passed over if no json is read. It is refused if json is read, also with the index that another reader has made."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    (tmp_path / "b").mkdir()
    with tarfile.open(tmp_path / "b/t.tar", "w") as tar:
        data = {"jpg": jpeg(1), "cls": b"1", "json": b"1"}
        for name in ("data/v1.0", *(f"{k:04}.{ending}" for k in range(4) for ending in data)):
            entry = tarfile.TarInfo(name)
            if name in ("data/v1.0", "0001.json"):
                entry.type, entry.linkname = tarfile.SYMTYPE, "v1.1"
                tar.addfile(entry)
            else:
                content = data[name.split(".")[1]]
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    server = Store(tmp_path) if stored else None
    for name, value in (server.environment if server else {}).items():
        monkeypatch.setenv(name, value)
    url = "s3://b/t.tar" if stored else str(tmp_path / "b/t.tar")
    wanted = {"image": "jpg", "label": "cls", "meta": "json"}
    try:
        for _ in range(2):  # without an index, and with one
            for missing in ("error", "skip", "empty"):
                with pytest.raises(StokerError, match=r't\.tar, at byte \d+: a symbolic link, "0001\.json", .*--dereference'):
                    list(Loader.from_tars(url, 4, components=wanted, missing_component_behavior=missing, fields=tuple(wanted)))
            assert [y for _, y, _ in run(url, shuffle=False)] == [1, 1, 1, 1]
    finally:
        if server:
            server.close()


def test_samples_that_would_be_missing_are_reported(tmp_path, capfd):
    """Warns of samples that would be missing, or refuses them: two samples of one name, a tar that ends between two files, two tars joined by cat."""
    members = [m for k in (1, 1, 2) for m in ((f"{k}.jpg", jpeg(k)), (f"{k}.cls", b"%d" % k))]
    twice = write(tmp_path / "twice.tar", members)
    with pytest.raises(StokerError, match=r'twice\.tar, at byte \d+: the sample that begins with 1\.jpg has a second "jpg"'):
        Loader(twice, 1)

    @pipeline_def(batch_size=2, num_threads=1)
    def pipe(path):
        return fn.readers.webdataset(paths=path, ext=["jpg", "cls"], tail="keep")

    capfd.readouterr()
    assert len(pipe(twice).run()[0]) == 2, "the first counts, as in DALI"
    assert (
        "2 files of tars are passed over, since their samples have one of the same ending already, as that of 1.jpg"
        in capfd.readouterr().err
    )
    whole = Path(write(tmp_path / "whole.tar", sample(3) + sample(4)))
    with tarfile.open(whole) as t:
        last, inside = (t.getmembers()[k].offset for k in (4, 5))
    cut = tmp_path / "cut.tar"
    cut.write_bytes(whole.read_bytes()[:last])
    for _ in range(2):  # the second run reads the stored index
        capfd.readouterr()
        assert [y for _, y, _ in run(str(cut), shuffle=False)] == [3]
        assert capfd.readouterr().err.count("cut.tar: it ends without the blocks of zeros that end a tar") == 1
    assert "1 of the tars end without the blocks" in stoker("index", cut, "-o", tmp_path / "i")
    cut = tmp_path / "cut_inside.tar"
    cut.write_bytes(whole.read_bytes()[:inside])
    with pytest.raises(StokerError, match=r"the sample that begins with train/0004\.jpg has no component.*it may have been cut short"):
        Loader(cut, 1)
    # GNU tar writes records of 20 blocks by default, of 128 with -b 128, and containers of a fixed size may be far larger than their archive.
    members = whole.read_bytes().rstrip(b"\0")
    members += bytes(-len(members) % 512 + 1024)
    for k, record in enumerate((10 << 10, 64 << 10, 5 << 20)):
        padded = members + bytes(-len(members) % record)
        alone = tmp_path / f"padded{k}.tar"
        alone.write_bytes(padded)
        assert [y for _, y, _ in run(str(alone), shuffle=False)] == [3, 4]
        alone.with_suffix(".junk.tar").write_bytes(padded + b"junk" * 500 + padded)  # tar ignores this too
        assert [y for _, y, _ in run(str(alone.with_suffix(".junk.tar")), shuffle=False)] == [3, 4]
        joined = tmp_path / f"joined{k}.tar"
        joined.write_bytes(padded + members)
        with pytest.raises(
            StokerError, match=rf"joined{k}\.tar, at byte {len(padded)}: another archive begins after its end, as cat joins them"
        ):
            Loader(str(joined), 1)


def test_a_tar_that_changes_under_its_index(shards, tmp_path, monkeypatch):
    """Offsets into one version of a tar are wrong in another. Neither the new version's bytes nor cached bytes of the old one may be delivered."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    server = Store(shards.parent)
    try:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        kept = Storage(cache=tmp_path / "cache", hedging=False)
        want = run("s3://b/s-000.tar", storage=kept)
        while kept.counters()["cache_pending_bytes"]:
            time.sleep(0.005)
        loader = Loader("s3://b/s-000.tar", 4, transforms=SMALL, storage=Storage(retries=40), read_requests=8)
        server.set("change=0.5&seed=2")
        with pytest.raises(StokerError, match=r"s3://b/s-000\.tar: it has changed since its index was made"):
            for _ in range(20):
                list(loader)
        server.set("")
        loader.close()
        assert run("s3://b/s-000.tar", storage=kept) == want and kept.counters()["cache_stale"] >= 10
    finally:
        server.close()


def test_an_index_that_points_elsewhere(tmp_path):
    """An index is made again if its checksum is valid but its last header is beyond the end of the tar."""
    tar = Path(write(tmp_path / "a.tar", [("0.bin", b"zero")]))
    assert tar.stat().st_size == 10240
    bad = bytes.fromhex("53544b504152545301000105612e7461728050 00007bd5fdffffffffffff7f00006c022ad679a9fdb5")
    (tmp_path / "a.tar.stoker").write_bytes(bad)

    @pipeline_def(batch_size=1, num_threads=1)
    def pipe():
        return fn.readers.webdataset(paths=str(tar), ext="bin")

    assert np.asarray(pipe().run()[0].at(0)).tobytes() == b"zero"
    assert (tmp_path / "a.tar.stoker").read_bytes() != bad


def test_indexes_that_are_kept(tmp_path, capfd, monkeypatch):
    """A stale index is made again; so is a damaged one, with a notice. If the index cannot be written next to its tar, it is written to the cache folder."""
    tar = tmp_path / "a.tar"
    index = tmp_path / "a.tar.stoker"

    def find():
        return [label for _, label, _ in run(str(tar), shuffle=False)]

    def labels(ids):
        write(tar, [m for k in ids for m in sample(k)])
        return find()

    assert labels([1, 2]) == [1, 2] and index.exists()
    first = index.read_bytes()
    assert labels([3, 2]) == [3, 2] and index.read_bytes() != first, "of the same size, at another time"
    good = index.read_bytes()
    for bad in (good[:-1], b"", good[:30] + b"x" + good[31:], b"STKPARTS" + good):
        index.write_bytes(bad)
        capfd.readouterr()
        assert find() == [3, 2] and index.read_bytes() == good
        assert "a.tar.stoker: the index is damaged or cut off: it is made again" in capfd.readouterr().err
    index.unlink()
    index.mkdir()  # a folder of this name keeps every user, root included, from writing the index
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert find() == [3, 2]
    (only,) = (tmp_path / "caches" / "stoker" / "indexes").iterdir()
    before = only.stat()
    assert find() == [3, 2] and only.stat().st_mtime_ns == before.st_mtime_ns
    os.utime(tar, ns=(1, 1))
    assert find() == [3, 2] and only.stat().st_mtime_ns != before.st_mtime_ns


@pytest.mark.parametrize(("size", "count", "most"), [(3000, 1200, 100), (2 << 20, 8, 100)], ids=["small", "large"])
def test_searching_an_object(store, size, count, most, monkeypatch, tmp_path):
    """Small members are read completely; of large ones only the headers are read. An uploaded index saves the search, unless it belongs to another tar."""
    rng = np.random.default_rng(SEED)
    members = [(f"{k:05}.bin", rng.bytes(size - k)) for k in range(count)]
    for bucket in ("alone", "indexed", "changed"):
        (tmp_path / bucket).mkdir()
        tar = write(tmp_path / bucket / "a.tar", members)
        if bucket != "alone":
            _core.tar_index([os.fsencode(tar)], None, None)
    write(tar, [(n, bytes(len(d))) for n, d in members[::-1]])
    server = Store(tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))

    def search(bucket):
        before = server.counts()["requests"]
        found = _core.tar_index([f"s3://{bucket}/a.tar".encode()], None, None)
        assert found["files"] == count and not found["notices"]
        return server.counts()["requests"] - before - 1

    @pipeline_def(batch_size=4, num_threads=2)
    def pipe(bucket):
        return fn.readers.webdataset(paths=f"s3://{bucket}/a.tar", ext="bin", indices=[0, 7, count // 2, count - 1])

    try:
        assert 3 < search("alone") <= most
        # One request, for the tar's beginning and version: the index is in the cache folder. The request may be repeated if the store is slow.
        assert search("alone") <= 2, "what was kept is taken"
        assert 3 <= search("indexed") <= 6, "the beginning, the index, the last header"
        assert search("changed") > 3
        got = pipe("alone").run()[0]
        assert [np.asarray(got.at(i)).tobytes() for i in range(4)] == [members[k][1] for k in (0, 7, count // 2, count - 1)]
    finally:
        server.close()


def command(*words, code=0):
    done = subprocess.run([PROGRAM.parents[2] / "cli" / "stoker", *words, "--json"], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if code == 0 else done.stderr


def pack(source, folder, *options, code=0):
    return command("pack", source, "-o", folder, *options, code=code)


def contents(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def test_packed_tars_hold_every_sample(tmp_path, monkeypatch):
    """Packed tars contain every sample of the folder, whether tarfile or Loader reads them. Packing after an interruption, or from a store, makes equal
    tars."""
    root, packed = tmp_path / "store" / "photos", tmp_path / "packed"
    write_tree(root, np.random.default_rng(SEED), 3, 7)
    long = root / "class1" / ("n" * 120 + ".jpg")
    shutil.copy(root / "class1" / "003.jpg", long)
    shutil.copy(root / "class2" / "001.jpg", root / "class2" / "001.v2.JPG")
    (root / "class0" / "004.json").write_text('{"a": 4}')
    (root / "class0" / "notes").write_text("beside no image")
    report = pack(root, packed, "--shard-size", "20KB")
    assert (report["samples"], report["files"], report["left_out"], report["kept"]) == (23, 24, 1, 0) and report["tars"] > 4
    tars = sorted(packed.glob("*.tar"))
    assert len(tars) == report["tars"] == len(kept(packed)) and (packed / "classes.txt").read_text() == "class0\nclass1\nclass2\n"
    found = {}
    for tar in tars:
        with tarfile.open(tar) as t:
            assert tar.stat().st_size <= 20000 or len(t.getmembers()) <= 3
            found |= {m.name: t.extractfile(m).read() for m in t.getmembers()}
    assert found["class1/" + long.name] == long.read_bytes() and found["class0/004.json"] == b'{"a": 4}' and found["class2/006.cls"] == b"2"
    assert len(found) == 2 * 23 + 1 and sum(name.lower().endswith(".jpg") for name in found) == 23
    assert run(str(packed / "shards-*.tar"), epochs=2) == run(root, epochs=2)
    names, mixed = {"class0": 0, "class1": 1, "class2": 2}, [T.MixUp()]
    for source in (packed, str(packed / "shards-*.tar"), [str(t) for t in tars]):
        loader = Loader(source, 4, transforms=[T.Resize((8, 8))], batch_transforms=mixed)
        assert loader.class_to_idx == names and next(iter(loader)).label.shape == (4, 3)
    report = command("index", packed / "shards-*.tar", "-o", tmp_path / "all.stoker")
    assert (report["tars"], report["files"], report["components"]["cls"]) == (len(tars), 47, 23)
    assert run(tmp_path / "all.stoker") == run(root)
    whole = contents(packed)
    tars[1].unlink()
    (packed / kept(packed)[2]).unlink()
    tars[3].write_bytes(tars[3].read_bytes()[:-512])
    assert pack(root, packed, "--shard-size", "20KB")["kept"] == len(tars) - 2
    assert {n: d for n, d in contents(packed).items() if not n.endswith(".stoker")} == {
        n: d for n, d in whole.items() if not n.endswith(".stoker")
    }
    assert "tars of another source, or of other options" in pack(root, packed, code=1)
    server = Store(tmp_path / "store")
    try:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        server.set(FAULTS)
        pack("s3://photos", tmp_path / "remote", "--shard-size", "20KB")
    finally:
        server.close()
    assert all((tmp_path / "remote" / t.name).read_bytes() == whole[t.name] for t in tars)
    pack(root, tmp_path / "drawn", "--seed", "3", "-t", "1")
    drawn = run(str(tmp_path / "drawn"), shuffle=False)
    assert sorted(y for _, y, _ in drawn) != [y for _, y, _ in drawn] and len(drawn) == 23


def test_changed_files_are_packed_again(tmp_path):
    """A tar is kept only if its files are those that it was made of, also if others have the same names, sizes and times."""
    root, packed = tmp_path / "photos", tmp_path / "packed"
    write_tree(root, np.random.default_rng(SEED), 2, 6)
    for i, path in enumerate(sorted(root.rglob("*.jpg"))):
        path.with_suffix(".txt").write_text(f"caption {i:02}")
    tars = pack(root, packed, "--shard-size", "20KB")["tars"]
    assert tars > 2 and pack(root, packed, "--shard-size", "20KB")["kept"] == tars
    changed = root / "class1" / "002.txt"
    (tmp_path / "new").write_text("CAPTION 08")
    shutil.copystat(changed, tmp_path / "new")
    (tmp_path / "new").replace(changed)
    assert pack(root, packed, "--shard-size", "20KB")["kept"] == tars - 1
    found = []
    for path in packed.glob("*.tar"):
        with tarfile.open(path) as tar:
            found += [tar.extractfile(m).read().decode() for m in tar.getmembers() if m.name.endswith(".txt")]
    assert sorted(found) == ["CAPTION 08"] + [f"caption {i:02}" for i in range(12) if i != 8]


@pytest.mark.parametrize("how", ["folders", "links"])
def test_files_that_were_swapped_are_packed_again(tmp_path, how):
    """Renaming a folder changes no time of its files, and so does another target of a link."""
    root, packed = tmp_path / "photos", tmp_path / "packed"
    for name in ("other", "photos"):
        for k in range(6):
            path = tmp_path / name / f"class{k % 2}" / f"{k}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(jpeg(3).replace(b"JFIF", name[:4].encode()))
    if how == "links":
        target = root / "class1" / "3.jpg"
        shutil.move(target, tmp_path / "3.jpg")
        target.symlink_to(tmp_path / "3.jpg")
    old = pack(root, packed, "--shard-size", "5KB")["tars"]
    before = contents(packed)
    assert old > 1 and pack(root, packed, "--shard-size", "5KB")["kept"] == old
    if how == "links":
        target.unlink()
        target.symlink_to(tmp_path / "other" / "class1" / "3.jpg")
    else:
        root.rename(tmp_path / "old")
        (tmp_path / "other").rename(root)
    assert pack(root, packed, "--shard-size", "5KB")["kept"] == (old - 1 if how == "links" else 0)
    assert contents(packed) != before
    pack(root, tmp_path / "fresh", "--shard-size", "5KB")
    for tar in packed.glob("*.tar"):
        assert tar.read_bytes() == (tmp_path / "fresh" / tar.name).read_bytes()
    if how == "folders":  # a run that continues keeps the complete tars
        (packed / "shards-000001.tar").unlink()
        assert pack(root, packed, "--shard-size", "5KB")["kept"] == old - 1


def test_tars_are_not_packed_into_their_source(tmp_path):
    """The folder of the tars may not lie in the folder of the images, whether that or an index of it is the source."""
    root, packed = tmp_path / "photos", tmp_path / "photos" / "packed"
    write_tree(root, np.random.default_rng(SEED), 2, 2)
    command("index", root, "-o", tmp_path / "index")
    for source in (root, tmp_path / "index"):
        assert f"{packed}: the tars would lie inside {root}" in pack(source, packed, code=1)
        assert not packed.exists()
    assert pack(tmp_path / "index", tmp_path / "packed")["samples"] == 4


def test_tars_are_packed_only_into_an_empty_folder(tmp_path):
    """A folder with files that `stoker pack` has not made is refused, since it might replace them. What an interrupted run has left may stay."""
    root, packed = tmp_path / "photos", tmp_path / "packed"
    write_tree(root, np.random.default_rng(SEED), 2, 2)
    for name in ("classes.txt", "shards-000000.tar", "notes.txt", "0.part"):
        shutil.rmtree(packed, ignore_errors=True)
        packed.mkdir()
        (packed / name).write_text("mine")
        assert f"{packed}: it holds other files, such as {name}: name an empty folder" in pack(root, packed, code=1)
        assert contents(packed) == {name: b"mine"}
    (packed / "0.part").unlink()
    for name in ("packing.txt", "classes.txt", "shards-000000.tar"):
        (packed / f"{name}.0123456789abcdef.part").touch()
    (packed / "lost+found").mkdir(0)  # is in the root of a new file system
    assert pack(root, packed)["samples"] == 4
    assert sum(len(batch.image) for batch in Loader(packed / "*.tar", 4, transforms=SMALL)) == 4


def test_names_of_packed_classes(tmp_path):
    """Only a newline ends a line of classes.txt. Folders whose names have one are refused before anything is written."""
    root, packed = tmp_path / "photos", tmp_path / "packed"
    write_tree(root, np.random.default_rng(SEED), 4, 1)
    names = ["a\x0bb\x0cc", "d\x1ce\x85f", "g\u2028h\u2029i", " j "]
    for k, name in enumerate(names):
        (root / f"class{k}").rename(root / name)
    pack(root, packed)
    assert Loader(packed, 2).classes == Loader(root, 2).classes == sorted(names)
    for name in ("a\nb", "a\rb"):
        (root / " j ").rename(root / name)
        assert "has a line break in its name" in pack(root, tmp_path / "refused", code=1)
        assert not (tmp_path / "refused").exists()
        (root / name).rename(root / " j ")


def test_a_pack_that_has_not_finished_is_noticed(tmp_path, capfd):
    root, packed = tmp_path / "photos", tmp_path / "packed"
    write_tree(root, np.random.default_rng(SEED), 2, 6)
    pack(root, packed, "--shard-size", "20KB")
    small = [T.Resize((8, 8))]
    Loader(packed, 4, transforms=small)
    assert "not finished" not in capfd.readouterr().err
    (packed / "classes.txt").unlink()  # the file that `stoker pack` writes after the last tar
    sorted(packed.glob("*.tar"))[-1].unlink()
    for source in (packed, str(packed / "shards-*.tar")):
        Loader(source, 4, transforms=small)
        assert f"{packed}: `stoker pack` has not finished there: tars may be missing" in capfd.readouterr().err


def test_packing_names_that_readers_would_skip_or_join(tmp_path):
    """Each image is read back once, with its label and its stem's caption, although names and folders contain dots and several files have the same stem."""
    root = tmp_path / "photos"
    names = """one/a.jpg one/.hidden.jpg one/..two.jpg one/.jpg one/x.y.jpg one/x.z.png one/t..jpg one/b.JPG one/a-b.jpg one/a.b.c.jpg
        k.2/a.jpg k.2/no.dot/q.jpg k.2/no.dot/q.png k.2/.under/z.jpg k.2/q.d/e.jpg k.2/q.jpg k.2/c.cls.jpg k.2/x_y.jpg k.2/1.jpg k.2/10.jpg""".split()
    names += ["k.2/a b.jpg", "k.2/new\nline.jpg", "k.2/;.jpg", "k.2/\udce4.jpg", "k.2/" + "n" * 120 + ".v1.jpg"]
    for i, name in enumerate(names):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8, 3), 10 * i, np.uint8)).save(path, "PNG")  # writes a PNG under any ending
        path.with_name(path.name.rpartition(".")[0] + ".txt" if path.name != ".jpg" else ".txt.txt").write_text(
            name, errors="surrogateescape"
        )
    report = pack(root, tmp_path / "packed")
    assert (report["samples"], report["left_out"]) == (len(names), 1), "a file that is called .jpg has no name to share"
    tars = str(tmp_path / "packed" / "shards-*.tar")
    loader = Loader(tars, 4, transforms=[T.Resize((8, 8))], shuffle=False, last_batch="keep")
    got = sorted((round(float(image.max()) * 25.5), int(label)) for batch in loader for image, label in zip(*batch, strict=True))
    assert got == [(i, int(name.startswith("one"))) for i, name in enumerate(names)]

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def captions():
        return fn.readers.webdataset(paths=tars, ext=["jpg;JPG;png", "txt"], missing_component_behavior="empty", name="R")

    pipe = captions()
    pipe.build()
    found = {}
    for _ in range(pipe.epoch_size("R")):
        image, text = (np.asarray(o[0]).tobytes() for o in pipe.run())
        found[int(np.asarray(Image.open(io.BytesIO(image)))[0, 0, 0]) // 10] = text.decode(errors="surrogateescape")
    shared = names.index("k.2/no.dot/q.png")  # the image before this one has the same stem, so both share one caption
    want = {i: name for i, name in enumerate(names) if name != "one/.jpg"} | {shared - 1: names[shared], names.index("one/.jpg"): ""}
    assert found == want
    (root / "one" / "a.CLS").write_text("7")
    assert "one/a.CLS: labels are those of the class folders" in pack(root, tmp_path / "refused", code=1)


def test_neighbours_come_together(tmp_path, monkeypatch):
    """Neighbouring samples of a tar may share a request, but a damaged sample fails only itself."""
    rng = np.random.default_rng(SEED)
    members = [(f"{k:04}.bin", rng.bytes(int(rng.integers(1, 9000)))) for k in range(600)]
    (tmp_path / "b").mkdir()
    tar = write(tmp_path / "b" / "a.tar", members)
    index = os.fsencode(tmp_path / "index")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))

    @pipeline_def(batch_size=60, num_threads=2, on_error="skip", max_errors=1e9, read_requests=300)
    def pipe(**more):
        return fn.readers.webdataset(paths=os.fsdecode(index), ext="bin", tail="keep", **more)

    def read(settings, **more):
        server.set(settings)
        made = pipe(**more)
        made.build()
        return [np.asarray(s).tobytes() for _ in range(10) for s in made.run()[0]]

    server = Store(tmp_path)
    try:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        _core.tar_index([b"s3://b/a.tar"], index, None)
        whole = [data for _, data in members]
        assert read("latency_ms=20") == whole
        assert read(FAULTS) == whole
        assert sorted(read("latency_ms=1", random_shuffle=True, shuffle_seed=SEED)) == sorted(whole)
    finally:
        server.close()
    data = (tmp_path / "b" / "a.tar").read_bytes()
    with tarfile.open(tar) as t:
        places = t.getmembers()
    (tmp_path / "b" / "a.tar").write_bytes(data[: places[595].offset_data])
    lines = [f"bin {m.offset_data} {m.size} {m.name}" for m in places]
    (tmp_path / "idx").write_text("\n".join([f"v1.2 {len(lines)}", *lines]) + "\n")
    server = Store(tmp_path)
    try:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)

        @pipeline_def(batch_size=60, num_threads=2, on_error="skip", max_errors=1e9)
        def short():
            return fn.readers.webdataset(paths="s3://b/a.tar", index_paths=str(tmp_path / "idx"), ext="bin", tail="keep")

        made = short()
        made.build()
        assert [np.asarray(s).tobytes() for _ in range(10) for s in made.run()[0]] == whole[:595]
    finally:
        server.close()


def reading(path, **more):
    @pipeline_def(batch_size=4, num_threads=2, device_id=None)
    def define():
        return tuple(fn.readers.webdataset(paths=[str(path)], ext=["bin", "cls"], **more))

    pipe = define()
    return pipe, lambda: [[np.asarray(t).tobytes() for t in out] for out in pipe.run()]


OLD = [(f"{i}.{e}", bytes([65 + i]) * n) for i in range(4) for e, n in (("bin", 900 if i != 2 else 2000), ("cls", 3))]
NEW = [(f"{i}.{e}", bytes([97 + i]) * n) for i in range(4) for e, n in (("bin", 900 if i != 1 else 2000), ("cls", 3))]


def replace(path, how):
    """Replaces the tar by one of the same size and time: by a new file, or by other bytes in the same file."""
    st = path.stat()
    write(path.with_suffix(".new"), NEW)
    assert path.with_suffix(".new").stat().st_size == st.st_size
    if how == "a new file":
        os.replace(path.with_suffix(".new"), path)
    else:
        path.write_bytes(path.with_suffix(".new").read_bytes())
    os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))


@pytest.mark.parametrize("how", ["a new file", "the same file"])
def test_a_tar_that_was_replaced_by_one_of_its_size_and_time(tmp_path, how):
    """A new run makes the index again. During a run, or with a user's index, no bytes of the other file are delivered."""
    tar = tmp_path / "a.tar"
    write(tar, OLD)
    pipe, read = reading(tar)
    assert read() == [[d for n, d in OLD if n.endswith(e)] for e in ("bin", "cls")]
    pipe.close()
    replace(tar, how)
    pipe, read = reading(tar)
    assert read() == [[d for n, d in NEW if n.endswith(e)] for e in ("bin", "cls")]
    pipe.close()
    write(tar, OLD)
    pipe, read = reading(tar)
    read()
    fd = os.open(tar, os.O_RDONLY)  # keeps the new file from getting the old file's inode
    replace(tar, how)
    os.close(fd)
    with pytest.raises(StokerError, match=r"the tar was changed or replaced|it ends before byte"):
        for _ in range(4):
            read()
    pipe.close()


def test_a_tar_that_does_not_fit_an_index_of_wds2idx(tmp_path):
    tar, index = tmp_path / "a.tar", tmp_path / "a.idx"
    write(tar, OLD)
    with tarfile.open(tar) as t:
        at = {m.name: (m.offset_data, m.size) for m in t}
    index.write_text(
        "v1.2 4\n"
        + "".join(" ".join(f"{e} {at[f'{i}.{e}'][0]} {at[f'{i}.{e}'][1]} {i}.{e}" for e in ("bin", "cls")) + "\n" for i in range(4))
    )
    pipe, read = reading(tar, index_paths=[str(index)])
    assert read()[0] == [d for n, d in OLD if n.endswith("bin")]
    pipe.close()
    replace(tar, "a new file")
    pipe, read = reading(tar, index_paths=[str(index)])
    with pytest.raises(StokerError, match=r"the tar was changed or replaced|it ends before byte"):
        read()
    pipe.close()


def test_a_copy_of_a_tar_takes_its_index_along(tmp_path):
    """A copy of a tar has another inode. Some of its headers are compared with the index once; then the index is used for the copy."""
    (tmp_path / "copy").mkdir()
    tar, copy = tmp_path / "a.tar", tmp_path / "copy" / "a.tar"
    write(tar, OLD)
    pipe, read = reading(tar)
    whole = read()
    pipe.close()
    for name in ("a.tar", "a.tar.stoker"):
        shutil.copy2(tmp_path / name, tmp_path / "copy" / name)
    before = (tmp_path / "copy" / "a.tar.stoker").read_bytes()
    for _ in range(2):
        pipe, read = reading(copy)
        assert read() == whole
        pipe.close()
        after = (tmp_path / "copy" / "a.tar.stoker").read_bytes()
        assert after != before
    assert len(after) == pytest.approx(len(before), abs=4)


def test_a_kept_index_holds_no_query(tmp_path, script):
    """Names in stored indexes have no query, since a query can contain a signature with which anybody could read the object."""
    write(tmp_path / "a.tar", OLD)
    done = script(
        """
        import sys, threading
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
        from stoker import fn, pipeline_def

        data = open(sys.argv[1], "rb").read()

        class Server(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                first, _, last = (self.headers.get("Range") or f"bytes=0-{len(data) - 1}")[6:].partition("-")
                body = data[int(first) : int(last or len(data)) + 1]
                self.send_response(206)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Content-Range", f"bytes {first}-{int(first) + len(body) - 1}/{len(data)}")
                self.send_header("ETag", '"x"')
                self.end_headers()
                self.wfile.write(body)

        server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
        server.handle_error = lambda *_: None  # a pipeline that is closed resets its connections
        threading.Thread(target=server.serve_forever, daemon=True).start()

        @pipeline_def(batch_size=4, num_threads=2, device_id=None)
        def define():
            url = f"http://127.0.0.1:{server.server_address[1]}/a.tar?X-Amz-Signature=TOP/SECRET"
            return tuple(fn.readers.webdataset(paths=[url], ext=["bin", "cls"]))

        for _ in range(2):
            pipe = define()
            pipe.run()
            pipe.close()
        """,
        str(tmp_path / "a.tar"),
        XDG_CACHE_HOME=str(tmp_path / "caches"),
    )
    assert done.returncode == 0, done.stderr
    kept = [p for p in (tmp_path / "caches").rglob("*") if p.is_file()]
    assert len(kept) == 1
    assert all(b"SECRET" not in p.read_bytes() and "SECRET" not in p.name for p in kept) and b"a.tar" in kept[0].read_bytes()


def test_arrays_of_different_shapes(tmp_path):
    """A component is a tensor in each batch, or a list in each batch if it is declared as a list, whatever shapes the samples have."""

    def array(k):
        out = io.BytesIO()
        np.save(out, np.full((3 if k < 5 else 4, 2), k, np.float32))
        return out.getvalue()

    tar = write(tmp_path / "a.tar", [(f"{k:02}.{end}", data) for k in range(8) for end, data in (("jpg", jpeg(k)), ("emb.npy", array(k)))])
    small = {"transforms": [T.Resize((4, 4))]}
    batches = iter(Loader.from_tars(tar, 2, components={"image": "jpg", "emb": "emb.npy"}, **small))
    assert [next(batches).emb.shape for _ in range(2)] == [(2, 3, 2)] * 2
    with pytest.raises(
        InvalidArgumentError, match=r"'emb': sample 1 of the batch has \(4, 2\), the first one \(3, 2\).*'emb': \(its ending, 'list'\)"
    ):
        next(batches)
    lists = [b.emb for b in Loader.from_tars(tar, 2, components={"image": "jpg", "emb": ("emb.npy", "list")}, **small)]
    assert [[tuple(x.shape) for x in emb] for emb in lists] == [[(3, 2)] * 2] * 2 + [[(3, 2), (4, 2)]] + [[(4, 2)] * 2]
    assert [int(x[0, 0]) for emb in lists for x in emb] == list(range(8))


COMMAND = BUILD.resolve() / "cli" / "stoker"


@pytest.mark.parametrize("source", ["packed", "packed/shards-*.tar", "packed/shards-000000.tar"])
def test_inspect_names_the_classes_of_packed_tars(tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    for name in ("owl", "a name with blanks", "ü"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        Image.new("RGB", (20, 10)).save(tmp_path / "photos" / name / "0.png")
    subprocess.run([COMMAND, "pack", "photos", "-o", "packed"], check=True, capture_output=True, timeout=120)
    done = subprocess.run([COMMAND, "inspect", source, "--json"], check=True, capture_output=True, text=True, timeout=120)
    assert json.loads(done.stdout)["by_class"] == {"a name with blanks": 1, "owl": 1, "ü": 1}
    (tmp_path / "packed" / "packing.txt").unlink()  # without the record of `stoker pack`, the class names of these tars are unknown
    done = subprocess.run([COMMAND, "inspect", source, "--json"], check=True, capture_output=True, text=True, timeout=120)
    assert json.loads(done.stdout)["by_class"] == {"0": 1, "1": 1, "2": 1}


def test_a_folder_of_tars_leaves_out_none_in_silence(tmp_path, capfd):
    """Reads all tars of a folder, in capitals or not. A compressed tar is an error with advice, and other files are listed in a line."""
    folder = tmp_path / "shards"
    folder.mkdir()
    for k, name in enumerate(("a.tar", "b.TAR", "c.Tar")):
        write(folder / name, sample(k))
    assert sorted(label for batch in Loader(folder, 1, transforms=SMALL) for label in batch.label.tolist()) == [0, 1, 2]
    assert [batch.label.tolist() for batch in Loader(folder / "b.TAR", 1, transforms=SMALL)] == [[1]]
    assert any(name.endswith(".stoker") for name in os.listdir(folder)), "indexes lie next to the tars"
    for name in ("classes.txt", "packing.txt", "a.idx", ".hidden"):
        (folder / name).write_text("")
    Loader(folder, 1, transforms=SMALL).close()
    assert "skipped" not in capfd.readouterr().err
    for name in ("d.tar.part", "e.tar.part", "README"):
        (folder / name).write_bytes((folder / "a.tar").read_bytes())
    for _ in range(2):
        assert len(Loader(folder, 1, transforms=SMALL)) == 3
    assert f"{folder}: skipped 3 files that are no tars: .part (2), without an ending (1)" in capfd.readouterr().err
    for name, packed in (("x.tar.gz", gzip.compress), ("x.tgz", gzip.compress), ("X.TAR.BZ2", bz2.compress), ("x.tar.xz", lzma.compress)):
        (folder / name).write_bytes(packed((folder / "a.tar").read_bytes()))
        with pytest.raises(StokerError, match=f"{re.escape(name)}.*unpack it"):
            Loader(folder, 1, transforms=SMALL)
        (folder / name).unlink()
    only = tmp_path / "only"
    only.mkdir()
    (only / "x.tgz").write_bytes(gzip.compress((folder / "a.tar").read_bytes()))
    with pytest.raises(StokerError, match="unpack it"):
        Loader(only, 1)


def test_an_archive_next_to_the_unpacked_files_is_no_data_set(tmp_path, rng):
    """Reads the pickles of CIFAR-10, and not the archive from which they were unpacked."""
    data = pickle.dumps({"data": rng.integers(0, 256, (4, 3072), dtype=np.uint8), "labels": [0, 1, 2, 3]})
    for name in [f"data_batch_{k}" for k in range(1, 6)]:
        (tmp_path / name).write_bytes(data)
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(gzip.compress(b""))
    assert len(Loader(tmp_path, 4)) == 5
