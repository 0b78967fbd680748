# SPDX-License-Identifier: Apache-2.0
"""The functions and classes of NVIDIA ACCV-Lab's on_demand_video_decoder, for code that uses that library. The CPU decodes the frames.

    import stoker.video.accvlab as nvc        # instead of accvlab.on_demand_video_decoder

    decoder = nvc.CreateGopDecoder(maxfiles=6)
    frames = decoder.DecodeN12ToRGB(files, [30] * 6, as_bgr=False)
    batch = torch.stack([torch.as_tensor(frame, device="cuda") for frame in frames])

Names, arguments and results are those of that library; doc/video.md lists what is missing. A frame is an array in host memory that later calls do not
overwrite. Frame i of a video is the i-th that is shown, from 0 on.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import mmap
import os
import stat
import struct
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stoker import _files
from stoker._files import open_binary
from stoker._video import VideoDecoder

__all__ = [
    "CachedGopDecoder",
    "Codec",
    "CreateBatchAsyncStreamReader",
    "CreateGopDecoder",
    "CreateSampleReader",
    "DropCacheStatus",
    "FastStreamInfo",
    "GetFastInitInfo",
    "GopRef",
    "PyNvBatchAsyncStreamReader",
    "PyNvGopDecoder",
    "PyNvSampleReader",
    "RGBFrame",
    "SavePacketsToFile",
    "SharedGopStore",
    "drop_videos_cache",
]

_MAGIC = b"STKGOP1\0"  # the first bytes of each group of pictures in the result of GetGOP
_IDS = {"h264": 27, "hevc": 173, "av1": 226, "vp9": 167, "vp8": 139, "mpeg4": 12}  # FFmpeg's AVCodecID


class Codec(Enum):
    """Codecs, with their numbers in NVIDIA's Video Codec SDK."""

    h264 = 4
    hevc = 8
    av1 = 11


class RGBFrame(np.ndarray):
    """A frame: an array of uint8 of shape (height, width, 3). isBGR: True if the channels are blue, green, red; False if they are red, green, blue."""

    isBGR: bool

    def __array_finalize__(self, of: Any) -> None:
        self.isBGR = getattr(of, "isBGR", False)


@dataclass
class FastStreamInfo:
    """Facts about a video stream. Methods accept it as an argument but do not use it, because Stoker stores a file's list of packets when the file is first
    used. Times are in units of time_base_num / time_base_den seconds, which are microseconds here. format is always -1; codec_id is -1 for codecs other than
    H.264, HEVC, AV1, VP8, VP9 and MPEG-4."""

    codec_type: int = 0
    codec_id: int = -1
    width: int = 0
    height: int = 0
    format: int = -1
    time_base_num: int = 1
    time_base_den: int = 1_000_000
    avg_frame_rate_num: int = 0
    avg_frame_rate_den: int = 1
    r_frame_rate_num: int = 0
    r_frame_rate_den: int = 1
    start_time: int = 0
    duration: int = 0


def GetFastInitInfo(filepaths: Sequence[str]) -> list[FastStreamInfo]:
    """Opens files and returns a FastStreamInfo for the video stream of each. Raises ValueError if no file is named."""
    if not filepaths:
        raise ValueError("filepaths is empty: name at least one video")

    def info(path: str) -> FastStreamInfo:
        m = VideoDecoder(path).metadata
        rate = round((m.average_fps or 0) * 1000)
        begin, length = round(m.begin_stream_seconds * 1e6), round(m.duration_seconds * 1e6)
        sizes = {"width": m.width, "height": m.height, "start_time": begin, "duration": length}
        rates = {"avg_frame_rate_num": rate, "avg_frame_rate_den": 1000, "r_frame_rate_num": rate, "r_frame_rate_den": 1000}
        return FastStreamInfo(codec_id=_IDS.get(m.codec, -1), **sizes, **rates)

    return [info(path) for path in filepaths]


# ---- decoding ----


