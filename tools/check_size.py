#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that functions fit on a screen and files have one subject.

Hard limits, which fail: 150 lines a function, 600 lines a file. Functions over 60 lines are listed; more than one in fifty of them fails too.
A struct of src/exec that more than three of its files see has at most 20 fields.
Also: the licence on the first line (second after #!), no trailing blanks, tabs for indentation in C, and nowhere a merge that was not resolved.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCREEN, HARD, FILE, LONG_SHARE = 60, 150, 600, 0.02
FIELDS, FEW_FILES = 20, 3
C_FOLDERS = ("src", "include", "cli", "python", "examples", "test", "bench", "tools")
# A C function's body starts at a brace in the first column (Linux style) and ends at the next closing one there.
OPENING = re.compile(r"^\{\s*$")
NAME = re.compile(r"(\w+)\s*\([^()]*(?:\([^()]*\)[^()]*)*\)[^(){};]*$", re.S)


def tracked() -> list[Path]:
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\n")
    return [ROOT / n for n in names if n and (ROOT / n).is_file()]


def c_functions(text: str) -> list[tuple[str, int, int]]:
    """(name, first line, lines) of each function, counted from its brace."""
    lines, found, start = text.split("\n"), [], None
    for i, line in enumerate(lines):
        if OPENING.match(line):
            start = i
        elif start is not None and line.startswith("}"):
            head = NAME.search("\n".join(lines[max(0, start - 8) : start]))
            found.append((head.group(1) if head else "?", start + 1, i - start + 1))
            start = None
    return found


def python_functions(text: str) -> list[tuple[str, int, int]]:
    nodes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return [(n.name, n.lineno, (n.end_lineno or n.lineno) - n.lineno + 1) for n in nodes]


def check_text(name: str, text: str, is_c: bool) -> list[str]:
    faults = []
    lines = text.split("\n")
    if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(lines[:2]):
        faults.append(f"{name}:1: no SPDX-License-Identifier on the first line")
    if len(lines) - 1 > FILE:
        faults.append(f"{name}: {len(lines) - 1} lines; a file has at most {FILE}")
    for i, line in enumerate(lines, 1):
        if line != line.rstrip():
            faults.append(f"{name}:{i}: trailing blanks")
        if is_c and line.startswith("    ") and not line.startswith("     *"):
            faults.append(f"{name}:{i}: indented with spaces")
    return faults


def struct_fields(text: str) -> list[tuple[str, int]]:
    """(name, fields) of each struct at the outermost level; one that is declared inside it is one field."""
    text = re.sub(r"/\*.*?\*/|^#.*?(?<!\\)$", "", text, flags=re.S | re.M)
    found = []
    for head in re.finditer(r"^struct (\w+) \{", text, re.M):
        flat, depth = "", 0
        for c in text[head.end() :]:
            if c == "}" and depth == 0:
                break
            flat += c if depth == 0 and c not in "({" else ""
            depth += (c in "({") - (c in ")}")
        found.append((head.group(1), sum(1 + part.count(",") for part in flat.split(";") if part.strip())))
    return found


def check_structs(folder: Path) -> list[str]:
    """What a header declares is seen by all files that include it, through other headers too."""
    included = {f: re.findall(r'#include "exec/(\S+)"', f.read_text(encoding="utf-8")) for f in sorted(folder.glob("*.[ch]"))}

    def reached(file: Path, seen: set[Path]) -> set[Path]:
        for name in included.get(file, []):
            if (header := folder / name) not in seen:
                seen |= {header} | reached(header, seen | {header})
        return seen

    seers = [reached(f, set()) for f in included if f.suffix == ".c"]
    faults = []
    for header in (f for f in included if f.suffix == ".h"):
        files = sum(header in s for s in seers)
        for name, fields in struct_fields(header.read_text(encoding="utf-8")):
            if files > FEW_FILES and fields > FIELDS:
                faults.append(f"src/exec/{header.name}: struct {name} has {fields} fields and is seen by {files} files")
    return faults


def main() -> int:
    faults, long_ones, count = [], [], 0
    for path in tracked():
        name = str(path.relative_to(ROOT))
        if path.suffix in {".md", ".toml", ".txt", ".build"} and re.search(r"^(<{7}|>{7}) ", path.read_text(encoding="utf-8"), re.M):
            faults.append(f"{name}: a merge that was not resolved")
        is_c = path.suffix in {".c", ".h", ".cu", ".cuh"} and name.split("/")[0] in C_FOLDERS
        if not is_c and path.suffix != ".py":
            continue
        text = path.read_text(encoding="utf-8")
        faults += check_text(name, text, is_c)
        for function, line, length in c_functions(text) if is_c else python_functions(text):
            count += 1
            where = f"{name}:{line}: {function} has {length} lines"
            if length > HARD:
                faults.append(f"{where}; the limit is {HARD}")
            elif length > SCREEN:
                long_ones.append(where)
    faults += check_structs(ROOT / "src" / "exec")
    if len(long_ones) > LONG_SHARE * count:
        faults.append(f"{len(long_ones)} of {count} functions do not fit on a screen of {SCREEN} lines")
    print("\n".join(long_ones + faults))
    print(f"sizes: {count} functions, {len(long_ones)} over {SCREEN} lines, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
