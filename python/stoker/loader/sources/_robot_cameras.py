# SPDX-License-Identifier: Apache-2.0
"""Frames of a robot data set's cameras: videos that several threads decode at once, and the memory that they write to, on the CPU or on a GPU."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from stoker.errors import CorruptError

# The largest numbers of decoders that stay open on the CPU and on GPUs while no thread uses them. All Loaders of a process share the 64 sessions of a GPU.
_MOST_OPEN, _MOST_ON_GPU = 64, 24
_LONGEST_WAIT, _STEP = 1.0, 0.001  # seconds: how long a thread waits for a decoder at most, and between two looks at it
_MOST_FREE_BUFFERS = 4  # for each shape, the most unused buffers that are kept for reuse


class InTurn:
    """Calls functions one after the other. A Loader's class of the same form calls them on its threads."""

    count = 1  # the number of functions that run at once

    def __call__(self, functions: Sequence[Callable[[], None]]) -> None:
        for function in functions:
            function()


@dataclass(frozen=True, slots=True)
class Shown:
    """A frame that a batch needs: the one that a video shows at a time in seconds. row: its place in the batch. where: names the time in messages."""

    path: Path
    seconds: float
    row: int
    where: str


@dataclass(slots=True, eq=False)
class _Open:
    """A decoder of a video. One thread at a time uses it. first, last: the times in seconds of the first and last frame that it decodes, or decoded last."""

    path: Path
    device: str
    first: float = 0.0
    last: float = 0.0
    decoder: Any = None  # None while it is being opened
    is_busy: bool = True


class Videos:
    """The open videos of a data set. A video is opened again for each thread that wants it at the same time, because a decoder serves one thread at a time."""

    all: ClassVar[weakref.WeakSet[Videos]] = weakref.WeakSet()

    def __init__(self, before: Videos | None = None) -> None:
        """before: videos of the same data set that were closed, whose key frames are known."""
        self._is_closed = False
        self._begin()
        if before is not None:
            self._key_seconds |= before._key_seconds
        self.all.add(self)

    def _begin(self) -> None:
        self._open: list[_Open] = []  # the one that was used last is at the end
        self._lock = threading.Lock()
        self._key_seconds: dict[Path, float] = {}

    @classmethod
    def after_fork(cls) -> None:
        """Forgets all decoders in a forked process: the threads that use some of them do not run there, and would never give them back."""
        for videos in cls.all:
            videos._begin()

    def key_seconds(self, path: Path, device: str) -> float:
        """Returns the mean time in seconds from one key frame of a video to the next. Opens the video if it was never open."""
        if path not in self._key_seconds:
            with self.decoder(path, device, -1.0, -1.0):
                pass
        return self._key_seconds[path]

    @contextmanager
    def decoder(self, path: Path, device: str, first: float, last: float) -> Iterator[Any]:
        """Gives a decoder of a video for the frames from `first` to `last` seconds to this thread, until the context ends."""
        used = None
        try:
            used = self._take(path, device, first, last)
            if used.decoder is None:
                used.decoder = self._opened(path, device)
            yield used.decoder
        finally:
            if used is not None:
                self._give_back(used)

    def close(self) -> None:
        """Closes the decoders, with the sessions of a GPU's decoder that some of them hold. One that a thread uses is closed when the thread gives it back."""
        with self._lock:
            self._is_closed = True
            idle, self._open = self._open, [o for o in self._open if o.is_busy]
        del idle

    def _opened(self, path: Path, device: str) -> Any:
        from stoker._video import VideoDecoder

        decoder = VideoDecoder(path, device=device)
        self._key_seconds[path] = decoder.metadata.duration_seconds / max(1, decoder.metadata.num_key_frames)
        return decoder

    def _take(self, path: Path, device: str, first: float, last: float) -> _Open:
        """Returns a decoder that no other thread uses. Its decoder is None if it has to be opened.

        A decoder that has passed the last key frame before `first` decodes on from there. Others begin at the key frame, which may be far away: a thread waits
        for the decoder that is near instead, unless that one has more to decode than lies between two key frames. It does not wait for long, because an
        interrupt may have ended the thread's use of a decoder without a trace; such decoders are dropped."""
        end = time.monotonic() + _LONGEST_WAIT
        while True:
            is_late = time.monotonic() >= end
            with self._lock:
                of_video = [o for o in self._open if o.path == path and o.device == device]
                apart = self._key_seconds.get(path, 0.0)
                near = [o for o in of_video if o.last <= first < o.last + apart and not (o.is_busy and o.last - o.first > apart)]
                if is_late:
                    for o in [o for o in near if o.is_busy]:
                        self._open.remove(o)
                        of_video.remove(o)
                        near.remove(o)
                idle = [o for o in near or of_video if not o.is_busy]
                if idle or not near:
                    used = idle[-1] if idle else _Open(path, device)
                    if idle:
                        self._open.remove(used)
                    self._open.append(used)
                    used.is_busy, used.first, used.last = True, first, last
                    return used
            time.sleep(_STEP)

    def _give_back(self, used: _Open) -> None:
        with self._lock:
            used.is_busy = False
            if (used.decoder is None or self._is_closed) and used in self._open:
                self._open.remove(used)
            is_cpu = used.device == "cpu"
            of_device = [o for o in self._open if (o.device == "cpu") == is_cpu]
            surplus = max(0, len(of_device) - (_MOST_OPEN if is_cpu else _MOST_ON_GPU))
            dropped = [o for o in of_device if not o.is_busy][:surplus]
            for o in dropped:
                self._open.remove(o)
        del dropped  # closes the videos, outside of the lock


