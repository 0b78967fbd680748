# SPDX-License-Identifier: Apache-2.0
"""Reading through a proxy: a small one for tests forwards plain requests, opens tunnels, and may require a password."""

import base64
import contextlib
import select
import shutil
import socket
import socketserver
import threading

import pytest
from stoker import Storage
from stoker.errors import ReadError
from storage import KEYS, Store, tls_door
from storage import hashes as run

SECRETS = {"access_key": KEYS["AWS_ACCESS_KEY_ID"], "secret_key": KEYS["AWS_SECRET_ACCESS_KEY"]}
USER = "me:pass%20word"  # percent-encoded, as URLs require


def _pass_on(client, target):
    sides = {client: target, target: client}
    while True:
        for side in select.select(list(sides), [], [])[0]:
            data = side.recv(1 << 16)
            if not data:
                return
            sides[side].sendall(data)


class Proxy:
    """A proxy for http and for tunnels. asked: its requests, as ("CONNECT", "127.0.0.1:1") or ("GET", "http://..."). wants_user: refuses requests without
    the name and password in USER."""

    def __init__(self, wants_user: bool = False) -> None:
        self.asked: list[tuple[str, str]] = []
        proxy = self
        allowed = b"basic " + base64.b64encode(USER.replace("%20", " ").encode()).lower()

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                with contextlib.suppress(OSError):
                    head = b""
                    while b"\r\n\r\n" not in head:
                        more = self.request.recv(4096)
                        if not more:
                            return
                        head += more
                    method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
                    if wants_user and allowed not in head.lower():
                        self.request.sendall(
                            b'HTTP/1.1 407 Who asks?\r\nProxy-Authenticate: Basic realm="x"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'
                        )
                        return
                    proxy.asked.append((method, target))
                    host = target if method == "CONNECT" else target.split("/")[2]
                    name, _, port = host.rpartition(":")
                    with socket.create_connection((name, int(port))) as store:
                        if method == "CONNECT":
                            self.request.sendall(b"HTTP/1.1 200 Go on\r\n\r\n")
                            _pass_on(self.request, store)
                            return
                        store.sendall(head.replace(f"{method} http://{host}".encode(), f"{method} ".encode(), 1))
                        with store.makefile("rb") as answer:  # handles one request per connection
                            lines = list(iter(answer.readline, b"\r\n"))
                            length = next(int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length"))
                            self.request.sendall(b"".join([*lines, b"Connection: close\r\n\r\n", answer.read(length)]))

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads, self._server.block_on_close = True, False
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def store(tree, tmp_path_factory):
    root = tmp_path_factory.mktemp("store")
    shutil.copytree(tree, root / "photos" / "train")
    server = Store(root)
    yield server
    server.close()


@pytest.fixture(scope="module")
def tls(store, tmp_path_factory):
    with tls_door(store, tmp_path_factory.mktemp("tls")) as door:
        yield door


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch):
    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


def given(url, **more):
    return Storage(endpoint=url, requests=8, retries=2, **SECRETS, **more)


def test_plain_http(store, tree, monkeypatch):
    """Signed requests, also those of listings, go through the proxy that the program or the environment names."""
    want = run(tree)
    for proxy_of_program in (True, False):
        with Proxy() as proxy, monkeypatch.context() as patch:
            more = {"proxy": f"http://{proxy.host}"} if proxy_of_program else patch.setenv("http_proxy", f"http://{proxy.host}") or {}
            assert run("s3://photos/train", storage=given(store.url, **more)) == want
            assert len(proxy.asked) >= 21 and {method for method, _ in proxy.asked} == {"GET"}
            assert all(target.startswith(f"{store.url}/photos") for _, target in proxy.asked)


def test_a_tunnel(tls, tree, monkeypatch):
    """The proxy of an encrypted connection sees only the host and the port. Certificates are still checked."""
    url, authority = tls
    want = run(tree)
    with Proxy() as proxy:
        monkeypatch.setenv("https_proxy", f"http://{proxy.host}")
        assert run("s3://photos/train", storage=given(url, ca_bundle=authority)) == want
        assert proxy.asked and set(proxy.asked) == {("CONNECT", url.removeprefix("https://"))}
        with pytest.raises(ReadError, match="certificate"):
            run("s3://photos/train", storage=given(url))


def test_hosts_without_a_proxy(store, tree, monkeypatch):
    """Hosts in no_proxy are reached directly, and proxy="" disables the environment's proxy."""
    want = run(tree)
    with Proxy() as proxy:
        monkeypatch.setenv("http_proxy", f"http://{proxy.host}")
        for name in ("no_proxy", "NO_PROXY"):
            with monkeypatch.context() as patch:
                patch.setenv(name, "example.org,127.0.0.1")
                assert run("s3://photos/train", storage=given(store.url)) == want
        assert run("s3://photos/train", storage=given(store.url, proxy="")) == want
        assert not proxy.asked


def test_a_proxy_that_wants_a_name(store, tls, tree):
    """The proxy's URL contains the user name and password, which no message shows."""
    want = run(tree)
    url, authority = tls
    with Proxy(wants_user=True) as proxy:
        named = f"http://{USER}@{proxy.host}"
        assert run("s3://photos/train", storage=given(store.url, proxy=named)) == want
        assert run("s3://photos/train", storage=given(url, ca_bundle=authority, proxy=named)) == want
        for endpoint, more in ((store.url, {}), (url, {"ca_bundle": authority})):
            with pytest.raises(ReadError, match="407") as e:
                run("s3://photos/train", storage=given(endpoint, proxy=f"http://me:wrong@{proxy.host}", **more))
            assert "wrong" not in str(e.value) and ("proxy" in str(e.value) or "CONNECT" in str(e.value))
        assert "pass" not in repr(given(store.url, proxy=named))


def test_a_missing_proxy(store):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
    with pytest.raises(ReadError, match=f"127.0.0.1.*{port}"):
        run("s3://photos/train", storage=given(store.url, proxy=f"http://me:secret@127.0.0.1:{port}"))
