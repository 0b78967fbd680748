# SPDX-License-Identifier: Apache-2.0
"""Reads sounds for a Loader: folders, lists, manifests and tars of sound files, and rows of tables and Datasets that have sounds."""

from __future__ import annotations

import json
import math
import os
from array import array
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from stoker import _core, _files, fn, types
from stoker._audio import Audio
from stoker._catalog import find
from stoker._operator import call
from stoker._progress import counted
from stoker.data_node import DataNode
from stoker.errors import CorruptError, InvalidArgumentError
from stoker.loader import _fields
from stoker.loader._spec import DatasetArguments, Spec
from stoker.loader.batches._finish import Finish, Finishing, Outputs, by_value
from stoker.loader.lower._sounds import Sound, is_of_sounds, lowered
from stoker.loader.sources._files import FileSource, from_list, table_error
from stoker.loader.sources._sound_lengths import length_of
from stoker.loader.sources._source import Source
from stoker.loader.sources._table_features import check_sound
from stoker.loader.sources._table_folders import tables_of
from stoker.loader.sources._tars import TarSource, checked_text, tars_of
from stoker.loader.sources._videos import Separated, wants_clips
from stoker.pipeline import Pipeline

# Endings of the files that this build of the library can decode as sounds.
SOUND_ENDINGS = tuple(
    ending
    for ending in ("wav", "wave", "bwf", "rf64", "flac", "ogg", "oga", "opus", "mp3", "m4a", "aac")
    if _core.audio_named(f".{ending}")
)
_MANIFESTS = (".json", ".jsonl", ".manifest")
_DTYPES = {"float32": types.FLOAT, "int16": types.INT16, "int32": types.INT32}


@dataclass
class SoundField:
    """The user's field of sounds. name: its name. audio: its Audio. names: the names of all fields, in order."""

    name: str
    audio: Audio
    names: tuple[str, ...]


def _sound_field(fields: Mapping[str, Any], clips: bool = False) -> SoundField:
    """Returns the field that is an Audio, and the names of all fields. clips: whether samples are clips of videos; their other fields may then have kinds.
    Raises InvalidArgumentError for several Audio fields, and for kinds that are not allowed."""
    sounds = {name: given for name, given in fields.items() if isinstance(given, Audio) or given is Audio}
    if len(sounds) > 1:
        raise InvalidArgumentError(f"fields: {', '.join(map(str, sounds))} are Audio, and a sample has one sound: name one of them")
    others = {name: given for name, given in fields.items() if name not in sounds and given is not None}
    if others and not clips:
        raise InvalidArgumentError(
            f"fields: next to a sound, fields are None, as they come from the data; {', '.join(f'{n!r} is {g!r}' for n, g in others.items())}"
        )
    ((name, audio),) = sounds.items()
    _refuse_name(name, (*_fields.OF_DATASETS, "rate"))
    return SoundField(name, audio if isinstance(audio, Audio) else Audio(), tuple(fields))


def _refuse_name(name: str, taken: Collection[str]) -> None:
    """Raises InvalidArgumentError if the user gave the field of sounds a name that is taken by another field."""
    if name in taken:
        raise InvalidArgumentError(f"fields: {name!r} is another field of the samples: give the sound another name, as 'audio'")


OF_IMAGES = ("dtype", "memory_format", "layout", "views", "batch_transforms", "exif_orientation", "pad")


def refuse_arguments_of_images(given: Mapping[str, Any], rows: bool) -> None:
    """Raises InvalidArgumentError for arguments that have no effect on sounds. given: all arguments of the Loader. rows: whether the samples are rows of a
    table or items of a Dataset, for which python_workers is allowed."""
    named = [name for name in (*OF_IMAGES, *(() if rows else ("python_workers",))) if given[name]]
    if named:
        raise InvalidArgumentError(
            f"Loader: {', '.join(named)} would have no effect on sounds: leave {'them' if len(named) > 1 else 'it'} out"
        )


def _is_manifest(source: Any) -> bool:
    return isinstance(source, (str, os.PathLike)) and os.fspath(source).endswith(_MANIFESTS) and not os.path.isdir(source)


