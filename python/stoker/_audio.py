# SPDX-License-Identifier: Apache-2.0
"""Functions and classes for sounds. audioread and audiodecode decode one sound file to an array; AudioDecoder decodes windows of a file by time. Audio
describes a Loader's field of sounds, and AddNoise is a transform of sounds."""

from __future__ import annotations

import io
import math
import numbers
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from stoker import _core, _needs, _numbers
from stoker._files import path_of
from stoker._signatures import suggests
from stoker._storage import Storage
from stoker._storage import of as storage_of
from stoker._types import DALIDataType
from stoker.errors import ArgumentError, UnsupportedError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_TYPES = {"float32": DALIDataType.FLOAT, "int16": DALIDataType.INT16, "int32": DALIDataType.INT32}


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _nearest(x: float) -> int:
    """Returns the nearest whole number, of two equally near ones the larger one, as the operators do. Python's round() takes the even one."""
    whole = math.floor(x)
    return whole + (x - whole >= 0.5)


def _frames(name: str, seconds: float, rate: int) -> int:
    if not _is_number(seconds) or not math.isfinite(seconds) or seconds < 0:
        raise ArgumentError(f"{name} is a number of seconds from 0 on, not {seconds!r}")
    return _nearest(float(seconds) * rate)


def _path_of(path: Any) -> bytes:
    made = path_of(path, "audiodecode")
    if not made:
        raise ArgumentError("the path of the sound is empty")
    return made


def _bytes_of(data: Any) -> Any:
    """Returns the bytes of a sound file. Raises ArgumentError for arrays and tensors unless they have one dimension and elements of one byte: other arrays hold
    decoded samples."""
    if type(data).__module__.partition(".")[0] == "torch":
        data = data.numpy()
    kind, dims = getattr(data, "dtype", None), getattr(data, "ndim", 1)
    if kind is not None and (kind.itemsize != 1 or dims != 1):
        raise ArgumentError(f"the bytes of a sound's file are an array of uint8 of one dim, not of {kind} of {dims} dims")
    return data


def _decode(
    who: str,
    path: bytes | None,
    data: Any,
    start: float,
    duration: float | None,
    mono: bool,
    dtype: str,
    strict: bool,
    storage: Storage | None = None,
) -> tuple[npt.NDArray[Any], int]:
    _needs.numpy(who)
    if dtype not in _TYPES:
        raise ArgumentError(f"dtype is one of {', '.join(_TYPES)}, not {dtype!r}")
    _numbers.flag("mono", mono, exact=True)
    file = _core.AudioFile(path, data, strict, storage.core() if storage is not None else None)
    _, _, rate, channels, _, frames, _, _ = file.info()
    first = _frames("start", start, rate)
    if first > frames:
        raise ArgumentError(f"start is {start:g} s; the file ends at {frames / rate:g} s")
    count = frames - first if duration is None else min(_frames("duration", duration, rate), frames - first)
    import numpy as np

    made = np.empty((count,) if mono else (count, channels), dtype)
    file.read(first, count, int(_TYPES[dtype]), mono, made)
    return made, rate


@suggests
def audioread(
    path: str | os.PathLike[str],
    *,
    start: float = 0.0,
    duration: float | None = None,
    mono: bool = False,
    dtype: str = "float32",
    strict: bool = True,
    storage: Storage | None = None,
) -> tuple[npt.NDArray[np.float32 | np.int16 | np.int32], int]:
    """Returns (samples, rate in Hz) of a sound file. The samples are an array (frames, channels), or (frames) if mono is True.

    start, duration: the window to decode, in seconds; it ends with the file at the latest; None: to the end. Only this window of a WAV or FLAC file is read.
    mono: True averages the channels.
    dtype: "float32" (full scale is -1 to 1), "int16" or "int32".
    strict: a truncated file raises an error. With strict=False it is decoded as far as it goes.
    storage: a stoker.Storage for URLs.

    Decodes without the GIL, so several threads can decode in parallel.
    """
    return _decode("audioread", _path_of(path), None, start, duration, mono, dtype, strict, storage_of(path, storage))


