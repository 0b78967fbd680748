# SPDX-License-Identifier: Apache-2.0
"""If a test hangs, hangs.py ends the run with the stacks of all threads."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("pytest_timeout")

HANGS = {
    "in C": """
        def test_hang():
            import ctypes
            lock, c = ctypes.create_string_buffer(64), ctypes.CDLL(None)
            c.pthread_mutex_lock(lock)
            c.pthread_mutex_lock(lock)  # continues to wait after a signal
        """,
    "behind a failure": """
        import threading
        class Thing:
            def close(self):
                threading.Event().wait()
        @__import__("pytest").fixture
        def thing():
            made = Thing()
            yield made
            made.close()
        def test_hang(thing):
            assert False
        """,
    "at the end": """
        import threading
        def test_hang():
            threading.Thread(target=threading.Event().wait).start()
        """,
}


WHERE = {"in C": "in test_hang", "behind a failure": "in close", "at the end": "in _shutdown"}


def test_a_run_that_hangs_ends_with_stacks(tmp_path):
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    runs = {}
    for number, (where, program) in enumerate(HANGS.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "test_one.py").write_text(textwrap.dedent(program))
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "pytest_timeout",
            "-p",
            "hangs",
            "--timeout",
            "2",
            "--rootdir",
            ".",
            "test_one.py",
        ]
        environment = {**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        runs[where] = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for where, run in runs.items():
        try:
            out, err = run.communicate(timeout=60)
        finally:
            run.kill()
        assert run.returncode == 1 and "Timeout (0:00:06)" in err and WHERE[where] in err, f"{where}:\n{out}\n{err}"
