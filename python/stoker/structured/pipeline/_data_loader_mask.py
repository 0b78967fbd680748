# SPDX-License-Identifier: Apache-2.0
"""Makes a class that passes isinstance checks for another class, but has none of that class's behaviour."""

from __future__ import annotations

from typing import Any


def masked_as(own: type, shown: type) -> type:
    """Returns a subclass of both `own` and `shown` that behaves like `own`. Attributes that only `shown` has raise RuntimeError, unless they begin with
    `__`."""

    def refuse(name: str) -> property:
        def raises(self: Any) -> Any:
            raise RuntimeError(
                f"'{name}' belongs to {shown.__module__}.{shown.__qualname__}: a {own.__name__} has its type, but not its attributes"
            )

        return property(raises)

    known = {name for base in own.__mro__ for name in base.__dict__}
    foreign = {name for base in shown.__mro__ for name in base.__dict__} - known
    body: dict[str, Any] = {name: refuse(name) for name in foreign if not name.startswith("__")}
    body["__init__"] = own.__dict__["__init__"]
    body["__setattr__"] = object.__setattr__
    return type(own.__name__, (own, shown), body)
