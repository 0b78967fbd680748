# SPDX-License-Identifier: Apache-2.0
"""Reads clips of videos for a Loader. A sample is one clip of a video, or several."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stoker import _core, _numbers, fn
from stoker._signatures import suggests
from stoker.data_node import DataNode
from stoker.errors import InvalidArgumentError
from stoker.loader.lower import Image
from stoker.loader.sources._files import FileSource, from_list
from stoker.loader.sources._source import Source
from stoker.loader.sources._table_folders import tables_of
from stoker.loader.sources._tars import TarSource, tars_of

if TYPE_CHECKING:
    from stoker.loader._spec import Spec

VIDEO_ENDINGS = tuple(glob.removeprefix("*.") for glob in _core.video_globs())
POSITIONS = ("random", "center", "first")


@suggests
@dataclass(frozen=True)
class Video:
    """The kind of a Loader's field that is a clip of a video: `frames` frames, each `stride` frames after the previous one. A batch has the shape
    (N, frames, C, H, W).

    position: where in the video the clip is: "random", "center" or "first". The default is "random" if the Loader shuffles, else "center". If a video is too
    short, its last frame is repeated. fps: treats the video as if it had this number of frames per second: frame k is then the frame of the video that is
    nearest to k/fps seconds after the first one (the earlier of two that are equally near), and `stride` counts such frames. None: the video's own frames.
    clips: the number of clips of each video; a batch has the shape (N, clips, frames, C, H, W). With "center", the clips lie at equal distances between the
    beginning and the end of the video; with "random", each has a random position. Transforms draw once for all clips of a video.
    """

    frames: int
    stride: int = 1
    position: str | None = None
    fps: float | None = None
    clips: int | None = None

    def __post_init__(self) -> None:
        _numbers.whole("Video: frames", self.frames, 1)
        _numbers.whole("Video: stride", self.stride, 1)
        if self.clips is not None:
            _numbers.whole("Video: clips", self.clips, 1)
        if self.fps is not None and (isinstance(self.fps, bool) or not isinstance(self.fps, (int, float)) or not 0 < self.fps <= 1e6):
            raise InvalidArgumentError(f"Video: fps is a number of frames a second above 0, not {self.fps!r}")
        if self.position is not None and self.position not in POSITIONS:
            raise InvalidArgumentError(f"Video: position is one of {', '.join(POSITIONS)}, not {self.position!r}")
        if self.clips is not None and self.position == "first":
            raise InvalidArgumentError('Video: several clips lie at equal distances (position="center") or at random places, not "first"')

    def image(self, spec: Spec, data: DataNode) -> Image:
        """Decodes clips from the bytes of files; the clips of a video follow each other. data: a node with the bytes."""
        position = self.position or ("random" if spec.shuffle else "center")
        more: dict[str, Any] = {} if self.fps is None else {"fps": float(self.fps)}
        if self.clips is not None:
            more["clips"] = self.clips
        place: dict[str, Any] = {"sequence_length": self.frames, "stride": self.stride, "position": position, "pad_mode": "edge"}
        device = "mixed" if spec.gpu else "cpu"
        if spec.sound is None:
            clip = fn.decoders.video(data, device=device, **place, **more)
            return Image(clip, None, channels=3, clip=True)
        clip, window = fn.decoders.video(data, device=device, enable_window=True, **place, **more)
        return Image(clip, None, channels=3, clip=True, sound=spec.sound.of_clip(data, window))

    def parted(self, clips: Any) -> Any:
        """Splits the frames of each sample into its clips: (.., clips * frames, C, H, W) becomes (.., clips, frames, C, H, W), without a copy."""
        if self.clips is None:
            return clips
        if isinstance(clips, list):
            return [self.parted(c) for c in clips]
        at = clips.ndim - 4
        return clips.unflatten(at, (self.clips, self.frames))


def _clip_field(fields: Any, frames: int | None, stride: int) -> tuple[Any, Video | None]:
    """Returns the fields with the kind "Image" for the clip, and the user's Video, or None if the user does not want clips. Raises InvalidArgumentError for
    several clips, and for `stride` without `frames`."""
    named = {name: kind for name, kind in fields.items() if isinstance(kind, Video)} if isinstance(fields, Mapping) else {}
    if len(named) > 1:
        raise InvalidArgumentError(f"fields: {', '.join(named)} are clips; a Loader makes one clip of a sample")
    if named and frames is not None:
        raise InvalidArgumentError("Loader: frames and a Video among the fields are both given: choose one")
    if named:
        ((name, video),) = named.items()
        return {**fields, name: "Image"}, video
    if frames is None and stride != 1:
        raise InvalidArgumentError("Loader: stride is for clips: give frames, the number of frames of a clip, too")
    return fields, None if frames is None else Video(frames, stride)


def as_images(fields: Any) -> Any:
    """Returns the fields with the kind "Image" for each Video. Returns `fields` unchanged if it is not a mapping."""
    return {name: "Image" if isinstance(kind, Video) else kind for name, kind in fields.items()} if isinstance(fields, Mapping) else fields


def wants_clips(arguments: Mapping[str, Any]) -> bool:
    """Returns whether the arguments of a Loader ask for clips of videos."""
    fields = arguments.get("fields")
    return arguments.get("frames") is not None or (isinstance(fields, Mapping) and any(isinstance(kind, Video) for kind in fields.values()))


class VideoSource(FileSource):
    """Reads clips of video files, from a folder of class folders or from a list with targets."""

    holds = "video"
    endings = VIDEO_ENDINGS


def _opened(source: Any, storage: Any) -> Any:
    """Makes a source of tars, of a folder of class folders, or of a list of paths or of (path, target). Raises an error for a single file and for arrays of
    images. Returns other sources unchanged."""
    if isinstance(source, (Source, Mapping)) or tables_of(source) is not None:
        return source
    tars = tars_of(source)
    if tars is not None:
        return TarSource(tars, storage=storage, endings=VIDEO_ENDINGS)
    if isinstance(source, (str, os.PathLike)):
        if Path(source).is_dir() or "://" in os.fspath(source):
            return VideoSource(os.fspath(source), None, None)
        raise InvalidArgumentError(
            f"Loader: clips are read from a folder with a folder of videos for each class, not from the file {os.fspath(source)!r}"
        )
    if getattr(source[0] if isinstance(source, tuple) and source else source, "ndim", 0) > 1:
        raise InvalidArgumentError(
            "Loader: clips are read from a folder with a folder of videos for each class, a list of paths or (path, target), tars, tables or a Dataset that "
            "gives paths or bytes of videos; not from arrays"
        )
    if isinstance(source, (list, tuple)):
        files = from_list(source)
        return VideoSource(files.root, files.paths, files.targets_of)
    return source


class Separated(NamedTuple):
    """A Loader's arguments, with those about sounds and about clips of videos split off."""

    source: Any
    fields: Any  # the user's fields without those that the sounds add
    sounds: Any  # a Sounds of _sounds.py; None if the source itself makes the sounds
    main: str  # the user's name of the sounds, if samples have sounds instead of images; else ""
    ragged: Any  # the ragged fields that are not sounds
    transforms: Any = None  # the transforms of images
    video: Video | None = None


# Arguments of a Loader that have no effect on clips.
_OF_IMAGES = ("exif_orientation", "bucket_by", "layout", "memory_format")


def separated_clips(source: Any, given: Mapping[str, Any]) -> tuple[Any, Any, Video | None]:
    """Returns the source, the fields with "Image" in place of a Video, and the Video, or None if the user does not want clips. given: all arguments of the
    Loader. Raises InvalidArgumentError for arguments that have no effect on clips, and for sources that have none."""
    fields, video = _clip_field(given["fields"], given["frames"], given["stride"])
    if video is None:
        return source, fields, None
    named = [name for name in _OF_IMAGES if given[name]]
    if named:
        raise InvalidArgumentError(f"Loader: {', '.join(named)} of clips would have no effect, or a wrong one: leave out what is of images")
    return _opened(source, given["more"].get("storage")), fields, video
