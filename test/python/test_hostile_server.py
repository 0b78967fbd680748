# SPDX-License-Identifier: Apache-2.0
"""Servers that lie, break off, or never end. Stoker delivers the right bytes or an error, in bounded time and memory, and caches only the right bytes."""

import contextlib
import ctypes
import gc
import http.server
import io
import json
import os
import random
import re
import resource
import shutil
import socket
import ssl
import struct
import tempfile
import threading
import time
from email.utils import formatdate
from pathlib import Path

import numpy as np
import pytest
from sound_files import wav
from stoker import Audio, AudioDecoder, Loader, Pipeline, Storage, VideoDecoder, fn
from stoker._catalog import find
from stoker._operator import call as catalog_call
from stoker.errors import InvalidArgumentError, ReadError, StokerError
from stoker.loader.sources import _table_pack
from storage import make_certificates
from support import NO_AWS, SEED, tar_of

LONG = os.environ.get("STOKER_LONG") == "1"

SIZES = (1, 700, 5000, 70_000, 300_000)


@pytest.fixture(autouse=True)
def nothing_else(monkeypatch):
    for name, value in {**NO_AWS, "NO_PROXY": "127.0.0.1", "AWS_NO_SIGN_REQUEST": "yes"}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Returns the TLS settings of a server on 127.0.0.1, and the path of its authority's certificate."""
    folder = tmp_path_factory.mktemp("tls")
    return make_certificates(folder), folder / "ca.pem"


class Server:
    """Calls answer(connection, request) for each request. The result is True if the connection stays open; otherwise it says how the connection ends: "fin",
    "rst", or, in TLS, "cut"."""

    def __init__(self, answer, certificate=None):
        self.answer = answer
        self.asked = []
        self._context = None
        if certificate:
            self._context = certificate[0]
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self._listener.accept()[0],), daemon=True).start()

    def _serve(self, plain):
        plain.settimeout(30)
        with contextlib.suppress(OSError), plain:
            c = self._context.wrap_socket(plain, server_side=True) if self._context else plain
            how = True
            while how is True:
                head = b""
                while b"\r\n\r\n" not in head:
                    piece = c.recv(65536)
                    if not piece:
                        return
                    head += piece
                self.asked.append(head.decode("latin-1"))
                with contextlib.suppress(BrokenPipeError, ConnectionResetError, ssl.SSLError):
                    how = self.answer(c, head.decode("latin-1"))
            self._end(c, how)

    def _end(self, c, how):
        if how == "rst":
            time.sleep(0.02)  # lets the client read the sent bytes first, because a reset discards unread bytes
            fd = socket.socket(fileno=os.dup(c.fileno()))
            fd.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if self._context:
                os.close(c.detach())
            else:
                c.close()
            fd.close()
        elif self._context and how == "fin":
            c.settimeout(1)
            c.unwrap()  # sends TLS's close_notify before the connection ends
        elif self._context:
            os.close(c.detach())


def return_free_memory():
    """Makes malloc return its unused memory to the system, so that only memory in use is measured."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def read(uri, **storage):
    """Reads an object. Returns its bytes, or the error that was raised."""
    p = Pipeline(1, 1, None, timeout=60, storage=Storage(**storage), memory_limit=32 << 20)
    with p:
        p.set_outputs(fn.readers.file(files=[uri])[0])
    p.build()
    try:
        return p.run()[0].at(0).tobytes()
    except StokerError as e:
        return e
    finally:
        p.close()


BODY = bytes(range(256)) * 40
QUICK = {"retries": 1, "connect_timeout": 20, "answer_timeout": 20, "stall_timeout": 20}


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("how", ["fin", "rst", "cut"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_how_a_body_without_a_length_ends(certificate, tmp_path, tls, how, version):
    """A body without a length is complete only if the connection ends properly: by FIN, or in TLS by close_notify."""
    if how == "cut" and not tls:
        pytest.skip("a cut of TLS")
    well = how == "fin"

    def answer(c, _):
        c.sendall(f"HTTP/{version} 200 OK\r\nConnection: close\r\n\r\n".encode() + (BODY if well else BODY[: len(BODY) // 2]))
        return how if not well else "fin"

    kept = {"cache": tmp_path / "cache"}
    if tls:
        kept["ca_bundle"] = certificate[1]
    with Server(answer, certificate if tls else None) as server:
        got = read(f"{server.url}/x.bin", **QUICK, **kept)
        assert got == BODY if well else isinstance(got, StokerError), got
        if not well:
            assert len(server.asked) >= 2, "it is worth another try"
            well = True
            how = "fin"
            assert read(f"{server.url}/x.bin", **QUICK, **kept) == BODY, "nothing was kept of what was cut"


def test_bytes_after_an_answer_are_not_the_next_answer(certificate):
    """Bytes after a response's end are not read as the next response, whether they are still in the socket or already decrypted."""
    for tls in (None, certificate):

        def answer(c, request):
            name = request.split()[1].encode()
            more = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong"
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s%s" % (len(name), name, more))
            return True

        with Server(answer, tls) as server:
            p = Pipeline(
                1, 1, None, timeout=60, storage=Storage(**QUICK, hedging=False, ca_bundle=tls[1] if tls else None), read_requests=1
            )
            with p:
                p.set_outputs(fn.readers.file(files=[f"{server.url}/{i}" for i in range(20)])[0])
            p.build()
            assert [p.run()[0].at(0).tobytes().decode() for _ in range(20)] == [f"/{i}" for i in range(20)]
            p.close()


