#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the shipped binaries were built and linked so that a memory error is hard to exploit.

- the stack is protected (stack protector), and copies whose size the compiler knows are checked (FORTIFY);
- addresses of functions are resolved and made read-only when the library is loaded (BIND_NOW, RELRO);
- nothing is both writable and executable: not the stack, not a segment, no relocation in code;
- a program can be loaded anywhere (PIE); on x86-64 targets of indirect jumps are marked for CET.

usage: check_hardening.py PATH...      PATH: a build folder (not of a debug build or with a sanitizer), a wheel, or a binary
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

SHIPPED = ("libstoker.so", "cli/stoker", "python/stoker/_core.abi3.so")  # paths of the shipped binaries in a build folder
IN_WHEEL = re.compile(
    r"^stoker/(_bin/stoker|_lib/lib(stoker-[^/]*|curl-stoker\.so|av\w+-stoker\.so\.\d+)|[^/]*\.(abi3|cpython-\d+t-[\w-]+)\.so)$"
)  # other libraries in a wheel are copies of the system's
ENDBR64 = b"\xf3\x0f\x1e\xfa"
FEW = 10  # more than the number of ENDBR64 instructions in a C library's start files


def readelf(binary: Path, *what: str) -> str:
    return subprocess.run(["readelf", "-W", *what, str(binary)], check=True, capture_output=True, text=True).stdout


def faults(binary: Path) -> list[str]:
    """Returns a description of each protection that a binary lacks."""
    header, segments, dynamic = readelf(binary, "-h"), readelf(binary, "-l"), readelf(binary, "-d")
    imports = set(re.findall(r" UND (\w+)", readelf(binary, "--dyn-syms")))
    loads = re.findall(r"^\s+(LOAD|GNU_STACK)\s+(?:0x\w+\s+){5}([RWE ]{3})", segments, re.M)
    checks = {
        "the stack is not protected (-fstack-protector-strong)": "__stack_chk_fail" in imports,
        "copies are not checked (-D_FORTIFY_SOURCE)": any(re.fullmatch(r"__\w+_chk", name) for name in imports),
        "symbols are bound late (-z now)": re.search(r"\(BIND_NOW\)|FLAGS.*\b(BIND_NOW|NOW)\b", dynamic),
        "addresses stay writable (-z relro)": "GNU_RELRO" in segments,
        "the stack is executable (-z noexecstack)": ("GNU_STACK", "RW ") in loads,
        "a segment is writable and executable": not any(kind == "LOAD" and "W" in way and "E" in way for kind, way in loads),
        "code is relocated (-fPIC)": "TEXTREL" not in dynamic,
        "it cannot be loaded anywhere (-pie)": re.search(r"Type:\s+DYN", header),
    }
    if "X86-64" in header:
        # The ELF note for CET is not reliable: the linker drops it if the C library's start files lack it, as Debian's do. So this counts the instructions.
        checks["targets of jumps are not marked (-fcf-protection)"] = binary.read_bytes().count(ENDBR64) > FEW
    return [text for text, holds in checks.items() if not holds]


def binaries(path: Path, scratch: Path) -> dict[str, Path]:
    """Returns a dict from name to file of the shipped binaries in `path`: a build folder, a wheel or a binary."""
    if path.is_dir():
        return {name: path / name for name in SHIPPED if (path / name).exists()}
    if path.suffix != ".whl":
        return {path.name: path}
    with zipfile.ZipFile(path) as wheel:
        return {name: Path(wheel.extract(name, scratch)) for name in wheel.namelist() if IN_WHEEL.match(name)}


def main() -> int:
    count = bad = 0
    for path in map(Path, sys.argv[1:]):
        with tempfile.TemporaryDirectory() as scratch:
            found = binaries(path, Path(scratch))
            if not found:
                print(f"hardening: nothing that is shipped is in {path}")
                return 1
            for name, binary in found.items():
                count += 1
                for fault in faults(binary):
                    print(f"{path}: {name}: {fault}")
                    bad += 1
    if not count:
        print(__doc__)
        return 2
    if not bad:
        print(f"hardening: {count} binaries have it")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
