# SPDX-License-Identifier: Apache-2.0
"""tools/check_hardening.py accepts a library built with all flags, and names each flag that is left out."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).resolve().parents[2] / "tools" / "check_hardening.py"
COMPILER = shutil.which("cc")
SOURCE = """
#include <string.h>
int strange(const char *s, char *to);
""" + "\n".join(f"int f{i}(const char *s) {{ char room[{i + 32}]; strcpy(room, s); return strange(room, room); }}" for i in range(20))
HARDENED = {
    "protector": "-fstack-protector-strong",
    "fortify": "-D_FORTIFY_SOURCE=2",
    "cet": "-fcf-protection",
    "now": "-Wl,-z,now",
    "relro": "-Wl,-z,relro",
    "stack": "-Wl,-z,noexecstack",
}
WITHOUT = {
    "protector": ("-fno-stack-protector", "the stack is not protected"),
    "fortify": ("-D_FORTIFY_SOURCE=0", "copies are not checked"),
    "cet": ("-fcf-protection=none", "targets of jumps are not marked"),
    "now": ("-Wl,-z,lazy", "symbols are bound late"),
    "relro": ("-Wl,-z,norelro", "addresses stay writable"),
    "stack": ("-Wl,-z,execstack", "the stack is executable"),
}
pytestmark = pytest.mark.skipif(not COMPILER or not shutil.which("readelf"), reason="needs a compiler and readelf")


def check(folder: Path, flags: dict[str, str]) -> subprocess.CompletedProcess:
    source, library = folder / "some.c", folder / "libsome.so"
    source.write_text(SOURCE)
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O2", "-U_FORTIFY_SOURCE", *flags.values(), "-o", library, source], check=True)
    return subprocess.run([sys.executable, CHECK, library], capture_output=True, text=True)


def test_hardened(tmp_path):
    done = check(tmp_path, HARDENED)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("what", WITHOUT)
def test_a_flag_left_out(tmp_path, what):
    flag, text = WITHOUT[what]
    done = check(tmp_path, {**HARDENED, what: flag})
    assert done.returncode == 1 and text in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("\n") == 1, done.stdout


def test_nothing_to_check(tmp_path):
    done = subprocess.run([sys.executable, CHECK, tmp_path], capture_output=True, text=True)
    assert done.returncode == 1 and "nothing that is shipped" in done.stdout