def test_no_byte_of_an_answer_with_a_bad_chunk_is_kept():
    """The rest of a cut response arrives in a chunk that is a byte shorter than it states, so that the client takes the end of the line for the last byte."""
    asked = []

    def answer(c, request):
        begin = int(found[1]) if (found := re.search(r"[Rr]ange: bytes=(\d+)-", request)) else 0
        asked.append(begin)
        if not begin:
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY[:3000])
            return "fin"
        head = b"HTTP/1.1 206 Part\r\nContent-Range: bytes %d-%d/%d\r\n" % (begin, len(BODY) - 1, len(BODY))
        if begin == 3000:
            c.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (2001, BODY[begin : begin + 2000]))
        else:
            c.sendall(head + b"Content-Length: %d\r\n\r\n" % (len(BODY) - begin) + BODY[begin:])
        return "fin"

    with Server(answer) as server:
        assert "a chunk is longer than its size" in str(read(f"{server.url}/x.bin", **QUICK, hedging=False))
    assert set(asked) == {0, 3000}


# ---- redirects ----


def test_a_redirect_to_nowhere_is_asked_for_once(monkeypatch):
    def answer(c, _):
        c.sendall(b"HTTP/1.1 301 Moved Permanently\r\nContent-Length: 0\r\n\r\n")
        return True

    def ask(root):
        server.asked.clear()
        p = Pipeline(4, 1, None, timeout=60, storage=Storage(retries=5, hedging=False))
        with p:
            p.set_outputs(fn.readers.file(files=[f"{root}/{i}.jpg" for i in range(3000)])[0])
        p.build()
        with pytest.raises(StokerError) as e:
            p.run()
        p.close()
        asked = [request.split()[1] for request in server.asked]
        assert asked and len(asked) == len(set(asked))
        return str(e.value)

    with Server(answer) as server:
        assert "without a Location" in ask(server.url)
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
        message = ask("s3://bucket")
        assert "AWS_REGION" in message and "AWS_ENDPOINT_URL" in message


def test_redirects_that_are_not_followed(certificate):
    where = ["", ""]

    def answer(c, _):
        c.sendall(f"HTTP/1.1 302 Found\r\nLocation: {where[0]}\r\nContent-Length: 0\r\n\r\n".encode())
        return True

    with Server(answer, certificate) as server:
        for to, message in {
            "/again": "more than 5 times",
            "file:///etc/passwd": "something other than an http:// or https:// URL",
            "s3://bucket/key": "something other than an http:// or https:// URL",
            "http://127.0.0.1:1/x": "from https:// to http://",
            "https://me:hIdDeN@127.0.0.1:1/x": "something other than an http:// or https:// URL",
        }.items():
            where[0] = to
            got = str(read(f"{server.url}/x.jpg", **QUICK, ca_bundle=certificate[1]))
            assert message in got and "hIdDeN" not in got


# ---- servers that ask to wait ----


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("form", ["seconds", "date"])
def test_a_server_that_asks_to_wait(status, form):
    start = time.monotonic()

    def answer(c, _request):
        if time.monotonic() - start > 0.9:
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY)
        else:
            now = int(time.time())
            header = (
                f"Date: {formatdate(now, usegmt=True)}\r\nRetry-After: {'1' if form == 'seconds' else formatdate(now + 1, usegmt=True)}\r\n"
            )
            c.sendall(f"HTTP/1.1 {status} No\r\n{header}Content-Length: 0\r\n\r\n".encode())
        return True

    with Server(answer) as server:
        got = read(f"{server.url}/x.bin", retries=1)
    assert got == BODY, got


def test_a_long_wait_ends_with_the_pipeline():
    asked = threading.Event()

    def answer(c, _request):
        asked.set()
        c.sendall(b"HTTP/1.1 429 No\r\nRetry-After: 999999999999\r\nContent-Length: 0\r\n\r\n")
        return True

    with Server(answer) as server:
        p = Pipeline(1, 1, None, storage=Storage())
        with p:
            p.set_outputs(fn.readers.file(files=[f"{server.url}/x.bin"])[0])
        p.build()
        p.schedule_run()
        assert asked.wait(20)
        time.sleep(0.3)
        start = time.monotonic()
        p.close()
        assert time.monotonic() - start < 5
    with Server(lambda c, _: c.sendall(b"HTTP/1.1 429 No\r\nRetry-After: -1\r\nContent-Length: 0\r\n\r\n") or True) as server:
        assert "429: the store limits its rate" in str(read(f"{server.url}/x.bin", retries=1))


# ---- listings ----


