# SPDX-License-Identifier: Apache-2.0
"""Functions of `stoker inspect` that tables and robot data sets share: they parse arguments, print facts, and format counts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from stoker.errors import StokerError
from stoker.loader.sources._command import STORAGE_FLAGS, STORAGE_TEXTS, UsageError, parse, put, say, whole

Facts = dict[str, Any]


def operands(arguments: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Returns the arguments of `stoker inspect` that are no options, and its options. For wrong options and for help, returns no arguments, so that the C
    program answers."""
    try:
        paths, options = parse(
            arguments,
            ("threads", *STORAGE_TEXTS),
            ("quiet", "json", "help", *STORAGE_FLAGS),
            {"t": "threads", "q": "quiet", "j": "json", "h": "help"},
        )
        whole(options, "threads", 1, 4096)
    except UsageError:
        return [], {}
    return ([], {}) if "help" in options else (paths, options)


def print_facts(inspect: Callable[[], Facts], lines: Callable[[Facts], list[str]], as_json: bool) -> int:
    """Prints the facts that inspect() returns, as JSON or as lines(facts). Returns the exit status: 0, 1 after an error, or 2 for wrong options. Prints the
    error."""
    try:
        facts = inspect()
    except UsageError as e:
        say("inspect", str(e))
        return 2
    except (StokerError, OSError) as e:
        say("inspect", str(e))
        return 1
    return put("inspect", json.dumps(facts) if as_json else "\n".join(lines(facts)))


def count_text(number: int, what: str) -> str:
    """Returns "1 row" or "2 rows" for what="row"."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
