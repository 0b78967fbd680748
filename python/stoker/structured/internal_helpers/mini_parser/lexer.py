# SPDX-License-Identifier: Apache-2.0
"""Splits the text of a condition into tokens."""

from __future__ import annotations

import re


class TokenType:
    """The kinds of tokens."""

    LITERAL = "literal"
    VARIABLE = "variable"
    ASSIGNMENT = "assignment"
    COMPARISON = "comparison"
    LOGICAL_OR = "logical_or"
    LOGICAL_AND = "logical_and"
    LOGICAL_NOT = "logical_not"
    MINUS = "minus"
    PARENTHESIS_OPEN = "parenthesis_open"
    PARENTHESIS_CLOSE = "parenthesis_close"
    EOL = "end_of_line"


class Token:
    """A name, number, operator or parenthesis in the text of a condition, or the end of that text (EOL). type: one of TokenType. position: index of the first
    character; -1 if it is not known."""

    def __init__(self, type: str, value: str, position: int = -1) -> None:
        self.type = type
        self.value = value
        self.position = position

    def __repr__(self) -> str:
        return f"Token(type='{self.type}', value='{self.value}')"


_KEYWORDS = {"or": TokenType.LOGICAL_OR, "and": TokenType.LOGICAL_AND, "not": TokenType.LOGICAL_NOT}
_WORDS = (
    (re.compile(r"[0-9.]+(?:[eE][+-]?[0-9]+)?"), TokenType.LITERAL),
    (re.compile(r"[^\W\d]\w*"), TokenType.VARIABLE),
    (re.compile(r"==|!=|>=|<=|>|<"), TokenType.COMPARISON),
    (re.compile(r"="), TokenType.ASSIGNMENT),
    (re.compile(r"-"), TokenType.MINUS),
    (re.compile(r"\("), TokenType.PARENTHESIS_OPEN),
    (re.compile(r"\)"), TokenType.PARENTHESIS_CLOSE),
)


class Lexer:
    """Splits a text into tokens. Each call of next_token returns one of them."""

    def __init__(self, input: str) -> None:
        self._input = input
        self._position = 0

    def next_token(self) -> Token:
        """Returns the next token. At the end of the text, each call returns a token of type EOL. Raises ValueError for text that is not a token."""
        while self._position < len(self._input) and self._input[self._position].isspace():
            self._position += 1
        at = self._position
        if at == len(self._input):
            return Token(TokenType.EOL, "", at)
        for pattern, kind in _WORDS:
            if found := pattern.match(self._input, at):
                self._position = found.end()
                return self._token(kind, found.group(), at)
        raise ValueError(f"{self._input!r}: {self._input[at]!r} at position {at} is not part of a condition")

    def _token(self, kind: str, text: str, at: int) -> Token:
        if kind == TokenType.LITERAL:
            try:
                float(text)
            except ValueError:
                raise ValueError(f"{self._input!r}: {text!r} at position {at} is not a number") from None
        return Token(_KEYWORDS.get(text, kind) if kind == TokenType.VARIABLE else kind, text, at)