os.register_at_fork(after_in_child=Videos.after_fork)


def parts_of(frames: Sequence[Shown], videos: Videos, device: str, count: int) -> list[list[Shown]]:
    """Divides the frames of a batch into about `count` lists that different threads decode. A list has frames of one video, in order. A cut between two frames
    that depend on one key frame lets two threads decode the frames before it, so a list of such frames has several times as many as lie between key frames."""
    least = -(-len(frames) // max(1, count))
    parts: list[list[Shown]] = []
    for f in sorted(frames, key=lambda f: (f.path, f.seconds)):
        if not parts or parts[-1][-1].path != f.path:
            parts.append([f])
            continue
        part = parts[-1]
        if len(part) >= least:
            apart = videos.key_seconds(f.path, device)
            if f.seconds - part[-1].seconds >= apart or f.seconds - part[0].seconds >= 4 * apart:
                parts.append([f])
                continue
        part.append(f)
    return parts


def decode(part: Sequence[Shown], videos: Videos, device: str, fps: float, tolerance: float, into: Rows) -> None:
    """Decodes frames of one video. Raises CorruptError if a frame is more than `tolerance` seconds away from its time. fps: the data set's rate."""
    path = part[0].path
    with videos.decoder(path, device, part[0].seconds, part[-1].seconds) as decoder:
        rate = decoder.metadata.average_fps or fps
        found = decoder.get_frames_at([min(round(f.seconds * rate), len(decoder) - 1) for f in part])
    for f, shown in zip(part, found.pts_seconds.tolist(), strict=True):
        if abs(f.seconds - shown) > tolerance:
            raise CorruptError(
                f"{path}: at {f.seconds:.6f} s ({f.where}) the nearest frame begins at {shown:.6f} s, which is farther away than tolerance_s={tolerance}: the "
                "video and the table do not belong together"
            )
    frames = found.data if into.on_gpu else found.data.numpy()
    for f, frame in zip(part, frames, strict=True):
        into.write(f.row, frame)


class Buffers:
    """Memory of batches whose tensors were freed, for later batches. The operating system needs more time to provide new memory than NumPy needs to fill it."""

    def __init__(self) -> None:
        self._free: dict[tuple[int, ...], list[Any]] = {}

    def of(self, shape: tuple[int, ...]) -> Any:
        """Returns an array of float32 whose memory nothing else uses."""
        import numpy as np

        free = self._free.setdefault(shape, [])
        try:
            memory = free.pop()
        except IndexError:
            memory = np.empty(shape, np.float32)
        lent = memory.view()
        weakref.finalize(lent, _give_back, free, memory).atexit = False  # runs when the last tensor over this view is freed
        return lent


def _give_back(free: list[Any], memory: Any) -> None:
    if len(free) < _MOST_FREE_BUFFERS:
        free.append(memory)


class Rows:
    """The frames of one camera in a batch, as float32 from 0 to 1. Several threads write them; the first frame decides their size. On the CPU, NumPy does the
    arithmetic: torch would start more threads for each thread of the Loader, and would copy each frame once more to stack them.

    name: what messages call these frames. shape: the extents before C, H and W. device: "cpu", or a GPU whose tensors are written."""

    def __init__(self, name: str, shape: tuple[int, ...], device: str, buffers: Buffers) -> None:
        self.on_gpu = device != "cpu"
        self._name, self._shape, self._device, self._buffers = name, shape, device, buffers
        self._lock = threading.Lock()
        self._made: Any = None
        self._rows: Any = None
        self._white: Any = None  # 255 in the GPU's memory: torch multiplies by the reciprocal of a number, which rounds differently

    def _allocate(self, shape: tuple[int, ...]) -> None:
        if not self.on_gpu:
            self._made = self._buffers.of((*self._shape, *shape))
        else:
            import torch

            self._made = torch.empty((*self._shape, *shape), dtype=torch.float32, device=self._device)
            self._white = torch.full((), 255, dtype=torch.float32, device=self._device)
        self._rows = self._made.reshape(-1, *shape)

    def write(self, row: int, frame: Any) -> None:
        """Writes a frame of uint8, (C, H, W), which is scaled to 0..1, or, on the CPU, one of float32, which is not scaled. Raises CorruptError for a frame of
        another size than the first."""
        if self._rows is None:
            with self._lock:
                if self._rows is None:
                    self._allocate(tuple(frame.shape))
        if tuple(frame.shape) != tuple(self._rows.shape[1:]):
            raise CorruptError(f"{self._name} have different sizes in a batch: {tuple(self._rows.shape[1:])} and {tuple(frame.shape)}")
        if self.on_gpu:
            import torch

            torch.div(frame, self._white, out=self._rows[row])
        else:
            import numpy as np

            np.divide(frame, np.float32(255 if frame.dtype == np.uint8 else 1), out=self._rows[row], dtype=np.float32)

    def tensor(self) -> Any:
        import torch

        return self._made if self.on_gpu else torch.from_numpy(self._made)