@suggests
def audiodecode(
    data: Any,
    *,
    start: float = 0.0,
    duration: float | None = None,
    mono: bool = False,
    dtype: str = "float32",
    strict: bool = True,
) -> tuple[npt.NDArray[np.float32 | np.int16 | np.int32], int]:
    """Does the same as audioread for the bytes of a sound file: bytes, or an array or a tensor of uint8."""
    return _decode("audiodecode", None, _bytes_of(data), start, duration, mono, dtype, strict)


@dataclass
class AudioSamples:
    """Samples of a sound. data: float32 (channels, frames), a torch tensor or a NumPy array. pts_seconds: time of the first sample.
    duration_seconds: duration of all samples. sample_rate: in Hz. Can be unpacked like a tuple of these four values."""

    data: Any
    pts_seconds: float
    duration_seconds: float
    sample_rate: int

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, field.name) for field in fields(self))


@dataclass(frozen=True)
class AudioMetadata:
    """Properties of a sound, under torchcodec's names. begin_stream_seconds: time of the first sample. Times are on the file's clock, like those of a video in
    the same file."""

    sample_rate: int
    num_channels: int
    codec: str
    num_frames: int
    begin_stream_seconds: float
    end_stream_seconds: float
    duration_seconds: float


@suggests
class AudioDecoder:
    """Decodes windows of a file's sound by time, as torchcodec.decoders.AudioDecoder does. A VideoDecoder of the same file gives the pictures of the same
    window.

    source: a path, a URL, bytes, an array or a tensor of uint8, or a file object, of which all bytes are read.
    stream_index, sample_rate, num_channels: arguments of torchcodec. Only None is supported, or the rate and the number of channels of the file. Other values
        raise an error that says what to use instead.
    strict: a truncated file raises an error. With strict=False it is decoded as far as it goes.
    storage: a stoker.Storage for URLs.

    Only the windows of a WAV or FLAC file are read; other files are decoded completely when they are opened. Samples are torch tensors, or NumPy arrays if
    torch is not installed.
    """

    def __init__(
        self,
        source: Any,
        *,
        stream_index: int | None = None,
        sample_rate: int | None = None,
        num_channels: int | None = None,
        strict: bool = True,
        storage: Storage | None = None,
    ) -> None:
        _needs.numpy("AudioDecoder")
        if stream_index is not None:
            raise UnsupportedError("AudioDecoder: stream_index is not there: the first sound of a file is decoded; leave the argument out")
        if isinstance(source, io.TextIOBase):
            raise ArgumentError('source is a file that was opened for text: open it with "rb"')
        if hasattr(source, "read") and hasattr(source, "seek"):
            source.seek(0)
            source = source.read()
        named = isinstance(source, (str, os.PathLike))
        source = source if named else _bytes_of(source)
        self._storage = storage_of(source, storage)
        core = self._storage.core() if self._storage is not None else None
        self._file = _core.AudioFile(_path_of(source) if named else None, None if named else source, strict, core)
        _, codec, rate, channels, _, frames, _, origin = self._file.info()
        self.metadata = AudioMetadata(rate, channels, codec, frames, origin, origin + frames / rate, frames / rate)
        if sample_rate not in (None, rate):
            raise UnsupportedError(
                f"AudioDecoder: sample_rate is {sample_rate}, and the file has {rate} Hz: resample the samples, or decode with "
                f"Audio(rate={sample_rate}) of a Loader or fn.decoders.audio(sample_rate={sample_rate}, low_pass=True), which resample with another filter"
            )
        if num_channels not in (None, channels):
            if num_channels == 1:
                way = "take the mean of the channels, or use audioread(mono=True)"
            elif channels == 1:
                way = f"leave the argument out, and repeat the channel: samples.data.expand({num_channels}, -1)"
            else:
                way = "leave the argument out, and choose or mix the channels of the samples"
            raise UnsupportedError(f"AudioDecoder: num_channels is {num_channels}, and the file has {channels}: {way}")

    def __repr__(self) -> str:
        m = self.metadata
        return f"<AudioDecoder: {m.num_frames} frames of {m.num_channels} channels at {m.sample_rate} Hz, {m.codec}, {m.duration_seconds:.3f} s>"

    def get_all_samples(self) -> AudioSamples:
        """Returns all samples."""
        return self._read(0, self.metadata.num_frames)

    def get_samples_played_in_range(self, start_seconds: float | None = None, stop_seconds: float | None = None) -> AudioSamples:
        """Returns the samples from start_seconds to before stop_seconds, both rounded to the nearest sample. None: the sound's begin or end. Times are on the
        file's clock, like those of a VideoDecoder. The window is cut to the sound; pts_seconds of the result is the time of its first sample. Raises
        ValueError if start_seconds is after stop_seconds, and IndexError if there is no sound between two different times."""
        m = self.metadata
        start = m.begin_stream_seconds if start_seconds is None else start_seconds
        stop = m.end_stream_seconds if stop_seconds is None else stop_seconds
        for name, seconds in (("start_seconds", start), ("stop_seconds", stop)):
            if not _is_number(seconds) or not math.isfinite(seconds):
                raise ValueError(f"{name} is a number of seconds, not {seconds!r}")
        if not start <= stop:
            raise ValueError(f"start_seconds is {start}; it must not be after stop_seconds, which is {stop}")
        first, end = (min(max(_nearest((t - m.begin_stream_seconds) * m.sample_rate), 0), m.num_frames) for t in (start, stop))
        if first == end and start < stop:
            raise IndexError(
                f"there is no sound from {start} s to {stop} s: the file has it from {m.begin_stream_seconds} s to {m.end_stream_seconds} s"
            )
        return self._read(first, end - first)

    def _read(self, first: int, count: int) -> AudioSamples:
        import numpy as np

        m = self.metadata
        made: Any = np.empty((count, m.num_channels), np.float32)
        self._file.read(first, count, int(_TYPES["float32"]), False, made)
        made = np.ascontiguousarray(made.T)
        try:
            import torch

            made = torch.from_numpy(made)
        except ImportError:
            pass
        return AudioSamples(made, m.begin_stream_seconds + first / m.sample_rate, count / m.sample_rate, m.sample_rate)


