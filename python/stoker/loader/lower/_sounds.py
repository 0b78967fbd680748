# SPDX-License-Identifier: Apache-2.0
"""Compiles transforms of sounds to operators of a graph: torchaudio's, and stoker.AddNoise."""

from __future__ import annotations

import math as numbers
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from stoker import fn, math, types
from stoker._audio import AddNoise
from stoker.data_node import DataNode
from stoker.errors import InvalidArgumentError, UnsupportedError
from stoker.loader._spec import Spec
from stoker.transforms import _added_to


@dataclass
class Sound:
    """A sound in the graph, between two transforms."""

    node: DataNode  # (frames), (channels, frames), or a spectrum (bins, frames)
    rate: DataNode  # each sample's rate in Hz
    rate_hz: int | None  # the rate in Hz; None if samples differ
    frames: int | None  # number of frames; None if samples differ
    ndim: int  # number of dimensions of `node`

    def on(self, spec: Spec) -> Sound:
        """Returns the sound on the device of the batch."""
        return replace(self, node=spec.upload(self.node))


def is_of_sounds(step: Any) -> bool:
    """Returns whether a transform is for sounds: AddNoise, or one of torchaudio's."""
    return isinstance(step, AddNoise) or type(step).__module__.partition(".")[0] == "torchaudio"


def lowered(steps: Sequence[Any], sound: Sound, spec: Spec) -> Sound:
    """Returns the sound after the transforms. Raises UnsupportedError for a transform that is not supported."""
    for step in steps:
        if isinstance(step, AddNoise):
            sound = _add_noise(step, sound, spec)
            continue
        if added := _added_to(step):
            raise TypeError(
                f"the transform {type(step).__name__} has {added}, which Stoker would not call: remove it, or apply the transform to the batch, as "
                "collate_fn=lambda batch: batch._replace(audio=transform(batch.audio))"
            )
        name, home = type(step).__name__, type(step).__module__
        if not home.startswith("torchaudio.transforms") or name not in _LOWER:
            known = ", ".join(_LOWER)
            raise UnsupportedError(
                f"Loader: transforms of sounds are stoker.AddNoise and torchaudio's {known}; {name} of {home} runs on the batch instead: "
                "collate_fn=lambda batch: "
                "batch._replace(audio=transform(batch.audio)), or in the loop"
            )
        sound = _LOWER[name](step, sound)
    return sound


def _resample(step: Any, sound: Sound) -> Sound:
    if step.orig_freq == step.new_freq:
        return sound
    raise UnsupportedError(
        f"Loader: Resample({step.orig_freq}, {step.new_freq}) is not in Stoker: apply it to the batch, as "
        "collate_fn=lambda batch: batch._replace(audio=transform(batch.audio)). "
        f"Audio(rate={step.new_freq}) in its place resamples while files are decoded, with a filter that differs a little"
    )


def _vol(step: Any, sound: Sound) -> Sound:
    gain = float(step.gain)
    factor = {"amplitude": gain, "db": 10 ** (gain / 20), "power": gain**0.5}[step.gain_type]
    return replace(sound, node=math.clamp(sound.node * factor, -1.0, 1.0))


def _fade(step: Any, sound: Sound) -> Sound:
    """Multiplies the sound by a ramp, which torchaudio's own transform computes from ones. Raises InvalidArgumentError if sounds differ in length."""
    if sound.frames is None:
        raise InvalidArgumentError("Loader: Fade needs sounds of one length: give Audio(rate=..., duration=...), or fade the batch")
    import torch

    ramp = step(torch.ones(1, sound.frames, dtype=torch.float32, device="cpu"))[0].numpy()
    return replace(sound, node=sound.node * fn.constant(fdata=ramp.tolist(), shape=[1] * (sound.ndim - 1) + [sound.frames]))


def _refuse_unless(step: Any, **wanted: Any) -> None:
    """Raises UnsupportedError if an argument of the transform has a value that Stoker does not support. wanted: for each argument the supported value, or a
    tuple of such values."""
    for name, value in wanted.items():
        given = getattr(step, name)
        if given not in (value if isinstance(value, tuple) else (value,)):
            raise UnsupportedError(
                f"Loader: {type(step).__name__}({name}={given!r}) is not in Stoker yet ({name} is {value!r} here): apply it to the batch, as "
                "collate_fn=lambda batch: batch._replace(audio=transform(batch.audio))"
            )


