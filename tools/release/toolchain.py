# SPDX-License-Identifier: Apache-2.0
"""Writes commands cc, ar and ranlib that compile for an old glibc: those of Zig (requirements-release.txt), which holds clang, lld and what it takes to
link with any glibc."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

TARGET = "x86_64-linux-gnu.2.17"


def zig() -> Path:
    spec = importlib.util.find_spec("ziglang")
    if not spec or not spec.submodule_search_locations:
        raise SystemExit("release: no ziglang in this Python: make release installs it")
    return Path(spec.submodule_search_locations[0]) / "zig"


def licence() -> Path:
    """The licence of what Zig's linker adds to programs."""
    return zig().parent / "LICENSE"


def identity() -> str:
    """What binaries depend on here."""
    return f"ziglang {importlib.metadata.version('ziglang')} {TARGET}"


def make(folder: Path) -> Path:
    """folder/toolchain with the three commands. No path of this machine gets into what they make."""
    tools = folder.resolve() / "toolchain"
    tools.mkdir(parents=True, exist_ok=True)
    cache = f'export ZIG_GLOBAL_CACHE_DIR="{folder.resolve()}/zig" ZIG_LOCAL_CACHE_DIR="{folder.resolve()}/zig"'
    # Without a word on it Zig's C compiler traps undefined behaviour as a debugging aid, and adds debugging information.
    root = Path(__file__).resolve().parent.parent.parent
    maps = f'"-ffile-prefix-map={folder.resolve()}=." "-ffile-prefix-map={root}=."'
    # For meson: asked for its predefined macros, Zig takes no version of glibc behind the target; and it names its linker, a form of LLVM's, otherwise.
    target = (
        f'target={TARGET}\ncase " $* " in\n*" -dM "*) target={TARGET.partition(".")[0]} ;;\n'
        '" -Wl,--version "*) echo "LLD (compatible with GNU linkers)"; exit ;;\nesac'
    )
    for name, words in (("cc", f"cc -target $target -fno-sanitize=all {maps}"), ("ar", "ar"), ("ranlib", "ranlib")):
        text = f'#!/bin/sh\n{cache}\n{target}\nexec "{zig()}" {words} "$@"\n'
        path = tools / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            path.chmod(0o755)
    return tools
