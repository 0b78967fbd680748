# SPDX-License-Identifier: Apache-2.0
"""readers.numpy, compared with NumPy's own reading of the same files, and with DALI if it is installed."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
import stoker
from stoker import fn
from support import SEED

DTYPES = "u1 u2 u4 u8 i1 i2 i4 i8 f2 f4 f8 ?".split()


def save(path, array, version=None):
    with open(path, "wb") as f:
        np.lib.format.write_array(f, array, version=version)
    return str(path)


def arrays(outputs):
    return [np.asarray(outputs.at(i)) for i in range(len(outputs))]


def read(files, library=None, batch=None, **kwargs):
    f = (library or stoker).fn
    pipe = (library or stoker).Pipeline(batch_size=batch or len(files), num_threads=2, device_id=None)
    with pipe:
        pipe.set_outputs(f.readers.numpy(files=files, **kwargs))
    pipe.build()
    return arrays(pipe.run()[0])


@pytest.fixture(scope="module")
def rng():
    return np.random.default_rng(SEED)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_order_and_version(dtype, rng, tmp_path):
    plain = (rng.random((3, 4, 5)) * 100).astype(dtype)
    made = []
    for k, version in enumerate([(1, 0), (2, 0), (3, 0)]):
        made.append((save(tmp_path / f"c{k}.npy", plain, version), plain))
    made.append((save(tmp_path / "fortran.npy", np.asfortranarray(plain)), plain))
    made.append((save(tmp_path / "big.npy", plain.astype(np.dtype(dtype).newbyteorder(">"))), plain))
    big = np.asfortranarray(plain.astype(np.dtype(dtype).newbyteorder(">")))
    made.append((save(tmp_path / "both.npy", big), plain))
    # Programs other than NumPy write such headers, after which the offset of the elements is no multiple of their size.
    text = f"{{'descr': '{np.dtype(dtype).str}', 'fortran_order': False, 'shape': (3, 4L, 5)}}\n".encode()
    text = b" " * (1 - len(text) % 2) + text
    (tmp_path / "odd.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(text + b" ").to_bytes(2, "little") + text + b" " + plain.tobytes())
    made.append((str(tmp_path / "odd.npy"), plain))
    for got, (name, want) in zip(read([name for name, _ in made]), made, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape and np.array_equal(got, want), name
        if not name.endswith("odd.npy"):
            assert np.array_equal(got, np.load(name)), name


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (2, 1, 3, 1, 2, 1, 1, 2)])
@pytest.mark.parametrize("order", "CF")
def test_arrays_of_any_shape_are_read_unchanged(shape, order, rng, tmp_path):
    for k, dtype in enumerate(["float32", "bool"]):
        a = np.asarray(rng.integers(0, 2, shape).astype(dtype), order=order)
        got = read([save(tmp_path / f"{k}.npy", a)])[0]
        assert got.dtype == a.dtype and got.shape == a.shape and np.array_equal(got, a)


def test_bools_are_0_or_1(tmp_path):
    name = save(tmp_path / "b.npy", np.array([True, False, True]))
    data = bytearray((tmp_path / "b.npy").read_bytes())
    data[-3:] = b"\x07\x00\xff"
    (tmp_path / "b.npy").write_bytes(data)
    assert read([name])[0].view(np.uint8).tolist() == [1, 0, 1]


ROI = [
    {"roi_start": [1, 1, 1]},
    {"roi_start": [1, 1, 1], "roi_end": [2, 3, 4]},
    {"roi_start": [1], "roi_shape": [2, 3, 4]},
    {"roi_shape": [2, 2, 2]},
    {"rel_roi_start": [0.33, 0.1, 0.5], "rel_roi_shape": [0.33, 0.3, 0.3]},
    {"rel_roi_start": [0.125, 0.125, 0.5], "rel_roi_end": [0.5, 0.625, 0.9]},
    {"roi_start": [2, 1], "roi_end": [4, 2], "roi_axes": [2, -2]},
    {"roi_end": 2, "roi_axes": 1, "rel_roi_start": 0.25},
    {"roi_start": [-1], "roi_axes": [1], "roi_end": [9], "out_of_bounds_policy": "pad", "fill_value": 7.6},
    {"roi_start": [-1], "roi_axes": [1], "roi_end": [9], "out_of_bounds_policy": "trim_to_shape"},
    {"roi_axes": [1]},
]


@pytest.mark.dali
@pytest.mark.parametrize("roi", ROI, ids=[" ".join(r) for r in ROI])
@pytest.mark.parametrize("order", "CF")
def test_windows_as_dali_has_them(roi, order, rng, tmp_path):
    dali = pytest.importorskip("nvidia.dali", reason="NVIDIA DALI is not installed")
    importlib.import_module("nvidia.dali.fn")
    for dtype in ("float32", "int16"):
        a = np.asarray((rng.random((3, 4, 5)) * 100).astype(dtype), order=order)
        name = save(tmp_path / f"{dtype}.npy", a)
        ours, theirs = read([name], **roi)[0], read([name], dali, **roi)[0]
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape and np.array_equal(ours, theirs)


def test_windows_drawn_for_each_sample(rng, tmp_path):
    made = [rng.random((8, 9)).astype("f4") for _ in range(4)]
    names = [save(tmp_path / f"{k}.npy", a) for k, a in enumerate(made)]
    pipe = stoker.Pipeline(batch_size=4, num_threads=3, seed=SEED)
    with pipe:
        start = fn.random.uniform(range=(0, 4), dtype=stoker.types.INT32, shape=(2,))
        pipe.set_outputs(fn.readers.numpy(files=names, roi_start=start, roi_shape=[3, 4]), start)
    seen = set()
    for _ in range(3):
        windows, starts = (arrays(o) for o in pipe.run())
        for a, w, (y, x) in zip(made, windows, starts, strict=True):
            assert np.array_equal(w, a[y : y + 3, x : x + 4])
            seen.add((int(y), int(x)))
    assert len(seen) > 3


def test_bad_windows_are_named(tmp_path):
    name = save(tmp_path / "a.npy", np.zeros((3, 4), "f4"))
    for roi, what in [
        ({"roi_start": 1, "roi_axes": 1, "roi_end": 9}, r'reaches outside the dim 1 of 4; out_of_bounds_policy="pad"'),
        ({"roi_start": [0, 0, 0]}, "the bounds have 3 values for 2 axes: give one for each axis"),
        ({"roi_start": 3, "roi_axes": 1, "roi_end": 2}, "before its start"),
        ({"roi_start": 3, "rel_roi_start": 0.5}, "both given"),
        ({"roi_end": 3, "roi_shape": 1}, "both given"),
        ({"roi_start": [0, 0], "roi_axes": [1, 1]}, "twice"),
        ({"roi_start": 0, "roi_axes": 2}, "out of range"),
    ]:
        with pytest.raises(stoker.StokerError, match=what):
            read([name], **roi)


def test_which_files_are_read(tmp_path):
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    for k, name in enumerate(["z.npy", ".h.npy", "sub/q.npy", "sub/deep/no.npy", "x.NPY", "text.txt"]):
        save(tmp_path / name, np.full(2, k, "i4"))
    (tmp_path / "list.txt").write_text("z.npy\n\n  sub/q.npy \r\n")
    root = str(tmp_path)
    cases = [
        ({"file_root": root}, [1, 0, 2]),
        ({"file_root": root, "file_filter": "[zx]*"}, [4, 0]),
        ({"file_list": f"{root}/list.txt"}, [0, 2]),
        ({"file_list": f"{root}/list.txt", "file_root": root}, [0, 2]),
        ({"file_root": root, "files": ["x.NPY", "z.npy"]}, [4, 0]),
        ({"files": f"{root}/z.npy"}, [0]),
    ]
    libraries = [stoker]
    if importlib.util.find_spec("nvidia") and importlib.util.find_spec("nvidia.dali"):
        libraries.append(importlib.import_module("nvidia.dali"))
        importlib.import_module("nvidia.dali.fn")
    for library in libraries:
        for given, want in cases:
            given = dict(given)
            if library is not stoker and given.get("file_list"):
                (tmp_path / "list.txt").write_text("z.npy\nsub/q.npy\n")  # DALI needs a list without blank characters
            pipe = library.Pipeline(batch_size=len(want), num_threads=1, device_id=None)
            with pipe:
                pipe.set_outputs(library.fn.readers.numpy(**given))
            pipe.build()
            assert [int(a[0]) for a in arrays(pipe.run()[0])] == want, (library.__name__, given)
    for given, what in [
        ({"file_root": root, "file_filter": "*.npz"}, r'matches "\*\.npz"'),
        ({}, "give file_root, file_list or files"),
        ({"files": ["a"], "file_list": "b"}, "choose one"),
        ({"file_root": "s3://bucket/x"}, "give files, or a file_list"),
        ({"file_root": f"{root}/none"}, "cannot open the folder"),
    ]:
        with pytest.raises(stoker.StokerError, match=what):
            pipe = stoker.Pipeline(batch_size=1, num_threads=1)
            with pipe:
                pipe.set_outputs(fn.readers.numpy(**given))
            pipe.build()


def test_files_that_are_not_read_are_named(tmp_path):
    good = save(tmp_path / "good.npy", np.arange(6, dtype="f4").reshape(2, 3))
    data = (tmp_path / "good.npy").read_bytes()
    objects = tmp_path / "objects.npy"
    np.save(objects, np.array([{}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "a.npz", np.zeros(2))
    bad = {
        "objects.npy": (None, "pickle.*astype"),
        "a.npz": (None, "npz archive"),
        "record.npy": (np.zeros(2, [("a", "i4")]), "structured"),
        "complex.npy": (np.zeros(2, "c8"), 'dtype "<c8"'),
        "text.npy": (np.zeros(2, "U3"), "dtype"),
        "short.npy": (data[:-1], "cut short"),
        "header.npy": (data[:40], "ends inside its header"),
        "damaged.npy": (data.replace(b"shape", b"shapf"), "damaged"),
        "version.npy": (data[:6] + b"\x09" + data[7:], "version 9"),
        "none.npy": (b"hello", "does not start with"),
        "huge.npy": (data.replace(b"(2, 3), }", b"(9999999999999999999,)}"), "63 bits"),
    }
    for name, (what, _) in bad.items():
        if isinstance(what, bytes):
            (tmp_path / name).write_bytes(what)
        elif what is not None:
            save(tmp_path / name, what)
    for name, (_, message) in bad.items():
        with pytest.raises(stoker.StokerError, match=f"{name}.*{message}"):
            read([str(tmp_path / name)])
    files = [good, *(str(tmp_path / name) for name in bad), good]
    pipe = stoker.Pipeline(batch_size=len(files), num_threads=2, on_error="skip", max_errors=100)
    with pipe:
        pipe.set_outputs(fn.readers.numpy(files=files))
    assert len(pipe.run()[0]) == 2
    assert [b.uri.split("/")[-1] for b in pipe.bad_samples()] == list(bad)


def test_shuffled_sharded_and_resumed(tmp_path):
    names = [save(tmp_path / f"{k:02}.npy", np.array(k, "i8")) for k in range(13)]

    def pipeline(**options):
        pipe = stoker.Pipeline(batch_size=3, num_threads=2, seed=SEED, enable_checkpointing=True, **options)
        with pipe:
            pipe.set_outputs(fn.readers.numpy(files=names, random_shuffle=True, shuffle_seed=SEED))
        return pipe

    whole = pipeline()
    expected = [[int(a) for a in arrays(whole.run()[0])] for _ in range(9)]
    assert sorted([n for step in expected for n in step][:13]) == list(range(13))
    first = pipeline()
    for _ in range(4):
        first.run()
    second = pipeline(checkpoint=first.checkpoint())
    assert [[int(a) for a in arrays(second.run()[0])] for _ in range(5)] == expected[4:]


@pytest.mark.parametrize("order", "CF")
def test_arrays_of_other_readers_bytes(order, rng, tmp_path):
    """decoders.numpy reads the same files from bytes, in their type or in another."""
    made = [np.asarray((rng.random((3, 4)) * 300 - 20).astype(d), order=order) for d in ("f4", "i2", ">i4", "?")]
    names = [save(tmp_path / f"{k}.npy", a) for k, a in enumerate(made)] + [str(tmp_path / "bad.npy")]
    (tmp_path / "bad.npy").write_bytes((tmp_path / "0.npy").read_bytes()[:-1])
    pipe = stoker.Pipeline(batch_size=5, num_threads=2, on_error="skip", max_errors=5)
    with pipe:
        data = fn.readers.file(files=names)[0]
        pipe.set_outputs(fn.decoders.numpy(data, dtype=stoker.types.UINT8))
    for got, a in zip(arrays(pipe.run()[0]), made, strict=True):
        assert got.dtype == np.uint8 and np.array_equal(got, np.clip(np.round(a.astype("f8")), 0, 255))
    assert "cut short" in str(pipe.bad_samples()[0])
    for name, a in zip(names, made, strict=False):
        pipe = stoker.Pipeline(batch_size=1, num_threads=1)
        with pipe:
            pipe.set_outputs(fn.decoders.numpy(fn.readers.file(files=[name])[0]))
        got = arrays(pipe.run()[0])[0]
        assert got.dtype == a.dtype.newbyteorder("=") and np.array_equal(got, a)


def test_a_window_along_no_axes_is_the_whole_array(tmp_path, rng):
    files = [save(tmp_path / f"{i}.npy", rng.integers(0, 99, (4, 5))) for i in range(3)]
    for got, file in zip(read(files, roi_start=[], roi_end=[], roi_axes=[]), files, strict=True):
        np.testing.assert_array_equal(got, np.load(file))
    with pytest.raises(stoker.StokerError, match="0 values for 1 axes"):
        read(files, roi_start=[], roi_end=[], roi_axes=[1])