def _spectrogram(step: Any, sound: Sound) -> Sound:
    _refuse_unless(step, pad=0, power=(1, 2), normalized=False, center=True, pad_mode="reflect", onesided=True)
    if sound.ndim != 1:
        raise UnsupportedError(f"Loader: {type(step).__name__} of several channels is not in Stoker yet: give Audio(mono=True)")
    # torchaudio centers a shorter window among n_fft values, so zeros are added on both sides.
    window, left = step.window.tolist(), (step.n_fft - step.win_length) // 2
    window = [0.0] * left + window + [0.0] * (step.n_fft - step.win_length - left)
    node = fn.spectrogram(
        sound.node, nfft=step.n_fft, window_length=step.n_fft, window_step=step.hop_length, window_fn=window, power=int(step.power)
    )
    frames = None if sound.frames is None else _count(step, sound.frames)
    if step.n_fft % 2 and frames is None:
        count = _count(step, fn.shapes(sound.node, dtype=types.INT32)[0])
        node = fn.slice(node, start=[0], shape=fn.reshape(count, shape=[1]), axes=[1])
    elif step.n_fft % 2:
        node = fn.slice(node, start=[0], shape=[frames], axes=[1])
    return replace(sound, node=node, frames=frames, ndim=2)


def _count(step: Any, frames: Any) -> Any:
    """Returns the number of spectra of a sound, as torchaudio makes them. If n_fft is odd, torchaudio adds one sample less to the sound than fn.spectrogram."""
    return (frames - step.n_fft % 2) // step.hop_length + 1