class _Threads:
    """Runs calls on up to `count` threads. A forked process has none of its parent's threads, so it starts its own."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._start()

    def _start(self) -> None:
        self._pool, self._process = ThreadPoolExecutor(self._count), os.getpid()

    def is_inherited(self) -> bool:
        """Returns whether the calls so far were made in the parent of this process."""
        return self._process != os.getpid()

    def get(self) -> ThreadPoolExecutor:
        if self.is_inherited():
            self._start()
        return self._pool


class _Open:
    """Keeps the decoders of the `most` videos that were used last. Only one thread at a time may use it; a call decodes several files in parallel."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._videos: OrderedDict[str, VideoDecoder] = OrderedDict()
        self._threads = _Threads(max(1, min(most, len(os.sched_getaffinity(0)))))

    def get(self, path: str) -> VideoDecoder:
        if path not in self._videos:
            self._videos[path] = VideoDecoder(path, dimension_order="NHWC")
            while len(self._videos) > self._most:
                self._videos.popitem(last=False)
        self._videos.move_to_end(path)
        return self._videos[path]

    def clear(self) -> None:
        self._videos.clear()

    def decode(self, paths: Sequence[str], frames: Sequence[int], as_bgr: bool) -> list[RGBFrame]:
        """Returns frame frames[k] of file paths[k] for each k. Decodes different files in parallel."""
        _check(paths, frames, self._most)
        indices: dict[str, list[int]] = {}
        for k, path in enumerate(paths):
            indices.setdefault(path, []).append(k)
        if self._threads.is_inherited():
            self._videos.clear()  # the parent's thread may have used these decoders when this process was forked
        opened = {path: self.get(path) for path in indices}

        def read(path: str) -> list[RGBFrame]:
            data = np.asarray(opened[path].get_frames_at([int(frames[k]) for k in indices[path]]).data)
            return [_frame(image, as_bgr) for image in data]

        decoded: list[Any] = [None] * len(paths)
        for path, images in zip(indices, self._threads.get().map(read, indices), strict=True):
            for k, image in zip(indices[path], images, strict=True):
                decoded[k] = image
        return decoded


def _frame(image: Any, as_bgr: bool) -> RGBFrame:
    frame: RGBFrame = np.array(image[..., ::-1] if as_bgr else image, order="C").view(RGBFrame)
    frame.isBGR = as_bgr
    return frame


def _check(paths: Sequence[str], frames: Sequence[int], most: int | None = None) -> None:
    if isinstance(paths, (str, bytes)):
        raise ValueError("filepaths is a list of paths, not one path")
    if len(paths) != len(frames):
        raise ValueError(f"there are {len(paths)} filepaths and {len(frames)} frame_ids: give one frame for each file")
    if not paths:
        raise ValueError("filepaths is empty: name at least one video")
    if most is not None and len(set(paths)) > most:
        raise ValueError(f"there are {len(set(paths))} different files in one call, and this decoder was made for {most}")
    for frame in frames:
        if not hasattr(frame, "__index__"):
            raise ValueError(f"frame_ids are whole numbers, not {frame!r}")
    if bad := [frame for frame in frames if frame < 0]:
        raise ValueError(f"frame {bad[0]} does not exist: frames are numbered from 0")


def _missing(name: str, instead: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"stoker.video.accvlab has no {name}: {instead}")

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Not there: {instead}."
    return method


_YUV = "frames are RGB here; DecodeN12ToRGB, DecodeFromGOPRGB and DecodeFromGOPListRGB give them"
_PACKETS = "the bytes of GetGOP are decoded by DecodeFromGOPRGB, and packets of other demuxers are not taken"


