# SPDX-License-Identifier: Apache-2.0
"""Damaged Parquet files. With damaged pages a Loader gives the right rows, or an error that names the file; with a damaged footer it does not crash. Each
test of mutations runs its cases in one other process, so that a crash fails the test instead of ending pytest."""

import base64
import json
import subprocess
import sys

import numpy as np
import pytest
from stoker import Loader, _core
from stoker.errors import CorruptError
from support import SEED
from tables import pa, pq

CASES = 300
READ = """
import json, sys
from pathlib import Path
import numpy as np
import pyarrow.parquet as pq
from stoker import Loader
from stoker.errors import StokerError

path, begin, end, seed, where = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
whole, meta = path.read_bytes(), pq.read_metadata(path)
chunks = [meta.row_group(g).column(c) for g in range(meta.num_row_groups) for c in range(meta.num_columns)]
spans = []  # where a chunk begins: the header of its first page, then its dictionary or its levels
for c in chunks:
    first = min(o for o in (c.dictionary_page_offset, c.data_page_offset) if o)
    spans += [(first, first + 40), (c.data_page_offset, c.data_page_offset + 40), (first, first + c.total_compressed_size)]


if where == "footer":
    spans = [(len(whole) - 8 - int.from_bytes(whole[-8:-4], "little"), len(whole))]


def damaged(rng):
    data = bytearray(whole)
    if where == "pages" and not rng.integers(3):  # cut, at the end or inside
        at, size = int(rng.integers(len(data))), int(rng.integers(1, 64))
        return data[:at] if rng.integers(2) else data[:at] + data[at + size :]
    low, high = spans[int(rng.integers(len(spans)))]
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(low, min(high, len(data))))
        data[at] = int(rng.integers(256)) if rng.integers(2) else data[at] ^ 1 << int(rng.integers(8))
    return data


def rows():
    fields = {"number": None, "text": None, "word": None, "list": list}
    with Loader(str(path), 7, fields=fields, last_batch="keep") as loader:
        return [
            [int(n), t, w, np.asarray(v).tolist()]
            for b in loader
            for n, t, w, v in zip(b.number, b.text, b.word, b.list, strict=True)
        ]


wanted = rows()
for case in range(begin, end):
    print(json.dumps({"case": case}), flush=True)
    path.write_bytes(damaged(np.random.default_rng([seed, case])))
    try:
        found = rows()
        said = "right" if found == wanted else "WRONG " + repr(next((a, b) for a, b in zip(found + [None], wanted + [None]) if a != b))[:200]
    except StokerError as e:
        said = "refused" if path.name in str(e) else f"UNNAMED {type(e).__name__}: {e}"
    except Exception as e:
        said = f"ODD {type(e).__name__}: {e}"
    print(json.dumps({"case": case, "said": said}), flush=True)
"""


def _results(tmp_path, where, cases):
    """Reads damaged copies of a file in another process. Returns "right", "refused" or a description of the fault for each. where: the part of the file that
    is damaged, "pages" or "footer"."""
    rng = np.random.default_rng(SEED)
    columns = {
        "number": pa.array(rng.integers(-(10**9), 10**9, 60), pa.int64()),
        "text": pa.array([f"row {i} " + "x" * int(rng.integers(30)) for i in range(60)]),
        "word": pa.array([f"w{i % 5}" for i in range(60)]),
        "list": pa.array([rng.integers(0, 99, int(rng.integers(0, 5))).tolist() for _ in range(60)], pa.list_(pa.int64())),
    }
    path = tmp_path / "damaged.parquet"
    options = {"use_dictionary": ["word"], "compression": "zstd", "write_page_checksum": True}
    pq.write_table(pa.table(columns), path, row_group_size=25, **options)
    arguments = [sys.executable, "-c", READ, str(path), "0", str(cases), str(SEED), where]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=550)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"seed {SEED}: ended with {done.returncode} in {lines[-1:]}: {done.stderr[-2000:]}"
    said = [line["said"] for line in lines if "said" in line]
    assert len(said) == cases
    return said


@pytest.mark.timeout(600)
def test_mutations_give_the_right_rows_or_an_error(tmp_path):
    said = _results(tmp_path, "pages", CASES)
    bad = [s for s in said if s not in ("right", "refused")]
    assert not bad, f"seed {SEED}: {bad[:10]}"
    assert said.count("refused") > CASES // 4, f"seed {SEED}"


