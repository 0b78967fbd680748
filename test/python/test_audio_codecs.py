# SPDX-License-Identifier: Apache-2.0
"""FLAC, Vorbis, Opus, MP3, AAC and others: every sample equals that of the program ffmpeg. Also tests windows, damage, resampling, and Loader."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import struct
import subprocess
import sys

import numpy as np
import pytest
import stoker
from sound_files import tone, wav
from stoker import Audio, Loader, Pipeline, fn, types
from stoker.errors import StokerError
from support import SEED

pytestmark = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="the program ffmpeg is not installed")

FRAMES, RATE = 70_123, 44100
KINDS = {
    "a.flac": [],
    "24.flac": ["-sample_fmt", "s32"],
    "a.ogg": ["-c:a", "libvorbis"],
    "a.opus": ["-c:a", "libopus"],
    "a.mp3": ["-c:a", "libmp3lame"],
    "low.mp3": ["-c:a", "libmp3lame", "-b:a", "32k", "-ar", "16000"],
    "a.m4a": ["-c:a", "aac"],
    "a.aac": ["-c:a", "aac"],
    "opus.mka": ["-c:a", "libopus"],
    "flac.mka": ["-c:a", "flac"],
    "vorbis.webm": ["-c:a", "libvorbis"],
    "alac.m4a": ["-c:a", "alac"],
    "adpcm.wav": ["-c:a", "adpcm_ms"],
    "a.aiff": [],
    "a.caf": ["-c:a", "pcm_s24le"],
    "a.au": [],
}


def ffmpeg(*args) -> bytes:
    return subprocess.run(["ffmpeg", "-v", "error", "-y", *map(str, args)], check=True, capture_output=True, timeout=60).stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root, rng = tmp_path_factory.mktemp("codecs"), np.random.default_rng(SEED)
    (root / "source.wav").write_bytes(wav((tone(rng, FRAMES, 2) * 20000).astype("<i2"), RATE))
    for name, args in KINDS.items():
        try:
            ffmpeg("-i", root / "source.wav", *args, root / name)
        except subprocess.CalledProcessError:  # an encoder is missing
            (root / name).unlink(missing_ok=True)
    return root


@pytest.fixture(params=KINDS)
def file(request, folder):
    path = folder / request.param
    if not path.exists():
        pytest.skip("this ffmpeg cannot write it")
    return path


def run(files, *calls, strict=True):
    """Decodes the files' bytes by several calls of decoders.audio. Returns the samples of each call, and the last call's rates."""
    pipe = Pipeline(batch_size=len(files), num_threads=2, device_id=None, strict=strict)
    with pipe:
        data = fn.external_source(source=[[np.fromfile(f, np.uint8) for f in files]], cycle=True)
        made = [fn.decoders.audio(data, **kwargs) for kwargs in calls]
        pipe.set_outputs(*(audio for audio, _ in made), made[-1][1])
    *outputs, rates = pipe.run()
    return [[np.array(o.at(i)) for i in range(len(files))] for o in outputs], [float(np.array(rates.at(i))) for i in range(len(files))]


def test_every_sample_is_ffmpegs(file):
    samples, rate = stoker.audioread(file)
    want = np.frombuffer(ffmpeg("-i", file, "-f", "f32le", "-"), "<f4").reshape(-1, samples.shape[1])
    assert samples.shape == want.shape and np.array_equal(samples, want)
    integers, _ = stoker.audioread(file, dtype="int16")
    assert np.abs(integers / 32768 - np.clip(want, -1, 1)).max() < 1.01 / 16384
    if file.suffix in (".flac", ".mp3", ".ogg", ".aiff", ".au", ".caf") and rate == RATE:
        assert len(samples) == FRAMES
        source, _ = stoker.audioread(file.parent / "source.wav")
        alike = [float((samples[10 + k : FRAMES - 10 + k] * source[10 : FRAMES - 10]).sum()) for k in (-1, 0, 1)]
        assert alike[1] == max(alike)


def test_windows_are_parts_of_the_whole(file):
    whole, rate = stoker.audioread(file)
    for start, duration in ((0, 0.1), (0.5, 0.25), (1.2, 9), (1.0, 0.5), (0.999, 0.0)):
        first = round(start * rate)
        want = whole[first : first + round(duration * rate)]
        assert np.array_equal(stoker.audioread(file, start=start, duration=duration)[0], want)
    half = round(0.5 * rate)
    (every, part, last, mono), rates = run(
        [file], {}, {"start": 0.7, "duration": 0.5}, {"duration": 0.5, "position": 1.0}, {"downmix": True}
    )
    assert np.array_equal(every[0], whole) and rates == [rate]
    assert np.array_equal(part[0], whole[round(0.7 * rate) :][:half])
    assert np.array_equal(last[0], whole[-half:])
    assert np.abs(mono[0] - whole.mean(1)).max() < 1e-6


@pytest.mark.parametrize(("frames", "rate"), ((700, 16000), (5000, 16000), (8000, 16000), (20000, 44100), (44100, 44100)))
def test_short_vorbis_has_no_padding(frames, rate, tmp_path):
    """All samples of these files are in one Ogg page, as in recordings of a second. Stoker cuts off the padding of their last block, which ffmpeg itself
    does not."""
    (tmp_path / "a.wav").write_bytes(wav((tone(np.random.default_rng(SEED), frames) * 20000).astype("<i2"), rate))
    try:
        ffmpeg("-i", tmp_path / "a.wav", "-c:a", "libvorbis", tmp_path / "a.ogg")
    except subprocess.CalledProcessError:
        pytest.skip("this ffmpeg cannot write Vorbis")
    assert stoker.audioread(tmp_path / "a.ogg")[0].shape == (frames, 1)
    assert run([tmp_path / "a.ogg"], {"downmix": True})[0][0][0].shape == (frames,)
    # Streams that follow each other in a file have their own positions, even if an encoder gave them the same serial number.
    (tmp_path / "both.ogg").write_bytes((tmp_path / "a.ogg").read_bytes() * 2)
    both = stoker.audioread(tmp_path / "both.ogg")[0]
    assert len(both) >= 2 * frames - 4096 and both.tobytes() == ffmpeg("-i", tmp_path / "both.ogg", "-f", "f32le", "-")


def test_resampled_sounds_equal_audio_resample(folder):
    files = [folder / "source.wav", folder / "a.flac"]
    (plain, low, padded, short), rates = run(
        files,
        {"downmix": True},
        {"downmix": True, "sample_rate": 16000},
        {"downmix": True, "sample_rate": 16000, "duration": 2.5, "pad": True},
        {"downmix": True, "sample_rate": 16000, "start": 0.5, "duration": 0.25, "pad": True, "dtype": types.INT16},
    )
    assert rates == [16000, 16000]
    frames = -(-FRAMES * 16000 // 44100)
    for k in range(2):
        pipe = Pipeline(1, 1, None)
        with pipe:
            pipe.set_outputs(fn.audio_resample(fn.external_source(source=[[plain[k]]], cycle=True), in_rate=44100, out_rate=16000))
        want = np.array(pipe.run()[0].at(0))
        assert low[k].shape == (frames,) and np.array_equal(low[k], want)
        assert padded[k].shape == (40000,) and np.array_equal(padded[k][:frames], want) and not padded[k][frames:].any()
        assert short[k].shape == (4000,) and short[k].dtype == np.int16
        assert np.abs(short[k][100:-100] / 32767 - want[8000:12000][100:-100]).max() < 1e-3
    assert np.array_equal(low[0], low[1])


def test_a_window_may_be_far_longer_than_the_file(file):
    whole, _ = stoker.audioread(file)
    every, sized, placed = run([file], {"duration": 1e9}, {"duration": 3e4}, {"duration": 1e9, "position": 0.5})[0]
    assert all(np.array_equal(made[0], whole) for made in (every, sized, placed))


@pytest.mark.parametrize("name", ["long.mp3", "long.m4a", "long.ogg", "long.opus"])
def test_the_memory_of_a_sound_is_taken_once(tmp_path, name):
    """If it were taken piece by piece, each piece would count towards memory_limit, besides the samples."""
    seconds, rate = 120, 48000
    ffmpeg("-f", "lavfi", "-i", f"sine=frequency=440:sample_rate={rate}:duration={seconds}", "-ac", "2", "-b:a", "64k", tmp_path / name)
    whole = stoker.audioread(tmp_path / name)[0]
    for options, part in (({}, whole), ({"duration": 110.0}, whole[: 110 * rate]), ({"duration": 1e3}, whole)):
        pipe = Pipeline(1, num_threads=1, device_id=None, memory_limit=whole.nbytes * 5 // 4 + (1 << 20))
        with pipe:
            pipe.set_outputs(fn.decoders.audio(fn.readers.file(files=[str(tmp_path / name)])[0], **options)[0])
        assert np.array_equal(np.array(pipe.run()[0].at(0)), part)


def test_a_flac_with_a_hole_at_its_end(folder, tmp_path):
    """8 MiB of zeros after the last block are skipped, like large tags. 1 TiB of zeros is refused, because searching it for the last block would take too
    long."""
    path = tmp_path / "a.flac"
    shutil.copy(next(folder.glob("*.flac")), path)
    want = stoker.audioread(path)[0]
    os.truncate(path, path.stat().st_size + (8 << 20))
    np.testing.assert_array_equal(stoker.audioread(path)[0], want)
    os.truncate(path, 1 << 40)
    for strict in (True, False):
        with pytest.raises(stoker.errors.CorruptError, match=r"a\.flac: a FLAC that is damaged, or to which something was appended"):
            stoker.audioread(path, strict=strict)


def test_truncated_flac(folder, tmp_path):
    data = (folder / "a.flac").read_bytes()
    (tmp_path / "cut.flac").write_bytes(data[: len(data) * 2 // 3])
    with pytest.raises(StokerError, match=r"cut\.flac: .*(truncated|damaged)"):
        stoker.audioread(tmp_path / "cut.flac")
    with pytest.raises(StokerError, match=r"truncated|damaged"):
        run([tmp_path / "cut.flac"], {})
    whole, _ = stoker.audioread(folder / "a.flac")
    samples, _ = stoker.audioread(tmp_path / "cut.flac", strict=False)
    (lenient,), _ = run([tmp_path / "cut.flac"], {}, strict=False)
    n = len(lenient[0])
    assert FRAMES // 2 < n < FRAMES and np.array_equal(lenient[0], whole[:n]) and np.array_equal(samples[:n], whole[:n])


def test_damaged_flac(folder, tmp_path):
    data = bytearray((folder / "a.flac").read_bytes())
    data[len(data) // 2] ^= 0x55
    (tmp_path / "bad.flac").write_bytes(data)
    with pytest.raises(StokerError, match=r"damaged at 0\.[0-9]+ s"):
        stoker.audioread(tmp_path / "bad.flac")


def test_mutated_files_are_read_or_refused(file):
    rng, data = np.random.default_rng(SEED), file.read_bytes()[:30_000]
    for k in range(25):
        made = bytearray(data[: int(rng.integers(1, len(data)))] if k % 2 else data)
        for at in rng.integers(0, min(len(made), 400 if k % 3 else len(made)), int(rng.integers(1, 20))):
            made[at] = int(rng.integers(0, 256))
        for strict in (True, False):
            try:
                samples, rate = stoker.audiodecode(bytes(made), strict=strict)
                assert samples.ndim == 2 and rate > 0
            except StokerError as e:
                assert len(str(e)) > 10


def checksummed(data: bytes) -> bytes:
    """Returns an Ogg file with corrected checksums of its pages."""
    table = []
    for byte in range(256):
        value = byte << 24
        for _ in range(8):
            value = (value << 1) ^ (0x04C11DB7 if value & 0x80000000 else 0)
        table.append(value & 0xFFFFFFFF)
    made, at = bytearray(data), 0
    while made[at : at + 4] == b"OggS":
        size = 27 + made[at + 26] + sum(made[at + 27 : at + 27 + made[at + 26]])
        made[at + 22 : at + 26] = bytes(4)
        value = 0
        for byte in made[at : at + size]:
            value = ((value << 8) & 0xFFFFFFFF) ^ table[value >> 24 ^ byte]
        made[at + 22 : at + 26] = struct.pack("<I", value)
        at += size
    return bytes(made)


# For each case: the file; a text in it; whether the text's last occurrence counts instead of the first; the distance from the start of the text in bytes; the
# bytes to write at this position.
LYING = {
    "flac frames": ("a.flac", b"fLaC", False, 22, b"\xff" * 4),
    "flac no frames": ("a.flac", b"fLaC", False, 22, bytes(4)),
    "flac blocks of 0": ("a.flac", b"fLaC", False, 8, bytes(4)),
    "flac blocks of 65535": ("a.flac", b"fLaC", False, 8, b"\xff" * 4),
    "flac metadata": ("a.flac", b"fLaC", False, 42, b"\x04\xff\xff\xff"),
    "vorbis no channels": ("a.ogg", b"\x01vorbis", False, 11, b"\0"),
    "vorbis 255 channels": ("a.ogg", b"\x01vorbis", False, 11, b"\xff"),
    "vorbis rate": ("a.ogg", b"\x01vorbis", False, 12, b"\xff" * 4),
    "vorbis end": ("a.ogg", b"OggS", True, 6, struct.pack("<q", 2**62)),
    "vorbis no end": ("a.ogg", b"OggS", True, 6, struct.pack("<q", -1)),
    "vorbis negative end": ("a.ogg", b"OggS", True, 6, struct.pack("<q", -(2**63))),
    "opus no channels": ("a.opus", b"OpusHead", False, 9, b"\0"),
    "opus 255 channels": ("a.opus", b"OpusHead", False, 9, b"\xff"),
    "opus delay": ("a.opus", b"OpusHead", False, 10, b"\xff\xff"),
    "opus end": ("a.opus", b"OggS", True, 6, struct.pack("<q", 2**62)),
    "mp3 frames": ("a.mp3", b"Info", False, 8, b"\xff" * 4),
    "mp3 no frames": ("a.mp3", b"Info", False, 8, bytes(4)),
    "mp3 delay": ("a.mp3", b"Info", False, 141, b"\xff" * 3),
    "aac duration": ("a.m4a", b"mdhd", False, 20, b"\xff" * 4),
    "aac time scale": ("a.m4a", b"mdhd", False, 16, bytes(4)),
    "aac packets": ("a.m4a", b"stsz", False, 12, b"\x7f\xff\xff\xff"),
    "aac durations": ("a.m4a", b"stts", False, 12, b"\x7f\xff\xff\xff"),
    "aac places": ("a.m4a", b"stco", False, 12, b"\x7f\xff\xff\xff"),
    "aac edit": ("a.m4a", b"elst", False, 12, b"\x7f\xff\xff\xff"),
}


@pytest.mark.parametrize("case", LYING)
def test_lying_headers(folder, tmp_path, case):
    """A wrong number in a header is refused with the file's name, or the samples are those of the program ffmpeg. Neither takes more than 512 MB."""
    name, text, last, distance, bytes_there = LYING[case]
    path = tmp_path / f"lying.{name.rpartition('.')[2]}"
    if not (folder / name).exists():
        pytest.skip("this ffmpeg cannot write it")
    data = (folder / name).read_bytes()
    at = (data.rindex if last else data.index)(text) + distance
    data = data[:at] + bytes_there + data[at + len(bytes_there) :]
    path.write_bytes(checksummed(data) if data[:4] == b"OggS" else data)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        samples, _ = stoker.audioread(path)
    except StokerError as e:
        assert path.name in str(e)
    else:
        raw = ffmpeg("-i", path, "-f", "f32le", "-")
        assert np.array_equal(samples, np.frombuffer(raw, "<f4").reshape(samples.shape))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # in KiB, so 512 MB


@pytest.mark.parametrize("tag", [b"", b"ID3\4\0\0\0\0\1\0" + bytes(128)])
@pytest.mark.parametrize("name", ["a.mp3", "low.mp3"])
def test_a_cut_mp3(folder, tmp_path, name, tag):
    """The first frame of an MP3 file states the size of the file, so a truncated file is noticed. strict=False decodes the remaining sound."""
    if not (folder / name).exists():
        pytest.skip("this ffmpeg cannot write it")
    data, path = tag + (folder / name).read_bytes(), tmp_path / "cut.mp3"
    path.write_bytes(data)
    whole, rate = stoker.audioread(path)
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(
        StokerError, match=r"cut\.mp3: a truncated file \(mp3\): it ends after 0\.[0-9]+ s; its header promises 1\.[0-9]+ s"
    ):
        stoker.audioread(path)
    part, _ = stoker.audioread(path, strict=False)
    assert 0.3 * len(whole) < len(part) < 0.7 * len(whole) and np.array_equal(part[:10000], whole[:10000])
    window, _ = stoker.audioread(path, start=0.1, duration=0.1, strict=False)
    assert np.array_equal(window, whole[round(0.1 * rate) : round(0.1 * rate) + len(window)])
    path.write_bytes(data + b"TAG" + bytes(125))  # bytes after the sound are no damage
    assert len(stoker.audioread(path)[0]) == len(whole)