def page(keys=(), token=None, folders=()):
    contents = "".join(f"<Contents><Key>{k}</Key><Size>{n}</Size></Contents>" for k, n in keys)
    prefixes = "".join(f"<CommonPrefixes><Prefix>{f}</Prefix></CommonPrefixes>" for f in folders)
    more = (
        f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"
        if token
        else "<IsTruncated>false</IsTruncated>"
    )
    return f"<ListBucketResult>{more}{contents}{prefixes}</ListBucketResult>"


def listing_server(pages, objects=None):
    """Returns a Server that answers listings with pages(prefix, token, number of the request), and other requests with the bytes in `objects`, or b"x"."""

    def answer(c, request):
        path = request.split()[1]
        if "list-type" not in path:
            body = (objects or {}).get(path, b"x")
        else:
            query = dict(part.split("=", 1) for part in path.partition("?")[2].split("&"))
            body = pages(query["prefix"], query.get("continuation-token"), len(server.asked)).encode()
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        return True

    server = Server(answer)
    return server


def fresh_token(_prefix, _token, n):
    return page([], f"t{n}")


def one_page_for_ever(_prefix, _token, n):
    return page([("p/c/1.jpg", 1), ("p/c/2.jpg", 1)], f"t{n}")


def foreign_keys(_prefix, _token, n):
    return page([(f"elsewhere/{n}.jpg", 1)], f"t{n}")


def folders_for_ever(_prefix, _token, n):
    return page([], f"t{n}", ["p/c/"])


def same_token(_prefix, _token, n):
    return page([(f"p/c/{n:05}.jpg", 1)], "same")


def two_tokens(_prefix, _token, n):
    return page([], "ab"[n % 2])


def a_cycle(_prefix, token, _n):
    k = int(token or 0)
    return page([(f"p/c/{k:05}.jpg", 1)], str(k + 1 if k < 30 else 17))


@pytest.mark.parametrize("pages", [fresh_token, one_page_for_ever, foreign_keys, folders_for_ever, same_token, two_tokens, a_cycle])
def test_listings_without_an_end(monkeypatch, pages):
    with listing_server(pages) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
        with pytest.raises(StokerError, match=r"in a circle|no end|twice"):
            read_folder("s3://bucket/p")
        assert len(server.asked) <= 6000


def test_a_class_folder_without_a_name_is_refused(monkeypatch):
    """The object p//1.jpg must not be taken for p/1.jpg, which is another one."""

    def pages(prefix, _token, _n):
        return page([("p/1.jpg", 1)], folders=["p/a/", "p//"]) if prefix == "p%2F" else page([(f"{prefix}1.jpg".replace("%2F", "/"), 1)])

    with listing_server(pages) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
        with pytest.raises(
            InvalidArgumentError, match=r's3://bucket/p: keys begin with "p//", so that the folder of their class has no name: rename them'
        ):
            read_folder("s3://bucket/p")


def read_folder(uri):
    p = Pipeline(1, 1, None, timeout=60, storage=Storage(**QUICK))
    with p:
        p.set_outputs(*fn.readers.file(file_root=uri, name="reader"))
    p.build()
    n = p.epoch_size("reader")
    p.close()
    return n


def test_listings_that_repeat_names(monkeypatch):
    """A folder that is on two pages is listed once. An object that is listed twice would become two samples."""

    def folder_twice(prefix, token, _n):
        if prefix:
            return page([(f"{prefix.replace('%2F', '/')}1.jpg", 1)])
        return page([], None if token else "t", ["a/", "b/"] if token else ["a/"])

    def key_twice(prefix, _token, _n):
        return page([("a/1.jpg", 1), ("a/1.jpg", 1)]) if prefix else page([], None, ["a/"])

    with listing_server(folder_twice) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
        assert read_folder("s3://bucket/") == 2
    with listing_server(key_twice) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
        with pytest.raises(StokerError, match=r"lists a/1\.jpg twice"):
            read_folder("s3://bucket/")


# ---- random answers ----


def draw_status(r, ranged):
    right = 206 if ranged else 200
    others = [200, 206, 204, 304, 301, 302, 307, 308, 400, 403, 404, 410, 416, 429, 500, 503, 599, 999, 101, 203, 226]
    return right if r.random() < 0.7 else r.choice(others)


def draw_endings(r, tls):
    return r.choice(["fin", "fin", "fin", "rst", "cut"] if tls else ["fin", "fin", "rst"])


