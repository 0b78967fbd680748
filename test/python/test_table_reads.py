# SPDX-License-Identifier: Apache-2.0
"""Reads of the row groups of a table: reads that fail are repeated, and reads that outlive close() are not counted."""

import threading
from contextlib import nullcontext

import pytest
from stoker import Loader
from stoker.errors import CorruptError, ReadError
from stoker.loader.sources import _table, _table_rows
from tables import pa, write

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
