# SPDX-License-Identifier: Apache-2.0
"""A process that reads from a store keeps its descriptors, memory and requests below limits. Also tests what the programs that it starts inherit."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import random
import subprocess
import sys
import tarfile
import textwrap
import threading
import wave

import pytest
import stoker
from storage import make_certificates
from support import NO_AWS, SEED, alive, tar_of

SIZE = 5000


class Slow:
    """An HTTP server on loopback, with one thread and no limit of connections. Each answer begins `latency` seconds after its request.

    answer(path, first, last) returns the bytes of the whole object, or None for a request that never gets an answer. The request is for a range if first
    is a number. `asked` holds all (path, first, last) in the order in which they came. context: TLS settings. stated: True: answers state their length;
    False: they are sent in chunks; None: also in chunks, but the last chunk never comes.
    """

    def __init__(self, latency: float, answer=None, context=None, stated: bool | None = True) -> None:
        self.stated = stated
        self.latency, self.answer, self.context = latency, answer or (lambda path, first, last: b"x" * SIZE), context
        self.asked: list[tuple[str, int | None, int | None]] = []
        self.port, self._ready = 0, threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(20)

    @property
    def url(self) -> str:
        return f"{'https' if self.context else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self) -> Slow:
        return self

    def __exit__(self, *_) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=2000, ssl=self.context)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                path, first, last = lines[0].split()[1], None, None
                for line in lines[1:]:
                    if line.lower().startswith("range: bytes="):
                        first, _, end = line[13:].partition("-")
                        first, last = int(first), int(end) if end else None
                self.asked.append((path, first, last))
                await self._reply(writer, path, first, last)
        writer.close()

    async def _reply(self, writer: asyncio.StreamWriter, path: str, first: int | None, last: int | None) -> None:
        data = self.answer(path, first, last)
        if data is None:  # leaves this request without an answer
            await self._stop.wait()
            return
        size, part = len(data), data
        head = "HTTP/1.1 200 OK\r\n"
        if first is not None:
            part = data[first : size if last is None else last + 1]
            head = f"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {first}-{first + len(part) - 1}/{size}\r\n"
        if self.latency:
            await asyncio.sleep(self.latency)
        if self.stated:
            writer.write(f'{head}Content-Length: {len(part)}\r\nETag: "one"\r\n\r\n'.encode() + part)
        else:
            writer.write(f'{head}Transfer-Encoding: chunked\r\nETag: "one"\r\n\r\n'.encode())
            for at in range(0, len(part), 1 << 16):
                piece = part[at : at + (1 << 16)]
                writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                await writer.drain()
            if self.stated is not None:
                writer.write(b"0\r\n\r\n")
        await writer.drain()


def child(text: str, *arguments, timeout: float = 100, env: dict[str, str] | None = None):
    """Runs a program in its own process. The program's last line of output is JSON, which this function returns as a value."""
    command = [sys.executable, "-c", textwrap.dedent(text), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=env, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


# ---- descriptors ----

READS = """
import json, os, resource, sys, threading, time
import stoker
from stoker import Pipeline, fn
url, limit, taken, batches, trusted = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
mine = [os.open("/dev/null", os.O_RDONLY) for _ in range(taken)]
folder = os.open("/proc/self/fd", os.O_RDONLY)
before = len(os.listdir(folder))
most, failed, stop = [0], [0], []
def watch():
    while not stop:
        try:
            os.close(os.open("/dev/null", os.O_RDONLY))
            most[0] = max(most[0], len(os.listdir(folder)) - before)
        except OSError:
            failed[0] += 1
        time.sleep(0.005)
watcher = threading.Thread(target=watch); watcher.start()
pipe = Pipeline(16, 2, None, storage=stoker.Storage(ca_bundle=trusted or None))
with pipe:
    pipe.set_outputs(fn.readers.file(files=[f"{url}/{i}.jpg" for i in range(16 * batches)])[0])
pipe.build()
for _ in range(batches):
    pipe.run()
stop.append(1); watcher.join()
print(json.dumps({"most": most[0], "failed": failed[0], "retries": pipe.counters()["storage_retries"]}))
"""


@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
@pytest.mark.parametrize("limit", [24, 64, 256, 1024])
def test_half_of_the_descriptors_stay_free(tmp_path, limit, tls):
    context = make_certificates(tmp_path) if tls else None
    with Slow(0.1 if limit < 256 else 0.4, context=context) as server:
        batches = max(2, min(limit // 6, 100))
        found = child(READS, server.url, limit, 0, batches, tmp_path / "ca.pem" if tls else "")
    assert found == {"most": found["most"], "failed": 0, "retries": 0}
    assert found["most"] <= limit // 2 + 12, found  # the process's other threads have at most 12 descriptors


@pytest.mark.parametrize("left", [3, 12, 40])
def test_a_process_that_has_few_descriptors_left_reads_more_slowly(left):
    """Other code of the process uses all descriptors but a few. No read fails, and none is retried."""
    with Slow(0.02) as server:
        found = child(READS, server.url, 300, 300 - 12 - left, 6, "")
    assert found["retries"] == 0


def test_two_storages_leave_room_together():
    text = (
        READS.replace("pipe = Pipeline", "pipes = []\nfor _ in range(3):\n  pipe = Pipeline")
        .replace("with pipe:", "  pipes.append(pipe)\n  with pipe:")
        .replace("    pipe.set_outputs", "      pipe.set_outputs")
        .replace("pipe.build()", "  pipe.build()")
        .replace("    pipe.run()", "    [p.run() for p in pipes]")
    )
    with Slow(0.2) as server:
        found = child(text, server.url, 256, 0, 20, "")
    assert (found["failed"], found["retries"]) == (0, 0)


INHERITED = """
import json, os, socket, sys, tarfile, io, threading, time
def inheritable(known):
    out = []
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        try:
            if fd not in known and os.get_inheritable(fd):
                out.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            pass
    return out
# Free numbers that lie far apart: the two ends of a pair of sockets are then no neighbours.
held = [os.open("/", os.O_RDONLY | os.O_CLOEXEC) for _ in range(400)]
for fd in held[::40]:
    os.close(fd)
known = set(held) | {int(n) for n in os.listdir("/proc/self/fd")}
known -= set(held[::40])
import numpy as np
import stoker
from stoker import Loader, Pipeline, fn, pipeline_def
found, stop = set(), []
def watch():
    seen = {}
    while not stop:
        seen = {name: seen.get(name, 0) + 1 for name in inheritable(known)}
        # An old libcurl makes pairs of sockets that are marked right after that; on a busy machine a thread may lose its core in between.
        found.update(name for name, times in seen.items() if times >= 20)
        time.sleep(0.005)
watcher = threading.Thread(target=watch); watcher.start()
http, https, trusted, folder = sys.argv[1:]
store = stoker.Storage(ca_bundle=trusted, cache=folder + "/cache", cache_limit=1 << 20)

@pipeline_def(batch_size=8, num_threads=2, device_id=None, storage=store, trace=folder + "/trace.json")
def files(urls):
    return fn.readers.file(files=urls)[0]

urls = [f"{https}/{i}.jpg" for i in range(64)] + [f"{http}/{i}.jpg" for i in range(64)] + [f"{http.replace('127.0.0.1', 'localhost')}/{i}.jpg" for i in range(32)]
pipe = files(urls)
pipe.build()
for _ in range(len(urls) // 8):
    pipe.run()
del pipe

class Images:
    def __len__(self):
        return 16

    def __getitem__(self, i):
        return np.full((4, 4, 3), i, np.uint8), i

if __name__ == "__main__":
    @pipeline_def(batch_size=4, num_threads=2, device_id=None, storage=store)
    def tars(path):
        return fn.readers.webdataset(paths=[path], ext=["bin"])
    for path in (f"{http}/one.tar", folder + "/one.tar"):
        pipe = tars(path)
        pipe.build()
        for _ in range(4):
            pipe.run()
    loader = Loader(Images(), 4, python_workers=2)
    for _ in loader:
        pass
    after = inheritable(known)
    stop.append(1); watcher.join()
    print(json.dumps({"found": sorted(found), "after": after}))
"""


def test_programs_of_the_users_inherit_nothing(tmp_path):
    """Sockets, socket pairs, caches, tars and traces: a descriptor that is not closed on exec would be open in each program that the script starts."""
    tar = tar_of((f"{i:06}.bin", bytes([i]) * 700) for i in range(16))
    context = make_certificates(tmp_path)

    def answer(path, first, last):
        return tar if path.endswith(".tar") else b"x" * SIZE

    with Slow(0.03, answer) as plain, Slow(0.03, answer, context) as secure:
        (tmp_path / "one.tar").write_bytes(tar)
        found = child(INHERITED, plain.url, secure.url, tmp_path / "ca.pem", tmp_path)
    assert found == {"found": [], "after": []}


INHERITED_BY_WISH = """
import json, os, socket, subprocess, sys
import stoker
from stoker import Pipeline, fn
ends = socket.socketpair()
for end in ends:
    end.set_inheritable(True)
talkers = [subprocess.Popen(["yes"], stdout=ends[0]), subprocess.Popen(["cat"], stdin=ends[1], stdout=subprocess.DEVNULL)]
pipe = Pipeline(16, 2, None, read_requests=64)
with pipe:
    pipe.set_outputs(fn.readers.file(files=[f"{sys.argv[1]}/{i}.jpg" for i in range(320)])[0])
pipe.build()
for _ in range(20):
    pipe.run()
for talker in talkers:
    talker.kill()
    talker.wait()
print(json.dumps([end.get_inheritable() for end in ends]))
"""


def test_a_busy_socket_that_the_user_hands_to_children_stays_inheritable():
    """The socket pairs of an old libcurl are recognised by the bytes that wait in them. A user's socket with such bytes must not be mistaken for one."""
    with Slow(0.03) as server:
        assert child(INHERITED_BY_WISH, server.url) == [True, True]


# ---- descriptors: sounds, clips and tables ----

MEDIA_KINDS = """
import json, os, resource, sys, threading, time
import numpy as np
import stoker
from stoker import Audio, Loader, fn
from stoker import transforms as T
kind, url, limit, after = sys.argv[1], sys.argv[2], int(sys.argv[3]), []
os.environ["STORAGE_EMULATOR_HOST"] = url
if kind == "table":
    import pyarrow.parquet  # opens descriptors of its own
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
folder = os.open("/proc/self/fd", os.O_RDONLY)
known = set(os.listdir(folder))
most, failed, seen, found, stop = [0], [0], {}, set(), []
def natives():
    names = [open(f"/proc/self/task/{t}/comm").read().strip() for t in os.listdir("/proc/self/task")]
    return sorted(n for n in names if n.startswith(("stoker", "stk-")))
def watch():
    global seen
    while not stop:
        try:
            os.close(os.open("/dev/null", os.O_RDONLY))
            names = set(os.listdir(folder)) - known
            most[0] = max(most[0], len(names))
            now = {}
            for name in names:
                if os.get_inheritable(int(name)):
                    where = os.readlink(f"/proc/self/fd/{name}")
                    now[where] = seen.get(where, 0) + 1
            seen = now
            found.update(name for name, times in seen.items() if times >= 20)  # as in the test above
        except OSError as e:
            failed[0] += e.errno in (23, 24)
        time.sleep(0.005)
threading.Thread(target=watch, daemon=True).start()
def load():
    if kind == "sounds":
        fields = {"audio": Audio(rate=8000, duration=0.1), "label": None}
        return Loader([(f"{url}/{i}.wav", i) for i in range(240)], 8, fields=fields, num_threads=2)
    if kind == "clips":
        return Loader([(f"{url}/{i}.mp4", i) for i in range(240)], 8, frames=2, num_threads=2)
    if kind == "table":
        return Loader([f"{url}/{i}.parquet" for i in range(24)], 8, shuffle="groups", fields=("label",), num_threads=2)
    return Loader([(f"gs://bucket/{i}.png", i) for i in range(240)], 8, transforms=[T.Resize((8, 8))], num_threads=2)
count = 0
with load() as loader:
    for batch in loader:
        count += len(batch.label)
stop.append(1)
print(json.dumps({"count": count, "most": most[0], "failed": failed[0], "inherited": sorted(found)}))
"""


def media_of(kind, folder):
    """Returns the bytes that the server answers to any request of a reader of this kind."""
    out = io.BytesIO()
    if kind == "sounds":
        with wave.open(out, "wb") as sound:
            sound.setnchannels(1)
            sound.setsampwidth(2)
            sound.setframerate(8000)
            sound.writeframes(bytes(16000))
        return out.getvalue()
    if kind == "clips":
        videos = pytest.importorskip("videos")
        if not videos.can_decode():
            pytest.skip("needs the ffmpeg program, and a build with video")
        return videos.make(folder, "h264_small.mp4").read_bytes()
    if kind == "table":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table({"label": list(range(10)), "text": ["x" * 2000] * 10}), out, row_group_size=5)
        return out.getvalue()
    Image = pytest.importorskip("PIL.Image")
    Image.new("RGB", (8, 8)).save(out, "PNG")
    return out.getvalue()


@pytest.mark.parametrize("kind", ["sounds", "clips", "table", "bucket of Google's"])
@pytest.mark.parametrize("limit", [64, 256])
def test_newer_sources_leave_descriptors(tmp_path, kind, limit):
    """Half of the descriptors stay free, none is inherited, and no read fails. Files of Python and its packages need some too."""
    pytest.importorskip("torch")
    data = media_of(kind, tmp_path)
    with Slow(0.05, lambda path, first, last: data) as server:
        found = child(MEDIA_KINDS, kind, server.url, limit)
    assert found == {"count": 240, "most": found["most"], "failed": 0, "inherited": []}
    assert found["most"] <= limit // 2 + 20, found


# ---- requests ----


def test_an_object_that_stalls_costs_few_requests():
    """The number of repeated requests (hedges) is at most a twentieth of the objects, plus four. The object that stalls is tried twice (retries=1), each time
    with at most six hedges, even if a twentieth would allow more."""
    count = 1500
    with Slow(0.02, lambda path, first, last: None if path == "/900.jpg" else b"x" * SIZE) as server:
        text = """
            import json, sys
            import stoker
            from stoker import Pipeline, fn
            pipe = Pipeline(10, 2, None, storage=stoker.Storage(retries=1, answer_timeout=4), read_requests=64)
            with pipe:
                pipe.set_outputs(fn.readers.file(files=[f"{sys.argv[1]}/{i}.jpg" for i in range(int(sys.argv[2]))])[0])
            pipe.build()
            try:
                while True:
                    pipe.run()
            except stoker.errors.StokerError as e:
                print(json.dumps(str(e)))
            """
        assert "/900.jpg" in child(text, server.url, count)
    asked = [path for path, _, _ in server.asked]
    assert asked.count("/900.jpg") <= 2 * 7
    assert len(asked) - len(set(asked)) <= 4 + len(set(asked)) / 20


# ---- sources of keys ----

INTERRUPTED = """
import json, os, pathlib, signal, sys, threading, time
import stoker
from stoker import Pipeline, fn
def interrupt():
    while not pathlib.Path(sys.argv[1]).exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
pipe = Pipeline(4, 2, None, storage=stoker.Storage(endpoint="http://127.0.0.1:9", region="here"))
with pipe:
    pipe.set_outputs(fn.readers.file(files=["s3://bucket/1.jpg"] * 4)[0])
try:
    threading.Thread(target=interrupt, daemon=True).start()
    pipe.build()
    print(json.dumps("built"))
except KeyboardInterrupt:
    print(json.dumps("interrupted"))
"""


def write_config(folder, text):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    (folder / "config").write_text(text)
    return {**environment, **NO_AWS, "AWS_CONFIG_FILE": str(folder / "config")}


@pytest.mark.parametrize("command", ["sleep 1000", "trap '' INT TERM; sleep 1000 & wait; sleep 1000"], ids=["hangs", "ignores"])
def test_an_interrupt_ends_a_credential_process(tmp_path, command):
    """Ctrl-C ends a program that waits for its credential_process, even if that process ignores the signal. No process keeps running."""
    environment = write_config(
        tmp_path,
        f"[default]\ncredential_process = echo $$ >> {tmp_path}/ids; ({command}) & echo $! >> {tmp_path}/ids; echo > {tmp_path}/begun; wait\n",
    )
    assert child(INTERRUPTED, tmp_path / "begun", env=environment, timeout=40) == "interrupted"
    for number in (tmp_path / "ids").read_text().split():
        assert not alive(number)


@pytest.mark.parametrize("name", ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CA_BUNDLE"])
def test_a_fifo_in_place_of_a_settings_file_hangs_nothing(tmp_path, name):
    os.mkfifo(tmp_path / "fifo")
    environment = {**write_config(tmp_path, ""), name: str(tmp_path / "fifo"), "AWS_ROLE_ARN": "arn:aws:iam::1:role/r"}
    text = """
        import json
        import stoker
        from stoker import Pipeline, fn
        pipe = Pipeline(1, 1, None, storage=stoker.Storage(endpoint="https://127.0.0.1:9", region="here", retries=1))
        with pipe:
            pipe.set_outputs(fn.readers.file(files=["s3://bucket/1.jpg"])[0])
        try:
            pipe.build()
            pipe.run()
        except stoker.errors.StokerError as e:
            print(json.dumps(str(e)))
        """
    assert "s3://bucket/1.jpg" in child(text, env=environment, timeout=40)


# ---- memory ----

PEAK = """
import json, sys
import stoker
from stoker import Pipeline, fn
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) >> 10
url, count, read_bytes, batch = sys.argv[1], *map(int, sys.argv[2:])
before = peak()
pipe = Pipeline(batch, 2, None, storage=stoker.Storage(retries=1), read_bytes=read_bytes, memory_limit=48 << 20, prefetch_queue_depth=1)
with pipe:
    pipe.set_outputs(fn.get_property(fn.readers.file(files=[f"{url}/{i}.jpg" for i in range(count)])[0], key="source_info"))
pipe.build()
error = None
try:
    for _ in range(count // batch):
        pipe.run()
except stoker.errors.StokerError as e:
    error = str(e)
print(json.dumps({"peak": peak() - before, "error": error}))
"""


@pytest.mark.parametrize("stated", [True, False], ids=["length", "no length"])
@pytest.mark.parametrize("batch", [4, 32])
def test_read_bytes_bounds_objects_of_any_size(batch, stated):
    """Small objects come first, so that large ones are expected to be small too. A batch may need more than read_bytes, and must still be delivered."""
    bytes_of = bytes(8 << 20)
    draws = random.Random(SEED)
    sizes = [64 << 10] * 64 + [int((64 << 10) * 128 ** draws.random()) for _ in range(192)]
    with Slow(0.05, lambda path, first, last: bytes_of[: sizes[int(path[1:-4])]], stated=stated) as server:
        found = child(PEAK, server.url, len(sizes), 32 << 20, batch)
    assert found["error"] is None
    assert found["peak"] < 32 + 8 + 8 + 64, found  # MiB of read_bytes, of spare buffers, of a needed object, and of the process itself


PEAK_OF = """
import json, sys, time
import stoker
from stoker import Pipeline, fn
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) >> 10
kind, folder, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
def fetch(uri, offset, length):
    time.sleep(0.02)
    return bytes(8 << 20)
paths = [(f"{folder}/" if kind == "file" else "store://b/") + f"{i}.bin" for i in range(count)]
more = {"file": {}, "fetch": {"fetch": fetch}, "cache": {"fetch": fetch, "fetch_name": "b", "cache": folder + "/cache"}}[kind]
before = peak()
pipe = Pipeline(2, 2, None, storage=stoker.Storage(**more), read_bytes=32 << 20, prefetch_queue_depth=1)
with pipe:
    pipe.set_outputs(fn.get_property(fn.readers.file(files=paths)[0], key="source_info"))
pipe.build()
given = 0
for _ in range(count // 2):
    given += len(pipe.run()[0])
    time.sleep(0.01)
counters = pipe.counters()
pipe.close()
print(json.dumps({"peak": peak() - before, "given": given, "submitted": counters["reads_submitted"]}))
"""


@pytest.mark.parametrize("kind", ["file", "fetch", "cache"])
def test_read_bytes_bounds_every_source(tmp_path, kind):
    """read_bytes limits reads of large files that are not in the page cache, results of a fetch function, and entries of a cache on disk."""
    count = 48
    if kind == "file":
        for i in range(count):
            (tmp_path / f"{i}.bin").write_bytes(bytes(8 << 20))
    if kind == "cache":
        child(PEAK_OF, kind, tmp_path, count)
    for path in [p for p in tmp_path.rglob("*") if p.is_file()]:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    # The user's function returns objects in Python's memory. After they are freed, glibc keeps memory of this size in its threads' heaps, unless the
    # threshold is set.
    found = child(PEAK_OF, kind, tmp_path, count, env={**os.environ, "MALLOC_MMAP_THRESHOLD_": str(1 << 20)})
    assert found["given"] == count
    if kind == "file" and found["submitted"] < count // 2:
        pytest.skip("this file system keeps its files in memory")
    # In MiB: read_bytes, spare buffers of the pool, an object that is needed with its two copies, and the process itself.
    assert found["peak"] < 32 + 8 + 3 * 8 + 40, found


def test_a_body_without_an_end_takes_no_more():
    with Slow(0.01, lambda path, first, last: bytes(64 << 20), stated=None) as server:
        found = child(PEAK, server.url, 300, 32 << 20, 8)
    assert "memory_limit" in found["error"]
    assert found["peak"] < 32 + 8 + 2 * 48 + 64, found


def test_decoders_of_urls_share_their_connections(monkeypatch):
    """Decoders of URLs share connections. If each had its own threads and connections, twelve decoders would use up a limit of 64 descriptors."""
    text = io.BytesIO()
    with wave.open(text, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(16000))
    with Slow(0, lambda path, first, last: text.getvalue()) as server:
        begun = len(os.listdir("/proc/self/fd"))
        one = stoker.AudioDecoder(f"{server.url}/0.wav")
        each = len(os.listdir("/proc/self/fd")) - begun
        others = [stoker.AudioDecoder(f"{server.url}/{i}.wav") for i in range(12)]
        assert len(os.listdir("/proc/self/fd")) - begun < 3 * each
        assert all(d.get_all_samples().data.shape == (1, 8000) for d in [one, *others])
        monkeypatch.setenv("AWS_REGION", "elsewhere")
        assert stoker.AudioDecoder(f"{server.url}/0.wav")._storage is not one._storage
        own = stoker.Storage()
        assert stoker.AudioDecoder(f"{server.url}/0.wav", storage=own)._storage is own


# ---- several pipelines over one store ----


def test_a_pipeline_that_begins_waits_for_no_later_samples_of_another():
    """The pipeline for training has requested a thousand samples ahead when the one for validation begins. The storage serves requests in the order in which
    their bytes are needed."""
    text = """
        import json, sys, urllib.request
        import stoker
        from stoker import Pipeline, fn
        store = stoker.Storage(requests=16)
        def make(kind):
            pipe = Pipeline(16, 2, None, storage=store)
            with pipe:
                pipe.set_outputs(fn.readers.file(files=[f"{sys.argv[1]}/{kind}/{i}.jpg" for i in range(4000)])[0])
            pipe.build()
            return pipe
        train = make("train")
        for _ in range(30):
            train.run()
        check = make("check")
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1] + "/now/").read()
        check.run()
        for _ in range(40):  # more than what was asked for ahead: training gets its turns, too
            train.run()
        print(json.dumps("done"))
        """
    with Slow(0.05) as server:
        child(text, server.url)
    kinds = [path.split("/")[1] for path, _, _ in server.asked]
    first = kinds.index("check")
    # After the request for `now`, which the program itself sends, only requests that were already in flight may precede the first request of `check`. The
    # server may also see `check` before `now`.
    assert first - kinds.index("now") <= 64 or "now" in kinds[first:], first
    sixteenth = [k for k, kind in enumerate(kinds) if kind == "check"][15]
    assert sixteenth - first <= 64, sixteenth - first
    assert "check" in kinds[first + 1 : first + 40]


# ---- round trips ----


def tar_with_a_large_sample(members):
    """Returns a tar with a sample of `members` small members, followed by a sample of one member."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in [*(f"a.{i:05}" for i in range(members)), "b.00001"]:
            info = tarfile.TarInfo(name)
            info.size = 8
            tar.addfile(info, io.BytesIO(b"8 bytes!"))
    return out.getvalue()


def test_a_sample_of_many_members_takes_few_answers(tmp_path):
    """The search for a sample's members waits for one response of the store after another. So it requests larger and larger pieces, from 16 KiB to 1 MiB."""
    data = tar_with_a_large_sample(8000)
    text = """
        import json, sys
        from stoker import Loader
        try:
            Loader([f"{sys.argv[1]}/{i}.tar" for i in range(2)], 1, shuffle=False)
            print(json.dumps(None))
        except Exception as e:
            print(json.dumps(str(e)))
        """
    with Slow(0.01, lambda path, first, last: data if path.endswith(".tar") else b"") as server:
        child(text, server.url, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)})
    ranges = [a for a in server.asked if a[0] == "/0.tar"]
    assert len(ranges) <= 7 + 3 * (len(data) >> 20) + 8, len(ranges)


def test_files_take_a_request_each():
    """Each object is requested only once in an epoch, even while the next epoch is read ahead."""
    text = """
        import json, sys
        import stoker
        from stoker import Pipeline, fn
        pipe = Pipeline(10, 2, None, storage=stoker.Storage(hedging=False))
        with pipe:
            pipe.set_outputs(fn.readers.file(files=[f"{sys.argv[1]}/{i}.jpg" for i in range(200)])[0])
        pipe.build()
        for _ in range(40):
            pipe.run()
        print(json.dumps(None))
        """
    with Slow(0.02) as server:
        child(text, server.url)
    paths = [path for path, _, _ in server.asked]
    assert len(set(paths)) == 200
    assert all(2 <= paths.count(path) <= 3 for path in set(paths))
