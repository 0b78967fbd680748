# SPDX-License-Identifier: Apache-2.0
"""Functions of `stoker inspect` that tables and robot data sets share: they parse arguments, print facts, and format counts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from stoker.errors import StokerError

Facts = dict[str, Any]


def operands(arguments: Sequence[str]) -> list[str]:
    """Returns the arguments of `stoker inspect` without its options."""
    return [a for a in arguments if a not in ("--json", "-j", "--quiet", "-q")]


def print_facts(inspect: Callable[[], Facts], lines: Callable[[Facts], list[str]], as_json: bool) -> int:
    """Prints the facts that inspect() returns, as JSON or as lines(facts). Returns the exit status: 0, or 1 after an error, which is printed too."""
    try:
        facts = inspect()
    except (StokerError, OSError) as e:
        print(f"stoker inspect: {e}", file=sys.stderr)
        return 1
    print(json.dumps(facts) if as_json else "\n".join(lines(facts)))
    return 0


def count_text(number: int, what: str) -> str:
    """Returns "1 row" or "2 rows" for what="row"."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