class PyNvGopDecoder:
    """Decodes single frames of several files, in one step or in two: GetGOP reads the bytes of the groups of pictures from the files, and DecodeFromGOPRGB
    decodes these bytes, in the same or in another process.

    maxfiles: maximum number of files in a call, and of files that stay open. iGpu, suppressNoColorRangeWarning: accepted, without effect.
    """

    def __init__(self, maxfiles: int, iGpu: int = 0, suppressNoColorRangeWarning: bool = False) -> None:
        if maxfiles < 1:
            raise ValueError(f"maxfiles is {maxfiles}; it must be 1 or more")
        self._maxfiles = maxfiles
        self._open = _Open(maxfiles)

    def DecodeN12ToRGB(
        self, filepaths: Sequence[str], frame_ids: Sequence[int], as_bgr: bool = False, fastStreamInfos: Sequence[FastStreamInfo] = ()
    ) -> list[RGBFrame]:
        """Returns frame frame_ids[k] of filepaths[k] for each k."""
        return self._open.decode(filepaths, frame_ids, as_bgr)

    def GetGOPList(
        self, filepaths: Sequence[str], frame_ids: Sequence[int], fastStreamInfos: Sequence[FastStreamInfo] = ()
    ) -> list[tuple[Any, list[int], list[int]]]:
        """Returns for each file (array, [first], [count]): the bytes of the group of pictures that contains the frame, the number of the group's first frame,
        and how many frames the group has. A group begins at a key frame and ends before the next one. The bytes include the file's headers, so that decoding
        needs nothing else. This method only reads; it does not decode. filepaths: local files."""
        _check(filepaths, frame_ids, self._maxfiles)
        return [_take_gop(os.fspath(path), int(frame)) for path, frame in zip(filepaths, frame_ids, strict=True)]

    def GetGOP(
        self, filepaths: Sequence[str], frame_ids: Sequence[int], fastStreamInfos: Sequence[FastStreamInfo] = ()
    ) -> tuple[Any, list[int], list[int]]:
        """Returns the same as GetGOPList, but with the bytes of all files in one array."""
        return self._merged(PyNvGopDecoder.GetGOPList(self, filepaths, frame_ids, fastStreamInfos))

    def _merged(self, found: Sequence[tuple[Any, list[int], list[int]]]) -> tuple[Any, list[int], list[int]]:
        return self.MergePacketDataToOne([data for data, _, _ in found]), [f[0] for _, f, _ in found], [n[0] for _, _, n in found]

    def DecodeFromGOPRGB(self, numpy_data: Any, filepaths: Sequence[str], frame_ids: Sequence[int], as_bgr: bool = False) -> list[RGBFrame]:
        """Returns frames decoded from the bytes that GetGOP returned. filepaths: the same paths as for GetGOP; the files are not opened."""
        return self.DecodeFromGOPListRGB([numpy_data], filepaths, frame_ids, as_bgr)

    def DecodeFromGOPListRGB(
        self, numpy_datas: Sequence[Any], filepaths: Sequence[str], frame_ids: Sequence[int], as_bgr: bool = False
    ) -> list[RGBFrame]:
        """Returns frame frame_ids[k] of filepaths[k] for each k, decoded from arrays that GetGOP or GetGOPList returned."""
        _check(filepaths, frame_ids)
        groups: dict[str, list[_Group]] = {}
        for data in numpy_datas:
            for group in _groups_of(data):
                groups.setdefault(group.path, []).append(group)
        made = []
        for path, frame in zip(filepaths, frame_ids, strict=True):
            fitting = [g for g in groups.get(os.fspath(path), []) if g.first <= frame < g.first + g.count]
            if not fitting:
                available = [f"frames {g.first} to {g.first + g.count - 1} of {g.path}" for gs in groups.values() for g in gs]
                raise ValueError(f"frame {frame} of {path} is not in the data, which holds {', '.join(available) or 'nothing'}")
            made.append(_frame(np.asarray(fitting[0].decoder()[int(frame)]), as_bgr))
        return made

    def MergePacketDataToOne(self, packet_data_arrays: Sequence[Any]) -> Any:
        """Returns one array with the groups of pictures of several arrays that GetGOP or GetGOPList returned."""
        if not len(packet_data_arrays):
            raise ValueError("packet_data_arrays is empty")
        for data in packet_data_arrays:
            _groups_of(data)
        return np.concatenate([_bytes_in(data) for data in packet_data_arrays])

    def LoadGopsToList(self, file_paths: Sequence[str]) -> list[Any]:
        """Returns an array for each file that SavePacketsToFile wrote."""
        if not file_paths:
            raise ValueError("file_paths is empty")
        made = [_files.read_values(path, "u1") for path in file_paths]
        for data, path in zip(made, file_paths, strict=True):
            _groups_of(data, f"{path}: ")
        return made

    def LoadGops(self, file_paths: Sequence[str]) -> Any:
        """Returns one array with the groups of pictures of several files that SavePacketsToFile wrote."""
        return self.MergePacketDataToOne(self.LoadGopsToList(file_paths))

    def release_device_memory(self) -> None:
        """Does nothing, because this class uses no GPU memory."""

    def release_decoder(self) -> None:
        """Closes the files and frees their decoders. Later calls open files again."""
        self._open.clear()

    Decode = _missing("Decode", _YUV)
    DecodeFromGOP = _missing("DecodeFromGOP", _YUV)
    DecodeFromGOPList = _missing("DecodeFromGOPList", _YUV)
    DecodeFromPacketListRGB = _missing("DecodeFromPacketListRGB", _PACKETS)
    DecodeFromPacketListInitialize = _missing("DecodeFromPacketListInitialize", _PACKETS)
    ParseSerializedPacketBundle = _missing("ParseSerializedPacketBundle", _PACKETS)


# ---- groups of pictures as bytes ----


class _Recorder(io.RawIOBase):
    """A binary file that records in `ranges` which of its bytes were read, as (begin, end) for each read."""

    def __init__(self, path: str) -> None:
        self._file = open_binary(path)
        self.ranges: list[tuple[int, int]] = []

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def read(self, n: int = -1) -> bytes:
        at = self._file.tell()
        data = self._file.read(n)
        self.ranges.append((at, at + len(data)))
        return data

    def close(self) -> None:
        self._file.close()
        super().close()


class _Pieces(io.RawIOBase):
    """A file of `size` bytes of which only some ranges are in memory. pieces: (first byte, data) of each range."""

    def __init__(self, size: int, pieces: Sequence[tuple[int, Any]]) -> None:
        self._size, self._pieces, self._at = size, pieces, 0

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (self._at if whence == 1 else self._size if whence == 2 else 0)
        return self._at

    def read(self, n: int = -1) -> bytes:
        for begin, data in self._pieces:
            if begin <= self._at < begin + len(data):
                part = bytes(data[self._at - begin : self._at - begin + n])
                self._at += len(part)
                return part
        raise OSError(f"byte {self._at} of the video is not in the data of GetGOP")


