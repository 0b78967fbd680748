#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists the longest functions, the largest files and the widest structs for review, and checks rules of form.

A reviewer looks first at the items of these lists: a long function may contain a step that deserves its own function, a large file may have a second subject,
a wide struct a second owner. An item in a list is not a fault, because splitting code to fit a number does not improve it. These are faults: a function of
more than 150 lines, a file without the licence on its first line (the second after #!), trailing blanks, spaces for indentation in C, an unresolved merge.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCREEN, HARD = 60, 150
LISTED = 10  # number of rows in each list of the largest items
C_FOLDERS = ("src", "include", "cli", "python", "examples", "test", "bench", "tools")
# A C function's body starts at a brace in the first column (Linux style) and ends at the next closing brace in the first column.
OPENING = re.compile(r"^\{\s*$")
NAME = re.compile(r"(\w+)\s*\([^()]*(?:\([^()]*\)[^()]*)*\)[^(){};]*$", re.S)


def tracked() -> list[Path]:
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\n")
    return [ROOT / n for n in names if n and (ROOT / n).is_file()]


def c_functions(text: str) -> list[tuple[str, int, int]]:
    """Returns (name, first line, number of lines) of each function, counted from its opening brace."""
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
    for i, line in enumerate(lines, 1):
        if line != line.rstrip():
            faults.append(f"{name}:{i}: trailing blanks")
        if is_c and line.startswith("    ") and not line.startswith("     *"):
            faults.append(f"{name}:{i}: indented with spaces")
    return faults


def struct_fields(text: str) -> list[tuple[str, int]]:
    """Returns (name, number of fields) of each struct at the outermost level. A nested struct counts as one field."""
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


def largest(what: str, rows: list[tuple[int, str]]) -> str:
    return "\n".join([f"{what}:", *(f"  {count:5d}  {name}" for count, name in sorted(rows, reverse=True)[:LISTED])])


def main() -> int:
    faults: list[str] = []
    functions: list[tuple[int, str]] = []
    files: list[tuple[int, str]] = []
    structs: list[tuple[int, str]] = []
    for path in tracked():
        name = str(path.relative_to(ROOT))
        if path.suffix in {".md", ".toml", ".txt", ".build"} and re.search(r"^(<{7}|>{7}) ", path.read_text(encoding="utf-8"), re.M):
            faults.append(f"{name}: a merge that was not resolved")
        is_c = path.suffix in {".c", ".h", ".cu", ".cuh"} and name.split("/")[0] in C_FOLDERS
        if not is_c and path.suffix != ".py":
            continue
        text = path.read_text(encoding="utf-8")
        faults += check_text(name, text, is_c)
        files.append((text.count("\n"), name))
        for function, line, length in c_functions(text) if is_c else python_functions(text):
            functions.append((length, f"{name}:{line}: {function}"))
            if length > HARD:
                faults.append(f"{name}:{line}: {function} has {length} lines; the limit is {HARD}")
        if path.suffix == ".h":
            structs += [(fields, f"{name}: struct {struct}") for struct, fields in struct_fields(text)]
    print(largest("lines of the longest functions", functions))
    print(largest("lines of the largest files", files))
    print(largest("fields of the widest structs", structs))
    print("\n".join(faults))
    over = sum(length > SCREEN for length, _ in functions)
    print(f"sizes: {len(functions)} functions, {over} over {SCREEN} lines, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