@suggests
@dataclass(frozen=True)
class Audio:
    """The kind of a Loader's field that is a sound, as in Loader(folder, 32, fields={"audio": Audio(rate=16000, duration=1.0), "label": None}).

    rate: the rate in Hz to which all sounds are resampled, with a windowed sinc that removes frequencies above half of a lower rate. It differs a little
    from that of torchaudio's Resample. None: each sound keeps the rate of its file, which the field `rate` contains.
    duration: the duration in seconds of all sounds. Longer sounds are cropped, and zeros are appended to shorter ones. None: sounds keep their lengths, and a
    batch is padded with zeros to the longest one; the field NAME_lengths has the lengths. With ragged=(NAME,) the batch is a RaggedBatch.
    crop: which part to take if a sound is longer than `duration`: "start", "center" or "random". If samples also have a Video, the part that belongs to the
    clip is taken instead. Only the part is decoded, except for files in a NeMo manifest.
    mono: True averages the channels, so that a batch has the shape (N, frames); otherwise the shape is (N, channels, frames).
    dtype: "float32" (full scale is -1 to 1), "int16" or "int32".
    quality: the quality of resampling, from 0 to 100.
    """

    rate: int | None = None
    duration: float | None = None
    crop: str = "start"
    mono: bool = True
    dtype: str = "float32"
    quality: float = 50.0

    def __post_init__(self) -> None:
        if self.rate is not None:
            if isinstance(self.rate, bool) or not isinstance(self.rate, numbers.Integral) or not 1 <= self.rate < 2**31:
                raise ArgumentError(f"Audio: rate is a whole number of Hz, not {self.rate!r}")
            object.__setattr__(self, "rate", int(self.rate))  # it may be a NumPy integer
        if self.duration is not None:
            if not _is_number(self.duration) or not math.isfinite(self.duration) or self.duration <= 0:
                raise ArgumentError(f"Audio: duration is a number of seconds above 0, not {self.duration!r}")
            object.__setattr__(self, "duration", float(self.duration))
            if self.rate is None:
                raise ArgumentError("Audio: duration needs rate, or files of other rates would have other numbers of samples")
            if not 1 <= _nearest(self.duration * self.rate) < 2**31:
                raise ArgumentError(
                    f"Audio: duration={self.duration:g} at {self.rate} Hz is {self.duration * self.rate:g} frames; a sound has 1 to 2^31 - 1 of them"
                )
        _numbers.flag("Audio: mono", self.mono, exact=True)
        if self.crop not in ("start", "center", "random"):
            raise ArgumentError(f"Audio: crop is 'start', 'center' or 'random', not {self.crop!r}")
        if self.crop != "start" and self.duration is None:
            raise ArgumentError(f"Audio: crop={self.crop!r} needs duration, the length of the part")
        if self.dtype not in _TYPES:
            raise ArgumentError(f"Audio: dtype is one of {', '.join(_TYPES)}, not {self.dtype!r}")
        if not _is_number(self.quality) or not 0 <= self.quality <= 100:
            raise ArgumentError(f"Audio: quality is from 0 to 100, not {self.quality!r}")

    def frames(self) -> int | None:
        """Returns the number of frames of each sound; None unless both duration and rate are given."""
        return None if self.duration is None or self.rate is None else _nearest(self.duration * self.rate)


