# SPDX-License-Identifier: Apache-2.0
"""Sounds in a store that are replaced while windows of them are read: samples are those of one version, and never a mixture of two."""

from __future__ import annotations

import http.server
import re
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import stoker
from sound_files import wav
from stoker import Audio, Loader
from stoker.errors import ReadError
from support import NO_AWS, SEED

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import audio as bench  # noqa: E402

RATE, FRAMES = 16000, 16000 * 30
DATES = ("Wed, 21 Oct 2015 07:28:00 GMT", "Thu, 22 Oct 2015 09:28:00 GMT")


@pytest.fixture(autouse=True)
def nothing_else(monkeypatch):
    for name, value in {**NO_AWS, "NO_PROXY": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)


class Server(http.server.ThreadingHTTPServer):
    """Serves objects with ranges. version: function of (name, range), which returns the index of the version that is served.
    fields: function of that index, which returns the header fields that identify the version. log: name and range of each request."""

    daemon_threads = True

    def __init__(self, objects, version, fields):
        self.objects, self.version, self.fields, self.log = objects, version, fields, []
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):  # a connection ends with the client
        pass

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        server, name, asked = self.server, self.path[1:], self.headers.get("Range")
        version = server.version(name, asked)
        server.log.append((name, asked))
        body = server.objects[name][version]
        first, last = 0, len(body) - 1
        if asked:
            first, last = (int(n) for n in asked.removeprefix("bytes=").split("-"))
            last = min(last, len(body) - 1)
        if first > last:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(body)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if asked else 200)
        for field, value in server.fields(version).items():
            self.send_header(field, value)
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(body)}")
        self.send_header("Content-Length", str(last - first + 1))
        self.end_headers()
        self.wfile.write(body[first : last + 1])


def etag(version):
    return {"ETag": f'"v{version}"'}


def modified(version):
    return {"Last-Modified": DATES[version]}


def sound(value, channels=1, frames=FRAMES):
    """Returns a WAV file of constant samples. Files with the same product of frames and channels have the same size."""
    return wav(np.full((frames // channels, channels), value, "<i2"), RATE)


OLD, NEW = sound(8192), sound(-16384, channels=2)
SHORT = sound(4096, frames=RATE * 10)


def read(server, names, crop="start", **more):
    """Returns the samples that are read, and the errors of bad samples."""
    files = [(f"{server.url}/{name}", k) for k, name in enumerate(names)]
    audio = Audio(rate=RATE, duration=1.0, crop=crop, mono=False)
    with Loader(files, 1, fields={"audio": audio}, num_threads=1, shuffle=False, **more) as loader:
        made = [np.asarray(batch.audio)[0].copy() for batch in loader]
        return made, loader.pipeline.bad_samples()


VERSIONS = pytest.mark.parametrize("fields", [etag, modified])
CACHED = pytest.mark.parametrize("cached", [False, True], ids=["", "cached"])


@VERSIONS
@CACHED
@pytest.mark.parametrize("new", [NEW, SHORT], ids=["same size", "shorter"])
def test_the_new_version_is_read(tmp_path, fields, cached, new):
    """The first request, for the header, gets the old version, and all later ones get the new one."""
    storage = {"storage": stoker.Storage(cache=tmp_path / "cache")} if cached else {}
    with Server({"a.wav": (OLD, new)}, lambda *_: min(len(server.log), 1), fields) as server:
        made, bad = read(server, ["a.wav"], **storage)
    assert len(made) == 1 and not bad
    channels, value = (2, -0.5) if new is NEW else (1, 0.125)
    assert made[0].shape == (channels, RATE)[-made[0].ndim :] and (made[0] == value).all()


@VERSIONS
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_an_object_that_is_replaced_again_and_again_is_a_bad_sample(fields, on_error):
    """The header of a.wav and c.wav is always that of the old version, and the samples are those of the new one. The samples are far from the header, since
    one request may fetch the header for one batch and samples that follow it for another: both are of one version then."""
    objects = {"a.wav": (OLD, NEW), "b.wav": (OLD, OLD), "c.wav": (OLD, NEW)}
    said = r"a\.wav: it was replaced again and again while parts of it were read"
    with Server(objects, lambda name, asked: name != "b.wav" and asked != "bytes=0-43", fields) as server:
        if on_error == "raise":
            with pytest.raises(ReadError, match=said):
                read(server, ["a.wav"], "center")
            return
        made, bad = read(server, ["a.wav", "b.wav", "c.wav"], "center", on_error=on_error, max_errors=5)
        assert len(made) == 1 and (made[0] == 0.25).all()
        assert [type(e) for e in bad] == [ReadError, ReadError] and re.search(said, str(bad[0]))
        assert len([n for n, _ in server.log if n == "a.wav"]) >= 8  # four times the header and the window


@VERSIONS
@pytest.mark.parametrize("same_size", [True, False], ids=["same size", "longer"])
def test_bytes_that_are_read_later_are_of_the_same_version(fields, same_size):
    """The window of a FLAC file whose first half is silent is far from where the file's size and length suggest, so that its bytes are read after the ones
    that were fetched. A version that has come meanwhile is refused."""
    noise = np.random.default_rng(SEED).integers(-9000, 9000, FRAMES).astype("<i2")
    flac = bench.flac_file(np.concatenate([np.zeros(FRAMES, "<i2"), noise]))
    newer = flac if same_size else bench.flac_file(np.concatenate([np.zeros(FRAMES, "<i2"), noise, noise[:8192]]))
    begun = []  # not empty after the first request of the bytes that were not fetched, which asks for one byte

    versions = {}  # of each range: a request that is hedged gets the version of the first one

    def version(_name, asked):
        begun.extend([asked] * (asked == "bytes=0-0"))
        return versions.setdefault(asked, int(bool(begun) and changes))

    for changes in (False, True):
        begun.clear()
        versions.clear()
        with Server({"a.flac": (flac, newer)}, version, fields) as server:
            if changes:
                with pytest.raises(ReadError, match=r"a\.flac: it changed while it was read"):
                    read(server, ["a.flac"], "center")
            else:
                made, bad = read(server, ["a.flac"], "center")
                assert len(made) == 1 and not bad and begun
