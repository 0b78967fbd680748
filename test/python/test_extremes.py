# SPDX-License-Identifier: Apache-2.0
"""Extreme numbers as settings, as arguments of operators and functions, in files and in the environment: they are accepted unchanged or refused with a message.
They never end the process, hang it, or silently become another number."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import run_script

HERE = Path(__file__).parent
# Arguments of extremes.py for each process, which runs a part of the cases, so that a crash loses only a few.
GROUPS = [
    ["settings"],
    ["storage"],
    ["loader"],
    ["batching"],
    ["sounds"],
    ["clips"],
    ["rows"],
    ["recordings"],
    ["mixtures"],
    *(["operators", str(k), "6"] for k in range(6)),
]


@pytest.mark.parametrize("group", GROUPS, ids="-".join)
def test_nothing_dies_hangs_or_changes(group: list[str], tmp_path: Path) -> None:
    if group[0] in ("batching", "loader", "clips", "rows", "recordings", "mixtures"):
        pytest.importorskip("torch")
    at = tmp_path / "at"
    done = subprocess.run(
        [sys.executable, str(HERE / "extremes.py"), *group],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "EXTREMES_AT": str(at), "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, f"ended by {done.returncode} at {at.read_text()}: {done.stderr[-3000:]}"
    assert done.stdout == ""
    assert "runtime error" not in done.stderr, done.stderr[-3000:]  # a build with sanitizers prints this


VARIABLES = {
    "STOKER_MAX_IMAGE_SIZE": "a whole number from 0 to",
    "STOKER_MAX_JPEG_SCANS": "a whole number from 0 to",
    "STOKER_POISON": "a whole number from 0 to 255",
    "STOKER_FUSE": "it can be 0 or 1",
    "STOKER_AFFINITY": "it can be 0 or 1",
}
TEXTS = [
    "0",
    "1",
    "-1",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "1e300",
    "inf",
    "nan",
    "-0",
    "True",
    " 1",
    "1 ",
    "0x1",
]

PROGRAM = """
import sys
import os
from stoker import Pipeline, fn
for name, value in (pair.split("=", 1) for pair in sys.argv[1:]):
    os.environ[name] = value
    try:
        p = Pipeline(1, 1, None)
        with p:
            p.set_outputs(fn.random.uniform(range=[0.0, 1.0]))
        p.run()
        print("fine")
    except Exception as e:
        print(str(e).replace(chr(10), " "))
    del os.environ[name]
"""


def test_variables_of_the_environment() -> None:
    pairs = [(name, text) for name in VARIABLES for text in TEXTS]
    done = run_script(PROGRAM, *(f"{n}={t}" for n, t in pairs), timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(pairs)
    for (name, text), line in zip(pairs, lines, strict=True):
        taken = (
            text in ("0", "1")
            or ("MAX" in name and text == "9223372036854775807" and "SIZE" in name)
            or ("SIZE" in name and text == "2147483648")
        )
        assert line == "fine" if taken else f'{name} is "{text}"; ' in line and VARIABLES[name] in line, (name, text, line)


@pytest.mark.parametrize(
    "name", ["LOCAL_WORLD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_RANK", "OMP_NUM_THREADS", "CUDA_DEVICE_MAX_CONNECTIONS", "COLUMNS"]
)
def test_variables_of_others(name: str, tmp_path: Path) -> None:
    """Other programs' variables with wrong values may be refused or ignored. They never end the process."""
    program = """
import os, sys
import numpy as np
from PIL import Image
from stoker import Loader
Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(sys.argv[1] + "/a.jpg")
for text in sys.argv[3:]:
    os.environ[sys.argv[2]] = text
    try:
        loader = Loader([sys.argv[1] + "/a.jpg"] * 4, 2)
        next(iter(loader))
        loader.close()
    except (ValueError, RuntimeError) as e:
        assert str(e)
print("fine")
"""
    done = run_script(program, str(tmp_path), name, *TEXTS, timeout=120)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr[-2000:]
