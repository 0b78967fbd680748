# SPDX-License-Identifier: Apache-2.0
"""Sounds with holes, and truncated ones: lost pages of an Ogg file are damage, and gaps between the times of packets are silence, so that sound fits its
video. The references are ffmpeg's samples of the files without holes."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess

import numpy as np
import pytest
import stoker
from sound_files import tone, wav
from stoker import Pipeline, fn
from stoker.errors import CorruptError
from support import SEED
from test_audio_codecs import checksummed

pytestmark = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="the program ffmpeg is not installed")

SECONDS, RATE = 8, 48000
OGG = {"a.ogg": "libvorbis", "a.opus": "libopus", "a.oga": "flac"}
GAPS = {"flac.mkv": "flac", "opus.mkv": "libopus", "aac.mp4": "aac", "mp3.mp4": "libmp3lame", "aac.ts": "aac"}


def ffmpeg(*args) -> bytes:
    return subprocess.run(["ffmpeg", "-v", "error", "-y", *map(str, args)], check=True, capture_output=True, timeout=60).stdout


def samples_of(path) -> np.ndarray:
    return np.frombuffer(ffmpeg("-i", path, "-ac", "1", "-f", "f32le", "-"), "<f4").reshape(-1, 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root, rng = tmp_path_factory.mktemp("times"), np.random.default_rng(SEED)
    (root / "source.wav").write_bytes(
        wav((tone(rng, SECONDS * RATE) * 12000 + rng.normal(0, 2000, (SECONDS * RATE, 1))).astype("<i2"), RATE)
    )
    return root


def made(folder, name, codec):
    path = folder / name
    if not path.exists():
        try:
            # Without pns: FFmpeg's decoder replaces parts of such a sound by random noise, which is not the same after a gap.
            ffmpeg("-i", folder / "source.wav", "-c:a", codec, *(["-aac_pns", "0"] if codec == "aac" else []), "-strict", "-2", path)
        except subprocess.CalledProcessError:
            path.unlink(missing_ok=True)
            pytest.skip("this ffmpeg cannot write it")
    return path


def window(data, begin, end, strict=True):
    """Decodes a window in time by decoders.audio."""
    pipe = Pipeline(1, num_threads=1, device_id=None, strict=strict)
    with pipe:
        source = fn.external_source(source=[[np.frombuffer(data, np.uint8)]], cycle=True)
        times = fn.external_source(source=[[np.array([begin, end], np.float64)]], cycle=True)
        pipe.set_outputs(fn.decoders.audio(source, times, downmix=True)[0])
    return np.array(pipe.run()[0].at(0))[:, None]


def pages(data: bytes) -> list[tuple[int, int]]:
    """Returns (offset, size) of each page of an Ogg file."""
    found, at = [], 0
    while at < len(data):
        size = 27 + data[at + 26] + sum(data[at + 27 : at + 27 + data[at + 26]])
        found.append((at, size))
        at += size
    return found


@pytest.mark.parametrize("place", (0.02, 0.3, 0.5, 0.7))
@pytest.mark.parametrize("name", OGG)
def test_a_lost_page_is_damage(folder, name, place):
    data = made(folder, name, OGG[name]).read_bytes()
    whole = samples_of(folder / name)
    hit = max(int(len(data) * place), 6000)
    damaged = bytearray(data)
    damaged[hit] ^= 1
    positions = [int.from_bytes(data[at + 6 : at + 14], "little", signed=True) / RATE for at, _ in pages(data)]
    lost = next(i for i, (at, size) in enumerate(pages(data)) if at <= hit < at + size)
    begin, end = max(positions[lost - 1], 0), positions[lost]
    # The decoder of FLAC refuses a packet of which a part is in the lost page.
    with pytest.raises(CorruptError, match=r"(samples are missing from [0-9.]+ s to|damaged at) [0-9.]+ s") as refused:
        stoker.audiodecode(bytes(damaged))
    named = [float(text) for text in re.findall(r"([0-9]+\.[0-9]+) s", str(refused.value))]
    assert named == pytest.approx([begin, end][: len(named)], abs=0.12)
    with pytest.raises(CorruptError, match=r"samples are missing|damaged at"):  # FFmpeg gives packets after the hole times from before it
        window(bytes(damaged), begin + 0.02, begin + 0.08)
    if begin == 0:
        return
    assert np.array_equal(stoker.audiodecode(bytes(damaged), duration=begin - 0.1, strict=False)[0], whole[: round((begin - 0.1) * RATE)])
    lenient = stoker.audiodecode(bytes(damaged), strict=False)[0]
    first, last = round((begin + 0.1) * RATE), round((end - 0.05) * RATE)
    assert lenient.shape == whole.shape and not lenient[first:last].any()
    # Vorbis needs a block, and Opus some packets, to be exact again.
    after = round((end + (0.5 if name == "a.opus" else 0.1)) * RATE)
    np.testing.assert_allclose(lenient[after:], whole[after:], atol=1e-2 if name == "a.opus" else 0)
    assert np.array_equal(
        window(bytes(damaged), begin - 0.2, end + 0.2, False), lenient[round((begin - 0.2) * RATE) : round((end + 0.2) * RATE)]
    )


@pytest.mark.parametrize("later", (0, 1000))
@pytest.mark.parametrize("name", OGG)
def test_chained_streams_may_have_any_times(folder, name, later):
    """The second stream of a file has another serial number, and begins at time 0 or at any later time."""
    data = made(folder, name, OGG[name]).read_bytes()
    second = bytearray(data)
    for number, (at, _) in enumerate(pages(data)):
        second[at + 14 : at + 18] = b"next"
        position = int.from_bytes(second[at + 6 : at + 14], "little", signed=True)
        if position > 0 and number > 1:
            second[at + 6 : at + 14] = (position + later * RATE).to_bytes(8, "little")
    both = data + checksummed(bytes(second))
    (folder / "both.ogg").write_bytes(both)
    whole = stoker.audiodecode(both)[0]
    assert whole.tobytes() == ffmpeg("-i", folder / "both.ogg", "-f", "f32le", "-")
    for start in (SECONDS - 0.3, SECONDS + 2.5):
        part = stoker.audiodecode(both, start=start, duration=0.6)[0]
        assert np.array_equal(part, whole[round(start * RATE) : round((start + 0.6) * RATE)])


@pytest.mark.parametrize("name", GAPS)
def test_a_gap_is_silence(folder, name):
    intact, path = made(folder, name, GAPS[name]), folder / f"gap-{name}"
    ffmpeg("-i", intact, "-c", "copy", "-bsf:a", "noise=amount=0:drop='between(pts*tb,3,4)+between(pts*tb,5,5.3)'", path)
    whole, origin = samples_of(intact), stoker.AudioDecoder(intact).metadata.begin_stream_seconds
    decoder = stoker.AudioDecoder(path)
    assert decoder.metadata.begin_stream_seconds == origin
    assert abs(decoder.metadata.num_frames - len(whole)) <= RATE // 1000  # Matroska rounds times to milliseconds
    slack = 0.0 if intact.suffix != ".mkv" else 0.001
    edge = 0.1 if name != "opus.mkv" else 0.6  # frames overlap with the frames before them
    for begin, end, silent in ((3.1, 3.9, True), (5.1, 5.2, True), (0.5, 2.9, False), (4.1 + edge, 4.9, False), (5.4 + edge, 7.5, False)):
        got = decoder.get_samples_played_in_range(origin + begin, origin + end).data.numpy().T
        assert np.array_equal(got, window(path.read_bytes(), origin + begin, origin + end))
        assert np.array_equal(got, stoker.audioread(path, start=begin, duration=end - begin)[0])
        if silent:
            assert got.shape == (round((end - begin) * RATE), 1) and not got.any()
            continue
        first, count = round(begin * RATE), len(got)
        shifts = range(-round(slack * RATE), round(slack * RATE) + 1)
        off = min(np.abs(got[100:-100] - whole[first + k + 100 : first + k + count - 100]).max() for k in shifts)
        assert off <= (1e-2 if name == "opus.mkv" else 0)
    wide = window(path.read_bytes(), origin + 2.8, origin + 5.4)  # both gaps, and sound between them
    assert np.array_equal(wide, stoker.audioread(path, start=2.8, duration=2.6)[0])


@pytest.mark.parametrize("name", GAPS)
def test_jitter_of_times_is_no_gap(folder, name):
    path = folder / f"jitter-{name}"
    late = "{0}+mod(N\\,3)*0.003/TB"
    ffmpeg("-i", made(folder, name, GAPS[name]), "-c", "copy", "-bsf:a", f"setts=pts={late.format('PTS')}:dts={late.format('DTS')}", path)
    whole = samples_of(path)
    assert np.array_equal(stoker.audioread(path)[0], whole)
    for start in (1.25, 6.5):
        part = stoker.audioread(path, start=start, duration=0.3)[0]
        assert np.array_equal(part, whole[round(start * RATE) : round((start + 0.3) * RATE)])


@pytest.mark.parametrize("rate", (0.99, 0.999, 1.001, 1.002, 1.01))
@pytest.mark.parametrize("name", [*GAPS, "flac.mp4"])
def test_drift_of_times_is_no_gap(folder, name, rate):
    """The clock of a recorder is faster or slower than the sound's rate."""
    intact, path = made(folder, name, {**GAPS, "flac.mp4": "flac"}[name]), folder / f"drift-{rate}-{name}"
    ffmpeg("-i", intact, "-c", "copy", "-strict", "-2", "-bsf:a", f"setts=ts=TS*{rate}:duration=DURATION*{rate}", path)
    whole, got = samples_of(path), stoker.audioread(path)[0]
    assert abs(len(whole) - len(samples_of(intact))) <= RATE // 10  # In MP4, the drift also changes the stated begin and end.
    assert np.array_equal(got, whole)
    origin = stoker.AudioDecoder(path).metadata.begin_stream_seconds
    for start in (0.5, 3.21, 6.5):  # FLAC and MP3 in MP4 are decoded from a packet near the window
        first, end = round(start * RATE), round((start + 0.4) * RATE)
        assert np.array_equal(stoker.audioread(path, start=start, duration=0.4)[0], got[first:end])
        assert np.array_equal(window(path.read_bytes(), origin + start, origin + start + 0.4), got[first:end])


