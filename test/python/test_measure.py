# SPDX-License-Identifier: Apache-2.0
"""bench/measure.py: the peak of memory that measurements report."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PEAKS = """
import subprocess
import sys
sys.path.insert(0, sys.argv[1])
from measure import peak_memory
if len(sys.argv) == 2:
    large = b"x" * (256 << 20)
    print(peak_memory(), subprocess.run([sys.executable, "-c", sys.argv[0], sys.argv[1], "child"], stdout=subprocess.PIPE, text=True, check=True).stdout)
else:
    print(peak_memory())
"""


def test_a_process_does_not_report_the_peak_of_the_one_that_started_it():
    """A program that writes a measurement's files takes more memory than the measured process that it starts. Only that process's peak is reported."""
    program = PEAKS.replace("sys.argv[0]", repr(PEAKS))
    done = subprocess.run([sys.executable, "-c", program, str(ROOT / "bench")], capture_output=True, text=True, check=True)
    starter, started = map(int, done.stdout.split())
    assert started < 128 << 20 < 256 << 20 < starter
