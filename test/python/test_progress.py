# SPDX-License-Identifier: Apache-2.0
"""Progress of long work: on a terminal, a line that fits its width and states the remaining time; in a pipe, nothing; after Ctrl-C, a report."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tarfile
import termios
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

COMMAND = Path(os.environ.get("STOKER_BUILD", "build")).resolve() / "cli" / "stoker"
LIMIT = 120


class Terminal:
    """Runs a program whose stderr is a terminal of a given width, and whose stdout is a pipe."""

    def __init__(self, arguments, width=80, **environment):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        env = {**os.environ, "TERM": "xterm", **environment}
        env.pop("LD_PRELOAD", None)
        env.pop("COLUMNS", None)
        self.process = subprocess.Popen(list(map(str, arguments)), stdout=subprocess.PIPE, stderr=slave, text=True, env=env)
        os.close(slave)
        self.text = ""

    def read(self, until=None, limit=LIMIT):
        """Reads the terminal until a pattern is found, the program ends, or `limit` seconds have passed. Returns all text since the program's start."""
        end = time.monotonic() + limit
        while time.monotonic() < end and not (until and re.search(until, self.text)):
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    data = os.read(self.master, 65536)
                except OSError:  # the program has closed the terminal
                    break
                if not data:
                    break
                self.text += data.decode()
        return self.text

    def until_it_catches(self, number, limit=LIMIT):
        """Waits until the program has a handler for signal `number`."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            caught = re.search(r"^SigCgt:\s*(\w+)", Path(f"/proc/{self.process.pid}/status").read_text(), re.M)
            if caught and int(caught[1], 16) >> (number - 1) & 1:
                return
            time.sleep(0.01)
        raise TimeoutError

    def end(self):
        """Waits for the program's end. Returns its exit code, and its output on stdout."""
        out, _ = self.process.communicate(timeout=LIMIT)
        self.read(limit=1)
        os.close(self.master)
        return self.process.returncode, out

    def lines(self):
        """Returns the texts that the progress line showed, in order."""
        return [part for part in re.split(r"\r\x1b\[K", self.text) if part]


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Writes a few photographs under many names. Decoding them all takes seconds."""
    root = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for c in range(2):
        (root / f"class{c}").mkdir()
        for k in range(4):
            noise = rng.integers(0, 256, (1400, 1800, 3), np.uint8)
            Image.fromarray(noise).save(root / f"class{c}" / f"{k}.jpg", quality=95)
            for copy in range(60):
                os.link(root / f"class{c}" / f"{k}.jpg", root / f"class{c}" / f"{k}-{copy}.jpg")
    return root


@pytest.mark.parametrize("width", [30, 60, 200])
def test_the_line_fits_the_terminal_and_says_how_long_is_left(photos, width):
    run = Terminal([COMMAND, "inspect", photos, "--threads", 1], width)
    run.read(until=r"\d:\d\d le" if width > 30 else r"of 488 files")
    run.process.send_signal(signal.SIGINT)
    run.end()
    lines = [line for line in run.lines() if "of 488 files" in line]
    assert lines and all(len(line) < width for line in lines), lines
    if width > 30:
        assert any(re.search(r"\d+ of 488 files, [\d.]+/s, \d+:\d\d left$", line) for line in lines), lines
        assert any(line.startswith("[") for line in lines)
    assert run.text.replace("^C", "").rstrip("\r\n").endswith("\r\x1b[K"), "the line is gone at the end"


def test_a_report_of_what_was_found_after_ctrl_c(photos):
    run = Terminal([COMMAND, "inspect", photos, "--threads", 1, "--json"])
    run.until_it_catches(signal.SIGINT)
    run.process.send_signal(signal.SIGINT)
    code, out = run.end()
    found = json.loads(out)
    assert code == 130 and found["interrupted"] is True and found["good"] < found["files"] == 488
    run = Terminal([COMMAND, "inspect", photos, "--threads", 1])
    run.read(until=r"of 488 files")
    run.process.send_signal(signal.SIGINT)
    code, out = run.end()
    assert code == 130 and re.match(r"interrupted after \d+ of 488 files in 2 classes: \d+ good, 0 would fail\n", out), out


@pytest.mark.parametrize("words", [["bench"], ["run"]])
def test_figures_after_ctrl_c(photos, words):
    run = Terminal([COMMAND, *words, photos, "--threads", 1, *(["--seconds", 60] if words == ["bench"] else ["--epochs", 1000])])
    shown = run.read(until=r" [1-9]\d* of \d+ (rounds|batches)")
    assert re.search("of \\d+ (rounds|batches)", shown), shown
    run.process.send_signal(signal.SIGINT)
    code, out = run.end()
    assert code == 130, (code, out, run.text)
    assert re.search(r"Interrupted: these are the figures of \d+ round" if words == ["bench"] else r"^\d+ samples in \d+ batch", out), out


def test_nothing_is_shown_in_a_pipe(photos, tmp_path):
    done = subprocess.run([COMMAND, "run", photos, "--steps", "1"], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0 and done.stderr == ""
    for way in (["--quiet"], []):
        run = Terminal([COMMAND, "run", photos, "--steps", 2, *way], TERM="dumb" if not way else "xterm")
        assert run.end()[0] == 0 and run.text == ""


def test_packing_stops_and_continues(tmp_path):
    photos = tmp_path / "photos" / "class"
    photos.mkdir(parents=True)
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (300, 400, 3), np.uint8)).save(photos / "0.jpg", quality=95)
    for k in range(1, 300):
        os.link(photos / "0.jpg", photos / f"{k}.jpg")
    pack = [COMMAND, "pack", photos.parent, "-o", tmp_path / "tars", "--shard-size", "1MB", "--threads", 1]
    run = Terminal(pack)
    run.read(until="files")
    run.process.send_signal(signal.SIGINT)
    code, _ = run.end()
    assert code in (130, 0, -signal.SIGINT)  # the program may end before the signal arrives, or may not have set its handler yet
    if code == 130:
        assert re.search(r"stoker pack: interrupted: \d+ of \d+ files packed: start the command again to continue", run.text), run.text
    subprocess.run(list(map(str, pack)), check=True, timeout=LIMIT, capture_output=True)
    names = []
    for path in (tmp_path / "tars").glob("*.tar"):
        with tarfile.open(path) as tar:
            names += tar.getnames()
    assert len([name for name in names if name.endswith(".jpg")]) == 300


PROGRAM = """
import sys, time
from stoker._progress import counted
def slow():
    for k in range(40):
        time.sleep(0.05)
        yield k
assert list(counted(slow(), "reading the headers of many files", 40)) == list(range(40))
"""
INTERRUPTED = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
from stoker._progress import counted
begun = []
def slow(k):
    begun.append(k)
    time.sleep(0.2)
try:
    with ThreadPoolExecutor(2) as pool:
        list(counted(pool.map(slow, range(10000)), "reading", 10000))
except KeyboardInterrupt:
    print("interrupted", len(begun) < 10000)
"""


def test_work_in_python_says_how_long_is_left_too():
    for width in (24, 80):
        run = Terminal([sys.executable, "-c", PROGRAM], width)
        run.read()
        assert run.end()[0] == 0
        lines = run.lines()
        assert lines and all(len(line) < width for line in lines), lines
        if width == 80:
            assert re.search(r"reading the headers of many files: \d+ of 40, \d+:\d\d left", lines[0]), lines
        assert run.text.endswith("\r\x1b[K")
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0 and done.stderr == ""


def test_ctrl_c_ends_work_in_python():
    run = Terminal([sys.executable, "-c", INTERRUPTED])
    run.read(until="left")
    run.process.send_signal(signal.SIGINT)
    code, out = run.end()
    assert (code, out) == (0, "interrupted True\n")