@pytest.mark.parametrize("name", ["opus.mkv", "aac.mp4"])
@pytest.mark.parametrize("shift", [0.015, -0.03])
def test_wrong_times_of_single_packets_add_no_silence(folder, name, shift):
    """Every 30th packet is late or early. The first late one may count as a gap; after it, the count of samples agrees with its time."""
    intact, path = made(folder, name, GAPS[name]), folder / f"single-{shift}-{name}"
    moved = f"PTS+eq(mod(N\\,30)\\,15)*{shift}/TB"
    ffmpeg("-i", intact, "-c", "copy", "-bsf:a", f"setts=pts={moved}:dts={moved.replace('PTS', 'DTS')}", path)
    assert 0 <= len(stoker.audioread(path)[0]) - len(stoker.audioread(intact)[0]) <= 0.016 * RATE


@pytest.mark.parametrize("every", [2, 10])
def test_lost_packets_of_10_ms_are_silence(folder, every):
    intact, path = folder / "short.mkv", folder / f"lost-{every}.mkv"
    if not intact.exists():
        ffmpeg("-i", folder / "source.wav", "-c:a", "libopus", "-frame_duration", "10", intact)
    ffmpeg("-i", intact, "-c", "copy", "-bsf:a", f"noise=drop=eq(mod(n\\,{every})\\,1)", path)
    lost = len(stoker.audioread(intact)[0]) - len(stoker.audioread(path)[0])
    assert abs(lost) <= 0.02 * RATE < len(samples_of(intact)) - len(samples_of(path))


