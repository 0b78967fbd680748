# SPDX-License-Identifier: Apache-2.0
"""Lexer, parser and syntax tree of the conditions of AnnotationElementConditionEval."""

from stoker.structured.internal_helpers.mini_parser.ast import AST, And, Assignment, Comparison, Literal, Not, Or, UnaryMinus, Variable
from stoker.structured.internal_helpers.mini_parser.lexer import Lexer, Token, TokenType
from stoker.structured.internal_helpers.mini_parser.parser import Parser

__all__ = [
    "AST",
    "And",
    "Assignment",
    "Comparison",
    "Lexer",
    "Literal",
    "Not",
    "Or",
    "Parser",
    "Token",
    "TokenType",
    "UnaryMinus",
    "Variable",
]
