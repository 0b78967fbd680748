# SPDX-License-Identifier: Apache-2.0
"""Two tables are complete: the variables in doc/environment.md, with the values that the library checks, and the layers of the tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAME = re.compile(r"(?<!_)STOKER_[A-Z0-9_]*[A-Z0-9]\b")
SUFFIXES = {".c", ".h", ".py", ".pyi", ".sh", ".toml", ".build", ".cu", ".cuh", ""}
MISSPELT = "STOKER_FUZE"  # a wrong name that test_command.py sets on purpose, to test the warning


def _rows() -> dict[str, list[str]]:
    """Returns the table as a dict from each variable to the other cells of its row: values, default, effect and file."""
    rows = {}
    for line in (ROOT / "doc" / "environment.md").read_text().splitlines():
        if line.startswith("| `STOKER_"):
            name, *rest = (cell.strip() for cell in line.strip("|").split("|"))
            assert name.strip("`") not in rows, f"{name} is there twice"
            rows[name.strip("`")] = rest
    return rows


def _read_in_sources() -> dict[str, set[str]]:
    """Returns a dict from each variable that the sources name to the files that name it. Leaves out include guards and macros that a build defines."""
    found: dict[str, set[str]] = {}
    for folder in ("src", "cli", "python", "include", "tools", "bench", "examples", "test", ".ci", "Makefile", "meson.build"):
        for path in [ROOT / folder, *sorted((ROOT / folder).rglob("*"))]:
            if not path.is_file() or path.suffix not in SUFFIXES or path.name == Path(__file__).name or "corpus" in path.parts:
                continue
            text = path.read_text(errors="replace")
            guards = set(re.findall(r"#ifndef (STOKER_\w+_H)\b", text)) | set(re.findall(r"-D(STOKER_\w+)", text))
            for name in set(NAME.findall(text)) - guards:
                found.setdefault(name, set()).add(str(path.relative_to(ROOT)))
    return found


def _library() -> tuple[dict[str, tuple[str, list[str]]], list[str]]:
    """Reads what src/base/environment.c checks. Returns the maximum or the allowed words of each variable, and the prefixes of variables that only tools
    read."""
    text = (ROOT / "src" / "base" / "environment.c").read_text()
    table, rest = text[text.index("settings[] =") :].split("enum { KNOWN", 1)
    known = {
        m[1]: (m[2], re.findall(r'"([^"]+)"', m[3] or ""))
        for m in re.finditer(r'\{"(STOKER_\w+)"(?:, \.most = (\w+)|, \.words = \{([^}]*)\})?\}', table)
    }
    tools = rest[rest.index("tools[] =") :]
    return known, re.findall(r'"(STOKER_\w+)"', tools[: tools.index("};")])


@pytest.mark.essential
def test_the_page_has_what_the_sources_read() -> None:
    page, found = _rows(), _read_in_sources()
    known, tools = _library()
    assert known, "the table of the library was not found"
    assert all(any(name.startswith(t) for name in page) for t in tools), "the library knows a name that nothing reads"
    # A name in `tools`, such as "STOKER_TEST", is a prefix. It counts as a variable only if the page has it.
    names = {n for n in found if n in page or n not in tools} - {MISSPELT}
    assert names == set(page), "doc/environment.md and the sources differ"
    for name, cells in page.items():
        assert len(cells) == 4 and all(cells), name
        path = cells[3].strip("`")
        assert path in found[name], f"{name} does not stand in {path}"
        assert name in known or any(name.startswith(t) for t in tools), f"the library would warn of {name}"


def test_values_are_those_that_the_library_checks() -> None:
    page, largest = _rows(), {"INT64_MAX": 2**63 - 1, "INT32_MAX": 2**31 - 1, "UINT8_MAX": 255}
    known, _ = _library()
    for name, (most, words) in known.items():
        values = page[name][0]
        if most:
            assert values == f"0 to {largest[most]}", name
        elif words:
            assert re.findall(r"`([^`]+)`", values) == words, name


def test_every_file_of_tests_has_a_layer(request: pytest.FixtureRequest) -> None:
    conftest = request.config.pluginmanager.get_plugin(str(ROOT / "test/python/conftest.py"))
    files = (ROOT / "test/python").rglob("test_*.py")
    assert not [str(f) for f in files if not conftest.layers_of(f)], "add these files to LAYERS in conftest.py"
