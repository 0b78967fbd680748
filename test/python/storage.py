# SPDX-License-Identifier: Apache-2.0
"""An object store for tests, the program of test/s3, also over TLS; and functions that run `stoker` and return a Loader's samples, with which tests
compare stores and folders."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import shutil
import socket
import socketserver
import ssl
import subprocess
import threading
import urllib.request
from pathlib import Path

import pytest
from stoker import Loader
from stoker import transforms as T
from support import NO_AWS

BUILD = Path(__file__).resolve().parents[2] / os.environ.get("STOKER_BUILD", "build")
PROGRAM = BUILD / "test" / "s3" / "s3_server"
SMALL = [T.RandomResizedCrop(16), T.RandomHorizontalFlip()]
KEYS = {"AWS_ACCESS_KEY_ID": "AKIATESTTESTTEST", "AWS_SECRET_ACCESS_KEY": "sEcReT/of+the=tests"}


class Store:
    """Serves ROOT/BUCKET/KEY on loopback until it is closed. settings: as for set(). key: the access key of the clients; "" admits every client.
    environment: variables with which a client finds the store and signs requests. Skips the test if the build has no server."""

    def __init__(self, root: Path, settings: str = "", key: str = KEYS["AWS_ACCESS_KEY_ID"]) -> None:
        if not PROGRAM.exists():
            pytest.skip(f"there is no {PROGRAM}: the build found no headers of libcurl or of OpenSSL")
        keys = {"S3_KEY": key, "S3_SECRET": KEYS["AWS_SECRET_ACCESS_KEY"]}
        command = [str(PROGRAM), str(root), *([settings] if settings else [])]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **keys})
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        self.environment = {**KEYS, **NO_AWS, "AWS_ENDPOINT_URL_S3": self.url, "NO_PROXY": "127.0.0.1"}

    def set(self, settings: str) -> None:
        """Sets the server's settings for later responses, as in "p503=0.1&seed=3", and resets all others."""
        self._ask(f"_set?{settings}")

    def counts(self) -> dict[str, int]:
        return json.loads(self._ask("_counts"))

    def _ask(self, path: str) -> bytes:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{self.url}/{path}", timeout=20) as answer:
            return answer.read()

    def close(self) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(20)
        finally:
            self._process.kill()
            self._process.stdout.close()


def make_certificates(folder: Path) -> ssl.SSLContext:
    """Returns a server's TLS settings for 127.0.0.1, with a certificate whose authority, written to FOLDER/ca.pem, no system trusts."""
    openssl = shutil.which("openssl")
    if not openssl:
        pytest.skip("there is no openssl to make certificates")

    def make(*arguments):
        subprocess.run([openssl, *arguments], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    make("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=an authority", "-days", "2")
    make("req", *key, "-keyout", "key.pem", "-out", "request.pem", "-subj", "/CN=127.0.0.1")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    signs = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names", "-days", "2")
    make("x509", "-req", "-in", "request.pem", "-out", "cert.pem", *signs)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


@contextlib.contextmanager
def tls_door(store: Store, folder: Path, size=lambda: 1 << 16):
    """Serves the store over TLS, with a certificate from an authority that no system trusts. Yields (URL, path of the authority's certificate). size:
    returns the maximum size in bytes of the next TLS record."""
    context = make_certificates(folder)

    class Door(socketserver.BaseRequestHandler):
        def handle(self):
            store_port = int(store.url.rpartition(":")[2])
            with (
                contextlib.suppress(OSError),
                context.wrap_socket(self.request, server_side=True) as outside,
                socket.create_connection(("127.0.0.1", store_port)) as inside,
            ):
                sides = {outside: inside, inside: outside}
                while True:
                    for side in [outside] if outside.pending() else select.select(list(sides), [], [])[0]:
                        data = side.recv(size())
                        if not data:
                            return
                        sides[side].sendall(data)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Door) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_address[1]}", folder / "ca.pem"
        server.shutdown()
        server.block_on_close = False


def hashes(source, epochs: int = 1, **more) -> list[tuple[str, int, int]]:
    """Returns (hash of the image, label, id) of each sample of a shuffled Loader over the source, in order. more: arguments of Loader."""
    arguments = {"fields": ("image", "label", "index"), "shuffle": True, "seed": 5, "last_batch": "keep", **more}
    loader = Loader(source, 4, transforms=SMALL, **arguments)
    out = []
    for _ in range(epochs):
        for batch in loader:
            out += [(hashlib.md5(i.numpy().tobytes()).hexdigest(), int(l), int(k)) for i, l, k in zip(*batch, strict=True)]
    loader.close()
    return out


def stoker(*args, code: int = 0) -> str:
    """Runs the `stoker` command, and asserts that its exit code is `code`. Returns its stdout, followed by its stderr."""
    done = subprocess.run([str(BUILD / "cli" / "stoker"), *map(str, args)], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr
