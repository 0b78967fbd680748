# SPDX-License-Identifier: Apache-2.0
"""Writes commands cc, ar and ranlib that compile for an old glibc. They call Zig (requirements-release.txt), which contains clang, lld and the files to link
with any glibc, for this machine's processor or another."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
from pathlib import Path

MACHINES = ("x86_64", "aarch64")
GLIBC = "2.17"
# Turns off what Zig's C compiler does by default: trap undefined behaviour, add debugging information, keep frame pointers, and leave out assert().
ALWAYS = "-fno-sanitize=all -g0 -fomit-frame-pointer -UNDEBUG"


def zig() -> Path:
    spec = importlib.util.find_spec("ziglang")
    if not spec or not spec.submodule_search_locations:
        raise SystemExit("release: no ziglang in this Python: make release installs it")
    return Path(spec.submodule_search_locations[0]) / "zig"


def licence() -> Path:
    """Returns the path of the licence of the code that Zig's linker adds to programs."""
    return zig().parent / "LICENSE"


def script(words: str, machine: str, folder: Path) -> str:
    """Returns the text of a shell script that runs a command of Zig. `folder` contains Zig's cache."""
    root = Path(__file__).resolve().parent.parent.parent
    lines = ["#!/bin/sh", f'export ZIG_GLOBAL_CACHE_DIR="{folder}/zig" ZIG_LOCAL_CACHE_DIR="{folder}/zig"']
    if words == "cc":
        target = f"{machine}-linux-gnu"
        lines += [f"target={target}.{GLIBC}", 'case " $* " in']
        # For meson: Zig cannot print its predefined macros for a target with a glibc version, and Zig's linker does not report itself as LLD.
        lines += [f'*" -dM "*) target={target} ;;', '" -Wl,--version "*) echo "LLD (compatible with GNU linkers)"; exit ;;']
        # Zig passes -O2 to clang for -O3.
        lines += ['*" -O3 "*" -c "* | *" -c "*" -O3 "*) set -- "$@" -Xclang -O3 ;;', "esac"]
        # Replaces paths of this machine in the binaries.
        words = f'cc -target $target {ALWAYS} "-ffile-prefix-map={folder}=." "-ffile-prefix-map={root}=."'
    lines.append(f'exec "{zig()}" {words} "$@"')
    return "\n".join(lines) + "\n"


def identity(machine: str) -> str:
    """Returns a text that changes if Zig changes, or if a part of this file on which binaries depend changes."""
    text = "".join(script(words, machine, Path()) for words in ("cc", "ar", "ranlib"))
    for path in (str(zig()), str(Path(__file__).resolve().parent.parent.parent)):
        text = text.replace(path, "")
    return f"ziglang {importlib.metadata.version('ziglang')} {machine} {hashlib.sha256(text.encode()).hexdigest()}"


def make(folder: Path, machine: str) -> Path:
    """Makes the folder with the three commands for one kind of machine."""
    folder = folder.resolve()
    tools = folder / "toolchain" / machine
    tools.mkdir(parents=True, exist_ok=True)
    for words in ("cc", "ar", "ranlib"):
        path, text = tools / words, script(words, machine, folder)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            path.chmod(0o755)
    return tools
