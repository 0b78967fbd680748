# SPDX-License-Identifier: Apache-2.0
"""The command `stoker pack` for tables: writes rows of Parquet files, or of a folder that `datasets` saved, as tars in WebDataset's format.

The tars are made in the folder DIR.part, which gets its final name when all tars, their indexes and classes.txt are complete. After an interruption, the next
run keeps the complete tars of that folder and continues with the next row."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import stat
import tarfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from stoker import _core, _files
from stoker._progress import ProgressLine
from stoker._storage import common
from stoker.errors import CorruptError, InvalidArgumentError, StokerError
from stoker.loader.sources._command import STORAGE_FLAGS, STORAGE_TEXTS, UsageError, parse, put, say, storage_of, whole
from stoker.loader.sources._fetch import Threads, unfinished
from stoker.loader.sources._table_folders import is_saved, is_table, names_tables
from stoker.loader.sources._table_members import Plan, Sample, null_notes, plan_of, samples
from stoker.loader.sources._table_rows import Part, Rows, rows_of

if TYPE_CHECKING:
    from concurrent.futures import Future

_BLOCK, _END = 512, 1024  # sizes in bytes of a tar's block, and of the zeros at a tar's end
_MOST_TARS = 1_000_000
_SHARD_BYTES = 256_000_000
_PLAN = "packing.txt"  # names the data set and the options, so that a later run recognises its own tars; stk_pack writes it too
_TAR = "shards-{:06d}.tar"
_LEFT = re.compile(r"(shards-\d{6}\.tar(\.stoker)?|packing\.txt|classes\.txt)\.[0-9a-f]+\.part")  # unfinished files of an interrupted run


_TEXTS = ("output", "shard-size", "image", "label", "columns", "seed", "threads", *STORAGE_TEXTS)
_FLAGS = ("quiet", "json", *STORAGE_FLAGS)
_LETTERS = {"o": "output", "s": "shard-size", "t": "threads", "q": "quiet", "j": "json"}


def asked(arguments: Sequence[str]) -> bool:
    """Returns whether the arguments of `stoker pack` name a table. The C program handles all other calls, and the help."""
    if any(a in ("-h", "--help") for a in arguments):
        return False
    try:
        sources, _ = parse(arguments, _TEXTS, _FLAGS, _LETTERS)
    except UsageError:
        sources = [a for a in arguments if not a.startswith("-")]
    return any(_is_table(s) for s in sources)


def _is_table(source: str) -> bool:
    if names_tables(source) or source.startswith("hf://"):
        return True
    return os.path.isdir(source) and (is_saved(source) or is_table(source))


def main(arguments: Sequence[str]) -> int:
    """Packs a table, and prints the result or the error. Returns the exit status: 0; 1 after an error, 2 for wrong arguments, 130 after Ctrl-C."""
    packing: _Packing | None = None
    try:
        sources, options = parse(arguments, _TEXTS, _FLAGS, _LETTERS)
        packing = _Packing(sources, options)
        facts = packing.run()
    except UsageError as e:
        say("pack", f"{e}\nusage: stoker pack TABLE... -o DIR (--help says more)")
        return 2
    except KeyboardInterrupt:
        done = f"{packing.done} of {packing.total} rows packed: start the command again to continue" if packing else "nothing was packed"
        say("pack", f"interrupted: {done}")
        return 130
    except StokerError as e:
        say("pack", str(e).removeprefix("Loader: "))
        return 1
    except OSError as e:
        where = e.filename or (packing.folder if packing else "")
        say("pack", f"{where}: {e.strerror or e}")
        return 1
    status = put("pack", json.dumps(facts) if options.get("json") else _line(packing.folder, facts))
    for note in packing.notes:
        say("pack", note)
    return status


def _line(folder: str, facts: dict[str, Any]) -> str:
    size = facts["bytes"]
    text = f"{size} bytes" if size < 1000 else f"{size / 1e3:.1f} KB" if size < 1e6 else f"{size / 1e6:.1f} MB"
    kept = facts["kept"]
    rest = f"; {kept} of them {'was' if kept == 1 else 'were'} there already" if kept else ""
    return f"{folder}: {_count(facts['samples'], 'sample')} in {_count(facts['tars'], 'tar')}, {text}{rest}"


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", text, re.IGNORECASE)
    size = float(found[1]) * (1024 if found[3] else 1000) ** " KMGT".index(found[2].upper() or " ") if found else 0
    if not 1 <= size < 1e15:
        raise UsageError(f'--shard-size is a size with its unit, as 256MB or 1GiB, not "{text}"')
    if text[-1] in "0123456789" and size < 1e6:
        raise UsageError(f"--shard-size {text} is {text} bytes: add the unit that you mean, as in {text}MB, {text}GB or {text}B")
    return int(size)


class _Packing:
    """One run of the command. done: number of rows packed so far. total: number of all rows."""

    def __init__(self, sources: Sequence[str], options: dict[str, Any]) -> None:
        if "output" not in options:
            raise UsageError("say where the tars go (-o DIR)")
        if "seed" in options:
            raise UsageError("--seed: rows of tables are packed in their order; a Loader over the tars shuffles all of their samples")
        for source in sources:
            if source.startswith("hf://"):
                raise UsageError(
                    f"{source}: give the file's address instead, as https://huggingface.co/datasets/OWNER/NAME/resolve/main/FILE.parquet, or download it"
                )
        if "://" in options["output"]:
            raise UsageError(f"{options['output']}: tars are written to a local folder")
        if re.search(r"[{}*?\[]", options["output"]):
            raise UsageError(f"{options['output']}: the folder's name has one of {{}}*?[, which stand for several names in paths of tars")
        self.folder = options["output"]
        self.final = os.path.realpath(options["output"])
        self.room = _size(options["shard-size"]) if "shard-size" in options else _SHARD_BYTES
        self.threads = whole(options, "threads", 2, 64)
        self.quiet = "quiet" in options
        self.storage = storage_of(options) or common()
        wanted = [c for c in options["columns"].split(",") if c] if "columns" in options else None
        named = {*(wanted or ()), options.get("image"), options.get("label")} - {None}
        self.rows: Rows = rows_of(sources, self.storage, named)
        self.plan: Plan = plan_of(self.rows, options.get("image"), options.get("label"), wanted)
        self.done, self.total = 0, sum(p.rows for p in self.rows.parts)
        if not self.total:
            raise InvalidArgumentError(f"{sources[0]}: the table has no rows")
        self.digits = max(9, len(str(self.total - 1)))
        self.nulls: dict[str, int] = {}
        self.notes: list[str] = []

    def run(self) -> dict[str, Any]:
        """Makes the tars, unless they are complete. Returns the facts to print. Raises InvalidArgumentError if the folder holds other files."""
        mark = self._mark()
        if os.path.islink(self.folder) and not os.path.exists(self.folder):
            raise InvalidArgumentError(f"{self.folder}: it is a link to a folder that does not exist: make that folder, or remove the link")
        if os.path.exists(self.final) and not os.path.isdir(self.final):
            raise InvalidArgumentError(f"{self.folder}: it is a file, and the tars need a folder")
        if os.path.isdir(self.final) and os.listdir(self.final):
            if _text(os.path.join(self.final, _PLAN)) != mark:
                raise InvalidArgumentError(
                    f"{self.folder}: it holds other files, or tars of another source or other options: name an empty folder"
                )
            tars = _tars(self.final)
            last = _rows(os.path.join(self.final, tars[-1]))[-1:] if tars else []
            if tars != [_TAR.format(i) for i in range(len(tars))] or last != [self.total - 1]:
                raise InvalidArgumentError(
                    f"{self.folder}: an earlier run made all tars of this table, and some are missing or damaged now: remove this folder"
                )
            return self._facts(self.final, len(tars))
        part = f"{self.final}.part"
        _make_own_folder(part)
        with _locked(part, self.folder):
            found = _text(os.path.join(part, _PLAN))
            others = [name for name in os.listdir(part) if not _LEFT.fullmatch(name)]
            if found is None and others:
                raise InvalidArgumentError(
                    f"{part}: it holds files that this command has not made, such as {min(others)}: remove this folder"
                )
            if found not in (None, mark):
                raise InvalidArgumentError(
                    f"{part}: it holds tars that an earlier run made from another source or with other options: remove this folder"
                )
            _files.write(os.path.join(part, _PLAN), mark)
            kept, begin = self._kept(part)
            with ProgressLine() as line:
                self._write(part, kept, begin, line)
            if self.plan.classes:
                _files.write(os.path.join(part, "classes.txt"), "".join(f"{name}\n" for name in self.plan.classes))
            _core.tar_index([os.fsencode(os.path.join(part, name)) for name in _tars(part)], None, None, None)
            os.rename(part, self.final)
        if not kept:  # after an interrupted run, self.nulls counts only the remaining rows
            self.notes = null_notes(self.plan, self.nulls)
        return self._facts(self.final, kept) | ({} if kept else {"nulls": self.nulls})

    def _mark(self) -> str:
        """Returns a text that identifies the source and the options on which the tars depend."""
        about = [self.rows.facts, [(m.column.name, str(m.column.type), m.ending) for m in self.plan.members], self.plan.classes, self.room]
        digest = hashlib.blake2b(json.dumps(about).encode(), digest_size=8).hexdigest()
        return f"stoker pack 1\n{self.total} samples of a table\n{digest}\n"

    def _facts(self, folder: str, kept: int) -> dict[str, Any]:
        tars = [os.path.join(folder, name) for name in _tars(folder)]
        return {"tars": len(tars), "samples": self.total, "bytes": sum(os.path.getsize(t) for t in tars), "kept": kept, "left_out": 0}

    def _kept(self, part: str) -> tuple[int, int]:
        """Returns the number of complete tars of an earlier run, and the number of the row after them. Removes unfinished files. A link in the place of a tar
        does not count as a tar."""
        for name in os.listdir(part):
            if _LEFT.fullmatch(name) and os.path.isfile(os.path.join(part, name)):
                os.unlink(os.path.join(part, name))
        kept = row = 0
        while os.path.isfile(path := os.path.join(part, _TAR.format(kept))) and not os.path.islink(path):
            row = _row_after(path, row)
            kept += 1
        return kept, row

    def _write(self, folder: str, number: int, begin: int, line: ProgressLine) -> None:
        """Writes the rows from `begin` on to tars in `folder`. number: the number in the name of the first tar. Shows the progress in `line`."""
        self.done = begin
        writer = _Writer(folder, number)
        try:
            for sample in self._samples(begin):
                key = f"{self.done:0{self.digits}d}"
                size = sum(_BLOCK + -(-len(data) // _BLOCK) * _BLOCK for _, data in sample)
                if writer.size and writer.size + size + _END > self.room:
                    writer.end()
                for ending, data in sample:
                    writer.put(f"{key}.{ending}", data)
                self.done += 1
                if not self.quiet and not self.done % 16:
                    line.show(f"{self.done} of {self.total} rows", self.done, self.total)
            writer.end()
        finally:
            writer.close()

    def _samples(self, begin: int) -> Iterator[Sample]:
        """Yields the samples from row `begin` on. Meanwhile, threads read the next parts of the table."""
        first, parts = 0, []
        for part in self.rows.parts:
            if first + part.rows > begin:
                parts.append((part, max(0, begin - first)))
            first += part.rows
        threads = Threads(self.threads)
        try:
            ahead: list[tuple[Part, int, Future[Any]]] = []
            waiting = iter(parts)
            while True:
                for part, skipped in waiting:
                    ahead.append((part, skipped, threads.submit(part.read, self.plan.names)))
                    if len(ahead) > self.threads:
                        break
                if not ahead:
                    return
                part, skipped, future = ahead.pop(0)
                unfinished([future])
                yield from samples(self.plan, future.result(), part.where, skipped, self.nulls, self.storage)
                del future
        finally:
            threads.close()


class _Writer:
    """Writes one tar after the other. A tar has a temporary name until it is complete. size: size in bytes of the current tar so far."""

    def __init__(self, folder: str, number: int) -> None:
        self._folder, self._number, self.size = folder, number, 0
        self._file: BinaryIO | None = None
        self._part = ""

    def put(self, name: str, data: bytes | memoryview) -> None:
        if self._file is None:
            if self._number >= _MOST_TARS:
                raise InvalidArgumentError(f"more than {_MOST_TARS} tars: let them be larger, by --shard-size")
            self._part = os.path.join(self._folder, f"{_TAR.format(self._number)}.{os.urandom(8).hex()}.part")
            self._file = open(os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), "wb", 1 << 20)  # noqa: SIM115
        header = tarfile.TarInfo(name)
        header.size = len(data)
        self._file.write(header.tobuf(tarfile.GNU_FORMAT if len(data) >= 1 << 33 else tarfile.USTAR_FORMAT, "utf-8", "surrogateescape"))
        self._file.write(data)
        self._file.write(bytes(-len(data) % _BLOCK))
        self.size += _BLOCK + -(-len(data) // _BLOCK) * _BLOCK

    def end(self) -> None:
        """Completes the current tar: appends the zeros of its end, and gives it its final name."""
        if self._file is None:
            return
        self._file.write(bytes(_END))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        os.rename(self._part, os.path.join(self._folder, _TAR.format(self._number)))
        self._file, self.size = None, 0
        self._number += 1

    def close(self) -> None:
        """Removes the current tar if it is not complete."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # a full disk fails again while the rest of the buffer is written
                self._file.close()
            os.unlink(self._part)
            self._file = None


