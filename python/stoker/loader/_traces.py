# SPDX-License-Identifier: Apache-2.0
"""Keeps one trace file for all pipelines of a Loader: each pipeline writes the file when it is closed, in place of the file of the pipeline before."""

from __future__ import annotations

import os
import stat
from collections import deque

from stoker._at_exit import close_at_exit
from stoker._where import log
from stoker.pipeline import Pipeline

_MOST = 100_000  # events of earlier pipelines that are kept, about 15 MB; then new events replace the oldest


class TraceFile:
    """The file of the argument `trace`. path: its name; None: there is no trace."""

    def __init__(self, path: str | None) -> None:
        self._path, self._pid = path, os.getpid()
        self._earlier: deque[str] = deque(maxlen=_MOST)  # a line of JSON for each event of the pipelines that were closed
        self._pipe: Pipeline | None = None  # the pipeline that writes the file when it is closed
        self._seen = self._written()
        if path is not None:
            close_at_exit(self)

    def made(self, pipe: Pipeline) -> None:
        """Notes the pipeline that writes the file next."""
        self._pipe = None if self._path is None else pipe

    def close(self) -> None:
        """Closes the pipeline, which then writes the file, and adds the events of earlier pipelines to the file."""
        pipe, self._pipe = self._pipe, None
        if pipe is None or os.getpid() != self._pid:
            return
        pipe.close()
        written = self._written()
        if written is None or written == self._seen:
            return
        try:
            self._add_earlier(self._path or "")
        except OSError as e:
            log(f"the trace of earlier epochs could not be added to {self._path}: {e}")
        self._seen = self._written()

    def __del__(self) -> None:
        """Does the same as close(), if the Loader was dropped without being closed."""
        if getattr(self, "_pipe", None) is not None:
            self.close()

    def _add_earlier(self, path: str) -> None:
        with open(path, encoding="utf-8") as file:
            lines = [line.rstrip(",") for line in file.read().splitlines()[1:-1]]
        names = [line for line in lines if '"ph":"M"' in line]  # the lines that name the threads
        events = [line for line in lines if '"ph":"M"' not in line]
        if self._earlier:
            new = f"{path}.part"
            with open(new, "w", encoding="utf-8") as file:
                file.write('{"traceEvents":[\n' + ",\n".join([*names, *self._earlier, *events]) + "\n]}\n")
            os.replace(new, path)
        self._earlier.extend(events)

    def _written(self) -> tuple[int, int] | None:
        """Returns the file's inode number and time of change, of which one changes when the file is written again; None if the file does not exist, or is a
        pipe or a device."""
        try:
            found = None if self._path is None else os.stat(self._path)
        except OSError:
            return None
        return (found.st_ino, found.st_mtime_ns) if found is not None and stat.S_ISREG(found.st_mode) else None
