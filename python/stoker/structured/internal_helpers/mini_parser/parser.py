# SPDX-License-Identifier: Apache-2.0
"""Parses conditions by operator precedence (Pratt, "Top down operator precedence", 1973)."""

from __future__ import annotations

from stoker.structured.internal_helpers.mini_parser import ast
from stoker.structured.internal_helpers.mini_parser.lexer import Lexer, Token, TokenType

# Operators with larger numbers bind more tightly. `not` binds more tightly than a comparison, as in ACCV-Lab, from which the syntax comes.
_BINDING = {TokenType.LOGICAL_OR: 1, TokenType.LOGICAL_AND: 2, TokenType.COMPARISON: 3}
_PREFIX = {TokenType.LOGICAL_NOT: 4, TokenType.MINUS: 4}


class Parser:
    """Parses `name = expression`.

    An expression consists of names, numbers, parentheses, `or`, `and`, `not`, unary `-` and comparisons (== != > >= < <=) of two values. Unary `-` and `not`
    bind most tightly, then comparisons, then `and`, then `or`. Unlike in Python, `not a < b` compares `not a`: write `not (a < b)` to negate a comparison.

        Parser("is_valid = (lidar_points >= 1 or radar_points >= 1) and not (category == -1)").parse()
    """

    def __init__(self, input_str: str) -> None:
        self._text = input_str
        lexer = Lexer(input_str)
        self._tokens = [lexer.next_token()]
        while self._tokens[-1].type != TokenType.EOL:
            self._tokens.append(lexer.next_token())
        self._at = 0

    def parse(self) -> ast.Assignment:
        """Returns the syntax tree. Raises ValueError if the text does not begin with `name =`, or has an unexpected token, which the message names."""
        self._at = 0
        name, equals = self._tokens[0], self._tokens[min(1, len(self._tokens) - 1)]
        if name.type != TokenType.VARIABLE or equals.type != TokenType.ASSIGNMENT:
            raise ValueError(
                f"{self._text!r}: The condition must start with `<res_var_name> = ...`, where <res_var_name> names the field that the result is stored in"
            )
        self._at = 2
        expression = self._expression(0)
        if self._tokens[self._at].type != TokenType.EOL:
            raise self._unexpected("the end")
        return ast.Assignment(ast.Variable(name.value), expression)

    def _unexpected(self, wanted: str) -> ValueError:
        token = self._tokens[self._at]
        what = "it ends" if token.type == TokenType.EOL else f"there is {token.value!r}"
        return ValueError(f"{self._text!r}: at position {token.position} {what} where {wanted} is expected")

    def _take(self) -> Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _expression(self, binding: int) -> ast.AST:
        """Parses an operand, then each further operator that binds more tightly than `binding`, with its right operand. Returns their tree."""
        left = self._operand()
        while _BINDING.get(self._tokens[self._at].type, 0) > binding:
            token = self._take()
            right = self._expression(_BINDING[token.type])
            if token.type == TokenType.COMPARISON:
                if self._tokens[self._at].type == TokenType.COMPARISON:
                    raise self._unexpected("no further comparison: join two by `and`; something else")
                left = ast.Comparison(left, token.value, right)
            else:
                left = ast.Or(left, right) if token.type == TokenType.LOGICAL_OR else ast.And(left, right)
        return left

    def _operand(self) -> ast.AST:
        token = self._tokens[self._at]
        if token.type in _PREFIX:
            self._at += 1
            inner = self._expression(_PREFIX[token.type])
            return ast.Not(inner) if token.type == TokenType.LOGICAL_NOT else ast.UnaryMinus(inner)
        if token.type == TokenType.PARENTHESIS_OPEN:
            self._at += 1
            inner = self._expression(0)
            if self._tokens[self._at].type != TokenType.PARENTHESIS_CLOSE:
                raise self._unexpected("')'")
            self._at += 1
            return inner
        if token.type in (TokenType.LITERAL, TokenType.VARIABLE):
            self._at += 1
            return ast.Literal(token.value) if token.type == TokenType.LITERAL else ast.Variable(token.value)
        raise self._unexpected("a name, a number, '-', 'not' or '('")
