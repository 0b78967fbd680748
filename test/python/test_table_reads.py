# SPDX-License-Identifier: Apache-2.0
"""Reads of the row groups of a table: reads that fail are repeated, and reads that outlive close() are not counted."""

import errno
import io
import os
import threading
import traceback
from contextlib import nullcontext

import pytest
from stoker import Loader, Storage
from stoker.errors import CorruptError, ReadError
from stoker.loader.sources import _table, _table_files, _table_rows
from tables import pa, pq, write

ROWS = 40  # in groups of 10


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "t.parquet", {"k": pa.array(range(ROWS))}, 10)


@pytest.fixture
def failing(monkeypatch):
    """Returns a dict from numbers of row groups to errors that their reads raise, and a list of all reads."""
    faults, reads, real = {}, [], _table.read_group

    def read(file, group, *more):
        reads.append(group)
        if group in faults:
            raise faults[group]
        return real(file, group, *more)

    monkeypatch.setattr(_table, "read_group", read)
    return faults, reads


def rows(batches):
    return [k for batch in batches for k in batch.k.tolist()]


@pytest.mark.parametrize("shuffle", [False, True, "groups"])
def test_rows_whose_read_failed_come_in_the_next_epoch(path, failing, shuffle):
    faults, reads = failing
    faults[1] = ReadError(f"{path}: row group 1: connection reset by peer")
    with Loader.from_parquet(path, 5, fields=("k",), shuffle=shuffle, on_error="skip", max_errors=ROWS) as loader:
        assert sorted(rows(loader)) == [k for k in range(ROWS) if k // 10 != 1]
        faults.clear()
        rows(loader)  # some rows of this epoch were fetched before the fault ended
        for _ in range(2):
            assert sorted(rows(loader)) == list(range(ROWS))
    assert reads.count(1) <= 2 * ROWS // 5  # once for a batch at most, and not once for each row


def test_damaged_groups_are_read_once(path, failing):
    faults, reads = failing
    faults[1] = CorruptError(f"{path}: row group 1: it is damaged")
    with Loader.from_parquet(path, 5, fields=("k",), on_error="skip", max_errors=ROWS) as loader:
        for _ in range(2):
            assert rows(loader) == [k for k in range(ROWS) if k // 10 != 1]
    assert reads.count(1) == 1


@pytest.mark.parametrize("damage", ["checksum", "zstd", "snappy", "gzip", "header"])
def test_groups_with_damaged_pages_are_read_once(tmp_path, failing, damage):
    """pyarrow raises an OSError for most of these, as for a file that cannot be read."""
    _, reads = failing
    kept = {"compression": damage if damage in ("zstd", "snappy", "gzip") else "none", "write_page_checksum": damage == "checksum"}
    path = write(tmp_path / "t.parquet", {"k": pa.array(range(ROWS))}, 10, use_dictionary=False, **kept)
    chunk, data = pq.read_metadata(path).row_group(1).column(0), bytearray(path.read_bytes())
    end = chunk.data_page_offset + chunk.total_compressed_size
    for at in range(chunk.data_page_offset, end) if damage == "header" else range(end - 20, end):
        data[at] ^= 0x55
    path.write_bytes(data)
    with Loader(path, 5) as loader, pytest.raises(CorruptError, match=r"t\.parquet: row group 1: "):
        list(loader)
    reads.clear()
    with Loader(path, 5, on_error="skip", max_errors=ROWS) as loader:
        for _ in range(2):
            assert rows(loader) == [k for k in range(ROWS) if k // 10 != 1]
    assert reads.count(1) == 1


def test_the_error_of_a_read_does_not_grow(path, failing):
    """Each row of a damaged group gets an error of its own, which names this row only."""
    failing[0][1] = CorruptError(f"{path}: row group 1: it is damaged")
    table, errors = _table.Table([str(path)]), []
    for row in (10, 11, 10):
        with pytest.raises(CorruptError, match="it is damaged") as caught:
            table[row]
        caught.value.add_note(f"row {row}")
        errors.append(caught.value)
    assert [e.__notes__ for e in errors] == [["row 10"], ["row 11"], ["row 10"]]
    assert len({len(traceback.extract_tb(e.__traceback__)) for e in errors}) == 1
    table.close()
    with Loader(path, 5) as loader, pytest.raises(CorruptError, match="it is damaged") as caught:
        list(loader)
    assert caught.value.__notes__ == ["in dataset[10]"]


def test_a_fetch_function_that_fails_is_no_damage(path):
    """Its OSError has no number, either, and the group is read again."""
    data, fails = path.read_bytes(), True
    begin = pq.read_metadata(path).row_group(1).column(0).data_page_offset

    def fetch(uri, offset, length):
        if fails and length is not None and length < 300 and offset <= begin < offset + length:
            raise OSError("the network is down")
        return data[offset:] if length is None else data[offset : offset + length]

    storage = Storage(fetch=fetch, list=lambda uri: [(f"{uri}t.parquet", len(data))], fetch_schemes="hf", retries=0)
    with Loader("hf://d/*.parquet", 5, storage=storage, on_error="skip", max_errors=ROWS) as loader:
        assert sorted(rows(loader)) == [k for k in range(ROWS) if k // 10 != 1]
        assert all("fetch raised OSError: the network is down" in str(e) for e in loader.pipeline.bad_samples())
        fails = False
        rows(loader)  # some rows of this epoch were fetched before the fault ended
        assert sorted(rows(loader)) == list(range(ROWS))


def test_errors_of_the_system_are_no_damage(path, monkeypatch):
    """pyarrow gives the number of the error of a read, whether it reads by path or through a file object."""
    file, storage = _table_files.read_footers([_table_files.Listed(str(path))], Storage())[0], Storage()

    class Failing(io.BytesIO):
        def read(self, size=-1):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def through_memory(opened, read):
        with pa.OSFile("/proc/self/mem") as memory:
            return memory.read(8)

    for through in (lambda opened, read: read(Failing(path.read_bytes())), through_memory):
        monkeypatch.setattr(_table_files, "_through", through)
        with pytest.raises(ReadError, match=r"t\.parquet: row group 0: .*Input/output error"):
            _table_files.read_group(file, 0, ["k"], storage)


@pytest.mark.parametrize("change", ["cut", "replaced"])
def test_a_file_that_changes_during_a_read_is_no_damage(path, monkeypatch, change):
    """The pages that were read cannot be decoded, but the message says why."""
    file, real, data = _table_files.read_footers([_table_files.Listed(str(path))], Storage())[0], _table_files._through, path.read_bytes()

    def changed(opened, read):
        if change == "cut":
            os.truncate(path, 20)
        else:
            path.write_bytes(data[:4] + bytes(len(data) - 4))
        return real(opened, read)

    monkeypatch.setattr(_table_files, "_through", changed)
    with pytest.raises(ReadError, match="was replaced while it was read"):
        _table_files.read_group(file, 1, ["k"], Storage())


def test_groups_whose_read_failed_push_none_out_of_memory(path, failing):
    faults, reads = failing
    faults[3] = CorruptError(f"{path}: row group 3: it is damaged")
    table = _table.Table([str(path)])
    table.want([0, 1, 3])
    for row in (0, 10, 30):
        with pytest.raises(CorruptError) if row == 30 else nullcontext():
            table[row]
    table.memory = table._kept_bytes
    for _ in range(2):
        table.want([0], ahead=[3])
        table[10]
    table.close()
    assert sorted(reads) == [0, 1, 3]


def test_a_lack_of_memory_is_no_damage(path, monkeypatch):
    def fail(*_, **more):
        raise pa.ArrowMemoryError("malloc of size 64 failed")

    real = _table.values_of
    monkeypatch.setattr(_table, "values_of", fail)
    table = _table.Table([str(path)])
    table.want([0])
    with pytest.raises(MemoryError, match="malloc"):
        table[0]
    monkeypatch.setattr(_table, "values_of", real)
    table.want([0])
    assert table[3]["image"] == 3
    table.close()


def test_a_lack_of_memory_for_a_saved_data_set_is_no_damage(tmp_path, monkeypatch):
    with pa.ipc.new_stream(str(tmp_path / "data.arrow"), pa.schema([("k", pa.int64())])) as stream:
        stream.write_batch(pa.record_batch({"k": pa.array([1, 2])}))
    stream = _table_rows._Stream(str(tmp_path / "data.arrow"))

    def fail(*_, **more):
        raise pa.ArrowMemoryError("malloc of size 64 failed")

    monkeypatch.setattr(pa.ipc, "open_stream", fail)
    with pytest.raises(MemoryError, match="malloc"):
        stream.read(0, ["k"])


def test_reads_that_outlive_close_are_not_counted(path, monkeypatch):
    """A table that is opened again while reads of its earlier opening still run counts its own reads only."""
    begun, may_end, real = threading.Semaphore(0), threading.Event(), _table.read_group

    def read(*arguments):
        begun.release()
        assert may_end.wait(60)
        return real(*arguments)

    monkeypatch.setattr(_table, "read_group", read)
    table, before, old = _table.Table([str(path)]), set(threading.enumerate()), set()
    for _ in range(3):
        table.open()
        table.want([0, 1])
        assert all(begun.acquire(timeout=60) for _ in range(2))
        old = set(threading.enumerate()) - before
        table.close()
    table.open()
    table.want([0, 1])
    may_end.set()
    for thread in old:
        thread.join(60)
    assert [row["image"] for row in table.many([0, 10])] == [0, 10]
    assert table._busy == 0
    assert table._kept_bytes == sum(table._sizes.values()) == sum(table._kept[g].result().bytes for g in (0, 1))
    table.close()
    assert not table._kept and table._kept_bytes == 0
