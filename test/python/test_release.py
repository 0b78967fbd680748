# SPDX-License-Identifier: Apache-2.0
"""tools/release/release.py refuses a wheel with files that our licence does not let us distribute, and a machine without a command or Python that it needs."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "release"))
import release


def stage(folder: Path, expression: str, text: str) -> Path:
    info = folder / "stoker-1.dist-info"
    (info / "licenses").mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: stoker\nLicense-Expression: {expression}\n")
    (info / "licenses" / "some.txt").write_text(text)
    return folder


def test_the_page_about_security_names_the_libraries_of_a_wheel():
    root = Path(__file__).resolve().parents[2]
    text = (root / "SECURITY.md").read_text().lower().replace("\n", " ")
    named = (
        re.search(r"a released wheel contains its own (.*?), so that", text)[1]
        .replace(" and ", ", ")
        .replace("libcurl", "curl")
        .split(", ")
    )
    pinned = tomllib.loads((root / "tools" / "release" / "libraries.toml").read_text())
    assert sorted(named) == sorted(name for name, entry in pinned.items() if isinstance(entry, dict) and "sha256" in entry)


def test_licences_that_may_be_in_a_wheel(tmp_path):
    release.check_licences(stage(tmp_path, "Apache-2.0 AND Apache-2.0 WITH LLVM-exception AND MIT", "Permission is hereby granted"))


@pytest.mark.parametrize(
    "expression, text, says",
    [
        ("Apache-2.0 AND GPL-2.0-or-later", "free", "GPL-2.0-or-later may not"),
        ("Apache-2.0 AND LGPL-2.1-only", "free", "LGPL-2.1-only may not"),
        ("Apache-2.0", "under the terms of the GNU General\n   Public License", "some.txt speaks of"),
        ("Apache-2.0", "the GNU Lesser General Public License, version 3", "some.txt speaks of"),
    ],
)
def test_licences_that_may_not(tmp_path, expression, text, says):
    with pytest.raises(SystemExit, match=says):
        release.check_licences(stage(tmp_path, expression, text))


def test_ffmpeg_may_be_under_the_lgpl(tmp_path):
    text = (
        "ffmpeg: LGPL-2.1-or-later\n\n                  GNU LESSER GENERAL PUBLIC LICENSE\n                       Version 2.1, February 1999\n"
        " ... the terms of the ordinary GNU General Public License instead of this License\n"
    )
    wheel = stage(tmp_path / "good", "Apache-2.0 AND LGPL-2.1-or-later", "Permission is hereby granted")
    (wheel / "stoker-1.dist-info" / "licenses" / "ffmpeg.txt").write_text(text)
    release.check_licences(wheel)
    for name, changed in (
        ("other", text),
        ("ffmpeg", text.replace("LGPL-2.1-or-later", "GPL-2.0-or-later")),
        ("ffmpeg", text.replace("LESSER ", "")),
    ):
        bad = stage(tmp_path / f"bad-{len(changed)}-{name}", "Apache-2.0 AND LGPL-2.1-or-later", "Permission is hereby granted")
        (bad / "stoker-1.dist-info" / "licenses" / f"{name}.txt").write_text(changed)
        with pytest.raises(SystemExit, match=f"{name}.txt speaks of"):
            release.check_licences(bad)


def test_missing_commands_are_named_at_once(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match=r"cmake, make, meson, .* tools/setup.sh"):
        release.need(["x86_64"])


def interpreter(folder: Path, says: str) -> str:
    """Makes a program that prints `says`, as a CPython prints its settings when a script asks for them. Returns the program's path."""
    folder.mkdir(exist_ok=True)
    (program := folder / "python3").write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)
    return str(program)


def test_a_free_threaded_python_must_be_one_and_have_headers(monkeypatch, tmp_path):
    assert release.threaded_headers() == ""
    (tmp_path / "build").mkdir()
    for header in (tmp_path / "Python.h", tmp_path / "pyconfig.h", tmp_path / "build/Python.h"):
        header.touch()
    monkeypatch.setattr(release, "THREADED", interpreter(tmp_path, f"1 {tmp_path}"))
    assert release.threaded_headers() == str(tmp_path)
    for program, says in (
        (interpreter(tmp_path / "other", f"None {tmp_path}"), "is no free-threaded CPython"),
        (interpreter(tmp_path / "bare", f"1 {tmp_path}/none"), "has no headers"),
        (interpreter(tmp_path / "built", f"1 {tmp_path}/build"), "has no headers"),
        (str(tmp_path / "missing"), "cannot be run"),
    ):
        monkeypatch.setattr(release, "THREADED", program)
        with pytest.raises(SystemExit, match=says):
            release.threaded_headers()
