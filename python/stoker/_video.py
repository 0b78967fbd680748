# SPDX-License-Identifier: Apache-2.0
"""VideoDecoder, which decodes frames of one video. It has the methods of torchcodec's class of the same name."""

from __future__ import annotations

import functools
import io
import math
import operator
import os
import threading
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from stoker import _core, _needs
from stoker._signatures import suggests
from stoker._storage import Storage
from stoker._storage import of as storage_of
from stoker.errors import ArgumentError, NotFoundError, OutOfMemoryError, ShapeError, StateError, UnsupportedError


class _Lock:
    """The lock of a VideoDecoder. If a thread holds it while the process is forked, no thread of the child can release it."""

    all: ClassVar[weakref.WeakSet[_Lock]] = weakref.WeakSet()

    def __init__(self) -> None:
        self._lock, self._is_lost = threading.Lock(), False
        self.all.add(self)

    def get(self) -> threading.Lock:
        """Returns the lock. Raises StateError in the child of a fork if it can never be released there. The caller enters the lock itself, because no exception
        of a signal's handler can come between a C function that acquires a lock and the body of its `with`."""
        if self._is_lost:
            raise StateError(
                "another thread was decoding with this VideoDecoder when this process was forked, so it cannot be used here: open another one "
                "in this process"
            )
        return self._lock

    @classmethod
    def after_fork(cls) -> None:
        for lock in cls.all:
            lock._is_lost = lock._is_lost or lock._lock.locked()


os.register_at_fork(after_in_child=_Lock.after_fork)


@dataclass
class Frame:
    """One frame. data: uint8 of shape (C, H, W) or (H, W, C). pts_seconds: the time at which it is first shown. duration_seconds: how long it is shown. Can be
    unpacked like the tuple (data, pts_seconds, duration_seconds)."""

    data: Any
    pts_seconds: float
    duration_seconds: float

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, field.name) for field in fields(self))


@dataclass
class FrameBatch:
    """N frames of equal size. data: uint8 of shape (N, C, H, W) or (N, H, W, C). pts_seconds, duration_seconds: float64 of shape (N,). Iteration yields each
    frame as a FrameBatch without the first dimension."""

    data: Any
    pts_seconds: Any
    duration_seconds: Any

    def __len__(self) -> int:
        return len(self.pts_seconds)

    def __iter__(self) -> Iterator[FrameBatch]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> FrameBatch:
        return FrameBatch(self.data[key], self.pts_seconds[key], self.duration_seconds[key])


@dataclass(frozen=True)
class VideoMetadata:
    """Properties of the video stream, under torchcodec's names. rotation: the angle by which the file asks players to turn frames, in degrees
    counter-clockwise, from -180 to less than 180; None: frames are not turned. Frames, width and height are those after turning."""

    num_frames: int
    begin_stream_seconds: float
    end_stream_seconds: float
    duration_seconds: float
    average_fps: float | None
    bit_rate: float
    codec: str
    container: str
    width: int
    height: int
    rotation: float | None
    stream_index: int
    num_key_frames: int


def _counter_clockwise(degrees: int) -> float | None:
    """Converts degrees clockwise (0, 90, 180 or 270) to torchcodec's degrees counter-clockwise; None for 0."""
    return None if degrees == 0 else float(360 - degrees if degrees > 180 else -degrees)


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        return None
    return torch


