# SPDX-License-Identifier: Apache-2.0
"""Wrong endpoints, such as silent servers and those of another scheme, and the messages about them."""

import contextlib
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from stoker import Loader, Storage, fn, pipeline_def
from stoker.errors import NotFoundError, ReadError, StokerError
from storage import KEYS, Store, tls_door
from support import NO_AWS

SECRETS = {"access_key": KEYS["AWS_ACCESS_KEY_ID"], "secret_key": KEYS["AWS_SECRET_ACCESS_KEY"]}


@pytest.fixture(autouse=True)
def nothing_else(monkeypatch):
    for name, value in NO_AWS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@contextlib.contextmanager
def server(answer):
    """Accepts connections, and yields the port. answer: called with each connection; None: sends nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        kept = []

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    kept.append(listener.accept()[0])
                    if answer is not None:
                        with contextlib.suppress(OSError):
                            answer(kept[-1])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for c in kept:
                c.close()


def read_one(uri, storage):
    @pipeline_def(batch_size=1, num_threads=1, storage=storage)
    def define():
        return fn.readers.file(files=[uri], name="reader")[0]

    pipe = define()
    pipe.build()
    try:
        pipe.run()
    finally:
        del pipe


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("given", [{}, {"retries": 2}], ids=str)
def test_a_silent_endpoint(scheme, given):
    """The user may set the time-out and the number of tries; by default a request is sent twice. A batch that cannot be read is not skipped."""
    with server(None) as port:
        times = {"answer_timeout": 0.2, "connect_timeout": 0.2}
        storage = Storage(endpoint=f"{scheme}://127.0.0.1:{port}", **given, **times, **SECRETS)
        for source in ("s3://b/train", "s3://b/s-*.tar"):
            before = storage.counters()["storage_retries"]
            with pytest.raises(
                StokerError, match=r"no answer within 0\.2 s; check the endpoint|SSL connection timeout; if it does not use TLS"
            ):
                Loader(source, 4, storage=storage)
            assert storage.counters()["storage_retries"] - before == given.get("retries", 1)
        with pytest.raises(ReadError, match=r"s3://b/k\.jpg: (no answer within 0\.2 s; check the endpoint|SSL connection timeout; if it)"):
            read_one("s3://b/k.jpg", storage)
        with pytest.raises(ReadError, match=r"/k\.jpg: (no answer within 0\.2 s; check the address|SSL connection timeout; if it)"):
            read_one(f"{scheme}://127.0.0.1:{port}/k.jpg", storage)


def test_an_endpoint_that_falls_silent_is_tried_as_ever(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "k.jpg").write_bytes(b"bytes")
    store = Store(tmp_path)
    try:
        storage = Storage(endpoint=store.url, answer_timeout=0.1, retries=4, **SECRETS)
        read_one("s3://b/k.jpg", storage)
        store.set("silent=1")
        with pytest.raises(ReadError, match=r"s3://b/k\.jpg: no answer within 0\.1 s; sample"):
            read_one("s3://b/k.jpg", storage)
        store.set("")
        read_one("s3://b/k.jpg", storage)
    finally:
        store.close()


IN_WORDS = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 48\r\nConnection: close\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"


def answering(data):
    """Returns an `answer` for server(), which sends `data` after the request and then closes the connection."""

    def answer(connection):
        connection.settimeout(5)
        connection.recv(4096)
        connection.sendall(data)
        connection.close()

    return answer


@pytest.mark.parametrize(
    ("scheme", "answer", "message"),
    [
        ("http", b"\x15\x03\x01\x00\x02\x02\x46", "the server answers in TLS; use https:// instead"),
        ("http", IN_WORDS, "the server answers 400: it needs TLS; use https:// instead"),
        ("http", b"", "if it needs TLS, use https:// instead"),
        ("https", b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "the server does not use TLS; use http:// instead"),
    ],
    ids=["alert", "words", "nothing", "plain"],
)
def test_the_other_scheme_is_named(scheme, answer, message):
    with server(answering(answer)) as port:
        storage = Storage(endpoint=f"{scheme}://127.0.0.1:{port}", **SECRETS)
        with pytest.raises(ReadError) as caught:
            read_one("s3://b/k.jpg", storage)
        assert message in str(caught.value) and "s3://b/k.jpg: " in str(caught.value)
        with pytest.raises(StokerError, match=message):
            Loader("s3://b/train", 4, storage=storage)


def test_a_store_that_uses_tls(tmp_path):
    """If the URL of a store with TLS has the wrong scheme, or the authority of its certificate is unknown, the error names the remedy."""
    store = Store(tmp_path)
    try:
        with tls_door(store, tmp_path) as (url, _):
            with pytest.raises(ReadError, match=r"if it needs TLS, use https:// instead|answers in TLS; use https:// instead"):
                read_one("s3://b/k.jpg", Storage(endpoint=url.replace("https", "http"), **SECRETS))
            with pytest.raises(ReadError, match=r"certificate.*: name the file of its authority's certificates \(AWS_CA_BUNDLE"):
                read_one("s3://b/k.jpg", Storage(endpoint=url, **SECRETS))
    finally:
        store.close()


class PartlyDenied(BaseHTTPRequestHandler):
    """A bucket in which the objects named in `denied` cannot be read."""

    protocol_version = "HTTP/1.1"
    denied: tuple[str, ...] = ()

    def log_message(self, *_):
        pass

    def do_GET(self):
        no = self.path.rpartition("/")[2] in self.denied
        body = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>" if no else self.path.encode()
        self.send_response(403 if no else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.mark.parametrize("policy", ["raise", "skip"])
@pytest.mark.parametrize("denied", ["one", "all"])
def test_an_object_that_may_not_be_read(monkeypatch, policy, denied):
    """If one object may not be read, its sample fails. If none may, the keys are wrong, which is an error under any policy."""
    names = [f"{i}.txt" for i in range(12)]
    monkeypatch.setattr(PartlyDenied, "denied", ("7.txt",) if denied == "one" else tuple(names))
    server = ThreadingHTTPServer(("127.0.0.1", 0), PartlyDenied)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    storage = Storage(endpoint=f"http://127.0.0.1:{server.server_address[1]}", **SECRETS)

    @pipeline_def(batch_size=4, num_threads=2, storage=storage, on_error=policy, max_errors=0.5)
    def define():
        return fn.readers.file(files=[f"s3://b/{n}" for n in names], name="reader")[0]

    pipe = define()
    pipe.build()
    try:
        if denied == "all" or policy == "raise":
            with pytest.raises(
                ReadError if denied == "all" else NotFoundError, match=r"s3://b/\d+\.txt: the server answers 403 AccessDenied"
            ) as caught:
                for _ in range(3):
                    pipe.run()
            assert denied == "all" or "s3://b/7.txt" in str(caught.value)
        else:
            assert sum(len(pipe.run()[0]) for _ in range(3)) == 11
            assert [b.uri for b in pipe.bad_samples()][:1] == ["s3://b/7.txt"]
    finally:
        server.shutdown()
        server.server_close()