@pytest.mark.parametrize("name", ["mp3.mp4", "flac.mp4", "aac.ts"])
def test_a_gap_in_a_drifting_file_is_as_long_as_its_times_say(folder, name):
    intact, path = made(folder, name, {**GAPS, "flac.mp4": "flac"}[name]), folder / f"drift-gap-{name}"
    late = "{0}*1.01+gte({0}*TB\\,4)*0.5/TB"
    ffmpeg("-i", intact, "-c", "copy", "-strict", "-2", "-bsf:a", f"setts=pts={late.format('PTS')}:dts={late.format('DTS')}", path)
    whole, got = samples_of(intact), stoker.audioread(path)[0]
    assert abs(len(got) - len(whole) - RATE // 2) <= RATE // 100
    silent = np.flatnonzero(~got.any(axis=1)[RATE : 6 * RATE])
    assert abs(len(silent) - RATE // 2) <= RATE // 20
    for start in (0.5, 3.7, 4.1, 4.3, 6.5):
        part = stoker.audioread(path, start=start, duration=0.6)[0]
        assert np.array_equal(part, got[round(start * RATE) : round((start + 0.6) * RATE)])


def with_stated(data: bytes, frames: int) -> bytes:
    """Returns a FLAC in Matroska, MP4 or Ogg whose STREAMINFO states another number of frames."""
    at = data.find(b"dfLa") + 12 if b"dfLa" in data else data.index(b"fLaC") + 8
    number = (int.from_bytes(data[at + 10 : at + 18], "big") >> 36 << 36) | frames
    changed = data[: at + 10] + number.to_bytes(8, "big") + data[at + 18 :]
    return checksummed(changed) if data[:4] == b"OggS" else changed


def of_unknown_size(data: bytes) -> bytes:
    """Returns a Matroska file whose header does not state the size of its contents, like that of a live stream."""
    at = data.index(bytes.fromhex("18538067")) + 4
    assert data[at] == 1  # the size has 8 bytes
    return data[:at] + b"\x01" + b"\xff" * 7 + data[at + 8 :]


def copied(folder, name):
    """Returns a file with the packets of a FLAC file, whose STREAMINFO states its number of frames."""
    ffmpeg("-i", made(folder, "whole.flac", "flac"), "-c", "copy", "-strict", "-2", folder / name)
    return (folder / name).read_bytes()


@pytest.mark.parametrize("name", ["flac.mkv", "flac.mp4"])
def test_a_gap_is_not_in_the_length_that_flac_states(folder, name):
    path = folder / f"stated-{name}"
    ffmpeg("-i", made(folder, name, "flac"), "-c", "copy", "-strict", "-2", "-bsf:a", "noise=amount=0:drop='between(pts*tb,3,4)'", path)
    sound = samples_of(path)  # ffmpeg closes the gap
    data = with_stated(path.read_bytes(), len(sound))
    whole = samples_of(folder / name)
    for strict in (True, False):
        got = stoker.audiodecode(data, strict=strict)[0]
        assert abs(len(got) - len(whole)) <= RATE // 1000
        begin, gap = np.flatnonzero(got[: len(sound)] != sound)[0], len(got) - len(sound)
        assert abs(begin - 3 * RATE) < RATE // 5
        assert not got[begin : begin + gap].any()
        assert np.array_equal(np.delete(got, slice(begin, begin + gap), axis=0), sound)
        end = len(got) / RATE
        assert np.array_equal(window(data, end - 1, end, strict), got[round((end - 1) * RATE) :])
        pipe = Pipeline(1, num_threads=1, device_id=None, strict=strict)
        with pipe:
            source = fn.external_source(source=[[np.frombuffer(data, np.uint8)]], cycle=True)
            pipe.set_outputs(fn.decoders.audio(source, duration=1.0, position=1.0)[0])
        assert np.array_equal(pipe.run()[0].at(0), got[-RATE:])
    if path.suffix == ".mkv":  # more frames are promised than there are, with the gap
        with pytest.raises(CorruptError, match=r"a truncated file \(flac\): it ends after [0-9.]+ s; its header promises 9\.000 s"):
            stoker.audiodecode(of_unknown_size(with_stated(data, 9 * RATE)))


@pytest.mark.parametrize("serial", [b"next", None])
def test_the_length_that_flac_states_is_of_one_chained_stream(folder, serial):
    data = copied(folder, "stated.oga")
    second = bytearray(data)
    for at, _ in pages(data):
        second[at + 14 : at + 18] = serial or second[at + 14 : at + 18]
    whole, both = samples_of(folder / "whole.flac"), data + checksummed(bytes(second))
    assert np.array_equal(stoker.audiodecode(both)[0], np.concatenate([whole, whole]))
    for start in (SECONDS - 0.3, SECONDS + 2.5):  # decoding begins close to the window
        part = np.concatenate([whole, whole])[round(start * RATE) : round((start + 0.6) * RATE)]
        assert np.array_equal(window(both, start, start + 0.6), part)


def with_headers(data: bytes, serial: int, *blocks: tuple[int, bytes]) -> bytes:
    """Returns a FLAC in Ogg with another serial number, and with further blocks of metadata (kind, contents) after the comment."""
    made, number = bytearray(), 0

    def add(flags: int, position: bytes, sizes: bytes, body: bytes) -> None:
        nonlocal number
        made.extend(b"OggS\0" + bytes([flags]) + position + struct.pack("<III", serial, number, 0) + bytes([len(sizes)]) + sizes + body)
        number += 1

    for i, (at, size) in enumerate(pages(data)):
        head = at + 27 + data[at + 26]
        body = bytearray(data[head : at + size])
        if i == 0:
            body[7:9] = struct.pack(">H", 1 + len(blocks))
        if i == 1:
            body[0] &= 0x7F  # it is not the last block
        add(data[at + 5], data[at + 6 : at + 14], data[at + 27 : head], bytes(body))
        for k, (kind, contents) in enumerate(blocks if i == 1 else ()):
            block = bytes([kind | (0x80 if k == len(blocks) - 1 else 0)]) + len(contents).to_bytes(3, "big") + contents
            sizes = b"\xff" * (len(block) // 255) + bytes([len(block) % 255])
            for first in range(0, len(sizes), 255):
                ends = first + 255 >= len(sizes)
                add(first > 0, bytes(8) if ends else b"\xff" * 8, sizes[first : first + 255], block[255 * first : 255 * (first + 255)])
    return checksummed(bytes(made))


PICTURE = struct.pack(">II", 3, 9) + b"image/png" + struct.pack(">6I", 0, 1, 1, 24, 0, 60)
BLOCKS = {
    "padding": [(1, bytes(200))],
    "picture": [(6, PICTURE + b"\x55" * 60)],
    "large picture": [(6, PICTURE[:-4] + struct.pack(">I", 150_000) + b"\x55" * 150_000)],  # its first pages have no position
    "seek table": [(3, b"\xff" * 8 + bytes(10))],
    "application": [(2, b"test" + b"\xff\xf8" * 20)],
    "all": [(2, b"test"), (3, b"\xff" * 8 + bytes(10)), (6, PICTURE + b"\x55" * 60), (1, bytes(5000))],
}


@pytest.mark.parametrize("blocks", BLOCKS)
def test_a_later_stream_of_flac_may_have_any_headers(folder, blocks):
    data, whole = copied(folder, "stated.oga"), samples_of(folder / "whole.flac")
    both = with_headers(data, 1, *BLOCKS[blocks]) + with_headers(data, 2, *BLOCKS[blocks])
    want = np.concatenate([whole, whole])
    assert np.array_equal(stoker.audiodecode(both)[0], want)
    for start in (0.4, SECONDS - 0.3, SECONDS, SECONDS + 2.5):
        assert np.array_equal(window(both, start, start + 0.6), want[round(start * RATE) : round((start + 0.6) * RATE)])


def test_flac_that_states_more_than_it_has(folder):
    """If the container does not show where the file should end, the number of frames that FLAC states does."""
    data, whole = of_unknown_size(copied(folder, "stated.mkv")), samples_of(folder / "whole.flac")
    assert np.array_equal(stoker.audiodecode(data)[0], whole)
    wrong = with_stated(data, 2**36 - 1)  # more than any memory holds
    with pytest.raises(CorruptError, match=r"it ends after 8\.000 s; its header promises 1431655\.[0-9]+ s"):
        stoker.audiodecode(wrong)
    assert np.array_equal(stoker.audiodecode(wrong, strict=False)[0], whole)
    assert np.array_equal(window(wrong, 0, 1), whole[:RATE])


FRAGMENTS = ["-movflags", "frag_keyframe+empty_moov", "-frag_duration", "500000"]


@pytest.mark.parametrize("name", ["part.ogg", "part.oga", "part.mp4", "fragments.mp4", "part.mka", "part.avi"])
def test_a_part_of_flac_that_was_cut_out_without_encoding(folder, name):
    """Such a part states the number of frames of the whole in STREAMINFO, but the container shows that no bytes are missing."""
    path, source = folder / name, made(folder, "whole.flac", "flac")
    cut = ["-ss", "2", "-i", source, "-t", "4", "-c", "copy", "-strict", "-2"]
    ffmpeg(*cut, *(FRAGMENTS if name.startswith("fragments") else []), path)
    reference = path.with_suffix(".mka")  # ffmpeg makes no sound of its own AVI file
    if path.suffix == ".avi":
        ffmpeg(*cut, reference)
    data, want = path.read_bytes(), samples_of(reference if path.suffix == ".avi" else path)
    assert abs(len(want) - 4 * RATE) < RATE // 5
    assert np.array_equal(stoker.audiodecode(data)[0], want)
    for start in (0.7, 2.25, len(want) / RATE - 0.5):
        assert np.array_equal(window(data, start, start + 0.5), want[round(start * RATE) : round((start + 0.5) * RATE)])
    if name == "part.mp4":  # its list of packets is at the end
        ffmpeg("-i", path, "-c", "copy", "-movflags", "+faststart", "-strict", "-2", folder / "front.mp4")
        data = (folder / "front.mp4").read_bytes()
    last = data.rindex(bytes.fromhex("fff8"))  # where the last block begins
    for size in (last + 100, last, last // 2):
        with pytest.raises(CorruptError, match=r"a truncated file \(flac\)|damaged at"):
            stoker.audiodecode(data[:size])
        assert 0.3 * len(want) < len(stoker.audiodecode(data[:size], strict=False)[0]) <= len(want)


def test_lost_blocks_of_flac_in_matroska_are_no_part(folder):
    """FFmpeg leaves out what follows a damaged header without an error. The container states its own duration, so the file is no part of a longer one."""
    data = copied(folder, "stated.mkv")
    cluster = data.rindex(bytes.fromhex("1f43b675"))
    for at in (cluster, cluster + 40, data.index(b"\xff\xf8", cluster + 1000) - 8):
        damaged = data[:at] + bytes(8) + data[at + 8 :]
        with pytest.raises(CorruptError, match=r"truncated file|damaged"):
            stoker.audiodecode(damaged)


@pytest.mark.parametrize("name", ["stated.oga", "stated.mp4"])
def test_damage_in_the_block_in_which_a_window_begins(folder, name):
    data, block = bytearray(copied(folder, name)), 4608
    sync = bytes.fromhex("fff8")
    at, number = 0, 40  # of the block: its header has the number as a byte
    while data[at : at + 2] != sync or data[at + 4] != number:
        at = data.index(sync, at + 1)
    data[at + 1000] ^= 1
    damaged = checksummed(bytes(data)) if name == "stated.oga" else bytes(data)
    whole = samples_of(folder / "whole.flac")
    for start in (number * block / RATE - 0.5, (number * block + 2000) / RATE):
        with pytest.raises(CorruptError, match=r"the sound is damaged at 3\.8"):
            window(damaged, start, start + 1)
    first = (number + 1) * block
    assert np.array_equal(window(damaged, first / RATE, first / RATE + 1), whole[first : first + RATE])


@pytest.mark.parametrize("name", GAPS)
def test_a_jump_by_hours_is_refused(folder, name):
    path = folder / f"jump-{name}"
    late = "{0}+gte(N\\,50)*7200/TB"
    ffmpeg("-i", made(folder, name, GAPS[name]), "-c", "copy", "-bsf:a", f"setts=pts={late.format('PTS')}:dts={late.format('DTS')}", path)
    with pytest.raises(CorruptError, match=r"time jumps from [0-9.]+ s to 720[0-9.]+ s.*strict=False"):
        stoker.audioread(path)
    assert np.array_equal(stoker.audioread(path, strict=False)[0], samples_of(path))


@pytest.mark.parametrize("name", [*OGG, "flac.mkv", "opus.mkv", "opus.webm"])
def test_a_truncated_file_is_refused(folder, name):
    """Matroska states the size of the file's contents, and Ogg marks the page that ends a stream."""
    data = made(folder, name, {**OGG, **GAPS, "opus.webm": "libopus"}[name]).read_bytes()
    whole = samples_of(folder / name)
    cuts = [len(data) * 3 // 5]
    if name in OGG:
        cuts += [at for at, _ in pages(data)][6:]  # complete pages are left
    for cut in cuts:
        with pytest.raises(CorruptError, match=r"a truncated file \([a-z]+\): it ends after [0-9.]+ s.*strict=False|damaged at"):
            stoker.audiodecode(data[:cut])
        part = stoker.audiodecode(data[:cut], strict=False)[0]
        assert 0.3 * len(whole) < len(part) < len(whole)
        assert np.array_equal(part[:RATE], whole[:RATE])
        origin = stoker.AudioDecoder(data).metadata.begin_stream_seconds
        assert np.array_equal(window(data[:cut], origin, origin + 1), whole[:RATE])  # its decoding does not reach the end