class _Group:
    """A group of pictures, as GetGOP returns it. head: its JSON header, with the video's path, the group's first frame and number of frames, the video file's
    size in bytes, and the (begin, end) of the byte ranges of the file that `data` holds one after the other."""

    def __init__(self, head: dict[str, Any], data: Any) -> None:
        self.path, self.first, self.count, self._size = head["path"], head["first"], head["count"], head["size"]
        self._pieces, at = [], 0
        for begin, end in head["ranges"]:
            self._pieces.append((begin, data[at : at + end - begin]))
            at += end - begin
        self._decoder: VideoDecoder | None = None

    def decoder(self) -> VideoDecoder:
        if self._decoder is None:
            self._decoder = VideoDecoder(_Pieces(self._size, self._pieces), dimension_order="NHWC")
        return self._decoder


def _union(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    made: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if made and begin <= made[-1][1]:
            made[-1] = (made[-1][0], max(end, made[-1][1]))
        elif end > begin:
            made.append((begin, end))
    return made


def _take_gop(path: str, frame: int) -> tuple[Any, list[int], list[int]]:
    file = _Recorder(path)
    try:
        video = VideoDecoder(file)
        if frame >= len(video):
            raise ValueError(f"{path}: frame {frame} does not exist: the video has {len(video)} frames")
        is_key = [video._video.frame(k)[2] for k in range(len(video))]
        first = max((k for k in range(frame + 1) if is_key[k]), default=0)
        end = next((k for k in range(frame + 1, len(video)) if is_key[k]), len(video))
        offset, length = video._video.range(first, end - 1)
        size = file.seek(0, io.SEEK_END)
        ranges = _union([*file.ranges, (offset, offset + length)])
        data = []
        for begin, stop in ranges:
            file.seek(begin)
            data.append(file.read(stop - begin))
            if len(data[-1]) != stop - begin:
                raise OSError(f"{path}: the file has become shorter while it was read")
    finally:
        file.close()
    head = json.dumps({"path": path, "first": first, "count": end - first, "size": size, "ranges": ranges}).encode()
    whole = b"".join([_MAGIC, struct.pack("<QQ", len(head), sum(map(len, data))), head, *data])
    return np.frombuffer(bytearray(whole), np.uint8), [first], [end - first]


def _bytes_in(data: Any) -> Any:
    """Returns an array of bytes in one dimension. Raises ValueError for other types, whose values a conversion would wrap around."""
    array = np.asarray(data)
    if array.size and array.dtype != np.uint8:
        raise ValueError(f"the bytes of a group of pictures are an array of uint8, not of {array.dtype}")
    return np.ascontiguousarray(array, np.uint8).reshape(-1)


def _groups_of(data: Any, where: str = "") -> list[_Group]:
    array = _bytes_in(data)
    found, at, begin = [], 0, len(_MAGIC) + 16
    try:
        while at < array.size:
            start = array[at : at + begin].tobytes()
            if start[: len(_MAGIC)] != _MAGIC:
                raise ValueError("they do not begin as such data")
            head_size, body_size = struct.unpack("<QQ", start[len(_MAGIC) :])
            if head_size + body_size > array.size - at - begin:
                raise ValueError("they are cut short")
            head = json.loads(array[at + begin : at + begin + head_size].tobytes())
            body = array[at + begin + head_size : at + begin + head_size + body_size]
            if sum(b - a for a, b in head["ranges"]) != body_size:
                raise ValueError("their table does not fit them")
            found.append(_Group(head, body))
            at += begin + head_size + body_size
    except (ValueError, KeyError, TypeError, struct.error) as e:
        raise ValueError(f"{where}these are not bytes of GetGOP: {e}") from None
    if not found:
        raise ValueError(f"{where}these are not bytes of GetGOP: there are none")
    return found


def SavePacketsToFile(numpy_data: Any, dst_filepath: str) -> None:
    """Writes the bytes that GetGOP returned to a file. If writing fails, an existing file of this name is unchanged."""
    folder, name = os.path.split(os.path.abspath(dst_filepath))
    handle, part = tempfile.mkstemp(dir=folder, prefix=f".{name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_bytes_in(numpy_data).tobytes())
        os.chmod(part, 0o666 & ~_umask())
        os.replace(part, dst_filepath)
    except BaseException:
        os.unlink(part)
        raise


def _umask() -> int:
    value = os.umask(0o77)
    os.umask(value)
    return value


class CachedGopDecoder(PyNvGopDecoder):
    """A PyNvGopDecoder that can cache the last group of pictures of each file (useGOPCache=True)."""

    def __init__(
        self, maxfiles: int, iGpu: int = 0, suppressNoColorRangeWarning: bool = False, gopCacheCapacity: int | None = None
    ) -> None:
        super().__init__(maxfiles, iGpu, suppressNoColorRangeWarning)
        capacity = maxfiles if gopCacheCapacity is None else gopCacheCapacity
        if isinstance(capacity, bool) or not isinstance(capacity, int):
            raise TypeError("gopCacheCapacity must be a positive integer or None")
        if capacity < 1:
            raise ValueError("gopCacheCapacity must be positive")
        self._capacity = capacity
        self._kept: OrderedDict[str, tuple[Any, int, int]] = OrderedDict()
        self._hits: list[bool] = []

    def GetGOPList(
        self, filepaths: Sequence[str], frame_ids: Sequence[int], fastStreamInfos: Sequence[FastStreamInfo] = (), useGOPCache: bool = False
    ) -> list[tuple[Any, list[int], list[int]]]:
        """Does the same as the method of PyNvGopDecoder. useGOPCache=True: takes a file's group from the cache if it holds the frame; else reads the group and
        adds it to the cache."""
        _check(filepaths, frame_ids, self._maxfiles)
        self._hits, found = [], []
        for path, frame in zip(filepaths, frame_ids, strict=True):
            kept = self._kept.get(path) if useGOPCache else None
            self._hits.append(kept is not None and kept[1] <= frame < kept[1] + kept[2])
            if kept is None or not self._hits[-1]:
                data, (first,), (count,) = _take_gop(os.fspath(path), int(frame))
                kept = (data, first, count)
            if useGOPCache:
                self._kept[path] = kept
                self._kept.move_to_end(path)
                while len(self._kept) > self._capacity:
                    self._kept.popitem(last=False)
            found.append((kept[0], [kept[1]], [kept[2]]))
        return found

    def GetGOP(
        self, filepaths: Sequence[str], frame_ids: Sequence[int], fastStreamInfos: Sequence[FastStreamInfo] = (), useGOPCache: bool = False
    ) -> tuple[Any, list[int], list[int]]:
        """Does the same as the method of PyNvGopDecoder. useGOPCache: as for GetGOPList."""
        return self._merged(self.GetGOPList(filepaths, frame_ids, fastStreamInfos, useGOPCache))

    def clear_cache(self) -> None:
        """Removes all groups from the cache."""
        self._kept.clear()

    def isCacheHit(self) -> list[bool]:
        """Returns for each file of the last call of GetGOP or GetGOPList whether its group was taken from the cache."""
        return self._hits

    def get_cache_info(self) -> dict[str, Any]:
        """Returns a dict with the cache's capacity, its number of files, and the range of frames and the size in bytes of each file's group."""
        files = {
            path: {"first_frame_id": first, "gop_len": n, "frame_range": (first, first + n - 1), "packets_size_bytes": data.nbytes}
            for path, (data, first, n) in self._kept.items()
        }
        return {"cache_capacity": self._capacity, "cached_files_count": len(self._kept), "cached_files": files}


def CreateGopDecoder(
    maxfiles: int, iGpu: int = 0, suppressNoColorRangeWarning: bool = False, gopCacheCapacity: int | None = None
) -> CachedGopDecoder:
    """Returns a CachedGopDecoder."""
    return CachedGopDecoder(maxfiles, iGpu, suppressNoColorRangeWarning, gopCacheCapacity)


# ---- readers of streams ----


class _Background:
    """Computes one result at a time on a thread. start() waits for an earlier computation and drops its result. take() waits for the result and returns it
    once. It raises RuntimeError if nothing was started, or if its request differs from the one that was started."""

    def __init__(self) -> None:
        self._threads = _Threads(1)
        self._request: Any = None
        self._result: Future[Any] | None = None

    def start(self, request: Any, work: Callable[[], Any]) -> None:
        self.wait()
        self._request, self._result = request, self._threads.get().submit(work)

    def take(self, request: Any) -> Any:
        if self._result is None:
            raise RuntimeError("nothing is being decoded: call the method that starts it first")
        result, started = self._result, self._request
        self._result = self._request = None
        if self._is_lost(result):
            raise RuntimeError("decoding was started before this process was forked, and goes on in its parent only: start it again here")
        made = result.result()
        if started != request:
            raise RuntimeError("the files, frames or as_bgr are not those that decoding was started with")
        return made

    def wait(self) -> None:
        """Waits until the current computation has ended, and drops its result."""
        if self._result is not None and not self._is_lost(self._result):
            self._result.exception()
        self._result = self._request = None

    def _is_lost(self, result: Future[Any]) -> bool:
        """Returns whether a thread of the parent process, which this process does not have, would have to end the computation."""
        return self._threads.is_inherited() and not result.done()


class _Reader:
    """Base of the readers: up to `files` open decoders, and one result at a time that is computed in the background."""

    def __init__(self, files: int) -> None:
        self._open = _Open(files)
        self._background = _Background()

    def clearAllReaders(self) -> None:
        """Waits for the computation in the background, drops its result, and closes the files."""
        self._background.wait()
        self._open.clear()

    release_decoder = clearAllReaders

    def release_device_memory(self) -> None:
        """Does nothing, because this class uses no GPU memory."""


class PyNvSampleReader(_Reader):
    """Decodes frames of files that are read from beginning to end. Each file's decoder stays open at its position, so the next frame needs only new packets.

    num_of_set, num_of_file: up to num_of_set * num_of_file files stay open, and a call may name at most num_of_file different files. iGpu,
    suppressNoColorRangeWarning: accepted, without effect.
    """

    def __init__(self, num_of_set: int, num_of_file: int, iGpu: int = 0, suppressNoColorRangeWarning: bool = False) -> None:
        if num_of_set < 1 or num_of_file < 1:
            raise ValueError(f"num_of_set is {num_of_set} and num_of_file {num_of_file}; both must be 1 or more")
        self._most = num_of_file
        super().__init__(num_of_set * num_of_file)

    def _decode(self, filepaths: Sequence[str], frame_ids: Sequence[int], as_bgr: bool) -> list[RGBFrame]:
        _check(filepaths, frame_ids, self._most)
        return self._open.decode(filepaths, frame_ids, as_bgr)

    def DecodeN12ToRGB(self, filepaths: Sequence[str], frame_ids: Sequence[int], as_bgr: bool = False) -> list[RGBFrame]:
        """Returns frame frame_ids[k] of filepaths[k] for each k."""
        self._background.wait()
        return self._decode(filepaths, frame_ids, as_bgr)

    def DecodeN12ToRGBAsync(self, filepaths: Sequence[str], frame_ids: Sequence[int], as_bgr: bool = False) -> None:
        """Begins to decode in the background. Drops the result of an earlier call if it was not fetched."""
        _check(filepaths, frame_ids, self._most)
        given = (list(filepaths), list(frame_ids), as_bgr)
        self._background.start(given, lambda: self._decode(*given))

    def DecodeN12ToRGBAsyncGetBuffer(self, filepaths: Sequence[str], frame_ids: Sequence[int], as_bgr: bool = False) -> list[RGBFrame]:
        """Returns the frames that the last call of DecodeN12ToRGBAsync requested. The arguments must be those of that call."""
        made: list[RGBFrame] = self._background.take((list(filepaths), list(frame_ids), as_bgr))
        return made

    Decode = _missing("Decode", _YUV)


def CreateSampleReader(num_of_set: int, num_of_file: int, iGpu: int = 0, suppressNoColorRangeWarning: bool = False) -> PyNvSampleReader:
    """Returns a PyNvSampleReader."""
    return PyNvSampleReader(num_of_set, num_of_file, iGpu, suppressNoColorRangeWarning)


class PyNvBatchAsyncStreamReader(_Reader):
    """Decodes several frames of several files in the background. frame_ids[v] lists the frames of filepaths[v]; all lists have the same length. result[v][f]
    is frame frame_ids[v][f]. A call may name at most max_frames_per_decode_call frames of a file. The other arguments are those of PyNvSampleReader."""

    def __init__(
        self, num_of_set: int, num_of_file: int, max_frames_per_decode_call: int, iGpu: int = 0, suppressNoColorRangeWarning: bool = False
    ) -> None:
        if num_of_set < 1 or num_of_file < 1 or max_frames_per_decode_call < 1:
            raise ValueError("num_of_set, num_of_file and max_frames_per_decode_call must be 1 or more")
        self._files, self._frames = num_of_file, max_frames_per_decode_call
        super().__init__(num_of_set * num_of_file)

    def Decode(self, filepaths: Sequence[str], frame_ids: Sequence[Sequence[int]], as_bgr: bool = False) -> None:
        """Begins to decode in the background. Drops the result of an earlier call if it was not fetched."""
        if len(filepaths) != len(frame_ids) or not filepaths or len(filepaths) > self._files:
            raise ValueError(
                f"there are {len(filepaths)} filepaths and {len(frame_ids)} lists of frames; there may be 1 to {self._files} of both"
            )
        lengths = {len(frames) for frames in frame_ids}
        if len(lengths) != 1 or not 1 <= min(lengths) <= self._frames:
            raise ValueError(f"each file needs equally many frames, 1 to {self._frames}; there are {', '.join(map(str, sorted(lengths)))}")
        flat_paths = [path for path, frames in zip(filepaths, frame_ids, strict=True) for _ in frames]
        flat = [frame for frames in frame_ids for frame in frames]
        _check(flat_paths, flat)
        (n,) = lengths

        def work() -> list[list[RGBFrame]]:
            made = self._open.decode(flat_paths, flat, as_bgr)
            return [made[k : k + n] for k in range(0, len(made), n)]

        self._background.start((list(filepaths), [list(f) for f in frame_ids], as_bgr), work)

    def GetBuffer(self, filepaths: Sequence[str], frame_ids: Sequence[Sequence[int]], as_bgr: bool = False) -> list[list[RGBFrame]]:
        """Returns the frames that the last call of Decode requested. The arguments must be those of that call."""
        made: list[list[RGBFrame]] = self._background.take((list(filepaths), [list(f) for f in frame_ids], as_bgr))
        return made


def CreateBatchAsyncStreamReader(
    num_of_set: int, num_of_file: int, max_frames_per_decode_call: int, iGpu: int = 0, suppressNoColorRangeWarning: bool = False
) -> PyNvBatchAsyncStreamReader:
    """Returns a PyNvBatchAsyncStreamReader."""
    return PyNvBatchAsyncStreamReader(num_of_set, num_of_file, max_frames_per_decode_call, iGpu, suppressNoColorRangeWarning)


# ---- groups that processes share ----


class GopRef(NamedTuple):
    """A reference to a group of pictures in a SharedGopStore, to be sent to another process. data_size is in bytes."""

    shm_name: str
    data_size: int
    first_frame_id: int
    gop_len: int


class SharedGopStore:
    """Keeps groups of pictures in files that all processes of one user share, on /dev/shm if it exists. Workers call put() and send the returned GopRef to the
    process that reads the group.

    capacity: the maximum number of groups in the store. When the store is full, put() removes the group that was used least recently, and reading that group
    raises KeyError. So capacity must exceed the number of references that were sent but not yet read. store_id: names the store; each training process
    needs its own number, such as LOCAL_RANK.
    """

    def __init__(self, folder: Path, capacity: int) -> None:
        self._folder, self._capacity = folder, capacity
        self._lock_file = (folder / "lock").open("a")
        self.reset_stats()

    @staticmethod
    def _folder_of(store_id: int) -> Path:
        base = Path("/dev/shm")
        return (base if base.is_dir() else Path(tempfile.gettempdir())) / f"stoker-gops-{os.getuid()}-{int(store_id)}"

    @staticmethod
    def _check_owner(folder: Path) -> None:
        """Raises PermissionError if other users may write into the folder: they could cut a file while it is mapped, which would end this process by SIGBUS."""
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise PermissionError(f"{folder} belongs to another user: choose another store_id")
        if found.st_mode & 0o022:
            raise PermissionError(f"{folder}: other users may write into it: remove it, or choose another store_id")

    @classmethod
    def create(cls, capacity: int, store_id: int = 0) -> SharedGopStore:
        """Makes an empty store, and removes the groups that an earlier store with the same store_id left. Raises PermissionError if other users may write into
        its folder."""
        if capacity < 1:
            raise ValueError(f"capacity is {capacity}; it must be 1 or more")
        folder = cls._folder_of(store_id)
        folder.mkdir(mode=0o700, exist_ok=True)
        cls._check_owner(folder)
        made = cls(folder, capacity)
        with made._locked():
            made._remove_all()
        return made

    @classmethod
    def attach(cls, capacity: int, store_id: int = 0) -> SharedGopStore:
        """Opens the store that another process made with create(). Raises FileNotFoundError if it does not exist, PermissionError if others may write to it."""
        folder = cls._folder_of(store_id)
        if os.path.lexists(folder):
            cls._check_owner(folder)
        if not (folder / "lock").exists():
            raise FileNotFoundError(f"there is no store with store_id={store_id}: call SharedGopStore.create() in the main process first")
        return cls(folder, capacity)

    def _locked(self) -> _Locked:
        return _Locked(self._lock_file)

    @staticmethod
    def _prefix(video_path: str) -> str:
        return hashlib.sha256(os.fspath(video_path).encode()).hexdigest()[:32] + "-"

    def _entries(self) -> list[os.DirEntry[str]]:
        with os.scandir(self._folder) as found:
            return [entry for entry in found if entry.name != "lock" and not entry.name.startswith(".")]

    def lookup(self, video_path: str, frame_id: int) -> GopRef | None:
        """Returns a reference to the stored group that contains a frame; None if the store does not hold it."""
        prefix = self._prefix(video_path)
        for entry in self._entries():
            if entry.name.startswith(prefix):
                _, first, count, size = entry.name.split("-")
                if int(first) <= frame_id < int(first) + int(count):
                    try:
                        os.utime(entry.path)
                    except FileNotFoundError:  # another process has removed the group
                        continue
                    self._stats["hits"] += 1
                    return GopRef(entry.name, int(size), int(first), int(count))
        self._stats["misses"] += 1
        return None

    def put(self, video_path: str, first_frame_id: int, gop_len: int, data: Any) -> GopRef:
        """Stores a group, unless the store has it already, and returns a reference to it."""
        array = _bytes_in(data)
        if not array.size:
            raise ValueError("data is empty")
        name = f"{self._prefix(video_path)}{int(first_frame_id)}-{int(gop_len)}-{array.size}"
        with self._locked():
            path = self._folder / name
            if path.exists():
                os.utime(path)
            else:
                self._make_room()
                part = self._folder / f".{os.getpid()}.part"
                array.tofile(part)
                part.replace(path)
                self._stats["puts"] += 1
        return GopRef(name, array.size, int(first_frame_id), int(gop_len))

    def _make_room(self) -> None:
        entries = sorted(self._entries(), key=lambda entry: entry.stat().st_mtime_ns)
        for entry in entries[: max(0, len(entries) - self._capacity + 1)]:
            os.unlink(entry.path)
            self._stats["evictions"] += 1

    def read(self, ref: GopRef) -> Any:
        """Returns a group as a read-only uint8 array over the shared memory, without a copy. The array stays valid if the group is removed later. Raises
        KeyError if the group has already been removed."""
        try:
            with (self._folder / ref.shm_name).open("rb") as file:
                return np.frombuffer(mmap.mmap(file.fileno(), ref.data_size, prot=mmap.PROT_READ), np.uint8)
        except FileNotFoundError:
            raise KeyError(
                f"the group of frames {ref.first_frame_id} to {ref.first_frame_id + ref.gop_len - 1} was removed before it was read: the store's capacity, "
                f"{self._capacity}, must be larger than (prefetch_factor * num_workers + 1) * batch_size * cameras"
            ) from None

    def get_batch(self, refs: Sequence[GopRef]) -> list[Any]:
        """Returns read(ref) for each reference."""
        return [self.read(ref) for ref in refs]

    def get_stats(self) -> dict[str, Any]:
        """Returns this process's counters of hits, misses, puts and evictions, the share of hits, and how full the store is."""
        asked = self._stats["hits"] + self._stats["misses"]
        rate = self._stats["hits"] / asked if asked else 0.0
        return {**self._stats, "hit_rate": rate, "pool_usage": f"{len(self._entries())}/{self._capacity}"}

    def reset_stats(self) -> None:
        """Sets the counters of this process to 0."""
        self._stats = {"hits": 0, "misses": 0, "puts": 0, "evictions": 0}

    def _remove_all(self) -> None:
        for path in self._folder.iterdir():
            if path.name != "lock":
                path.unlink(missing_ok=True)

    def cleanup(self) -> None:
        """Removes the store and its groups. Call it in the process that made the store."""
        with self._locked():
            self._remove_all()
            (self._folder / "lock").unlink(missing_ok=True)
        self.close()
        self._folder.rmdir()

    def close(self) -> None:
        """Closes the store in this process only; other processes can still use it."""
        self._lock_file.close()


class _Locked:
    """Locks a file against other processes and other threads. It opens the file again, because all users of one open file, such as forked processes,
    hold its lock together."""

    def __init__(self, file: Any) -> None:
        if file.closed:
            raise ValueError("the store is closed: attach to it again")
        self._path = file.name

    def __enter__(self) -> None:
        self._file = open(self._path, "rb")  # noqa: SIM115
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *error: object) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)  # a process that was forked meanwhile has this open file too, so closing does not unlock
        self._file.close()


# ---- the system's cache of files ----


class DropCacheStatus(Enum):
    """Results of drop_videos_cache, with ACCV-Lab's names. PLATFORM_ERROR and UNKNOWN_ERROR never occur here."""

    SUCCESS = 0
    PLATFORM_ERROR = 1
    FILE_OPEN_FAILED = 2
    FADVISE_FAILED = 3
    UNKNOWN_ERROR = 4


def drop_videos_cache(filepaths: Sequence[str]) -> DropCacheStatus:
    """Asks the system to drop files from its page cache. Stops at the first file for which this fails, and returns the reason."""
    for path in filepaths:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # without O_NONBLOCK, open waits for the writer of a FIFO
        except OSError:
            return DropCacheStatus.FILE_OPEN_FAILED
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError:
            return DropCacheStatus.FADVISE_FAILED
        finally:
            os.close(handle)
    return DropCacheStatus.SUCCESS
