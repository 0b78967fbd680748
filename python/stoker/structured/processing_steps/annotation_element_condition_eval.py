# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from stoker import fn, types
from stoker._where import at_path
from stoker.structured.internal_helpers.mini_parser import AST, And, Comparison, Literal, Not, Or, Parser, UnaryMinus, Variable
from stoker.structured.pipeline.sample_data_group import SampleDataGroup, path_text
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase, find_fields, place_of

# The codes of operations in the argument `program` of fn.element_condition.
_INPUT, _CONSTANT, _NEGATE, _NOT, _AND, _OR = range(6)
_COMPARISONS = {"==": 6, "!=": 7, "<": 8, ">": 9, "<=": 10, ">=": 11}


class AnnotationElementConditionEval(PipelineStepBase):
    """Evaluates a condition for each element of all annotations with the given name, and adds a field with a bool for each element.

        AnnotationElementConditionEval("annotation", "is_valid = (lidar_points >= 1 or radar_points >= 1) and not (category == -1)", False)

    An annotation is a group of fields that have one value for each element. The condition uses the names of these fields; the name before "=" is that of the
    new field. mini_parser.Parser describes the syntax. Values are compared as float32. remove_data_fields_used_in_condition: whether to remove the fields
    that the condition names.
    """

    def __init__(self, annotation_field_name: str | int, condition: str, remove_data_fields_used_in_condition: bool) -> None:
        self._annotation = annotation_field_name
        statement = Parser(condition).parse()
        self._result = statement.variable.name
        self._names: list[str] = []
        self._constants: list[float] = []
        self._program: list[int] = []
        self._encode(statement.expression)
        if not self._names:
            raise ValueError(f"{condition!r} names no field, from whose values the number of elements would follow")
        self._remove = remove_data_fields_used_in_condition

    def _encode(self, node: AST) -> None:
        """Appends an expression to self._program in reverse Polish notation, as (code, operand) pairs."""
        code, operand = 0, 0
        if isinstance(node, Variable):
            if node.name not in self._names:
                self._names.append(node.name)
            code, operand = _INPUT, self._names.index(node.name)
        elif isinstance(node, Literal):
            self._constants.append(float(node.value))
            code, operand = _CONSTANT, len(self._constants) - 1
        elif isinstance(node, Comparison):
            self._encode(node.val1)
            self._encode(node.val2)
            code = _COMPARISONS[node.comparison_type]
        elif isinstance(node, (And, Or)):
            code = _AND if isinstance(node, And) else _OR
            for k, condition in enumerate(node.conditions):
                self._encode(condition)
                if 0 < k < len(node.conditions) - 1:
                    self._program += [code, 0]
        else:
            assert isinstance(node, (Not, UnaryMinus))
            self._encode(node.condition if isinstance(node, Not) else node.value)
            code = _NOT if isinstance(node, Not) else _NEGATE
        self._program += [code, operand]

    def _process(self, data: SampleDataGroup) -> SampleDataGroup:
        for path in data.find_all_occurrences(self._annotation):
            group = data.get_item_in_path(path)
            with at_path(place_of(path, self._names)):
                mask = fn.element_condition(*(group[name] for name in self._names), program=self._program, constants=self._constants)
            self._change(group)
            group[self._result] = mask
        return data

    def _change(self, group: SampleDataGroup) -> None:
        """Changes an annotation's format to that after the step. Removes fields before it adds the new one, which may have a removed field's name."""
        ragged = any(group.is_ragged(name) for name in self._names)
        for name in self._names if self._remove else []:
            group.remove_field(name)
        group.add_data_field(self._result, types.BOOL, ragged=ragged)

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        for path in find_fields(data_empty, self._annotation, "annotations", ValueError):
            group = data_empty.get_item_in_path(path)
            if not isinstance(group, SampleDataGroup):
                raise ValueError(f"'{path_text(path)}' is a data field, where an annotation is a group of fields")
            group.check_has_children(data_field_children=self._names, current_name=path_text(path))
            self._change(group)
        return data_empty