@pytest.mark.parametrize("padding", [0, 200, 528, 529, 530, 1200])
def test_an_mp3_with_little_padding(tmp_path, padding):
    """FFmpeg removes the decoder's delay of 529 samples at the start, and at the end only what the padding has beyond that."""
    path = tmp_path / "a.mp3"
    ffmpeg("-f", "lavfi", "-i", "sine=duration=1.3:sample_rate=44100", "-c:a", "libmp3lame", path)
    data = bytearray(path.read_bytes())
    info, tag = data.index(b"Info"), data.index(b"Lavc")
    data[info + 12 : info + 16] = (int.from_bytes(data[info + 12 : info + 16], "big") + 128).to_bytes(4, "big")
    data[tag + 22] = data[tag + 22] & 0xF0 | padding >> 8
    data[tag + 23] = padding & 255
    path.write_bytes(data)
    raw = ffmpeg("-i", path, "-f", "f32le", "-")
    assert np.array_equal(stoker.audioread(path)[0].ravel(), np.frombuffer(raw, "<f4"))
    path.write_bytes(data[:-1000])
    with pytest.raises(StokerError, match="a truncated file"):
        stoker.audioread(path)


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("a.au", "pcm_mulaw"),
        ("b.au", "pcm_s16be"),
        ("a.aiff", "pcm_s8"),
        ("b.aiff", "pcm_s24be"),
        ("a.w64", "pcm_s16le"),
        ("a.caf", "pcm_s16le"),
        ("a.wav", "adpcm_ms"),
        ("b.wav", "adpcm_ima_wav"),
        ("a.avi", "pcm_s16le"),
        ("b.mp3", "libmp3lame"),
    ],
)
def test_a_cut_sound_is_no_shorter_sound(tmp_path, name, codec):
    """FFmpeg decodes the samples before the cut without an error. Files that were written to a pipe do not state their size."""
    path, cut = tmp_path / name, tmp_path / f"cut_{name}"
    source = ["-f", "lavfi", "-i", "sine=duration=1.3:sample_rate=16000", "-c:a", codec]
    ffmpeg(*source, path)
    data, (whole, rate) = path.read_bytes(), stoker.audioread(path)
    for missing in [*range(1, 20), 97, 500, 1000, 2000, len(data) // 2]:
        cut.write_bytes(data[: len(data) - missing])
        try:
            samples, _ = stoker.audioread(cut)
        except StokerError as e:
            assert f"cut_{name}" in str(e)
            continue
        assert len(samples) == len(whole), missing  # only an index or padding is missing
    part, _ = stoker.audioread(cut, strict=False)
    assert 0.2 * len(whole) < len(part) < 0.8 * len(whole) and np.array_equal(part[:4000], whole[:4000])
    with pytest.raises(StokerError, match=rf"cut_{name}: "):
        stoker.audioread(cut)
    if (
        path.suffix in (".au", ".caf", ".avi", ".mp3") and codec != "alac"
    ):  # ffmpeg cannot read what it writes to a pipe in the other formats
        path.write_bytes(ffmpeg(*source, "-f", path.suffix[1:], "-"))
        assert abs(len(stoker.audioread(path)[0]) - len(whole)) < 0.2 * rate


@pytest.mark.parametrize("codec", ("aac", "alac", "flac", "libmp3lame", "libopus", "pcm_s16le"))
def test_a_cut_mp4_is_no_shorter_sound(tmp_path, codec):
    """The header at the front lists packets that are missing. FFmpeg ends the sound before them without an error, and returns the bytes that it has of a
    packet."""
    path = tmp_path / ("a.mov" if codec == "pcm_s16le" else "a.mp4")
    ffmpeg("-f", "lavfi", "-i", "sine=duration=1.3:sample_rate=48000", "-c:a", codec, "-strict", "-2", "-movflags", "+faststart", path)
    data, (whole, _) = path.read_bytes(), stoker.audioread(path)
    packets = ffmpeg("-i", path, "-c", "copy", "-f", "framecrc", "-").decode()
    assert len(whole) > 48000
    sizes = [int(line.split(",")[4]) for line in packets.splitlines() if line[:1] == "0"]
    for missing in (1, sizes[-1] // 2, sizes[-1], sizes[-1] + sizes[-2], sum(sizes) // 2):
        with pytest.raises(StokerError, match=r"a truncated file|damaged at"):
            stoker.audiodecode(data[: len(data) - missing])
        part = stoker.audiodecode(data[: len(data) - missing], strict=False)[0]
        assert 0.3 * len(whole) < len(part) <= len(whole)
    # A window that ends in a packet of which bytes are missing.
    (tmp_path / "cut").write_bytes(data[: len(data) - sizes[-1] - sizes[-2] // 2])
    begin = len(stoker.audiodecode(data[: len(data) - sizes[-1] - sizes[-2]], strict=False)[0]) / 48000
    if codec == "pcm_s16le":  # the samples before the cut are whole
        run([tmp_path / "cut"], {"start": begin, "duration": 0.001})
        return
    with pytest.raises(StokerError, match=r"a truncated file|damaged at"):
        run([tmp_path / "cut"], {"start": begin, "duration": 0.001})


@pytest.mark.parametrize("counted", (False, True))
@pytest.mark.parametrize("frames", (1, 1001, 4095, 5461))
def test_aiff_with_a_byte_of_padding(frames, counted, tmp_path):
    """A chunk with an odd number of bytes is followed by a byte of padding. libsndfile counts that byte in the chunk's size, and others do not."""
    values = np.random.default_rng(SEED).integers(-(2**23), 2**23, frames)
    data = b"".join(int(v).to_bytes(3, "big", signed=True) for v in values)
    common = struct.pack(">hIh", 1, frames, 24) + b"\x40\x0c\xfa" + bytes(7)
    sound = b"SSND" + struct.pack(">I8x", 8 + len(data) + (counted and len(data) % 2)) + data + bytes(len(data) % 2)
    body = b"AIFFCOMM" + struct.pack(">I", len(common)) + common + sound
    (tmp_path / "a.aiff").write_bytes(b"FORM" + struct.pack(">I", len(body)) + body)
    samples, rate = stoker.audioread(tmp_path / "a.aiff")
    assert rate == 16000 and np.array_equal(samples[:, 0], (values / 2**23).astype("float32"))
    assert np.array_equal(run([tmp_path / "a.aiff"], {})[0][0][0], samples)


def test_not_a_sound(folder):
    ffmpeg("-f", "lavfi", "-i", "testsrc=size=64x48:rate=5:duration=1", "-c:v", "mpeg4", folder / "silent.mp4")
    with pytest.raises(StokerError, match="has no audio stream"):
        stoker.audioread(folder / "silent.mp4")
    for data in (b"fLaC" + bytes(60), b"OggS" + bytes(60), b"ID3" + bytes(60)):
        with pytest.raises(StokerError):
            stoker.audiodecode(data)


def test_loader_reads_every_codec(folder, tmp_path):
    pytest.importorskip("torch")
    from stoker import Audio, Loader

    names = [n for n in ("a.flac", "a.ogg", "a.mp3", "a.m4a", "source.wav") if (folder / n).exists()]
    for k, name in enumerate(names):
        (tmp_path / "data" / f"class{k}").mkdir(parents=True)
        shutil.copy(folder / name, tmp_path / "data" / f"class{k}" / name)
    loader = Loader(tmp_path / "data", len(names), fields={"audio": Audio(rate=16000, duration=1.0, crop="random"), "label": None})
    (batch,) = loader
    assert batch.audio.shape == (len(names), 16000) and batch.label.tolist() == list(range(len(names)))
    assert (batch.audio.abs().max(1).values > 0.3).all()
    manifest = tmp_path / "m.json"
    manifest.write_text("".join(json.dumps({"audio_filepath": str(folder / n), "text": n, "offset": 0.5, "duration": 0.5}) for n in names))
    (batch,) = Loader(manifest, len(names), fields={"audio": Audio(rate=16000), "text": None})
    assert batch.text == names and batch.audio_lengths.tolist() == [8000] * len(names)


def sine(path, seconds):
    """Writes an Ogg file of Vorbis, whose length is known only after it was decoded."""
    source = f"sine=frequency=440:beep_factor=4:sample_rate=8000:duration={seconds}"
    words = ["ffmpeg", "-nostdin", "-v", "error", "-f", "lavfi", "-i", source, "-c:a", "libvorbis", "-q:a", "0", str(path)]
    if not shutil.which("ffmpeg") or subprocess.run(words, capture_output=True, timeout=600, check=False).returncode:
        pytest.skip("needs the ffmpeg program with libvorbis")


WINDOWS = """
import resource, sys
import numpy as np, stoker
def used():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
path, starts = sys.argv[1], (0, 4300.25)
stoker.audioread(sys.argv[2])
before = used()
found = [stoker.audioread(path, start=start, duration=0.7)[0] for start in starts]
print(used() - before)
whole = stoker.audioread(path)[0]
print(whole.shape[0] * 4 >> 20, all(np.array_equal(x, whole[int(s * 8000) :][:5600]) and x.any() for s, x in zip(starts, found)))
"""


def test_windows_of_a_long_sound_take_little_memory(tmp_path):
    """If the samples of a sound take more than 128 MiB, a window is decoded when it is read, and no other samples are kept."""
    sine(tmp_path / "long.ogg", 4400)
    sine(tmp_path / "short.ogg", 1)
    command = [sys.executable, "-c", WINDOWS, str(tmp_path / "long.ogg"), str(tmp_path / "short.ogg")]
    grown, size, same = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout.split()
    assert (int(size), same) == (134, "True") and int(grown) < 40, grown


@pytest.mark.skipif(not os.environ.get("STOKER_LONG"), reason="takes some minutes; STOKER_LONG=1 runs it")
def test_a_window_of_hours_of_sound_takes_little_memory(tmp_path):
    """Ogg does not state its length first, so the middle window is known only after the file was decoded once."""
    path = tmp_path / "hours.ogg"
    sine(path, 8500)
    fields = {"audio": Audio(rate=8000, duration=0.5, crop="center"), "label": None}
    with contextlib.closing(Loader([(str(path), 0)], 1, fields=fields, num_threads=1, memory_limit="64MiB")) as loader:
        found = next(iter(loader)).audio[0].numpy()
    whole = stoker.audioread(path, mono=True)[0].reshape(-1)
    first = (len(whole) - 4000 + 1) // 2
    assert np.array_equal(found, whole[first : first + 4000]) and found.any()
