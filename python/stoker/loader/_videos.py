# SPDX-License-Identifier: Apache-2.0
"""Videos as the source of a Loader: a sample is a clip of one file."""

from __future__ import annotations

import os
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker import _numbers, fn
from stoker.data_node import DataNode
from stoker.errors import InvalidArgumentError
from stoker.loader._lower import Image
from stoker.loader._sources import FileSource, from_list
from stoker.loader._spec import Spec

VIDEO_ENDINGS = ("mp4", "mov", "m4v", "mkv", "webm", "avi", "ts", "m2ts", "mpg", "mpeg", "flv")
POSITIONS = ("random", "center", "first")


@dataclass(frozen=True)
class Video:
    """A field of a Loader that is a clip of a video: `frames` frames, each `stride` frames after the one before.

    position: where in the video it lies: "random", "center" or "first". By default random if the Loader shuffles, else in the center. A video that is too short
    repeats its last frame.
    """

    frames: int
    stride: int = 1
    position: str | None = None

    def __post_init__(self) -> None:
        _numbers.whole("Video: frames", self.frames, 1)
        _numbers.whole("Video: stride", self.stride, 1)
        if self.position is not None and self.position not in POSITIONS:
            raise InvalidArgumentError(f"Video: position is one of {', '.join(POSITIONS)}, not {self.position!r}")


def _asked(fields: Any, frames: int | None, stride: int) -> tuple[Any, Video | None]:
    """Returns the fields with the kind of the clip replaced by that of an image, and what clips the user wants; None: no clips."""
    named = {name: kind for name, kind in fields.items() if isinstance(kind, Video)} if isinstance(fields, Mapping) else {}
    if len(named) > 1:
        raise InvalidArgumentError(f"fields: {', '.join(named)} are clips; a Loader makes one clip of a sample")
    if named and frames is not None:
        raise InvalidArgumentError("Loader: frames and a Video among the fields are both given: choose one")
    if named:
        ((name, video),) = named.items()
        return {**fields, name: "Image"}, video
    if frames is None and stride != 1:
        raise InvalidArgumentError("Loader: stride is of clips: give frames, the number of frames of a clip, too")
    return fields, None if frames is None else Video(frames, stride)


class VideoSource(FileSource):
    """Reads clips of video files, from a folder of class folders or from a list with targets."""

    def __init__(self, files: FileSource, video: Video) -> None:
        super().__init__(files.root, files.paths, files.targets_of)
        self.video = video

    def nodes(self, spec: Spec, indices: array[int] | None, per_rank: bool) -> list[DataNode]:
        where: dict[str, Any] = {"file_root": self.root, "file_filters": [f"*.{ending}" for ending in VIDEO_ENDINGS], "nested": True}
        if self.paths is not None:
            where = {"files": self.paths}
            if self.labels is not None:
                where["labels"] = self.labels
        data, label = fn.readers.file(**where, **spec.reader_arguments(indices, per_rank))
        position = self.video.position or ("random" if spec.shuffle else "center")
        clip = fn.decoders.video(data, sequence_length=self.video.frames, stride=self.video.stride, position=position, pad_mode="edge")
        first, *others = spec.finished(Image(spec.upload(clip), None, channels=3, clip=True))
        return [first, spec.label(label), *others]


def from_videos(source: Any, video: Video) -> VideoSource:
    """Makes a source from a folder of class folders, or from a list of paths or of pairs of a path and a target."""
    if isinstance(source, (str, os.PathLike)) and (Path(source).is_dir() or "://" in os.fspath(source)):
        return VideoSource(FileSource(os.fspath(source), None, None), video)
    if isinstance(source, Sequence) and not isinstance(source, (str, bytes)):
        files = from_list(source)
        if isinstance(files, FileSource):
            return VideoSource(files, video)
    raise InvalidArgumentError(
        f"Loader: clips are of a folder with a folder of videos for each class, or of a list of paths or (path, target), not of {source!r:.100}"
    )


def taken_as_clips(source: Any, fields: Any, frames: int | None, stride: int) -> tuple[Any, Any]:
    """Returns the source and the fields as a Loader without videos takes them."""
    fields, video = _asked(fields, frames, stride)
    return source if video is None else from_videos(source, video), fields