def _mel_scale(step: Any, sound: Sound) -> Sound:
    if sound.ndim != 2:
        raise InvalidArgumentError("Loader: MelScale takes the output of Spectrogram")
    node = fn.mel_filter_bank(
        sound.node,
        nfilter=step.n_mels,
        sample_rate=2.0 * (step.sample_rate // 2),  # torchaudio rounds the frequency of the last bin down to a whole number
        freq_low=float(step.f_min),
        freq_high=float(step.f_max),
        mel_formula=step.mel_scale,
        normalize=step.norm is not None,
    )
    return replace(sound, node=node)


def _mel_spectrogram(step: Any, sound: Sound) -> Sound:
    return _mel_scale(step.mel_scale, _spectrogram(step.spectrogram, sound))


def _decibels(step: Any, sound: Sound) -> Sound:
    """Converts to decibels. With top_db, raises lower values to the sample's largest value minus top_db. NaN stays NaN; in torchaudio it
    makes the whole sample NaN if there is a top_db."""
    lowest = step.multiplier * numbers.log10(step.amin) - step.multiplier * step.db_multiplier
    how = {"multiplier": step.multiplier, "reference": float(step.ref_value), "cutoff_db": lowest, "keep_nan": True}
    node = fn.to_decibels(sound.node, **how)
    if step.top_db is not None:
        node = math.max(node, fn.reductions.max(node) - float(step.top_db))
    return replace(sound, node=node)


def _mfcc(step: Any, sound: Sound) -> Sound:
    mel = _mel_spectrogram(step.MelSpectrogram, sound)
    mel = replace(mel, node=math.log(mel.node + 1e-6)) if step.log_mels else _decibels(step.amplitude_to_DB, mel)
    if step.norm == "ortho":
        return replace(mel, node=fn.mfcc(mel.node, axis=0, dct_type=2, n_mfcc=step.n_mfcc, normalize=True))
    # Without norm, torchaudio's values are twice those of fn.mfcc.
    return replace(mel, node=fn.mfcc(mel.node, axis=0, dct_type=2, n_mfcc=step.n_mfcc) * 2.0)


def _check_spectrum(step: Any, sound: Sound) -> None:
    if sound.ndim != 2:
        raise InvalidArgumentError(f"Loader: {type(step).__name__} takes a spectrum, as Spectrogram or MelSpectrogram makes it")


def _masked(node: DataNode, axis: int, param: float, p: float, fill: DataNode | float) -> DataNode:
    """Sets a range of an axis to `fill`. The range is drawn for each sample: at most `param` elements, and at most the share `p` of the axis."""
    extent = fn.cast(fn.shapes(node, dtype=types.INT32)[axis], dtype=types.FLOAT)
    most = math.min(param, math.floor(extent * p)) if p < 1 else param
    width = fn.random.uniform(range=(0.0, 1.0)) * most
    start = math.floor(fn.random.uniform(range=(0.0, 1.0)) * (extent - width))
    region = {"anchor": fn.reshape(start, shape=[1]), "shape": fn.reshape(math.floor(width), shape=[1])}
    return fn.erase(node, axes=[axis], fill_value=fill, **region)


def _masking(step: Any, sound: Sound) -> Sound:
    """Sets a random range of an axis to 0. For torchaudio, the axes of a spectrum are 1 (frequency) and 2 (time)."""
    _check_spectrum(step, sound)
    return replace(sound, node=_masked(sound.node, step.axis - 1, float(step.mask_param), float(step.p), 0.0))


def _spec_augment(step: Any, sound: Sound) -> Sound:
    """Sets random ranges of the time axis, then of the frequency axis, to 0 or to the mean of the unmasked spectrum."""
    _check_spectrum(step, sound)
    node, fill = sound.node, 0.0 if step.zero_masking else fn.reductions.mean(sound.node)
    for axis, count, param in ((1, step.n_time_masks, step.time_mask_param), (0, step.n_freq_masks, step.freq_mask_param)):
        for _ in range(count):
            node = _masked(node, axis, float(param), float(step.p), fill)
    return replace(sound, node=node)


def _add_noise(step: AddNoise, sound: Sound, spec: Spec) -> Sound:
    """Adds a random part of a noise file, scaled so that the sample has the signal-to-noise ratio that it draws. If the noise is shorter than the sound, zeros
    follow it. Raises InvalidArgumentError unless sounds have one channel and one rate."""
    if sound.ndim != 1 or sound.rate_hz is None:
        raise InvalidArgumentError(
            "Loader: AddNoise takes sounds of one channel and one rate, before they are spectra: give Audio(rate=...)"
        )
    paths = [os.fspath(path) for path in step.noises] * -(-spec.shard.world // len(step.noises))  # each rank gets at least one
    shard = {"num_shards": spec.shard.world, "shard_id": spec.shard.rank}
    data, _ = fn.readers.file(files=paths, random_shuffle=True, shuffle_seed=spec.seed, name="_noises", **shard)
    noise, _ = fn.decoders.audio(data, downmix=True, sample_rate=float(sound.rate_hz), low_pass=True)
    length = fn.shapes(sound.node, dtype=types.INT32)[0]
    spare = math.max(fn.cast(fn.shapes(noise, dtype=types.INT32)[0] - length, dtype=types.FLOAT), 0.0)
    start = fn.cast(fn.random.uniform(range=(0.0, 1.0)) * spare, dtype=types.INT32)
    noise = fn.slice(noise, start=fn.reshape(start, shape=[1]), shape=fn.reshape(length, shape=[1]), axes=[0], out_of_bounds_policy="pad")
    noise = spec.upload(noise)
    powers = fn.reductions.mean_square(sound.node), math.max(fn.reductions.mean_square(noise), 1e-30)
    gain = spec.upload(math.pow(10.0, fn.random.uniform(range=step.range()) * -0.05))
    return replace(sound, node=sound.node + noise * (math.sqrt(powers[0] / powers[1]) * gain))


_LOWER = {
    "Resample": _resample,
    "Vol": _vol,
    "Fade": _fade,
    "Spectrogram": _spectrogram,
    "MelScale": _mel_scale,
    "MelSpectrogram": _mel_spectrogram,
    "AmplitudeToDB": _decibels,
    "MFCC": _mfcc,
    "SpecAugment": _spec_augment,
    "TimeMasking": _masking,
    "FrequencyMasking": _masking,
}
