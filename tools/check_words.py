#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that comments and documents avoid the words in the column "not used" of ARCHITECTURE.md's glossary.

Reads comments of C files, comments and docstrings of Python files, and the text of Markdown files without their code and tables. Quoted text, options
and names of programs may contain these words.

usage: check_words.py [FILE ...]     default: all files that git knows
"""

import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
C_SUFFIXES = {".c", ".h", ".cu", ".cuh"}
C_TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"|/\*(.*?)\*/|//([^\n]*)', re.S)
QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|--[\w-]+|\w+\.py\b", re.S)


def unused_words() -> list[str]:
    """Returns the words in the glossary's last column, "not used"."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = text[text.index("| word | means | not used |") :].split("\n\n")[0].splitlines()[2:]
    words = [word.strip() for row in rows for word in row.strip().strip("|").split("|")[-1].split(",")]
    return [word for word in words if word]


def comments(path: Path) -> Iterator[tuple[int, str]]:
    """Yields (line, text) of each comment and docstring, and in Markdown of each line outside of code and tables."""
    if path.suffix == ".py":
        with tokenize.open(path) as file:
            previous = tokenize.NEWLINE  # the last token that is not a comment or an empty line
            for token in tokenize.generate_tokens(file.readline):
                docstring = token.type == tokenize.STRING and previous in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
                if token.type == tokenize.COMMENT or docstring:
                    yield token.start[0], token.string[3:-3] if token.string.startswith('"""') else token.string
                if token.type not in (tokenize.COMMENT, tokenize.NL):
                    previous = token.type
        return
    text = path.read_text(encoding="utf-8")
    if path.suffix in C_SUFFIXES:
        for match in C_TEXT.finditer(text):
            if match.group(1) or match.group(2):
                yield text.count("\n", 0, match.start()) + 1, match.group(1) or match.group(2)
        return
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith(("|", "    ")):
            yield number, line


def check(path: Path, word: re.Pattern[str]) -> list[str]:
    found = []
    for line, text in comments(path):
        plain = QUOTED.sub(lambda quoted: "\n" * quoted.group().count("\n"), text)
        for match in word.finditer(plain):
            at = line + plain.count("\n", 0, match.start())
            found.append(f'{path}:{at}: "{match.group()}" is not used here; the glossary of ARCHITECTURE.md names the words to use')
    return found


def main(argv: list[str]) -> int:
    words = unused_words()
    word = re.compile(r"\b(?:" + "|".join(map(re.escape, words)) + r")\b", re.I)
    names = argv or subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    paths = [Path(n) for n in names if Path(n).suffix in C_SUFFIXES | {".py", ".md"}]
    found = [fault for path in paths if path.name not in ("CHANGELOG.md", "ARCHITECTURE.md") for fault in check(path, word)]
    print("\n".join(found) if found else f"words: no comment uses {', '.join(words)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
