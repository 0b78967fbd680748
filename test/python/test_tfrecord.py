# SPDX-License-Identifier: Apache-2.0
"""readers.tfrecord, compared with the values that were written, and with DALI if it is installed."""

from __future__ import annotations

import importlib
import io
import os
import re
import struct

import numpy as np
import pytest
import stoker
from PIL import Image
from stoker import Pipeline, fn, ops, tfrecord
from stoker.errors import StokerError
from storage import Store
from support import SEED

# These functions write Protocol Buffers' wire format and the records of a file, as their specifications say.


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def message(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


def feature(kind, values, packed=True):
    if kind == "s":
        return message(1, b"".join(message(1, v) for v in values))
    if kind == "f":
        one = [struct.pack("<f", v) for v in values]
        return message(2, message(1, b"".join(one)) if packed else b"".join(varint(1 << 3 | 5) + v for v in one))
    one = [varint(v) for v in values]
    return message(3, message(1, b"".join(one)) if packed else b"".join(varint(1 << 3) + v for v in one))


def example(features, packed=True, extra=b""):
    entries = [message(1, name.encode()) + message(2, b"" if v is None else feature(*v, packed)) for name, v in features.items()]
    return extra + message(1, b"".join(message(1, e) for e in entries))


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def check(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def write(path, examples, checked=True):
    at, lines = 0, []
    with open(path, "wb") as f:
        for e in examples:
            length = struct.pack("<Q", len(e))
            record = length + (check(length) if checked else bytes(4)) + e + (check(e) if checked else bytes(4))
            f.write(record)
            lines.append(f"{at} {len(record)}\n")
            at += len(record)
    with open(f"{path}.idx", "w") as f:
        f.write("".join(lines))
    return str(path)


def build(features, library=stoker, batch=2, options=None, **kwargs):
    pipe = library.Pipeline(batch_size=batch, num_threads=3, device_id=None, **(options or {}))
    with pipe:
        outputs = library.fn.readers.tfrecord(features=features, name="R", **kwargs)
        assert list(outputs) == list(features)
        pipe.set_outputs(*outputs.values())
    pipe.build()
    return pipe


def samples(outputs):
    return [[np.asarray(o.at(i)) for o in outputs] for i in range(len(outputs[0]))]


def plain(outputs):
    return [[a.tobytes() if a.dtype == np.uint8 else a.tolist() for a in s] for s in samples(outputs)]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    first = {"i": ("i", [1, -2, 3]), "f": ("f", [0.5, 1.5]), "s": ("s", [b"hello"]), "one": ("i", [7])}
    second = {"i": ("i", [4, 5, -(2**63)]), "f": ("f", [2.5, 3.5]), "s": ("s", [b"hi", b"two"]), "one": ("i", [8])}
    unknown = varint(9 << 3) + varint(5) + varint(10 << 3 | 1) + bytes(8) + varint(11 << 3 | 5) + bytes(4) + message(12, b"?")
    return write(tmp_path_factory.mktemp("records") / "a.tfr", [example(first), example(second, False, unknown)])


def features_of(lib):
    fixed, var = lib.FixedLenFeature, lib.VarLenFeature
    return [
        {"i": fixed([3], lib.int64, 0), "s": fixed((), lib.string, ""), "one": fixed([1], lib.int64, -1)},
        {"i": var(lib.int64, 0), "f": var(lib.float32, 0.0)},
        {"f": fixed([2, 1], lib.float32, 0.0), "one": fixed([], lib.int64, 0), "s": fixed([1], lib.string, "")},
        {"i": var([1], lib.int64, 0), "f": var([1, 2], lib.float32, 0.0)},
        {"i": var([3], lib.int64, 0)},
    ]


@pytest.mark.dali
@pytest.mark.parametrize("case", range(5))
@pytest.mark.parametrize("indexed", [False, True])
def test_features_as_dali_reads_them(case, indexed, two):
    given = {"path": two, "index_path": f"{two}.idx"} if indexed else {"path": [two]}
    ours = samples(build(features_of(tfrecord)[case], **given).run())
    want = {
        "i": [[1, -2, 3], [4, 5, -(2**63)]],
        "f": [[0.5, 1.5], [2.5, 3.5]],
        "s": [list(b"hello"), list(b"hi")],
        "one": [[7], [8]],
    }
    for i, sample in enumerate(ours):
        assert [a.ravel().tolist() for a in sample] == [want[name][i] for name in features_of(tfrecord)[case]]
    dali = pytest.importorskip("nvidia.dali", reason="NVIDIA DALI is not installed")
    importlib.import_module("nvidia.dali.fn")
    theirs = samples(
        build(features_of(importlib.import_module("nvidia.dali.tfrecord"))[case], dali, path=two, index_path=f"{two}.idx").run()
    )
    for a, b in zip(ours, theirs, strict=True):
        for x, y in zip(a, b, strict=True):
            assert x.dtype == y.dtype and x.shape == y.shape and np.array_equal(x, y)


def test_what_records_lack(tmp_path):
    """Missing features get their defaults (DALI gives zeros or uninitialised memory); missing features of variable length have no values."""
    path = write(
        tmp_path / "a.tfr", [example({"i": ("i", [1, 2])}), example({"i": None, "s": ("s", []), "f": ("f", [])}), b""], checked=False
    )
    fixed, var = tfrecord.FixedLenFeature, tfrecord.VarLenFeature
    features = {
        "i": fixed([2], tfrecord.int64, -(2**63)),
        "f": fixed([2, 1], tfrecord.float32, -1.25e-3),
        "s": fixed((), tfrecord.string, "näh"),
        "v": var(tfrecord.float32),
        "w": var([2], tfrecord.int64, 5),
        "g": fixed([], tfrecord.float32, 16777216),
        "h": fixed([0], tfrecord.int64),
    }
    with pytest.raises(stoker.StokerError, match="no TFRecord file"):  # without an index, checksums decide whether a file has records
        build(features, path=path)
    indexed = {"path": path, "index_path": f"{path}.idx"}
    got = plain(build(features, batch=3, **indexed).run())
    rest = [[[np.float32(-1.25e-3).item()]] * 2, "näh".encode(), [], [], 16777216.0, []]
    assert got == [[[1, 2], *rest], [[-(2**63)] * 2, *rest], [[-(2**63)] * 2, *rest]]
    for value in (3.4e38, -1.1754944e-38, 1e-45, 0.1, 123456.79, 1 / 3):
        features = {"g": fixed([], tfrecord.float32, value)}
        assert samples(build(features, **indexed).run())[0][0] == np.float32(value), value


def test_bad_records_by_policy(two, tmp_path):
    good = example({"i": ("i", [1, 2, 3]), "s": ("s", [b"x"])})
    records = {
        "few": (example({"i": ("i", [1])}), "has 1 values in this record, but its shape needs 3"),
        "many": (example({"i": ("i", [1, 2, 3, 4])}), "has 4 values"),
        "kind": (example({"i": ("f", [1.0, 2, 3])}), "holds floats.*where whole numbers"),
        "none": (example({"j": ("i", [1])}), 'no feature "i", and the feature has no default'),
        "cut": (good[:-2], "damaged one"),
        "group": (b"\x0b" + good, "damaged one"),
        "long": (message(1, b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "damaged one"),
        "varint": (b"\xff" * 11, "damaged one"),
        "floats": (message(1, message(1, message(1, b"i") + message(2, message(3, message(1, b"\x80"))))), "damaged one"),
    }
    path = write(tmp_path / "bad.tfr", [good, *(data for data, _ in records.values()), good])
    data = bytearray((tmp_path / "bad.tfr").read_bytes())
    data[20] ^= 1  # damages the first record, whose checksum no longer matches
    (tmp_path / "bad.tfr").write_bytes(data[:-5])  # cuts the last record
    features = {"i": tfrecord.FixedLenFeature([3], tfrecord.int64)}
    pipe = build(features, path=[path, two], batch=4, options={"on_error": "skip", "max_errors": 100}, tail="keep")
    seen = []
    for _ in range(4):
        seen += plain(pipe.run())
    assert seen == [[[1, -2, 3]], [[4, 5, -(2**63)]]]
    texts = [str(b) for b in pipe.bad_samples()][: len(records) + 2]
    messages = ["its check differs", *(m for _, m in records.values()), "ends before byte"]
    for (offset, _), text, m in zip(offsets(path), texts, messages, strict=True):
        assert re.search(m, text), (m, text)
        assert f"{path} at index {offset}" in text or m == "ends before byte", text


def offsets(path):
    with open(f"{path}.idx") as f:
        return [tuple(map(int, line.split())) for line in f]


def test_a_wrong_file_or_index_is_named(two, tmp_path):
    features = {"i": tfrecord.VarLenFeature(tfrecord.int64, 0)}
    files = {
        "text": (b"hello world, this is text", "no TFRecord file"),
        "short": (b"hello", "cut short, or no TFRecord file"),
        "gz": (b"\x1f\x8b" + bytes(30), "compressed"),
        "empty": (b"", "no samples"),
        "length": (bytes(8) + check(bytes(8)) + check(b"") + b"\xff" * 12, "at byte 16: a record's length is damaged"),
        "huge": (b"\xf0" + b"\xff" * 6 + b"\x7f" + check(b"\xf0" + b"\xff" * 6 + b"\x7f"), "no TFRecord file"),
    }
    for name, (data, m) in files.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(stoker.StokerError, match=m):
            build(features, path=str(tmp_path / name))
    for text in ("0 50\nx\n", "0\n", "0 15\n", "-1 50\n", "0 99999999999999999999\n", "9223372036854775807 50\n", "0,50\n"):
        (tmp_path / "i").write_text(text)
        with pytest.raises(stoker.StokerError, match=r"i, line [12]: a line of such an index"):
            build(features, path=two, index_path=str(tmp_path / "i"))
    (tmp_path / "i").write_text("8 50\r\n\r\n")  # an index of another file; the error appears when a record is read
    with pytest.raises(stoker.StokerError, match=r"a\.tfr at index 8: the record's length is damaged, or the index"):
        build(features, path=two, index_path=str(tmp_path / "i")).run()
    empty = tmp_path / "none.tfr"
    (tmp_path / "i").write_text("\n")
    with pytest.raises(stoker.StokerError, match=r"i: the index is empty, but .*a\.tfr is not an empty file"):
        build(features, path=[two, two], index_path=[f"{two}.idx", str(tmp_path / "i")])
    empty.write_bytes(b"")
    both = build(features, batch=1, path=[two, str(empty)], index_path=[f"{two}.idx", str(tmp_path / "i")], shard_id=0)
    assert both.epoch_size("R") == build(features, batch=1, path=two, index_path=f"{two}.idx").epoch_size("R")
    with pytest.raises(stoker.StokerError, match="1 files in path and 2 indexes"):
        build(features, path=two, index_path=["a", "b"])


def test_features_that_are_none(two):
    fixed, var = tfrecord.FixedLenFeature, tfrecord.VarLenFeature
    for make, m in [
        (lambda: fixed([2], tfrecord.int64, 1.5), "default of whole numbers"),
        (lambda: fixed([2], tfrecord.string, 1), "default of a string"),
        (lambda: fixed([2], tfrecord.float32, float("nan")), "finite"),
        (lambda: fixed([2], tfrecord.float32, 1e39), "a float32, which 1e\\+39 does not fit"),
        (lambda: fixed([2], tfrecord.float32, np.float32("inf")), "finite"),
        (lambda: fixed([2], tfrecord.float32, True), "finite number, not True"),
        (lambda: fixed([2], tfrecord.int64, 2**63), "an int64, which 9223372036854775808 does not fit"),
        (lambda: fixed([], tfrecord.string, b"\xff"), "not UTF-8"),
        (lambda: fixed([], tfrecord.string, "a\0"), "no zero bytes"),
        (lambda: fixed([-1], tfrecord.int64, 0), "VarLenFeature"),
        (lambda: fixed(3, tfrecord.int64, 0), "list of whole numbers"),
        (lambda: fixed([3], "int64", 0), "a feature's type is"),
        (lambda: var(), "VarLenFeature takes"),
        (lambda: build({"s": fixed([2], tfrecord.string, "")}, path=two), "tensors of strings"),
        (lambda: build({"s": var(tfrecord.string, "")}, path=two), "tensors of strings"),
        (lambda: build({"i": 3}, path=two), 'feature "i" is made by stoker.tfrecord'),
        (lambda: build({}, path=two), "features has 0 entries|features"),
        (lambda: fn.readers.tfrecord(path=two, feature_names=["i"], features=["int32[2]"]), 'described as "int32'),
        (lambda: fn.readers.tfrecord(path=two, feature_names=["i"], features=["int64[2"]), "a description is"),
        (lambda: fn.readers.tfrecord(path=two, feature_names=["i"], features=["int64[*,0]"]), "a description is"),
        (lambda: fn.readers.tfrecord(path=two, feature_names=["i"], features=["int64[2]=x"]), "a description is"),
        (lambda: fn.readers.tfrecord(path=two, feature_names=["i"], features=["int64[9999999999,9999999999]"]), "a description is"),
    ]:
        with pytest.raises(stoker.StokerError, match=m):
            make()
    numbers = {"x": fixed([2], tfrecord.float32, np.float32(4.5)), "y": fixed([1], tfrecord.int64, np.int64(-(2**63)))}
    assert plain(build(numbers, path=two, batch=1).run()) == [[[4.5, 4.5], [-(2**63)]]]
    reader = ops.readers.TFRecord(path=two, features={"one": var(tfrecord.int64), "s": fixed([], tfrecord.string)})
    pipe = stoker.Pipeline(batch_size=1, num_threads=1)
    with pipe:
        got = reader()
        pipe.set_outputs(got["s"], got["one"])
    assert plain(pipe.run()) == [[b"hello", [7]]]


def test_images_shuffled_shared_and_resumed(tmp_path):
    def image(value):
        out = io.BytesIO()
        Image.new("RGB", (16, 16), (value, 0, 0)).save(out, "PNG")
        return out.getvalue()

    paths = []
    for k, (begin, end) in enumerate([(0, 9), (9, 20)]):
        paths.append(write(tmp_path / f"{k}.tfr", [example({"image": ("s", [image(i)]), "label": ("i", [i])}) for i in range(begin, end)]))

    def pipeline(shuffled=True, **options):
        pipe = stoker.Pipeline(batch_size=3, num_threads=3, enable_checkpointing=True, **options.pop("pipe", {}))
        with pipe:
            read = fn.readers.tfrecord(
                path=paths,
                random_shuffle=shuffled,
                shuffle_seed=SEED,
                features={
                    "image": tfrecord.FixedLenFeature([], tfrecord.string, ""),
                    "label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1),
                },
                **options,
            )
            pipe.set_outputs(fn.decoders.image(read["image"]), read["label"])
        return pipe

    def numbers(outputs):
        got = samples(outputs)
        assert all(a[0, 0, 0] == b[0] for a, b in got)
        return [int(b[0]) for _, b in got]

    whole = pipeline()
    expected = [numbers(whole.run()) for _ in range(14)]
    flat = [n for step in expected for n in step]
    assert sorted(flat[:20]) == sorted(flat[20:40]) == list(range(20)) and flat[:20] != list(range(20))
    first = pipeline()
    for _ in range(5):
        first.run()
    again = pipeline(pipe={"checkpoint": first.checkpoint()})
    assert [numbers(again.run()) for _ in range(4)] == expected[5:9]
    ranks = [pipeline(num_shards=2, shard_id=r) for r in range(2)]
    assert [n for _ in range(3) for p in ranks for n in numbers(p.run())] == flat[:18]
    restored = stoker.Pipeline.deserialize(whole.serialize())
    assert numbers(restored.run()) == expected[0]


def test_records_in_a_bucket(tmp_path, monkeypatch):
    """Without an index the file is searched once, whether it is given by name or by a glob. readers.webdataset refuses the index that this search
    stored. An empty index is accepted for an empty object, and refused for any other."""
    (tmp_path / "b").mkdir()
    written = [example({"id": ("i", [k]), "text": ("s", [b"x" * (37 * k)])}) for k in range(60)]
    write(tmp_path / "b" / "a.tfrecord", written)
    (tmp_path / "b" / "none.data").write_bytes(b"")
    server = Store(tmp_path)
    try:
        for name, value in {**server.environment, "XDG_CACHE_HOME": str(tmp_path / "caches")}.items():
            monkeypatch.setenv(name, value)
        features = {"id": tfrecord.FixedLenFeature([1], tfrecord.int64, 0), "text": tfrecord.FixedLenFeature([], tfrecord.string, "")}

        def read(path):
            outputs = build(features, path=path, batch=60).run()
            return [(int(np.asarray(outputs[0].at(k))[0]), len(np.asarray(outputs[1].at(k)))) for k in range(60)]

        assert read("s3://b/a.tfrecord") == [(k, 37 * k) for k in range(60)] == read("s3://b/*.tfrecord")
        assert len(list((tmp_path / "caches" / "stoker" / "indexes").glob("*.stoker"))) == 1
        (tmp_path / "i").write_text("")
        (tmp_path / "a.idx").write_text(f"0 {len(written[0]) + 16}\n")
        indexes = [str(tmp_path / "a.idx"), str(tmp_path / "i")]
        both = build(features, batch=1, path=["s3://b/a.tfrecord", "s3://b/none.data"], index_path=indexes)
        assert both.epoch_size("R") == 1
        for wrong, message in (("s3://b/a.tfrecord", "the index is empty, but"), ("s3://b/no.tfrecord", "no.tfrecord")):
            with pytest.raises(stoker.StokerError, match=message):
                build(features, path=["s3://b/a.tfrecord", wrong], index_path=indexes)
    finally:
        server.close()
    with pytest.raises(stoker.StokerError, match="an index of TFRecord files, and not of tars"):
        index = next((tmp_path / "caches" / "stoker" / "indexes").glob("*.stoker"))
        pipe = stoker.Pipeline(batch_size=1, num_threads=1)
        with pipe:
            pipe.set_outputs(fn.readers.webdataset(paths=str(index), ext="jpg"))
        pipe.build()


@pytest.mark.parametrize("how", ["a new file", "the same file"])
@pytest.mark.parametrize("sizes", [[40, 90, 40], [40 + 90 + 16, 40], [20, 20, 50, 48]])
def test_a_file_that_was_replaced_by_one_of_its_size_and_time(tmp_path, sizes, how):
    """If the file is replaced before a run, it is searched again. During a run this is an error, even if a new record begins where an old one did."""
    path, other, old = tmp_path / "a.tfrecord", tmp_path / "b.tfrecord", [90, 40, 40]

    def records(sizes):
        examples = [example({"x": ("s", [bytes([65 + i]) * n])}) for i, n in enumerate(sizes)]
        frames = sum(len(e) - n for e, n in zip(examples, sizes, strict=True))
        return examples, frames

    write(path, records(old)[0])
    size = path.stat().st_size
    while True:  # changes the length of the last value until both files have the same size
        write(other, records(sizes)[0])
        if other.stat().st_size == size:
            break
        sizes = [*sizes[:-1], sizes[-1] + size - other.stat().st_size]
    times = path.stat()

    def reading():
        pipe = Pipeline(1, 1, None, prefetch_queue_depth=1)
        with pipe:
            pipe.set_outputs(fn.readers.tfrecord(path=str(path), features={"x": tfrecord.FixedLenFeature((), tfrecord.string, "")})["x"])
        return pipe, lambda: pipe.run()[0].at(0).tobytes()

    pipe, read = reading()
    assert [read() for _ in old] == [bytes([65 + i]) * n for i, n in enumerate(old)]
    if how == "a new file":
        os.replace(other, path)
    else:
        path.write_bytes(other.read_bytes())
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(StokerError, match=r"replaced|damaged"):
        for _ in range(8):
            read()
    pipe.close()
    pipe, read = reading()
    assert [read() for _ in sizes] == [bytes([65 + i]) * n for i, n in enumerate(sizes)]
    pipe.close()
