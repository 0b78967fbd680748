# SPDX-License-Identifier: Apache-2.0
"""Damaged Parquet files: a Loader gives the right rows, or an error that names the file. All cases run in one process of their own, so that a crash fails a
test instead of ending pytest."""

import json
import subprocess
import sys

import numpy as np
import pytest
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

path, begin, end, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
whole, meta = path.read_bytes(), pq.read_metadata(path)
chunks = [meta.row_group(g).column(c) for g in range(meta.num_row_groups) for c in range(meta.num_columns)]
spans = []  # where a chunk begins: the header of its first page, then its dictionary or its levels
for c in chunks:
    first = min(o for o in (c.dictionary_page_offset, c.data_page_offset) if o)
    spans += [(first, first + 40), (c.data_page_offset, c.data_page_offset + 40), (first, first + c.total_compressed_size)]


# No bytes of the footer are flipped: pyarrow 26 ends the process for some of them, such as a wrong number of levels in a column's statistics of sizes.
def damaged(rng):
    data = bytearray(whole)
    if not rng.integers(3):  # cut, at the end or inside
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


@pytest.mark.timeout(600)
def test_mutations_give_the_right_rows_or_an_error(tmp_path):
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
    arguments = [sys.executable, "-c", READ, str(path), "0", str(CASES), str(SEED)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=550)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"seed {SEED}: ended with {done.returncode} in {lines[-1:]}: {done.stderr[-2000:]}"
    bad = [line for line in lines if line.get("said", "right") not in ("right", "refused")]
    assert not bad, f"seed {SEED}: {bad[:10]}"
    said = [line["said"] for line in lines if "said" in line]
    assert len(said) == CASES and said.count("refused") > CASES // 4, f"seed {SEED}"
