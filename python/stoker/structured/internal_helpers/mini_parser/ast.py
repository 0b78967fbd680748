# SPDX-License-Identifier: Apache-2.0
"""The nodes of a parsed condition."""

from __future__ import annotations

COMPARISONS = ("==", "!=", "<", ">", ">=", "<=")


class AST:
    """A node of a condition's syntax tree."""

    def __repr__(self) -> str:
        return str(self)


class Assignment(AST):
    """The condition `variable = expression`."""

    def __init__(self, variable: Variable, expression: AST) -> None:
        self.variable = variable
        self.expression = expression

    def __str__(self) -> str:
        return f"{self.variable} = <{self.expression}>"


class Literal(AST):
    """A number. value: its text in the condition."""

    def __init__(self, value: str) -> None:
        self.value = value

    def __str__(self) -> str:
        return f"{self.value}"


class Variable(AST):
    """The name of a field."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return f"'{self.name}'"


class Comparison(AST):
    """The comparison `val1 comparison_type val2`, where comparison_type is one of COMPARISONS."""

    def __init__(self, val1: AST, comparison_type: str, val2: AST) -> None:
        if comparison_type not in COMPARISONS:
            raise ValueError(f"comparison_type is one of {', '.join(COMPARISONS)}, not {comparison_type!r}")
        self.val1 = val1
        self.comparison_type = comparison_type
        self.val2 = val2

    def __str__(self) -> str:
        return f"({self.val1} {self.comparison_type} {self.val2})"


class Or(AST):
    """True if at least one of the conditions is true."""

    def __init__(self, *conditions: AST) -> None:
        self.conditions = conditions

    def __str__(self) -> str:
        return "{" + " or ".join(map(str, self.conditions)) + "}"


class And(AST):
    """True if all of the conditions are true."""

    def __init__(self, *conditions: AST) -> None:
        self.conditions = conditions

    def __str__(self) -> str:
        return "{" + " and ".join(map(str, self.conditions)) + "}"


class Not(AST):
    """True if the condition is false."""

    def __init__(self, condition: AST) -> None:
        self.condition = condition

    def __str__(self) -> str:
        return f"not [{self.condition}]"


class UnaryMinus(AST):
    """The negative of a value."""

    def __init__(self, value: AST) -> None:
        self.value = value

    def __str__(self) -> str:
        return f"-({self.value})"
