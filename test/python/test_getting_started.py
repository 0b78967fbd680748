# SPDX-License-Identifier: Apache-2.0
"""doc/getting-started.md: its programs and commands run from top to bottom, and print and draw what the page shows."""

import contextlib
import io
import os
import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("skimage")
from PIL import Image  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "doc/getting-started.md"
COMMAND = Path(os.environ.get("STOKER_BUILD", "build")).resolve() / "cli" / "stoker"


def run_commands(text):
    """Runs the lines that call stoker, and returns what they print. The other lines install packages."""
    said = []
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        if words and words[0] == "stoker":
            done = subprocess.run([COMMAND, *words[1:]], capture_output=True, text=True, timeout=100)
            assert done.returncode == 0, done.stderr
            said.append(done.stdout)
    return "".join(said)


def without_sizes(text):
    """Leaves out the sizes of files: another version of Pillow may write JPEG files of other sizes."""
    return re.sub(r"[\d.]+ KiB", "KiB", text)


def run_program(text, names):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(text, "train.py", "exec"), names)
    return said.getvalue()


@pytest.mark.timeout(300)
def test_the_page_shows_what_its_programs_print(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    page = PAGE.read_text()
    blocks = re.findall(r"^```(python|sh)\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", page, re.M | re.S)
    assert len(blocks) >= 9 and page.count("```text") == sum(bool(shown) for _, _, shown in blocks)
    for kind, text, shown in blocks:
        said = run_commands(text) if kind == "sh" else run_program(text, names)
        assert without_sizes(said) == without_sizes(shown), text
    for name in ("train", "again"):
        names[name].close()

    pictures = re.findall(r"\]\(getting-started-(\w+\.png)\)", page)
    assert len(pictures) == 2
    for name in pictures:
        drawn = np.asarray(Image.open(tmp_path / name).convert("RGB"), np.int16)
        kept = np.asarray(Image.open(ROOT / f"doc/getting-started-{name}").convert("RGB"), np.int16)
        assert drawn.shape == kept.shape, name
        # Another version of Pillow may write JPEG files that decode to slightly different pixels.
        assert np.abs(drawn - kept).mean() < 3, name