class Hostile:
    """Answers requests with right and wrong responses, drawn from a grammar. listed: the client knows the object's size from a listing, so it can detect a
    wrong size even if all responses state the same one."""

    def __init__(self, seed, body, listed, tls):
        self.r = random.Random(seed)
        self.body, self.listed, self.tls = body, listed, tls
        self.well, self.mild = False, 0.0  # well: gives only right responses; mild: share of right responses otherwise
        self.etag = False  # right responses name a version; without a version, the client stores no index of the object
        self.drawn = []
        self._lock = threading.Lock()

    def listing(self, path):
        folder = "prefix=c%2F" in path
        return page([("c/x.bin", len(self.body))]) if folder else page([], None, ["c/"])

    def __call__(self, c, request):
        path = request.split()[1]
        if "list-type" in path:
            text = self.listing(path).encode()
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
            return True
        ranges = [line[13:] for line in request.split("\r\n") if line.lower().startswith("range: bytes=")]
        with self._lock:
            pieces, how, drawn = self.draw(ranges[0] if ranges else None)
            self.drawn.append(drawn)
        for piece in pieces:
            c.sendall(piece)
        return how

    def draw(self, asked):
        """Draws a response: returns the pieces to send, the end of the connection, and a description of the draws."""
        r, size = self.r, len(self.body)
        first, last = 0, size - 1
        if asked:
            begin, _, end = asked.partition("-")
            first, last = int(begin), min(int(end), size - 1) if end else size - 1
        part = self.body[first : last + 1]
        if self.well or (self.mild and r.random() < self.mild):
            status, head = (206, [f"Content-Range: bytes {first}-{last}/{size}"]) if asked else (200, [])
            head += ['ETag: "a"'] if self.etag else []
            return [self.head("1.1", status, [*head, f"Content-Length: {len(part)}"]) + part], True, "well"
        status = draw_status(r, bool(asked))
        head = []
        wrong_place = status == 206 and r.random() < 0.4
        if status == 206:
            place = r.choice(["none", "shift", "total", "more", "less", "star", "mad", "twice", "parts"]) if wrong_place else "right"
            head += self.range_lines(place, first, last, size)
        else:
            place = ""
        if status == 200:
            part = self.body
        if r.random() < 0.5:
            head.append(f'ETag: "{r.choice("ab") if r.random() < 0.2 else "a"}"')
        if status in (301, 302, 307, 308) and r.random() < 0.7:
            head.append("Location: " + r.choice(["/other", "file:///etc/passwd", "//", "http://127.0.0.1:1/", "?" + "x" * 3000]))
        oddities = self.oddities(head)
        framing = r.choice(
            ["length"] * 4 + ["chunked"] * 3 + ["close"] * 2 + ["short", "long", "negative", "huge", "two", "both", "text", "empty"]
        )
        if framing in ("short", "empty") and not self.listed and status in (200, 203, 226):
            framing = "length"  # without a listing, the client cannot detect wrong sizes in other framings
        how = draw_endings(r, self.tls)
        cut = r.random() < 0.25
        if framing == "close" and cut and how == "fin" and not self.listed:
            how = "rst"  # otherwise the client cannot detect that the body was cut
        version = r.choice(["1.1", "1.1", "1.1", "1.0"])
        lines, body = self.frame(framing, part, cut, version)
        begin = b"".join(r.choice([[], [], [], [b"HTTP/1.1 100 Continue\r\n\r\n"], [b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n"] * 3]))
        text = begin + self.head(version, status, [*head, *lines, *oddities])
        if r.random() < 0.1:
            text = text[: r.randrange(len(text))]
            body = b""
        if r.random() < 0.1 and body and not cut and framing in ("length", "chunked"):
            body += b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"
        keep = framing in ("length", "chunked") and not cut and r.random() < 0.5 and version == "1.1" and body
        drawn = (asked, status, place, framing, "cut" if cut else "", "keep" if keep else how, version, oddities and oddities[0][:30])
        at = r.randrange(len(body) + 1)
        return [text + body[:at], body[at:]], True if keep else how, drawn

    @staticmethod
    def head(version, status, lines):
        return "".join(line + "\r\n" for line in [f"HTTP/{version} {status} Said", *lines, ""]).encode("latin-1")

    def range_lines(self, place, first, last, size):
        at = "Content-Range: bytes "
        return {
            "right": [f"{at}{first}-{last}/{size}"],
            "none": [],
            "shift": [f"{at}{first + 1}-{last + 1}/{size + 1}"],
            "total": [f"{at}{first}-{last}/{size + 7}"],
            "more": [f"{at}{first}-{last + 5}/{size + 5}"],
            "less": [f"{at}{first}-{max(first, last - 1)}/{size}"],
            "star": [f"{at}{first}-{last}/*"],
            "mad": [f"{at}{last}-{first - 1}/-{size}"],
            "twice": [f"{at}{first}-{last}/{size}", f"{at}0-0/{size}"],
            "parts": ["Content-Type: multipart/byteranges; boundary=b"],
        }[place]

    def oddities(self, head):
        r = self.r
        if r.random() < 0.75:
            return []
        lines = [
            "Content-Encoding: gzip",
            "Transfer-Encoding: gzip",
            "X: " + "y" * 200_000,
            "A: b\rContent-Length: 1",
            " folded: x",
            "no colon here",
            "A\0: b",
        ]
        lines += [
            "Content-Encoding: identity",
            "content-length : 5",
            "Content-Range: bytes 0-0/1",
            "Connection: close, keep-alive",
            "X: " + "z" * 3000,
        ]
        return [r.choice(lines)]

    def frame(self, framing, part, cut, version):
        r, sent = self.r, part[: self.r.randrange(len(part) + 1)] if cut else part
        if framing == "chunked":
            return ["Transfer-Encoding: chunked"], self.chunks(sent, cut)
        if framing == "close":
            return ["Connection: close"], sent
        n = len(part)
        lengths = {
            "length": [n],
            "long": [n + 1 + r.randrange(1000)],
            "negative": [-n],
            "huge": [r.choice([10**17, 10**30])],
            "two": [n, n + 1],
            "empty": [0],
        }
        lengths |= {"short": [n // 2], "both": [n], "text": [r.choice(["1e3", "0x10", f"{n},{n}", f"+{n}", "", f"{n} {n}"])]}
        lines = [f"Content-Length: {x}" for x in lengths[framing]]
        if framing == "both":
            return [*lines, "Transfer-Encoding: chunked"], self.chunks(sent, cut)
        return lines, sent[: n // 2] if framing == "short" else b"" if framing == "empty" else sent

    def chunks(self, data, cut):
        r, out, at = self.r, [], 0
        bad = r.random() < 0.2
        while at < len(data):
            n = min(len(data) - at, 1 + r.randrange(1 + len(data)))
            size = f"{n:x}" + r.choice(["", "", ";a=b", ' ;a="b"', ";"])
            if bad and r.random() < 0.5:
                size = r.choice([f"-{n:x}", "", "xyz", f"{n:x} {n:x}", f"{n + 1:x}", f"0x{n:x}", "f" * 17])
            out.append(size.encode() + b"\r\n" + data[at : at + n] + b"\r\n")
            at += n
        if not cut:
            out.append(r.choice([b"0\r\n\r\n", b"0\r\n\r\n", b"0\r\nA: b\r\nContent-Length: 1\r\n\r\n", b"000;x\r\n\r\n"]))
        return b"".join(out)


@pytest.mark.timeout(3600 if LONG else 120)
@pytest.mark.parametrize("way", ["http", "https", "listed", "listed https", "listed gs"])
def test_a_hostile_server(way, certificate, tmp_path, monkeypatch):
    """Reads return the right bytes or an error. Afterwards, the server stops lying, and reads return the right bytes, even through a cache."""
    print(f"seed {SEED}")
    tls, listed = "https" in way, "listed" in way
    right = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for k in range(1500 if LONG else 40):
        r = random.Random(f"{SEED}/{way}/{k}")
        hostile = Hostile(f"{SEED}/{way}/{k}/answers", r.randbytes(r.choice(SIZES)), listed, tls)
        settings = {"retries": r.randrange(3), "cache": tmp_path / f"cache{k}", "stall_timeout": 2, "answer_timeout": 2, "hedging": False}
        if tls:
            settings["ca_bundle"] = certificate[1]
        with Server(hostile, certificate if tls else None) as server:
            monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
            uri = "s3://bucket/" if listed else f"{server.url}/x.bin"
            if "gs" in way:
                uri, settings = "gs://bucket/", {**settings, "endpoint": server.url, "anonymous": True}
            begun = time.monotonic()
            got = read_listed(uri, **settings) if listed else read(uri, **settings)
            if not isinstance(got, StokerError):
                assert got == hostile.body, f"seed {SEED}, {way}, draw {k}: {len(got)} bytes of {len(hostile.body)}: {hostile.drawn}"
                right += 1
            assert time.monotonic() - begun < 50, f"seed {SEED}, {way}, draw {k}: {hostile.drawn}"
            hostile.well = True
            settings |= {"stall_timeout": 20, "answer_timeout": 20}  # this run must succeed, even if a busy machine answers late
            again = read_listed(uri, **settings) if listed else read(uri, **settings)
            assert again == hostile.body, f"seed {SEED}, {way}, draw {k}, the second run: {again!r:.200}: {hostile.drawn}"
        shutil.rmtree(tmp_path / f"cache{k}")
        if k % 20 == 0:
            return_free_memory()
    assert right > 5, "most answers are refused: the grammar is too hostile to test what is delivered"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10  # 300 MiB, in KiB


def sound_file(r, count=None):
    samples = np.frombuffer(r.randbytes(2 * (count or r.choice([400, 4000, 60_000]))), "<i2")
    return wav(samples, 8000)


def table_file(r):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    n = r.choice([10, 3000])
    out = io.BytesIO()
    table = pa.table({"label": [r.randrange(10**9) for _ in range(n)]})
    pq.write_table(table, out, row_group_size=500, compression="none")
    return out.getvalue()


def table_of_images(r):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    images = [b"\xff\xd8\xff" + r.randbytes(r.randrange(3000)) for _ in range(40)]
    out = io.BytesIO()
    pq.write_table(pa.table({"image": images, "label": list(range(40))}), out, row_group_size=7)
    return out.getvalue()


def samples_of(uri, storage, _folder):
    return AudioDecoder(uri, storage=storage).get_all_samples().data.numpy().tobytes()


def frames_of(uri, storage, _folder):
    return VideoDecoder(uri, storage=storage).get_frames_at([0, 7, 20]).data.numpy().tobytes()


def labels_of(uri, storage, _folder):
    with Loader(uri, 500, storage=storage, num_threads=1) as loader:
        return [label for batch in loader for label in batch.label.tolist()]


def sounds_of_a_manifest(uri, storage, folder):
    listed = folder / "manifest.json"
    listed.write_text(json.dumps({"audio_filepath": uri, "text": "a"}) + "\n")
    with Loader(listed, 1, fields={"audio": Audio(rate=8000)}, storage=storage, num_threads=1) as loader:
        return [sound.numpy().tobytes() for batch in loader for sound in batch.audio]


def tars_of(uri, storage, folder):
    """Packs a table, and returns the bytes of each tar. After an error no folder has the final name."""
    out = Path(tempfile.mkdtemp(dir=folder)) / "tars"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_table_pack, "common", lambda: storage)
        status = _table_pack.main([uri, "-o", str(out), "-q", "--shard-size", "20KB"])
    assert out.exists() == (status == 0)
    if status:
        raise ReadError("stoker pack has reported an error")
    return [tar.read_bytes() for tar in sorted(out.glob("*.tar"))]


# kind: (ending of the object's name; function that makes the object, or arguments for ffmpeg; function that reads the object; number of draws in a short run)
MEDIA = {
    "sound": ("wav", sound_file, samples_of, 25),
    "flac": ("flac", "-c:a flac", samples_of, 10),
    "mp3": ("mp3", "-c:a libmp3lame", samples_of, 10),
    "ogg": ("ogg", "-c:a libvorbis", samples_of, 10),
    "manifest": ("wav", sound_file, sounds_of_a_manifest, 10),
    "clip": ("mp4", "-vf scale=128:96 -c:v libx264 -preset fast -g 12", frames_of, 25),
    "mkv": ("mkv", "-vf scale=128:96 -c:v libx264 -preset fast -g 12", frames_of, 10),
    "table": ("parquet", table_file, labels_of, 25),
    "pack": ("parquet", table_of_images, tars_of, 10),
}


def made_by_ffmpeg(folder, ending, arguments):
    """Returns the bytes of a sound or a video that ffmpeg makes. Skips the test if it cannot be made or decoded."""
    videos = pytest.importorskip("videos")
    if not videos.can_decode() or not shutil.which("ffmpeg"):
        pytest.skip("needs the ffmpeg program, and a build with video")
    (folder / "x.wav").write_bytes(sound_file(random.Random(SEED), 20_000))
    source = ["-i", folder / "x.wav"] if "-c:a" in arguments else ["-f lavfi -i", videos.SOURCE.format(1)]
    videos.ffmpeg(*source, arguments, folder / f"x.{ending}")
    return (folder / f"x.{ending}").read_bytes()


@pytest.mark.timeout(3600 if LONG else 120)
@pytest.mark.parametrize("kind", MEDIA)
def test_a_hostile_server_of_media(kind, tmp_path, monkeypatch):
    """Readers of media request an object in several parts. They return its contents, or an error. A later run, which may use an index that they stored,
    returns the contents."""
    pytest.importorskip("torch")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    ending, make, read_it, short = MEDIA[kind]
    made = made_by_ffmpeg(tmp_path, ending, make) if isinstance(make, str) else None
    print(f"seed {SEED}")
    right = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for k in range(400 if LONG else short):
        r = random.Random(f"{SEED}/{kind}/{k}")
        hostile = Hostile(f"{SEED}/{kind}/{k}/answers", made or make(r), False, False)
        hostile.well, hostile.etag = True, k % 2 == 1
        with Server(hostile) as server:
            how = {"hedging": False, "retries": r.randrange(3)}

            def contents(patience=20, uri=f"{server.url}/x.{ending}", how=how):
                return read_it(uri, Storage(stall_timeout=patience, answer_timeout=patience, **how), tmp_path)

            want = contents()
            if k % 4 > 1:
                # Without this, the second run would use the index that the first one has stored.
                shutil.rmtree(tmp_path / "caches", ignore_errors=True)
            hostile.well, hostile.mild = False, r.choice([0.7, 0.95])
            begun = time.monotonic()
            try:
                got = contents(patience=2)
            except (StokerError, OSError):
                got = None
            assert got in (None, want), f"seed {SEED}, {kind}, draw {k}: {hostile.drawn}"
            assert time.monotonic() - begun < 50, f"seed {SEED}, {kind}, draw {k}: {hostile.drawn}"
            right += got is not None
            hostile.well = True
            assert contents() == want, f"seed {SEED}, {kind}, draw {k}, the run without faults after it: {hostile.drawn}"
        if k % 20 == 0:
            return_free_memory()
    print(f"{right} times the right bytes")
    assert right or not LONG, "all answers are refused: the grammar is too hostile to test what is delivered"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10  # 300 MiB, in KiB


class Growing(http.server.BaseHTTPRequestHandler):
    """Answers ranges of the server's body, to which it appends bytes after `same` responses. etag: value of the header, or None."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        server = self.server
        server.answered += 1
        body = server.body + (bytes(1000) if server.answered > server.same else b"")
        first, _, last = self.headers.get("Range", "bytes=0-")[6:].partition("-")
        part = body[int(first) : int(last or len(body) - 1) + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(part)))
        if server.etag:
            self.send_header("ETag", server.etag)
        self.end_headers()
        self.wfile.write(part)


@pytest.mark.parametrize("etag", ['"one"', None])
@pytest.mark.parametrize("same", [1, 2, 3])
def test_an_object_that_grows_between_its_parts(etag, same):
    """Parts of an object are not joined if its size differs between responses, even if the server names no version, or always the same version."""
    body = sound_file(random.Random(1), 200_000)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Growing) as server:
        server.body, server.etag, server.same, server.answered = body, etag, same, 0
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with pytest.raises(ReadError, match=rf"it changed while it was read: it had {len(body)} bytes, and has {len(body) + 1000}"):
                AudioDecoder(f"http://127.0.0.1:{server.server_port}/x.wav", storage=Storage(retries=0, hedging=False)).get_all_samples()
        finally:
            server.shutdown()
            thread.join()


def read_listed(uri, **storage):
    p = Pipeline(1, 1, None, timeout=60, storage=Storage(**storage), memory_limit=32 << 20)
    with p:
        p.set_outputs(fn.readers.file(file_root=uri, file_filters=["*.bin"])[0])
    p.build()
    try:
        return p.run()[0].at(0).tobytes()
    except StokerError as e:
        return e
    finally:
        p.close()


def test_an_answer_without_an_end(monkeypatch):
    """If a body never ends, the client stops at the size in the listing, or else at memory_limit."""

    def answer(c, request):
        if "list-type" in request:
            text = (page([("c/x.bin", 1000)]) if "prefix=c%2F" in request else page([], None, ["c/"])).encode()
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
            return True
        c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        sent = 0
        while True:
            sent += c.send(b"40000\r\n" + bytes(1 << 18) + b"\r\n")
            most[0] = max(most[0], sent)

    most = [0]
    with Server(answer) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
        assert "the listing" in str(read_listed("s3://bucket/", **QUICK)) and most[0] < 16 << 20
        assert "memory_limit" in str(read(f"{server.url}/x.bin", **QUICK))


# ---- objects that fail again and again ----


FAILING = {
    "500": lambda c: c.sendall(b"HTTP/1.1 500 Error\r\nContent-Length: 0\r\n\r\n") or True,
    "reset": lambda c: "rst",
    "cut": lambda c: c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc") or "fin",
    "silent": lambda c: time.sleep(8) or "fin",
    "nonsense": lambda c: c.sendall(b"nonsense\r\n\r\n") or "fin",
    "another part": lambda c: c.sendall(b"HTTP/1.1 206 OK\r\nContent-Range: bytes 5-6/9\r\nContent-Length: 2\r\n\r\nab") or "fin",
}


def failing_server(how, bad):
    def answer(c, request):
        k = int(request.split()[1].strip("/"))
        if bad(k):
            return FAILING[how](c)
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n%03d" % (k % 1000))
        return True

    return Server(answer)


def run_over(url, n, on_error, batches, patience=20, **more):
    """Runs up to `batches` batches. Returns their samples, the bad samples, and the error that ended the run or None."""
    store = Storage(retries=1, answer_timeout=patience, stall_timeout=20, hedging=False)
    p = Pipeline(8, 1, None, timeout=60, storage=store, on_error=on_error, max_errors=n, **more)
    with p:
        p.set_outputs(fn.readers.file(files=[f"{url}/{k}" for k in range(n)], name="r")[0])
    p.build()
    out, error = [], None
    try:
        for _ in range(batches):
            batch = p.run()[0]
            out += [int(batch.at(i).tobytes()) for i in range(len(batch))]
    except StokerError as e:
        error = e
    bad = [str(b) for b in p.bad_samples()]
    p.close()
    return out, bad, error


@pytest.mark.parametrize("how", FAILING)
@pytest.mark.parametrize("on_error", ["skip", "replace", "raise"])
def test_one_object_that_always_fails(how, on_error):
    with failing_server(how, lambda k: k in (0, 13)) as server:
        out, bad, error = run_over(server.url, 64, on_error, 8, 3 if how == "silent" else 20)
    if on_error == "raise":
        assert error is not None and "/0" in str(error)
        return
    assert error is None, error
    good = [k for k in range(64) if k not in (0, 13)]
    assert out == good if on_error == "skip" else [k for i, k in enumerate(out) if i not in (0, 13)] == good
    assert len(bad) >= 2 and any("/0:" in b for b in bad) and any("/13:" in b for b in bad), bad


@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_many_in_a_row_are_a_source_that_is_down(on_error):
    """All objects fail, from sample 100 on or from the beginning. The run ends with an error soon after the first failure."""
    for first in (100, 0):
        with failing_server("500", lambda k, first=first: k >= first) as server:
            out, _, error = run_over(server.url, 400, on_error, 50)
        assert error is not None and "500" in str(error)
        assert out == list(range(len(out))) if on_error == "skip" else out[:96] == list(range(min(first, 96)))
        assert len(out) <= first + 32


def test_many_that_are_spread_are_bad_samples():
    """A tenth of the objects fails. Of the objects that are read ahead at the same time, more than 32 fail, but not in a row, so they are bad samples, and
    the run continues."""
    with failing_server("500", lambda k: k % 10 == 3) as server:
        out, bad, error = run_over(server.url, 600, "skip", 75)
    assert error is None and out == [k for k in range(600) if k % 10 != 3]
    assert len(bad) >= 60


# ---- tars of a store that gives no ETags ----


class TarStore:
    """Serves a tar without an ETag or a time. how: the whole tar or its first 4600 bytes, and whether the server ignores ranges."""

    def __init__(self, tar):
        self.tar, self.how = tar, "whole"

    def __call__(self, c, request):
        asked = re.search(r"[Rr]ange: bytes=(\d+)-(\d+)", request)
        tar = self.tar if self.how in ("whole", "whole object") else self.tar[:4600]
        first, end = (int(asked[1]), min(int(asked[2]) + 1, len(tar))) if asked else (0, len(tar))
        if self.how in ("whole object", "half object"):  # this server ignores the range that the client requests
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(tar) + tar)
        elif first >= end:
            c.sendall(b"HTTP/1.1 416 No\r\nContent-Range: bytes */%d\r\nContent-Length: 0\r\n\r\n" % len(tar))
        else:
            head = b"HTTP/1.1 206 OK\r\nContent-Range: bytes %d-%d/%d\r\nContent-Length: %d\r\n\r\n"
            c.sendall(head % (first, end - 1, len(tar), end - first) + tar[first:end])
        return True


def indexed_tar(sizes):
    """Returns a tar with a member of each size, and a list of the members' lines in an index of wds2idx."""
    lines, at = [], 0
    for i, size in enumerate(sizes):
        lines.append(f"bin {at + 512} {size} {i}.bin")
        at += 512 + -(-size // 512) * 512
    return tar_of((f"{i}.bin", bytes([65 + i % 150]) * size) for i, size in enumerate(sizes)), lines


@pytest.mark.parametrize("index", [False, True])
@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("how", ["replaced", "half", "half object", "whole object"])
def test_a_tar_without_an_etag_that_changes(tmp_path, monkeypatch, how, cached, index):
    """Samples of the old and the new tar are not mixed: the header of each member is read with it, and compared with the index or with the header that was
    found before."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    old, lines = indexed_tar([900, 900, 2000, 900, 900, 900])
    (tmp_path / "a.idx").write_text("\n".join([f"v1.2 {len(lines)}", *lines]) + "\n")
    new, _ = indexed_tar([900, 2000, 900, 900, 900, 900])
    assert len(new) == len(old)
    store = TarStore(old)

    def epochs(n):
        p = Pipeline(
            2, 2, None, timeout=60, storage=Storage(**QUICK, cache=str(tmp_path / "cache") if cached else None), prefetch_queue_depth=1
        )
        with p:
            more = {"index_paths": [str(tmp_path / "a.idx")]} if index else {}
            p.set_outputs(fn.readers.webdataset(paths=[f"{server.url}/a.tar"], ext=["bin"], name="r", **more))
        p.build()
        try:
            for _ in range(n):
                yield [s.tobytes() for _ in range(3) for s in map(np.asarray, p.run()[0])]
        finally:
            p.close()

    with Server(store) as server:
        whole = [bytes([65 + i]) * n for i, n in enumerate([900, 900, 2000, 900, 900, 900])]
        run = epochs(6)
        assert next(run) == whole
        if how == "replaced":
            store.tar = new
        else:
            store.how = how
        if cached or how == "whole object":
            assert next(run) == whole  # from the cache; without one, the server sends the whole old tar in answer to a range
            run.close()
        else:
            with pytest.raises(StokerError, match=r"changed or replaced|the listing or the index says|has fewer than|ends before byte"):
                assert all(epoch == whole for epoch in run)
        if cached and how == "replaced" and index:
            (tmp_path / "a.idx").write_text("\n".join([f"v1.2 {len(lines)}", *indexed_tar([900, 2000, 900, 900, 900, 900])[1]]) + "\n")
            assert next(epochs(1)) == [bytes([65 + i]) * n for i, n in enumerate([900, 2000, 900, 900, 900, 900])]


@pytest.mark.parametrize("how", ["replaced", "half"])
def test_a_tar_without_an_etag_that_changes_while_it_is_searched(tmp_path, monkeypatch, how):
    """Samples that are read again, after the search has passed them, have their headers compared with those that the search found."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    sizes = random.Random(SEED).sample(range(5000, 15000), 200)
    old, new = indexed_tar(sizes)[0], indexed_tar(sizes[::-1])[0]
    assert len(new) == len(old)
    store = TarStore(old)
    with (
        Server(store) as server,
        Pipeline(2, 2, None, timeout=60, storage=Storage(**QUICK), prefetch_queue_depth=1, read_bytes=200_000) as p,
    ):
        given = {"paths": [f"{server.url}/a.tar"], "ext": ["bin"], "tail": "keep"}
        p.set_outputs(catalog_call(find("readers.webdataset_unindexed"), (), given))
        want = iter(range(200))

        def batch():
            for s in map(np.asarray, p.run()[0]):
                i = next(want)
                assert s.tobytes() == bytes([65 + i % 150]) * sizes[i]

        batch()
        store.tar, store.how = (new, "whole") if how == "replaced" else (old, "half")
        with pytest.raises(StokerError, match=r"changed or replaced|the listing or the index says|has fewer than|ends before byte|damaged"):
            for _ in range(99):
                batch()