class _FileLike:
    """Reads the bytes of a video from a file object that has seek and read."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.size = file.seek(0, io.SEEK_END)

    def __call__(self, offset: int, n: int) -> bytes:
        self.file.seek(offset)
        parts = []
        while n:
            part = self.file.read(n)
            if not part:
                raise OSError(f"{self.file!r} ends early: {n} more bytes were expected at {offset}")
            parts.append(part)
            n -= len(part)
        return b"".join(parts)


def _open(source: Any, storage: Storage | None, stream: int, strict: bool) -> _core.Video:
    path = data = file = None
    size = 0
    if isinstance(source, (str, os.PathLike)):
        path = os.fsencode(source)
    elif isinstance(source, io.TextIOBase):
        raise ArgumentError('source is a file that was opened for text: open it with "rb"')
    elif hasattr(source, "read") and hasattr(source, "seek"):
        file = _FileLike(source)
        size = file.size
    else:
        data = source.numpy() if type(source).__module__.partition(".")[0] == "torch" else source
        try:
            memoryview(data)
        except TypeError:
            raise ArgumentError(
                f"source is a path, a URL, bytes, a tensor of uint8 or a file object with read and seek, not {type(source).__name__}"
            ) from None
    return _core.Video(path, data, file, size, storage.core() if storage is not None else None, stream, strict)


def _refuse_what_torchcodec_has(transforms: Any, output_dtype: Any, custom_frame_mappings: Any) -> None:
    if transforms is not None and len(transforms) > 0:
        raise UnsupportedError(
            "VideoDecoder: transforms are not applied while frames are decoded: apply them to the frames, as in transform(video[0])"
        )
    if str(output_dtype) not in ("uint8", "torch.uint8"):
        raise UnsupportedError(f"VideoDecoder: frames are of uint8, not {output_dtype}: divide them by 255 for floats from 0 to 1")
    if custom_frame_mappings is not None:
        raise UnsupportedError(
            "VideoDecoder: custom_frame_mappings are not used: frames are exact without them, and the lists of long videos are kept"
        )


@functools.cache
def _gpu(number: int) -> _core.VideoDevice:
    """Returns the video decoder of a GPU. All videos that are opened on that GPU share it."""
    return _core.VideoDevice(number)


@suggests
class VideoDecoder:
    """Decodes frames of a video by number or by time, as torchcodec.decoders.VideoDecoder does.

    source: a path, a URL (s3://, http://), bytes, a tensor of uint8, or a file object with read and seek.
    stream_index: the stream's number in the file. Default: the first video stream.
    dimension_order: "NCHW" or "NHWC".
    num_ffmpeg_threads: accepted, without effect: a decoder uses the calling thread. To use several cores, call several decoders on several threads.
    device: "cpu", or "cuda" or "cuda:N" for frames in the memory of a GPU; None: torch's default device. For a GPU, NVIDIA's video decoder makes the frames
        if it supports the stream. CPU cores make all other frames, with the same bytes, and decide whether a frame is damaged. counters["frames_on_gpu"] counts
        the frames of NVIDIA's decoder; why_on_cores says why the CPU made the others.
    seek_mode: accepted, without effect: frames are always exact, as in torchcodec's mode "exact".
    transforms, output_dtype, custom_frame_mappings: arguments of torchcodec, for which only the defaults are supported. Other values raise an error that says
    what to use instead.
    strict: a damaged frame raises an error. With strict=False it is returned as far as it can be decoded.
    storage: a stoker.Storage for URLs. None: one that all such decoders of the process share.

    Frame i, from 0 on, is the i-th that is shown, after the file's edit list and rotation are applied. Frames are torch tensors of uint8, or NumPy arrays if
    torch is not installed. The frames of one call are planned together, so that no packet is decoded twice.
    """

    def __init__(
        self,
        source: Any,
        *,
        stream_index: int | None = None,
        dimension_order: str = "NCHW",
        num_ffmpeg_threads: int = 1,
        device: Any = "cpu",
        seek_mode: str = "exact",
        transforms: Any = None,
        output_dtype: Any = "uint8",
        custom_frame_mappings: Any = None,
        strict: bool = True,
        storage: Storage | None = None,
    ) -> None:
        if dimension_order not in ("NCHW", "NHWC"):
            raise ArgumentError(f'dimension_order is "NCHW" or "NHWC", not {dimension_order!r}')
        if seek_mode not in ("exact", "approximate"):
            raise ArgumentError(f'seek_mode is "exact" or "approximate", not {seek_mode!r}')
        if num_ffmpeg_threads is None or operator.index(num_ffmpeg_threads) < 0:
            raise ArgumentError(f"num_ffmpeg_threads is {num_ffmpeg_threads}; it must be 0 or more")
        stream = -1 if stream_index is None else operator.index(stream_index)
        if stream_index is not None and stream < 0:
            raise ArgumentError(f"stream_index is {stream_index}; streams have numbers from 0 on")
        _refuse_what_torchcodec_has(transforms, output_dtype, custom_frame_mappings)
        self._torch = _torch()
        if device is None:
            device = "cpu" if self._torch is None else self._torch.get_default_device()
        self._device = str(device)
        if self._device.partition(":")[0] not in ("cpu", "cuda"):
            raise ArgumentError(f'device is "cpu" or "cuda", not {device!r}')
        if self._torch is None:
            _needs.numpy("VideoDecoder")
        if self._device != "cpu" and self._torch is None:
            raise ArgumentError("frames on the GPU are torch tensors: install torch, or use device='cpu'")
        self._planar = dimension_order == "NCHW"
        self._lock = _Lock()
        self._storage = storage_of(source, storage)
        self._video = _open(source, self._storage, stream, strict)
        self._on_gpu = self._device != "cpu" and self._use_gpu()
        info = self._video.info()
        self.stream_index: int = info["stream"]
        self.metadata = VideoMetadata(
            num_frames=info["frames"],
            begin_stream_seconds=info["begin"],
            end_stream_seconds=info["end"],
            duration_seconds=info["duration"],
            average_fps=info["average_fps"] or None,
            bit_rate=info["bit_rate"],
            codec=info["codec"],
            container=info["container"],
            width=info["width"],
            height=info["height"],
            rotation=_counter_clockwise(info["rotation"]),
            stream_index=info["stream"],
            num_key_frames=info["keys"],
        )

    def __repr__(self) -> str:
        m = self.metadata
        return f"<VideoDecoder: {m.num_frames} frames of {m.width} x {m.height}, {m.codec}, {m.duration_seconds:.3f} s>"

    def __len__(self) -> int:
        return self.metadata.num_frames

    def __copy__(self) -> VideoDecoder:
        return self

    def __reduce__(self) -> Any:
        raise TypeError(
            "a VideoDecoder holds an open file and cannot be pickled or deeply copied: open one in each process, as when a Dataset first needs it in a worker"
        )

    @property
    def counters(self) -> dict[str, float]:
        """Returns a dict of counters since the video was opened: frames requested, packets decoded for them, how often decoding began at a key frame, requests
        to a store, and the seconds that the CPU spent reading packets, decoding and converting to RGB."""
        return self._video.counters()

    @property
    def why_on_cores(self) -> str:
        """Returns the reason why the CPU last decoded frames in place of the GPU; "" if it never did."""
        return self._video.why_on_cores()

    def _use_gpu(self) -> bool:
        """Opens the GPU for decoding. Returns False if this build has no GPU kernels or finds no driver: torch then copies the frames to the GPU."""
        index = self._torch.device(self._device).index
        try:
            self._video.use_gpu(_gpu(self._torch.cuda.current_device() if index is None else index))
        except (NotFoundError, UnsupportedError):
            return False
        return True

    def _check_room(self, count: int) -> None:
        """Raises OutOfMemoryError if this many frames exceed the machine's memory. Call this before making a list of their numbers, which may be huge as
        well."""
        size, memory = count * 3 * self.metadata.height * self.metadata.width, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if size > memory:
            raise OutOfMemoryError(f"{count} frames take {size} bytes, and this machine has {memory}: ask for fewer at a time")

    # ---- by number ----

    def _number(self, index: Any) -> int:
        if type(index).__name__ in ("bool", "bool_"):  # Python's and NumPy's bools
            raise ArgumentError(
                f"the number of a frame is a whole number, not {index}; mask.nonzero() gives the numbers that a mask chooses"
            )
        try:
            i = operator.index(index)
        except TypeError:
            raise ArgumentError(
                f"the number of a frame is a whole number, not {index!r:.60}; get_frame_played_at(seconds) takes times"
            ) from None
        if not -len(self) <= i < len(self):
            raise IndexError(f"frame {i} does not exist: the video has {len(self)} frames")
        return i + len(self) if i < 0 else i

    def _array(self, data: bytearray, shape: tuple[int, ...]) -> Any:
        torch = self._torch
        if torch is None:
            import numpy as np

            return np.frombuffer(data, np.uint8).reshape(shape)
        tensor = torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8, device="cpu")
        return tensor.reshape(shape).to(self._device)

    def _read_gpu(self, frames: list[int]) -> Any:
        """Returns the frames as a tensor on the GPU; None if their size differs from the size that the file states."""
        torch, (height, width) = self._torch, (self.metadata.height, self.metadata.width)
        shape = (len(frames), 3, height, width) if self._planar else (len(frames), height, width, 3)
        tensor = torch.empty(shape, dtype=torch.uint8, device=self._device)
        try:
            with self._lock.get():
                self._video.read_gpu(frames, self._planar, tensor.data_ptr(), torch.cuda.current_stream(tensor.device).cuda_stream)
        except ShapeError:
            return None
        return tensor

    def _read(self, frames: list[int]) -> Any:
        if frames and self._on_gpu:
            tensor = self._read_gpu(frames)
            if tensor is not None:
                return tensor
        if frames:
            with self._lock.get():
                data, height, width = self._video.read(frames, self._planar)
        else:
            data, height, width = bytearray(), self.metadata.height, self.metadata.width
        return self._array(data, (len(frames), 3, height, width) if self._planar else (len(frames), height, width, 3))

    def _times(self, frames: list[int]) -> tuple[Any, Any]:
        times = [self._video.frame(i) for i in frames]
        return self._columns([t[0] for t in times], [t[1] for t in times])

    def _columns(self, begins: list[float], durations: list[float]) -> tuple[Any, Any]:
        torch = self._torch
        if torch is not None:
            made = [torch.tensor(seconds, dtype=torch.float64, device="cpu") for seconds in (begins, durations)]
            return made[0], made[1]
        import numpy as np

        return np.array(begins, np.float64), np.array(durations, np.float64)

    def _batch(self, frames: list[int]) -> FrameBatch:
        return FrameBatch(self._read(frames), *self._times(frames))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self._read(list(range(*key.indices(len(self)))))
        return self._read([self._number(key)])[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def get_frame_at(self, index: int) -> Frame:
        """Returns the frame with this number. Negative numbers count from the end: -1 is the last frame. Raises IndexError outside of the video."""
        i = self._number(index)
        begin, duration, _ = self._video.frame(i)
        return Frame(self._read([i])[0], begin, duration)

    def get_frames_at(self, indices: Iterable[int]) -> FrameBatch:
        """Returns the frames with these numbers, in the given order. Negative numbers count from the end. Raises IndexError outside of the video."""
        return self._batch([self._number(i) for i in (indices.tolist() if hasattr(indices, "tolist") else indices)])

    def get_frames_in_range(self, start: int, stop: int, step: int = 1) -> FrameBatch:
        """Returns the frames start, start + step, ... before stop. start and stop are those of a slice: negative numbers count from the end, and numbers
        outside of the video are cut. Raises IndexError if step is below 1, or stop before start."""
        if step <= 0:
            raise IndexError(f"step is {step}; it must be positive")
        first, end, _ = slice(start, stop).indices(len(self))
        if end < first:
            raise IndexError(f"stop is {stop}; it must be at least start, which is {start}")
        return self._batch(list(range(first, end, step)))

    def get_all_frames(self, fps: float | None = None) -> FrameBatch:
        """Returns all frames; with fps, the frames that get_frames_played_in_range returns for the whole video at that rate."""
        m = self.metadata
        return (
            self._batch(list(range(len(self))))
            if fps is None
            else self.get_frames_played_in_range(m.begin_stream_seconds, m.end_stream_seconds, fps)
        )

    # ---- by time ----

    def _shown(self, seconds: float) -> int:
        m = self.metadata
        if isinstance(seconds, (str, bytes)) or not hasattr(seconds, "__float__"):
            raise ArgumentError(f"a time is a number of seconds, not {seconds!r:.60}")
        if not m.begin_stream_seconds <= seconds < m.end_stream_seconds:
            raise IndexError(
                f"no frame is shown at {seconds} s: the video lasts from {m.begin_stream_seconds} s to {m.end_stream_seconds} s, which is excluded"
            )
        return self._video.shown(seconds)

    def get_frame_played_at(self, seconds: float) -> Frame:
        """Returns the frame that is shown at this time, in seconds. Raises IndexError outside of the video."""
        return self.get_frame_at(self._shown(seconds))

    def get_frames_played_at(self, seconds: Iterable[float]) -> FrameBatch:
        """Returns the frames that are shown at these times, in seconds, in the given order. Raises IndexError outside of the video."""
        return self._batch([self._shown(s) for s in (seconds.tolist() if hasattr(seconds, "tolist") else seconds)])

    def get_frames_played_in_range(self, start_seconds: float, stop_seconds: float, fps: float | None = None) -> FrameBatch:
        """Returns the frames that are shown in the half-open range [start_seconds, stop_seconds). With fps, returns those that are shown at start_seconds,
        start_seconds + 1 / fps, and so on: as many as fit into the range, rounded to the nearest number. These times are then the frames' pts_seconds, and each
        frame lasts 1 / fps. Raises ValueError for a range that is not inside the video, and for an fps that is not positive and finite."""
        m = self.metadata
        if not start_seconds <= stop_seconds:
            raise ValueError(f"start_seconds is {start_seconds}; it must not be after stop_seconds, which is {stop_seconds}")
        if not m.begin_stream_seconds <= start_seconds < m.end_stream_seconds:
            raise ValueError(
                f"start_seconds is {start_seconds}; it must be at least {m.begin_stream_seconds} and less than {m.end_stream_seconds}"
            )
        if not stop_seconds <= m.end_stream_seconds:
            raise ValueError(f"stop_seconds is {stop_seconds}; it must be at most {m.end_stream_seconds}")
        if start_seconds == stop_seconds:
            return self._batch([])
        if fps is not None:
            if not (fps > 0 and math.isfinite(fps)):
                raise ValueError(f"fps is {fps}; it must be a positive number")
            count = math.floor((stop_seconds - start_seconds) * fps + 0.5)
            self._check_room(count)
            before = math.nextafter(stop_seconds, -math.inf)
            times = [min(start_seconds + k * (1 / fps), before) for k in range(count)]
            return FrameBatch(self._read([self._shown(t) for t in times]), *self._columns(times, [1 / fps] * count))
        first, last = self._shown(start_seconds), self._shown(math.nextafter(stop_seconds, -math.inf))
        return self._batch(list(range(first, last + 1)))