def components_of(fields: Any, components: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Renames the component of the sound to "image". Returns the components unchanged if none has the name of the sound."""
    name = _sound_field(fields).name
    if not isinstance(components, Mapping) or name not in components:
        return components
    return {"image" if n == name else n: made_of for n, made_of in components.items()}


def separated(source: Any, given: Mapping[str, Any]) -> Separated:
    """Returns the arguments of a Loader, with those about sounds split off. given: all arguments of the Loader."""
    if wants_clips(given):
        return _separated_with_clips(source, given)
    wanted = _sound_field(given["fields"])
    ragged = (given["ragged"],) if isinstance(given["ragged"], str) else tuple(given["ragged"])
    rows = _holds_rows(source)
    refuse_arguments_of_images(given, rows)
    if rows:
        sounds = Sounds(wanted, wanted.name in ragged, given["transforms"])
        return Separated(source, sounds.names, sounds, wanted.name, tuple(name for name in ragged if name != wanted.name))
    tars = None if isinstance(source, FileSource) else tars_of(source)
    if tars is not None:
        source = TarSource(tars, storage=given["more"].get("storage"), endings=SOUND_ENDINGS)
    _refuse_ragged(wanted, ragged)
    if isinstance(source, TarSource):
        sounds = Sounds(wanted, bool(ragged), given["transforms"])
        return Separated(source, sounds.names, sounds, wanted.name, ())
    made = _source_of(wanted, source, ragged, given["transforms"])
    return Separated(made, wanted.names, None, "", ())


def _separated_with_clips(source: Any, given: Mapping[str, Any]) -> Separated:
    """Does the work of `separated` for a Loader of videos, in which each sample has the sound of its clip. Raises InvalidArgumentError for arguments of the
    Audio that clips do not allow."""
    wanted = _sound_field(given["fields"], True)
    ragged = (given["ragged"],) if isinstance(given["ragged"], str) else tuple(given["ragged"])
    if wanted.audio.crop != "start":
        raise InvalidArgumentError(f"Audio: crop={wanted.audio.crop!r} next to a clip: the sound begins with the clip; leave crop out")
    if any(getattr(kind, "clips", None) is not None for kind in given["fields"].values()):
        raise InvalidArgumentError("fields: next to an Audio a sample has one clip: leave out clips of the Video")
    all_steps = given["transforms"]
    steps = list(all_steps) if isinstance(all_steps, (list, tuple)) else [] if all_steps is None else [all_steps]
    sounds = Sounds(wanted, wanted.name in ragged, [step for step in steps if is_of_sounds(step)], True)
    fields = {name: kind for name, kind in given["fields"].items() if name not in sounds.made}
    images = [step for step in steps if not is_of_sounds(step)] if isinstance(all_steps, (list, tuple)) or sounds.steps else all_steps
    return Separated(source, fields, sounds, "", tuple(name for name in ragged if name != wanted.name), images)


def names_of_rows(arguments: Mapping[str, Any]) -> tuple[str | None, Any]:
    """Returns the name of the column of sounds, and the fields that the table must have. The name is None if the sounds belong to the table's videos."""
    if wants_clips(arguments):
        return None, _separated_with_clips(None, {"transforms": None, "ragged": (), **arguments}).fields
    wanted = _sound_field(arguments["fields"])
    return wanted.name, Sounds(wanted, False, None).names


def _holds_rows(source: Any) -> bool:
    """Returns whether the samples of a source are rows of Parquet files or of `datasets`, or items of a Dataset."""
    if isinstance(source, (str, bytes, os.PathLike, list, tuple)):
        return tables_of(source) is not None
    if isinstance(source, (Source, Pipeline, Mapping)) or hasattr(source, "iloc"):
        return False
    return hasattr(source, "__iter__") or hasattr(source, "__getitem__")


def _refuse_ragged(given: SoundField, ragged: Sequence[str]) -> None:
    if any(name != given.name for name in ragged):
        raise InvalidArgumentError(f"Loader: ragged={ragged!r}: of sounds only {given.name!r} can be ragged")


def _source_of(given: SoundField, source: Any, ragged: Sequence[str], transforms: Any) -> AudioSource:
    """Makes the AudioSource for a folder, a list of paths, one or several manifests, or the FileSource of Loader.from_csv. given: the user's field of sounds.
    Raises InvalidArgumentError for other sources."""
    rest = (given, bool(ragged), transforms)
    if isinstance(source, FileSource):
        return AudioSource(source, None, *rest)
    manifests = list(source) if isinstance(source, (list, tuple)) else [source]
    if manifests and all(map(_is_manifest, manifests)):
        return AudioSource(FileSource(None, None, None), [os.fspath(m) for m in manifests], *rest)
    if isinstance(source, (str, os.PathLike)):
        if os.fspath(source).endswith(".csv"):
            raise table_error(source)
        return AudioSource(FileSource(os.fspath(source), None, None), None, *rest)
    if isinstance(source, (list, tuple)):
        return AudioSource(from_list(source), None, *rest)
    raise InvalidArgumentError(
        f"Loader: sounds come from a folder, a list of (path, target), a NeMo manifest (.json, .jsonl), tars, Parquet files, a Dataset or Loader.from_csv, "
        f"not from a {type(source).__name__}"
    )


@dataclass
class _Ragged:
    """Makes a RaggedBatch from a padded output. lengths: index of the output with the samples' lengths. dim: the batch's dimension whose extents differ."""

    lengths: int
    dim: int

    def __call__(self, outputs: Outputs, number: int) -> Any:
        from stoker.batching import RaggedBatch

        if isinstance(outputs.values[number], list):
            channels = sorted({sound.shape[0] for sound in outputs.values[number]})
            raise InvalidArgumentError(
                f"Loader: sounds of one batch have {' and '.join(map(str, channels))} channels, which no RaggedBatch holds: give Audio(mono=True), or leave "
                "ragged out, for a list of tensors"
            )
        return RaggedBatch(outputs.values[number], sample_sizes=outputs.values[self.lengths].reshape(-1), non_uniform_dim=self.dim)


def _text(value: Any) -> list[str]:
    # If all texts of a batch have one byte, they come as whole numbers: a vector of int64.
    return [v.cpu().numpy().astype("uint8").tobytes().decode() for v in value]


def _manifest_parts(manifests: Sequence[str]) -> list[tuple[str, float, float | None]]:
    """Returns (path, offset, duration) of each entry. Offset and duration are in seconds; the duration is None if the entry goes to the end of the file."""
    parts: list[tuple[str, float, float | None]] = []
    for manifest in manifests:
        # Paths may have other bytes than UTF-8. Only \n ends a line: texts may contain other ends of lines, such as U+2028.
        text = _files.read_bytes(manifest).removeprefix(BOM_UTF8).decode(errors="surrogateescape")
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                parts.append(_manifest_part(line, f"{manifest}, line {number}"))
    return parts


def _entry_with(manifest: str, names: Sequence[str]) -> Mapping[str, Any]:
    """Returns the first entry of a manifest that has one of these names; {} without such an entry. The reader reports faults of a manifest."""
    if not os.path.isfile(manifest):  # a pipe can be read only once
        return {}
    data = _files.read_bytes(manifest)
    quoted = [f'"{name}"'.encode() for name in names]
    for line in data.split(b"\n") if any(name in data for name in quoted) else ():
        if any(name in line for name in quoted):
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(entry, dict) and any(name in entry for name in names):
                return entry
    return {}


def _manifest_part(line: str, where: str) -> tuple[str, float, float | None]:
    """Returns the path, offset and duration of an entry. Raises CorruptError for entries that readers.nemo_asr refuses too."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as e:
        raise CorruptError(f"{where}: an entry is one JSON object a line ({e})") from None
    if not isinstance(entry, dict) or not isinstance(entry.get("audio_filepath"), str) or not entry["audio_filepath"]:
        raise CorruptError(f"{where}: an entry without audio_filepath, the path of a sound")
    times = [0.0 if entry.get("offset") is None else entry["offset"], -1.0 if entry.get("duration") is None else entry["duration"]]
    for name, seconds in zip(("offset", "duration"), times, strict=True):
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not math.isfinite(seconds):
            raise CorruptError(f"{where}: {name} is a number of seconds, not {seconds!r:.100}")
    return entry["audio_filepath"], max(float(times[0]), 0.0), None if times[1] < 0 else float(times[1])


class Sounds:
    """Adds the operators that decode sounds from the bytes of files and transform them, and the fields of the sounds in a batch.

    In the graph, the outputs of the sounds follow all other outputs: the sound itself if samples are clips of videos, the rate, and the lengths if batches
    are padded. given: the user's field. ragged: whether a batch of sounds is a RaggedBatch. clips: whether sounds belong to clips of videos; otherwise samples
    have sounds instead of images.
    """

    def __init__(self, given: SoundField, ragged: bool, transforms: Any, clips: bool = False) -> None:
        self.given, self.ragged, self.audio, self.clips = given, ragged, given.audio, clips
        self.steps = list(transforms) if isinstance(transforms, (list, tuple)) else [] if transforms is None else [transforms]
        self.padded = False  # whether sounds have different lengths and are padded; set by `finished`
        self._axis = 0  # the axis of a sample along which lengths are counted
        if isinstance(self.audio.duration, (int, float)) and ragged:
            raise InvalidArgumentError(
                f"Loader: with duration={self.audio.duration:g} all sounds are equally long: leave ragged or duration out"
            )

    @property
    def lengths(self) -> str:
        """Returns the name of the field with the lengths."""
        return f"{self.given.name}_lengths"

    @property
    def own(self) -> tuple[str, ...]:
        """Returns the names of all fields that come from the sounds and from no column: the rate, the lengths, and for clips the sound itself."""
        return ("rate", self.lengths, *((self.given.name,) if self.clips else ()))

    @property
    def made(self) -> tuple[str, ...]:
        """Returns those names of `own` that the user gave."""
        return tuple(name for name in self.given.names if name in self.own)

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the names of the fields that the source must deliver; the rate and the lengths are added later. Raises InvalidArgumentError for a field
        "image" next to the sound."""
        if "image" in self.given.names and self.given.name != "image":
            raise InvalidArgumentError("fields: 'image' next to a sound is not possible: call that column by another name, or leave it out")
        return tuple(name for name in self.given.names if name not in self.made)

    def take_rate(self, rate: Any) -> None:
        """Sets the rate in Hz from the data set's metadata, unless the user gave a rate."""
        if self.audio.rate is None and isinstance(rate, int) and rate > 0:
            self.audio = replace(self.audio, rate=rate)

    def check_feature(self, column: str, channels: Any, stream: Any, source: str) -> None:
        """Raises InvalidArgumentError if a feature Audio of `datasets` contradicts the user's Audio. The arguments are those of check_sound."""
        check_sound(column, channels, stream, self.audio.mono, source)

    def decoding(self) -> dict[str, Any]:
        """Returns the arguments of all operators that decode sounds."""
        audio = self.audio
        more = {} if audio.rate is None else {"sample_rate": float(audio.rate), "quality": audio.quality, "low_pass": True}
        return {"downmix": audio.mono, "dtype": _DTYPES[audio.dtype], **more}

    def decoded(self, data: DataNode) -> Sound:
        """Decodes sounds, or the window of each sound that `crop` and `duration` select. data: a node with the bytes of files."""
        audio = self.audio
        window: dict[str, Any] = {}
        if audio.duration is not None:
            window = {"duration": audio.duration, "pad": True}
            if audio.crop != "start":
                window["position"] = 0.5 if audio.crop == "center" else fn.random.uniform(range=(0.0, 1.0))
        node, rate = fn.decoders.audio(data, **window, **self.decoding())
        return self.sound(node, rate)

    def window(self) -> dict[str, Any]:
        """Returns the arguments for fetching only windows of remote files. They select the same windows as `decoded`."""
        low, high = {"start": (0.0, 0.0), "center": (0.5, 0.5), "random": (0.0, 1.0)}[self.audio.crop]
        return {"duration": self.audio.duration, "low": low, "high": high}

    def of_clip(self, data: DataNode, window: DataNode) -> Sound:
        """Decodes the sound of a clip. data: a node with the bytes of the video. window: the part of the video that the clip shows, from fn.decoders.video."""
        more = {} if self.audio.duration is None else {"duration": self.audio.duration}
        return self.sound(*fn.decoders.audio(data, window, **more, **self.decoding()))

    def sound(self, node: DataNode, rate: DataNode) -> Sound:
        """Returns a sound in torchaudio's form: (frames) or (channels, frames). node: (frames) if the user wants mono, else (frames, channels)."""
        audio = self.audio
        return Sound(node if audio.mono else fn.transpose(node, perm=[1, 0]), rate, audio.rate, audio.frames(), 1 if audio.mono else 2)

    def finished(self, sound: Sound, spec: Spec) -> list[DataNode]:
        """Applies the transforms, and returns the outputs: the sound, its rate, and its length if sounds differ in length."""
        made = lowered(self.steps, sound.on(spec), spec)
        nodes = [made.node, spec.upload(sound.rate)]
        self.padded, self._axis = made.frames is None, made.ndim - 1
        if self.padded:
            nodes[0] = fn.pad(made.node, axes=(self._axis,))
            nodes.append(fn.shapes(made.node, dtype=types.INT64)[self._axis])
        return nodes

    @property
    def outputs(self) -> int:
        """Returns the number of outputs that belong to the sounds, which are the last ones: the sound if samples are clips, the rate, and the lengths if
        batches are padded."""
        return self.clips + 1 + self.padded

    def with_fields(self, fields: Mapping[str, int | None], outputs: int, main: str) -> dict[str, int | None]:
        """Adds the fields of the sounds, and returns all fields in the user's order. outputs: the number of all outputs. main: the user's name of the first
        output, which is "image" in `fields`. Raises InvalidArgumentError if the user wants lengths and all sounds are equally long."""
        known = {**fields, "rate": outputs - 1 - self.padded}
        if self.padded:
            known[self.lengths] = outputs - 1
        if self.clips:
            known[self.given.name] = outputs - self.outputs
        names = ["image" if name == main else name for name in self.given.names]
        if self.padded and not self.ragged and self.lengths not in names:
            names.append(self.lengths)
        if self.lengths in names and not self.padded:
            raise InvalidArgumentError(f"fields: there is no {self.lengths!r}: with duration all sounds are equally long")
        return {name: known[name] for name in names}

    def others(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a dict of fields without those of `own`. An entry with such a name is of a column that the user does not want: refuse_double refuses others."""
        return {name: value for name, value in fields.items() if name not in self.own}

    def finishing(self, made: Finishing, outputs: int) -> Finishing:
        """Returns `made` plus the conversions for the fields of the sounds. outputs: number of all outputs."""
        finish = self.others(made.finish)
        if self.ragged:
            finish[self.given.name if self.clips else "image"] = _Ragged(outputs - 1, self._axis + 1)
        own = outputs - self.outputs if self.clips else 0
        return replace(made, finish=finish, needed=(*made.needed, own, outputs - 1), image=made.image and self.clips)


class AudioSource(FileSource):
    """Reads sound files. files: a FileSource that lists them. manifests: paths of NeMo manifests to read in place of `files`, or None."""

    holds = "sound"
    endings = SOUND_ENDINGS

    def __init__(self, files: Any, manifests: list[str] | None, given: SoundField, ragged: bool, transforms: Any) -> None:
        self.root, self.paths, self.labels, self.columns = files.root, files.paths, files.labels, files.columns
        self.targets_of = files.targets_of
        self.manifests, self.given, self.sounds = manifests, given, Sounds(given, ragged, transforms)
        _refuse_name(given.name, ("path", *(("text",) if manifests is not None else self.columns or ("label",))))
        _fields.refuse_double(self.sounds.made, self.columns or ())
        for manifest in self.manifests or () if self.sounds.made else ():
            _fields.refuse_double(self.sounds.made, _entry_with(manifest, self.sounds.made))
        self._others: dict[str, Finish] = self.sounds.others(files.finishing.finish)
        self._outputs: dict[str, int] = {}

    def fields(self, names: tuple[str, ...] | None) -> dict[str, int | None]:
        names, lengths = self.given.names, self.sounds.lengths
        if self.sounds.padded and not self.sounds.ragged and lengths not in names:
            names = (*names, lengths)
        return _fields.of_known(names, self._outputs)

    def nodes(self, spec: Spec, indices: array[int] | None, per_rank: bool) -> list[DataNode]:
        reader = spec.reader_arguments(indices, per_rank)
        sound, targets = self._of_manifests(reader) if self.manifests is not None else self._of_files(spec, reader)
        node, rate, *lengths = self.sounds.finished(sound, spec)
        nodes, self._outputs, finish = [node], {self.given.name: 0}, dict(self._others)
        for name, made in {**targets, "rate": rate}.items():
            self._outputs[name] = len(nodes)
            nodes.append(made)
        if self.columns is not None:
            columns = self.sounds.others(dict.fromkeys(self.columns, 1))
            self._outputs = {**{n: k for n, k in self._outputs.items() if n != "label"}, **columns}
        if self.manifests is not None:
            finish["text"] = by_value(_text)
        needed = [0]
        for length in lengths:
            self._outputs[self.sounds.lengths] = len(nodes)
            needed.append(len(nodes))
            nodes.append(length)
        if self.sounds.ragged:
            finish[self.given.name] = _Ragged(len(nodes) - 1, self.sounds._axis + 1)
        self.finishing = Finishing(finish, needed, image=False)
        return nodes

    def by_batches(self, arguments: DatasetArguments) -> Source:
        raise InvalidArgumentError(
            "Loader: batch_sampler of sound files is for Datasets: give an object with __len__ whose [i] returns (path, target); or use bucket_by or sampler"
        )

    def durations(self) -> Callable[[Spec], list[float]]:
        return self._read_durations

    def _read_durations(self, spec: Spec) -> list[float]:
        """Returns the length in seconds of each sample, from the manifests or from the headers of the files. Raises InvalidArgumentError if the Audio has a
        duration, and for a folder in a store."""
        if isinstance(self.given.audio.duration, (int, float)):
            raise InvalidArgumentError(
                f"Loader: with duration={self.given.audio.duration:g} all sounds are equally long: leave bucket_by or duration out"
            )
        parts = _manifest_parts(self.manifests) if self.manifests is not None else [(path, 0.0, None) for path in self._listed()]
        storage = spec.settings.get("storage")

        def seconds(part: tuple[Any, float, float | None]) -> float:
            path, offset, duration = part
            return duration if duration is not None else max(length_of(path, None, storage, spec.bad_may_pass) - offset, 0.0)

        with ThreadPoolExecutor(16) as pool:
            return list(counted(pool.map(seconds, parts), "bucket_by: reading lengths", len(parts)))

    def _listed(self) -> list[Any]:
        """Returns the paths of all files, in the order in which readers.file reads them. Raises InvalidArgumentError for a folder in a store."""
        if self.paths is not None:
            return list(self.paths)
        root = self.root or ""
        if "://" in root:
            raise InvalidArgumentError('bucket_by="duration": of a store give a list of (path, target), whose files are known')
        found = []
        for label in sorted((entry.name for entry in os.scandir(root) if entry.is_dir()), key=os.fsencode):
            # readers.file sorts by folder, then by name, as ImageFolder does.
            walk = sorted(os.walk(os.path.join(root, label), followlinks=True), key=lambda step: os.fsencode(step[0]))
            for folder, _, names in walk:
                found += [os.path.join(folder, name) for name in sorted(names, key=os.fsencode) if self._reads(name)]
        return found

    def _of_files(self, spec: Spec, reader: dict[str, Any]) -> tuple[Sound, dict[str, DataNode]]:
        where = self._where()
        if self.given.audio.duration is not None and self._of_store():
            op = find("readers.sound_windows")
            assert op is not None
            node, rate, label = call(op, (), {**where, **self.sounds.window(), **self.sounds.decoding(), **reader})
            return self.sounds.sound(node, rate), {"label": spec.label(label)}
        data, label = fn.readers.file(**where, **reader)
        return self.sounds.decoded(data), {"label": spec.label(label)}

    def _of_store(self) -> bool:
        """Returns whether any file, or the folder, is remote."""
        return any("://" in os.fsdecode(path) for path in (self.paths if self.paths is not None else [self.root or ""]))

    def _of_manifests(self, reader: dict[str, Any]) -> tuple[Sound, dict[str, DataNode]]:
        audio = self.given.audio
        node, rate, text = fn.readers.nemo_asr(manifest_filepaths=self.manifests, **self.sounds.decoding(), **reader)
        if audio.duration is not None:
            assert audio.rate is not None
            frames = audio.frames()
            spare = fn.cast(fn.shapes(node, dtype=types.INT32)[0], dtype=types.FLOAT) - frames
            fraction = {"start": 0.0, "center": 0.5}.get(audio.crop, fn.random.uniform(range=(0.0, 1.0)) if audio.crop == "random" else 0.0)
            start = fn.cast(fn.cast(spare > 0, dtype=types.FLOAT) * spare * fraction, dtype=types.INT32)
            node = fn.slice(node, start=fn.reshape(start, shape=[1]), shape=[frames], axes=[0], out_of_bounds_policy="pad")
        return self.sounds.sound(node, rate), {"text": checked_text(text)}

    def __repr__(self) -> str:
        return ", ".join(self.manifests) if self.manifests is not None else super().__repr__()