@pytest.mark.timeout(600)
def test_mutations_of_a_footer_do_not_end_the_process(tmp_path):
    """A footer has no checksum, so rows may be wrong. Errors name the file, or say that a requested column is missing."""
    said = _results(tmp_path, "footer", CASES)
    allowed = ("right", "refused", "WRONG", "UNNAMED InvalidArgumentError: fields: the table has no column")
    bad = [s for s in said if not s.startswith(allowed)]
    assert not bad, f"seed {SEED}: {bad[:10]}"
    assert said.count("refused") > CASES // 4, f"seed {SEED}"


@pytest.mark.parametrize("bad", [0, 3])
def test_a_group_with_damaged_values_is_skipped(tmp_path, bad):
    """An index of a row group is out of the range of its dictionary. The group may be the epoch's first one."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"c": ["a", "b", "c", "a"] * 10}), path, row_group_size=4, compression="none")
    chunk = pq.read_metadata(path).row_group(bad).column(0)
    data = bytearray(path.read_bytes())
    data[chunk.dictionary_page_offset + chunk.total_compressed_size - 2] = 255  # the indices of the group's rows
    path.write_bytes(data)
    with (
        Loader(path, 4) as loader,
        pytest.raises(CorruptError, match=rf"t\.parquet: row group {bad}: .*not in dictionary bounds") as caught,
    ):
        list(loader)
    assert caught.value.__cause__ is not caught.value
    with Loader(path, 4, on_error="skip", max_errors=40, last_batch="keep") as loader:
        for _ in range(2):
            assert [list(b.c) for b in loader] == [["a", "b", "c", "a"]] * 9


def _footer(table):
    path = pa.BufferOutputStream()
    pq.write_table(table, path)
    end = path.getvalue().to_pybytes()
    return end[-8 - int.from_bytes(end[-8:-4], "little") : -8]


def test_faults_of_footers(rng):
    """A footer must be whole, and the counts of levels in a column's statistics must fit its type. Sound footers of any types are accepted."""
    nested = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.struct([("z", pa.string())])))])
    types = [
        pa.int8(),
        pa.string(),
        pa.list_(pa.float32()),
        nested,
        pa.map_(pa.string(), pa.list_(pa.bool_())),
        pa.binary(5),
        pa.decimal128(20, 3),
    ]
    for _ in range(60):
        drawn = [types[int(i)] for i in rng.integers(0, len(types), int(rng.integers(1, 6)))]
        table = pa.table({f"c{i}": pa.nulls(3, t) for i, t in enumerate(drawn)})
        assert _core.footer_fault(_footer(table)) is None, drawn
    whole = _footer(pa.table({"a": pa.array([[1], [2, 3]])}))
    for size in range(len(whole)):
        assert _core.footer_fault(whole[:size]), size
    other = bytearray(_footer(pa.table({"a": pa.array([1, None])})))
    at = bytes(other).rindex(bytes([0x19, 0x26]))  # field 3 of the statistics of sizes: a list of two numbers, of which one is removed
    del other[at + 2]
    other[at + 1] = 0x16
    assert _core.footer_fault(bytes(other)) == ("damaged", "the footer's counts of levels do not fit the column")


def test_an_encrypted_column_is_refused_as_encrypted(tmp_path):
    """A file with an encrypted column is refused, even if only its other column is requested. The test's keys are stored unprotected in the file."""
    encryption = pytest.importorskip("pyarrow.parquet.encryption")

    class Keys(encryption.KmsClient):
        def wrap_key(self, key_bytes, master_key_identifier):
            return base64.b64encode(key_bytes)

    table = pa.table({"a": [1, 2], "b": [3, 4]})
    settings = encryption.EncryptionConfiguration(footer_key="f", column_keys={"c": ["b"]}, plaintext_footer=True, double_wrapping=False)
    factory = encryption.CryptoFactory(lambda _: Keys())
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), settings)
    path = tmp_path / "secret.parquet"
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    with pytest.raises(CorruptError, match=r"secret\.parquet: a column is encrypted: encrypted files cannot be read"):
        Loader(path, 2, fields=["a"])
