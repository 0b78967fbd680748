# SPDX-License-Identifier: Apache-2.0
"""Fails a module of tests that leaves a process, a thread of the library, a Python thread that is not a daemon, an open file, or a temporary file.

Temporary files of a session of pytest are in a folder of that session (TMPDIR), so that other sessions on the machine do not disturb the count. Threads of
Stoker's default context may stay, since all pipelines share that context; threads of destroyed contexts may not.
"""

from __future__ import annotations

import gc
import multiprocessing.util
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

# multiprocessing and torch.compile start these processes, which stay until their parent ends.
LASTING = (
    "multiprocessing.resource_tracker",
    "multiprocessing.forkserver",
    "multiprocessing.resource_sharer",
    "torch/_inductor/compile_worker",
)
# First parts of the names of multiprocessing's files, which stay until the process ends, and of torch's cache of compiled code.
LASTING_FILES = ("/dev/shm/pym-", "pym-", "pymp-", "torchinductor_")
# DALI imports the functions that it has rewritten from files that stay until the process ends.
LASTING_FILES += ("__autograph_generated_file", "__pycache__")
# A thread of torch waits for the next function to compile; a thread of to_device waits for the next tree to copy.
LASTING_THREADS = ("ThreadPoolExecutor", "stoker-copy")
NATIVE = ("stoker", "stk-")
PATIENCE_S = 20  # seconds to wait for threads and processes that are about to end


def _children() -> dict[str, str]:
    """Returns a dict from "process ID" to the command line of each running process that this one has started, except those in LASTING."""
    found = {}
    for listed in Path("/proc/self/task").glob("*/children"):
        try:
            pids = listed.read_text().split()
        except OSError:
            continue
        for pid in pids:
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            except OSError:
                continue
            if line and not any(name in line for name in LASTING):  # a process that has ended but not been waited for has no command line
                found[f"process {pid}"] = line[:200]
    return found


def _threads() -> dict[str, str]:
    return {
        f"thread {t.ident}": t.name
        for t in threading.enumerate()
        if not t.daemon and t is not threading.main_thread() and not t.name.startswith(("execnet", "pydev", *LASTING_THREADS))
    }


def _native_threads() -> dict[str, str]:
    """Returns a dict from "native thread ID" to the name of each thread that the library has started. Python does not list these threads."""
    found = {}
    for task in os.listdir("/proc/self/task"):
        try:
            name = Path(f"/proc/self/task/{task}/comm").read_text().strip()
        except OSError:
            continue  # the thread has just ended
        if name.startswith(NATIVE):
            found[f"native thread {task}"] = name
    return found


def _files() -> dict[str, str]:
    """Returns a dict from "descriptor N" to the path of each open file in a folder of temporary files or in /dev/shm, except LASTING_FILES."""
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        if target.startswith(LASTING_FILES):
            continue
        if target.startswith((tempfile.gettempdir(), "/tmp/pytest-of-", "/dev/shm/")):
            found[f"descriptor {fd}"] = target
    return found


def _temporary() -> dict[str, str]:
    """Returns a dict of the temporary files, except LASTING_FILES and the folder that multiprocessing removes at the process's end."""
    from multiprocessing import process

    own = os.path.basename(process.current_process()._config.get("tempdir") or "-")  # type: ignore[attr-defined]
    return {
        f"temporary file {name}": name for name in os.listdir(tempfile.gettempdir()) if name != own and not name.startswith(LASTING_FILES)
    }


def _all() -> dict[str, str]:
    return {**_children(), **_threads(), **_native_threads(), **_files(), **_temporary()}


@pytest.fixture(scope="session", autouse=True)
def _own_temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    multiprocessing.util.get_temp_dir()  # creates the folder of multiprocessing before TMPDIR changes
    tmp_path_factory.getbasetemp()  # creates the folder of pytest before TMPDIR changes
    before, folder = os.environ.get("TMPDIR"), tempfile.mkdtemp(prefix="stoker-tests-")
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    yield
    tempfile.tempdir = None
    if before is None:
        del os.environ["TMPDIR"]
    else:
        os.environ["TMPDIR"] = before
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module", autouse=True)
def _nothing_left_behind(_own_temporary_folder: None) -> Iterator[None]:
    before = _all()
    yield
    until, left = time.monotonic() + PATIENCE_S, {}
    while True:
        left = {what: name for what, name in _all().items() if what not in before}
        if not left or time.monotonic() > until:
            break
        gc.collect()
        time.sleep(0.05)
    assert not left, f"{len(left)} left behind: " + "; ".join(f"{what} ({name})" for what, name in sorted(left.items())[:20])
