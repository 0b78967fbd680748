# SPDX-License-Identifier: Apache-2.0
"""`stoker top` and stk_watch: running pipelines answer processes of their own user, and no other file in the folder of sockets harms either side."""

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

import numpy as np
import pytest
import stoker
from support import alive, child_process
from test_command import COMMAND


@pytest.fixture
def folder(monkeypatch):
    """Returns the folder of sockets. Its path is short, because a socket's path may have at most 107 bytes."""
    base = tempfile.mkdtemp(prefix="top-", dir=tempfile.gettempdir())
    monkeypatch.setenv("XDG_RUNTIME_DIR", base)
    monkeypatch.setenv("STOKER_TOP", "1")
    yield os.path.join(base, "stoker")
    shutil.rmtree(base, ignore_errors=True)


def top(*arguments, code=0):
    # LD_PRELOAD may name a sanitizer for Python, but the command has its own.
    env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run([COMMAND, "top", *arguments], capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode == code, done.stderr
    return done


def rows(*arguments):
    return json.loads(top("--json", "--seconds", "0.1", *arguments).stdout)["pipelines"]


def loader(n=64, **more):
    return stoker.Loader((np.arange(n * 12, dtype=np.uint8).reshape(n, 2, 2, 3), np.arange(n)), batch_size=4, **more)


def test_pipelines_of_a_process_are_listed(folder):
    with loader() as one, loader() as other:
        first, second = iter(one), iter(other)
        for _ in range(5):
            next(first)
        next(second)
        found = rows(str(os.getpid()))
        assert [r["counters"]["batches_delivered"] for r in found] == [5, 1]
        assert [r["pid"] for r in found] == [os.getpid()] * 2
        assert all(r["batches_per_s"] == 0 and r["bad_samples"] == 0 for r in found)
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        assert [name.split(".")[0] for name in os.listdir(folder)] == [str(os.getpid())]
        text = top("--seconds", "0.1").stdout.splitlines()
        assert text[0].split()[:2] == ["process", "rank"] and len(text) == 4 and text[-1].startswith("together")
    assert os.listdir(folder) == []  # the socket is removed with the last pipeline


def test_rates_and_bad_samples_of_another_process(folder, tmp_path):
    """`stoker top` shows the rank, the rates and the bad samples of another process, which reads seven good files and a bad one until it is killed."""
    program = """
        import sys, time, stoker
        from pathlib import Path
        root = Path(sys.argv[1])
        (root / "a").mkdir()
        (root / "a" / "bad.jpg").write_bytes(b"hello")
        for k in range(7):
            (root / "a" / f"{k}.ppm").write_bytes(b"P6 2 1 255 " + bytes(6))
        loader = stoker.Loader(root, batch_size=4, on_error="replace", max_errors=None)
        print("runs", flush=True)
        while True:
            for batch in loader:
                time.sleep(0.005)
    """
    with child_process(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "RANK": "0", "WORLD_SIZE": "1"},
    ) as child:
        assert child.stdout.readline() == "runs\n"
        until = time.monotonic() + 30
        # On a busy machine the process may deliver no batch during the tenth of a second that rows() measures.
        while not (found := rows()) or not found[0]["bad_samples"] or not found[0]["batches_per_s"]:
            assert time.monotonic() < until
        (row,) = found
        assert rows(str(child.pid))[0]["pid"] == row["pid"] == child.pid
        assert row["rank"] == "0" and row["batches_per_s"] > 0 and row["samples_per_s"] == pytest.approx(4 * row["batches_per_s"])
        assert "bad.jpg" in row["bad"][-1]
        assert "bad.jpg" in top("--seconds", "0.1").stdout
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert not alive(child.pid) and len(os.listdir(folder)) == 1
        assert rows() == [] and os.listdir(folder) == []  # the socket of the killed process is removed
        assert "no pipeline of this user runs" in top("--seconds", "0.1").stdout
        assert "has no running pipeline" in top(str(child.pid), code=1).stderr


def test_it_can_be_turned_off(folder, monkeypatch):
    monkeypatch.setenv("STOKER_TOP", "0")
    with loader() as quiet:
        next(iter(quiet))
        assert not os.path.exists(folder) and rows() == []
    monkeypatch.setenv("STOKER_TOP", "yes")
    with pytest.raises(stoker.errors.InvalidArgumentError, match="STOKER_TOP"), loader() as misspelt:
        next(iter(misspelt))


@pytest.mark.parametrize("kind", ["open to others", "a link", "a file", "a missing base", "a long path"])
def test_a_folder_that_is_not_private_is_not_used(folder, kind, monkeypatch, tmp_path):
    if kind == "open to others":
        os.mkdir(folder, 0o700)
        os.chmod(folder, 0o755)
    elif kind == "a link":
        os.mkdir(tmp_path / "elsewhere", 0o700)
        os.symlink(tmp_path / "elsewhere", folder)
    elif kind == "a file":
        open(folder, "w").close()
    elif kind == "a missing base":
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
    else:
        monkeypatch.setenv("XDG_RUNTIME_DIR", "/" + "x" * 120)
    with loader() as works:
        assert len(list(works)) == 16
        assert rows() == []
    assert kind != "a link" or os.listdir(tmp_path / "elsewhere") == []


