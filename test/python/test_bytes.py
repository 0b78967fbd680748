# SPDX-License-Identifier: Apache-2.0
"""Operators on the bytes of files: io.file.read and decoders.inflate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stoker
from stoker import fn, types
from stoker.errors import CorruptError, InvalidArgumentError, NotFoundError, StokerError


def name(path: Any) -> np.ndarray:
    return np.frombuffer(str(path).encode(), np.uint8)


@pytest.mark.essential
def test_files_are_read_whose_names_are_data(tmp_path: Path) -> None:
    contents = [b"a", bytes(range(256)) * 40, b""]
    paths = [tmp_path / f"file {i}" for i in range(3)]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    got = fn.eager.io.file.read([name(p) for p in paths] + [name(f"file://{paths[1]}")], dont_use_mmap=True)
    assert [np.asarray(g).tobytes() for g in got] == [*contents, contents[1]]
    (version,) = fn.eager.io.file.read([name("/proc/version")])  # the system reports 0 as this file's size
    assert np.asarray(version).tobytes() == Path("/proc/version").read_bytes()


def test_a_missing_file_is_named_and_can_be_skipped(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"123")
    with pytest.raises(NotFoundError, match=r"nobody: cannot open it.*io.file.read at test_bytes.py"):
        fn.eager.io.file.read([name(tmp_path / "nobody")])
    for wrong in (np.zeros(0, np.uint8), np.zeros(3, np.uint8), np.zeros((2, 2), np.uint8), np.zeros(3, np.float32)):
        with pytest.raises(InvalidArgumentError):
            fn.eager.io.file.read([wrong])


def packed(data: bytes) -> bytes:
    """Compresses bytes as an LZ4 block. A greedy search finds matches of four or more bytes with a dictionary of earlier positions."""
    out, literals, at = bytearray(), bytearray(), 0
    seen: dict[bytes, int] = {}

    def length(n: int) -> bytes:
        return b"" if n < 15 else b"\xff" * ((n - 15) // 255) + bytes([(n - 15) % 255])

    while at < len(data):
        before = seen.get(data[at : at + 4]) if at + 12 < len(data) else None  # LZ4 requires that the last bytes are literals
        seen[data[at : at + 4]] = at
        if before is None or at - before > 65535:
            literals.append(data[at])
            at += 1
            continue
        n = 4
        while at + n < len(data) - 5 and data[before + n] == data[at + n]:
            n += 1
        out += bytes([min(len(literals), 15) << 4 | min(n - 4, 15)]) + length(len(literals)) + literals
        out += (at - before).to_bytes(2, "little") + length(n - 4)
        literals, at = bytearray(), at + n
    return bytes(out + bytes([min(len(literals), 15) << 4]) + length(len(literals)) + literals)


def test_lz4_blocks_are_unpacked(rng: np.random.Generator) -> None:
    kinds = [
        np.repeat(rng.integers(0, 99, (20, 3), dtype=np.int32), 30, 0),  # has matches that overlap themselves
        rng.integers(0, 2**31, (600, 3), dtype=np.int32),  # has no matches, only literals
        np.tile(rng.integers(0, 4, (60, 3), dtype=np.int32), (10, 1)),
    ]
    blocks = [np.frombuffer(packed(k.tobytes()), np.uint8) for k in kinds]
    assert len(blocks[0]) < kinds[0].nbytes / 4 and len(blocks[1]) > kinds[1].nbytes
    for got, want in zip(fn.eager.decoders.inflate(blocks, shape=[600, 3], dtype=types.INT32), kinds, strict=True):
        np.testing.assert_array_equal(np.asarray(got), want)
    joined, sizes = np.concatenate(blocks), [len(b) for b in blocks]
    offsets = np.cumsum([0, *sizes[:2]]).tolist()
    for chunks in ({"chunk_sizes": sizes}, {"chunk_offsets": offsets}, {"chunk_sizes": sizes, "chunk_offsets": offsets}):
        out = fn.eager.decoders.inflate([joined], shape=[600, 3], dtype=types.INT32, **chunks)[0]
        np.testing.assert_array_equal(np.asarray(out), np.stack(kinds))


def test_damaged_blocks_and_other_sizes_are_errors(rng: np.random.Generator) -> None:
    data = np.tile(rng.integers(0, 9, 50, dtype=np.uint8), 8).tobytes()
    block = np.frombuffer(packed(data), np.uint8)
    for size in range(len(block)):
        with pytest.raises(CorruptError, match="not an LZ4 block of 400 bytes"):
            fn.eager.decoders.inflate([block[:size]], shape=[400])
    for wrong in (399, 401):
        with pytest.raises(CorruptError, match=f"of {wrong} bytes"):
            fn.eager.decoders.inflate([block], shape=[wrong])
    for chunks in ({"chunk_sizes": [len(block) + 1]}, {"chunk_offsets": [len(block) + 1]}, {"chunk_sizes": [1, 2], "chunk_offsets": [0]}):
        with pytest.raises(InvalidArgumentError):
            fn.eager.decoders.inflate([block], shape=[400], **chunks)
    for _ in range(300):
        changed = block.copy()
        changed[rng.integers(len(block))] = rng.integers(256)
        try:
            assert np.asarray(fn.eager.decoders.inflate([changed], shape=[400])[0]).shape == (400,)
        except StokerError as e:
            assert isinstance(e, CorruptError)


def test_shapes_by_sample_and_on_a_pipeline(rng: np.random.Generator) -> None:
    kinds = [rng.integers(0, 3, (n, 5), dtype=np.uint8) for n in (4, 9)]

    @stoker.pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def definition() -> Any:
        data, shape = fn.external_source(
            source=lambda: ([np.frombuffer(packed(k.tobytes()), np.uint8) for k in kinds], [np.array(k.shape, np.int32) for k in kinds]),
            num_outputs=2,
        )
        return fn.decoders.inflate(data, shape=shape), fn.decoders.inflate(data, shape=shape, layout="HW", chunk_offsets=[0])

    pipe = definition()
    pipe.build()
    out, sequences = pipe.run()
    assert sequences.layout() == "FHW"
    for i, kind in enumerate(kinds):
        np.testing.assert_array_equal(np.asarray(out.at(i)), kind)
        np.testing.assert_array_equal(np.asarray(sequences.at(i)), kind[None])


def test_in_a_branch_files_are_read_for_those_who_take_it(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"123")
    names = [name(tmp_path / ("there" if i % 2 else "nobody")) for i in range(6)]

    @stoker.pipeline_def(batch_size=6, num_threads=2, device_id=None, enable_conditionals=True)
    def pipe() -> Any:
        wanted = fn.external_source(lambda: [np.array(i % 2 == 1) for i in range(6)], dtype=types.BOOL, ndim=0)
        data = fn.external_source(lambda: names, dtype=types.UINT8, ndim=1)
        if wanted:
            got = fn.io.file.read(data)
        else:
            got = data[:2]
        return got

    (got,) = pipe().run()
    assert [np.asarray(g).tobytes() for g in got] == [b"123" if i % 2 else n[:2].tobytes() for i, n in enumerate(names)]
