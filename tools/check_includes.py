#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the direction of includes.

- A file of a layer of src/ includes only headers of its own layer and of the layers before it in meson.build's list.
- A file of src/kernel/SUBJECT includes only those kernel headers that belong to its own subject, to common/, or to a subject before its own in
  src/kernel/meson.build's list.
- Code outside of the library (cli, python, examples) includes only the public headers, which include no internal headers. Tests may include everything.
- The files of python/stoker have layers too, and must not import each other in a circle (python_imports.py).
"""

import re
import sys
from pathlib import Path

import python_imports

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
SUFFIXES = {".c", ".h", ".cu", ".cuh", ".inc"}
# The layers that batched losses (src/ragged) may include, since they do not depend on the pipeline.
RAGGED_SEES = {"base", "trace", "thread", "gpu", "tensor", "kernel", "ragged"}


def listed(path: Path, name: str) -> list[str]:
    """Reads the list `name` from a meson.build file. Ends the program if the file has no such list."""
    found = re.search(rf"^{name} = \[(.*?)\]", path.read_text(encoding="utf-8"), re.M | re.S)
    if not found:
        raise SystemExit(f"check_includes: {path} has no '{name} = [...]'")
    return re.findall(r"'(\w+)'", found.group(1))


def includes(path: Path) -> list[tuple[int, bool, str]]:
    """Returns (line, whether it is quoted, file name) of each include."""
    text = path.read_text(encoding="utf-8")
    return [(text.count("\n", 0, m.start(2)) + 1, m.group(1) == '"', m.group(2)) for m in INCLUDE.finditer(text)]


def allowed_in_layer(layer: str, order: list[str], name: str, local: bool) -> bool:
    head = name.split("/")[0]
    if head == "stoker" or local:
        return True
    if head not in order:
        return False
    if layer == "ragged":
        return head in RAGGED_SEES
    if head == "ragged":
        return layer in ("ragged", "api")
    return order.index(head) <= order.index(layer)


def allowed_in_subject(subject: str, subjects: list[str], name: str) -> bool:
    """Returns whether the order of subjects lets a file in src/kernel/SUBJECT include `name`."""
    parts = name.split("/")
    if parts[0] != "kernel":
        return True
    return len(parts) == 3 and parts[1] in subjects and subjects.index(parts[1]) <= subjects.index(subject)


def check(root: Path) -> list[str]:
    order = listed(root / "meson.build", "layers")
    subjects = ["common", *listed(root / "src/kernel/meson.build", "kernel_subjects")]
    faults = []

    def files(folder: str) -> list[Path]:
        return sorted(p for p in (root / folder).rglob("*") if p.suffix in SUFFIXES)

    for path in files("src"):
        layer, below = path.relative_to(root / "src").parts[:2]
        if layer not in order:
            faults.append(f"{path.relative_to(root)}: folder {layer} is not a layer of meson.build")
            continue
        if layer == "kernel" and below not in subjects:
            faults.append(f"{path.relative_to(root)}: {below} is not a subject of src/kernel/meson.build")
            continue
        for line, quoted, name in includes(path):
            local = (path.parent / name).is_file()
            if quoted and not allowed_in_layer(layer, order, name, local):
                faults.append(f'{path.relative_to(root)}:{line}: layer {layer} must not include "{name}"')
            if layer == "kernel" and quoted and not allowed_in_subject(below, subjects, name):
                faults.append(f'{path.relative_to(root)}:{line}: subject {below} must not include "{name}"')
    for folder in ("cli", "python", "examples"):
        for path in files(folder):
            for line, quoted, name in includes(path):
                generated = name.endswith(".inc")  # the build writes these files to the build folder
                if quoted and not generated and not name.startswith("stoker/") and not (path.parent / name).is_file():
                    faults.append(f'{path.relative_to(root)}:{line}: only the public API may be used here, not "{name}"')
                if "../" in name:
                    faults.append(f'{path.relative_to(root)}:{line}: include without "..": {name}')
    for path in files("include"):
        for line, quoted, name in includes(path):
            if quoted and not name.startswith("stoker/"):
                faults.append(f'{path.relative_to(root)}:{line}: a public header includes "{name}"')
    return faults


def main() -> int:
    faults = check(ROOT) + python_imports.faults(ROOT / "python/stoker")
    print("\n".join(faults) if faults else "includes: every layer sees only those before it")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
