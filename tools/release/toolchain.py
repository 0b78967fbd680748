# SPDX-License-Identifier: Apache-2.0
"""Writes commands cc, ar and ranlib that compile for an old glibc: those of Zig (requirements-release.txt), which holds clang, lld and what it takes to
link with any glibc, for this machine's processor or another."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
from pathlib import Path

MACHINES = ("x86_64", "aarch64")
GLIBC = "2.17"
# Without a word on it Zig's C compiler traps undefined behaviour as a debugging aid, adds debugging information and keeps frame pointers for it, and leaves
# out assert().
ALWAYS = "-fno-sanitize=all -g0 -fomit-frame-pointer -UNDEBUG"


def zig() -> Path:
    spec = importlib.util.find_spec("ziglang")
    if not spec or not spec.submodule_search_locations:
        raise SystemExit("release: no ziglang in this Python: make release installs it")
    return Path(spec.submodule_search_locations[0]) / "zig"


def licence() -> Path:
    """The licence of what Zig's linker adds to programs."""
    return zig().parent / "LICENSE"


def script(words: str, machine: str, folder: Path) -> str:
    """A command of Zig's as a script of sh. `folder` holds what it caches."""
    root = Path(__file__).resolve().parent.parent.parent
    lines = ["#!/bin/sh", f'export ZIG_GLOBAL_CACHE_DIR="{folder}/zig" ZIG_LOCAL_CACHE_DIR="{folder}/zig"']
    if words == "cc":
        target = f"{machine}-linux-gnu"
        lines += [f"target={target}.{GLIBC}", 'case " $* " in']
        # For meson: asked for its predefined macros, Zig takes no version of glibc behind the target; and it names its linker, a form of LLVM's, otherwise.
        lines += [f'*" -dM "*) target={target} ;;', '" -Wl,--version "*) echo "LLD (compatible with GNU linkers)"; exit ;;']
        # Zig makes -O2 of -O3 where it calls clang.
        lines += ['*" -O3 "*" -c "* | *" -c "*" -O3 "*) set -- "$@" -Xclang -O3 ;;', "esac"]
        # No path of this machine gets into what it makes.
        words = f'cc -target $target {ALWAYS} "-ffile-prefix-map={folder}=." "-ffile-prefix-map={root}=."'
    lines.append(f'exec "{zig()}" {words} "$@"')
    return "\n".join(lines) + "\n"


def identity(machine: str) -> str:
    """What binaries depend on here."""
    text = "".join(script(words, machine, Path()) for words in ("cc", "ar", "ranlib"))
    for path in (str(zig()), str(Path(__file__).resolve().parent.parent.parent)):
        text = text.replace(path, "")
    return f"ziglang {importlib.metadata.version('ziglang')} {machine} {hashlib.sha256(text.encode()).hexdigest()}"


def make(folder: Path, machine: str) -> Path:
    """The folder with the three commands for one kind of machine."""
    folder = folder.resolve()
    tools = folder / "toolchain" / machine
    tools.mkdir(parents=True, exist_ok=True)
    for words in ("cc", "ar", "ranlib"):
        path, text = tools / words, script(words, machine, folder)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            path.chmod(0o755)
    return tools