def test_other_sockets_are_left_out(folder):
    """`stoker top` ignores files in the folder, and sockets of other programs, which answer nothing, answer nonsense, or never stop answering."""
    os.mkdir(folder, 0o700)
    answers = {
        "1.0": b"",
        "1.1": b"{",
        "1.2": b"[1]",
        "1.3": b'{"pid": "x", "pipelines": 3}',
        "1.4": b'{"pipelines": [7, null, {}]}',
        "1.5": None,
    }
    servers, stop = [], threading.Event()

    def serve(server, answer):
        while not stop.is_set():
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                try:
                    while answer is None and not stop.is_set():
                        connection.sendall(b" " * 65536)
                    connection.sendall(answer or b"")
                except OSError:
                    pass

    for name, answer in answers.items():
        server = socket.socket(socket.AF_UNIX)
        server.bind(os.path.join(folder, name))
        server.listen()
        servers.append((server, threading.Thread(target=serve, args=(server, answer))))
    silent = socket.socket(socket.AF_UNIX)
    silent.bind(os.path.join(folder, "2.0"))
    silent.listen()
    open(os.path.join(folder, "3.0"), "w").close()
    os.mkfifo(os.path.join(folder, "4.0"))
    os.mkdir(os.path.join(folder, "5.0"))
    for name in ("x", "7", "7.", "7.x", "-7.0", "07.0", "99999999999999999999.0"):
        open(os.path.join(folder, name), "w").close()
    for _, thread in servers:
        thread.start()
    try:
        with loader() as works:
            next(iter(works))
            found = rows()
            assert [r["pid"] for r in found] == [os.getpid()]
    finally:
        stop.set()
        for server, _ in servers:
            server.shutdown(socket.SHUT_RDWR)
            server.close()
        for _, thread in servers:
            thread.join()
        silent.close()


def test_many_processes_that_do_not_answer_do_not_add_up(folder):
    """Stopped processes accept connections but send nothing, and one sends its answer byte by byte endlessly. `stoker top` asks all at the same time."""
    os.mkdir(folder, 0o700)
    silent = []
    for k in range(60):
        server = socket.socket(socket.AF_UNIX)
        server.bind(os.path.join(folder, f"1.{k}"))
        server.listen(0 if k == 59 else 4)
        silent.append(server)
    full = []  # connections that fill the queue of the last socket
    for _ in range(3):
        client = socket.socket(socket.AF_UNIX)
        client.setblocking(False)
        client.connect_ex(os.path.join(folder, "1.59"))
        full.append(client)
    slow = socket.socket(socket.AF_UNIX)
    slow.bind(os.path.join(folder, "2.0"))
    slow.listen()
    stop = threading.Event()

    def serve():
        while not stop.is_set():
            try:
                connection, _ = slow.accept()
            except OSError:
                return
            with connection:
                try:
                    while not stop.wait(0.1):
                        connection.sendall(b" ")
                except OSError:
                    pass

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with loader() as works:
            next(iter(works))
            assert [r["pid"] for r in rows()] == [os.getpid()]  # one after another, the two reads would take 240 s
    finally:
        stop.set()
        slow.shutdown(socket.SHUT_RDWR)
        slow.close()
        thread.join()
        for other in silent + full:
            other.close()


def test_a_forked_child_does_not_remove_the_socket(folder):
    with loader() as works:
        next(iter(works))
        child = os.fork()
        if child == 0:
            del works
            os._exit(0)
        os.waitpid(child, 0)
        assert [r["pid"] for r in rows()] == [os.getpid()]
        done = subprocess.run(["sh", "-c", "ls -l /proc/self/fd"], capture_output=True, text=True, close_fds=False)
        assert "socket" not in done.stdout  # child processes do not inherit the socket


def test_pipelines_that_come_and_go_while_others_ask(folder):
    stop, failures = threading.Event(), []

    def ask():
        while not stop.is_set():
            try:
                rows()
            except Exception as e:
                failures.append(e)

    def run():
        for _ in range(12):
            with loader() as one:
                next(iter(one))

    threads = [threading.Thread(target=run) for _ in range(3)]
    asking = threading.Thread(target=ask)
    asking.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    asking.join()
    assert not failures and os.listdir(folder) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x"], "not the id of a process"),
        (["0"], "not the id of a process"),
        (["-5"], "-5"),
        (["1", "2"], "too many arguments"),
        (["--seconds", "0"], "seconds"),
        (["--steps", "0"], "steps"),
        (["--json", "--steps", "2"], "one document"),
        (["--second", "1"], "did you mean"),
    ],
)
def test_wrong_arguments(folder, arguments, message):
    assert message in top(*arguments, code=2).stderr
