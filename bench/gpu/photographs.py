#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Transfers photographs to a machine that cannot download: packs a part of a corpus into one file, and unpacks it there, with copies if wanted.

usage: photographs.py pack OUT.tar DIR:COUNT...            COUNT files of DIR, spread over it; the folder's name is kept
       photographs.py unpack IN.tar FOLDER [--copies N]    FOLDER/DIR/copyNNN/NAME.jpg

Each copy is a separate file with separate pages in the page cache, so reading it costs as much as reading another photograph. A number in a comment of
the JPEG makes the copies differ. There are fewer copies of the cameras' frames, since these files are larger.
"""

from __future__ import annotations

import argparse
import io
import sys
import tarfile
from pathlib import Path

LIMIT = 50 << 20


def spread(files: list[Path], count: int) -> list[Path]:
    """Returns `count` of the files, at even distances."""
    if len(files) < count:
        raise SystemExit(f"there are {len(files)} JPEG files, not {count}")
    return [files[i * len(files) // count] for i in range(count)]


def pack(out: Path, sources: list[str]) -> None:
    total = 0
    with tarfile.open(out, "w") as tar:
        for source in sources:
            folder, _, count = source.rpartition(":")
            for i, path in enumerate(spread(sorted(Path(folder).rglob("*.jpg")), int(count))):
                data = path.read_bytes()
                info = tarfile.TarInfo(f"{Path(folder).name}/{i:05d}.jpg")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
                total += len(data)
    if total > LIMIT:
        print(f"{out} has {total >> 20} MiB: more than {LIMIT >> 20}", file=sys.stderr)
    print(f"{out}: {total / 1e6:.1f} MB")


def marked(data: bytes, copy: int) -> bytes:
    """Returns the photograph with the copy's number in a JPEG comment after its SOI marker; unchanged for copy 0."""
    text = f"copy {copy}".encode()
    return data if copy == 0 else data[:2] + b"\xff\xfe" + (len(text) + 2).to_bytes(2, "big") + text + data[2:]


def unpack(source: Path, folder: Path, copies: int) -> None:
    count = total = 0
    with tarfile.open(source) as tar:
        for member in tar:
            name = Path(member.name)
            stream = tar.extractfile(member)
            if not stream or name.is_absolute() or ".." in name.parts:
                continue
            data = stream.read()
            for copy in range(copies if len(data) < 250_000 else max(1, copies // 5)):
                target = folder / name.parent / f"copy{copy:03d}" / name.name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(marked(data, copy))
                count += 1
                total += len(data)
    print(f"{folder}: {count} files, {total / 1e9:.2f} GB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack")
    packing.add_argument("out", type=Path)
    packing.add_argument("sources", nargs="+", metavar="DIR:COUNT")
    unpacking = commands.add_parser("unpack")
    unpacking.add_argument("source", type=Path)
    unpacking.add_argument("folder", type=Path)
    unpacking.add_argument("--copies", type=int, default=40)
    a = parser.parse_args()
    if a.command == "pack":
        pack(a.out, a.sources)
    else:
        unpack(a.source, a.folder, a.copies)


if __name__ == "__main__":
    main()
