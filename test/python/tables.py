# SPDX-License-Identifier: Apache-2.0
"""Parquet files for tests, with columns of images, as `datasets` writes them, labels and captions."""

from __future__ import annotations

import contextlib
import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support import photograph

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

IMAGES = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def jpeg(rng: np.random.Generator, side: int = 24) -> bytes:
    out = io.BytesIO()
    Image.fromarray(photograph(rng, side, side + int(rng.integers(0, 9)))).save(out, "JPEG", quality=90)
    return out.getvalue()


def rows_of(rng: np.random.Generator, count: int, first: int = 0) -> dict[str, Any]:
    """Returns the columns image, label and caption. The labels are the numbers of the rows, from `first` on."""
    return {
        "image": pa.array([{"bytes": jpeg(rng), "path": f"{first + i}.jpg"} for i in range(count)], IMAGES),
        "label": pa.array([first + i for i in range(count)], pa.int64()),
        "caption": pa.array([f"row {first + i} \u00e9" for i in range(count)], pa.string()),
    }


def write(path: Path, columns: dict[str, Any], group: int = 10, features: dict[str, Any] | None = None, **options: Any) -> Path:
    """Writes a Parquet file and returns its path. group: rows of a row group. features: written into the schema's metadata, as the package `datasets` does."""
    table = pa.table(columns)
    if features is not None:
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=group, **options)
    return path


def write_table(root: Path, rng: np.random.Generator, sizes: tuple[int, ...] = (25, 31, 8), group: int = 10, **options: Any) -> Path:
    """Writes one file for each number of rows, and returns the folder. The labels are the numbers of the rows, counted through all files."""
    first = 0
    for number, size in enumerate(sizes):
        write(root / f"part-{number:03d}.parquet", rows_of(rng, size, first), group, **options)
        first += size
    return root


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serves the files of a folder by HTTP, also ranges of them, whatever the query of a URL. Gives the server's URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            file = folder / self.path.partition("?")[0].lstrip("/")
            if not file.is_file():
                return self.send_error(404)
            data, wanted = file.read_bytes(), self.headers.get("Range")
            begin, end = 0, len(data) - 1
            if wanted is not None:
                low, _, high = wanted.removeprefix("bytes=").partition("-")
                begin = int(low) if low else len(data) - int(high)
                end = min(int(high), end) if low and high else end
            self.send_response(200 if wanted is None else 206)
            if wanted is not None:
                self.send_header("Content-Range", f"bytes {begin}-{end}/{len(data)}")
            self.send_header("Content-Length", str(end + 1 - begin))
            self.end_headers()
            self.wfile.write(data[begin : end + 1])
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def labels_of(loader: Any) -> Iterator[list[int]]:
    for batch in loader:
        yield batch.label.tolist()


def all_labels(loader: Any) -> list[int]:
    return [label for labels in labels_of(loader) for label in labels]