def _tars(folder: str) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name.endswith(".tar"))


def _rows(path: str) -> list[int]:
    """Returns the number of the row of each member of a tar; [] unless this command completed the tar."""
    try:
        with _files.open_binary(path) as file, tarfile.open(fileobj=file, mode="r:") as tar:
            members = tar.getmembers()
            rows = [int(m.name.partition(".")[0]) for m in members]
            file.seek(members[-1].offset_data + -(-members[-1].size // _BLOCK) * _BLOCK)
            return rows if file.read(_END + 1) == bytes(_END) else []
    except (tarfile.TarError, IndexError, ValueError, OverflowError):
        return []


def _row_after(path: str, first: int) -> int:
    """Returns the number of the row after a tar's last one. first: the tar's first row. Raises CorruptError unless an earlier run completed it."""
    rows = _rows(path)
    if not rows or sorted(set(rows)) != list(range(first, rows[-1] + 1)):
        raise CorruptError(
            f"{path}: it is not the tar that an interrupted run has completed: remove {os.path.dirname(path)}, and start the command again"
        )
    return rows[-1] + 1


def _text(path: str) -> str | None:
    """Returns the text of a file; None if the file does not exist."""
    try:
        return _files.read_bytes(path).decode("utf-8", "replace")
    except FileNotFoundError:
        return None


def _make_own_folder(path: str) -> None:
    """Makes a folder, or accepts one of this user. Raises an error for links and other users' folders: their files must not be removed or packed."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        os.mkdir(path)
    except FileExistsError:
        there = os.lstat(path)
        if not stat.S_ISDIR(there.st_mode) or there.st_uid != os.geteuid():
            raise InvalidArgumentError(f"{path}: it is no folder of this user, and this command makes its tars there: remove it") from None


@contextlib.contextmanager
def _locked(part: str, folder: str) -> Iterator[None]:
    """A context in which no other run of the command can write into the folder. Raises InvalidArgumentError if another run holds the lock."""
    fd = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            if e.errno in (errno.EAGAIN, errno.EACCES):
                raise InvalidArgumentError(f"{folder}: another run of this command writes it at the moment") from None
        yield  # without a lock if the file system has none
    finally:
        os.close(fd)