@suggests
@dataclass(frozen=True)
class AddNoise:
    """A transform of a Loader's sounds: adds part of a noise file to each sound, at a random signal-to-noise ratio, as torchaudio's AddNoise does.

    noises: paths of sound files. They are shuffled, and each sound gets the next file, from a random position on. If the noise ends before
    the sound does, no noise is added to the rest of the sound.
    snr: the lowest and the highest ratio in dB, between which each sound's ratio is drawn; or one number.

    Example: Loader(folder, 32, fields={"audio": Audio(rate=16000)}, transforms=[AddNoise(noises, snr=(0, 20))])
    """

    noises: Sequence[str | os.PathLike[str]]
    snr: float | tuple[float, float] = (0.0, 20.0)

    def __post_init__(self) -> None:
        if isinstance(self.noises, (str, bytes, os.PathLike)) or not self.noises:
            raise ArgumentError(f"AddNoise: noises is a list of paths of sound files, not {self.noises!r}")
        if not all(isinstance(noise, (str, bytes, os.PathLike)) for noise in self.noises):
            raise ArgumentError(f"AddNoise: noises is a list of paths of sound files, not {self.noises!r:.200}")
        pair = isinstance(self.snr, (tuple, list)) and len(self.snr) == 2
        if not (pair or _is_number(self.snr)) or not all(
            _is_number(x) and math.isfinite(x) for x in (self.snr if isinstance(self.snr, (tuple, list)) else (self.snr,))
        ):
            raise ArgumentError(f"AddNoise: snr is one number of dB, or the lowest and the highest, not {self.snr!r}")
        if self.range()[0] > self.range()[1]:
            raise ArgumentError(f"AddNoise: snr has the lowest ratio first, not {self.snr!r}")

    def range(self) -> tuple[float, ...]:
        """Returns (lowest ratio, highest ratio) in dB."""
        return tuple(map(float, self.snr)) if isinstance(self.snr, (tuple, list)) else (self.snr, self.snr)
