#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the operator reference from `stoker ops --json` on stdin to stdout, as Markdown."""

import json
import sys
import textwrap

WIDTH = 110  # width of paragraphs in characters; rows of tables are not wrapped


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def prose(text: str, first: str = "", rest: str = "") -> list[str]:
    """Wraps a text of one or more paragraphs. first, rest: prefixes of the first line and of all other lines."""
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        lines += [""] if lines else []
        lines += textwrap.wrap(
            paragraph, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
        )
    return lines


def describe_default(arg: dict) -> str:
    if arg["required"]:
        return "required"
    return f"`{json.dumps(arg['default'])}`" if "default" in arg else ""


def describe_type(arg: dict) -> str:
    text = arg["type"] + (" or one value" if arg["scalar_ok"] else "")
    if "choices" in arg:
        text += ": " + ", ".join(choice or '""' for choice in arg["choices"].split("|"))
    low, high = arg.get("min"), arg.get("max")
    if low is not None and high is not None:
        text += f", {low:g} to {high:g}"
    elif low is not None:
        text += f", at least {low:g}"
    elif high is not None:
        text += f", at most {high:g}"
    beyond = ["infinite"] * arg["infinite"] + ["NaN"] * arg["nan"]
    return text + (f", may be {' or '.join(beyond)}" if beyond else "")


def page(op: dict) -> list[str]:
    lines = [f"## {op['name']}", "", *prose(op["doc"]), ""]
    inputs = str(op["min_inputs"]) if op["min_inputs"] == op["max_inputs"] else f"{op['min_inputs']} to {op['max_inputs']}"
    facts = [f"Inputs: {inputs}", f"outputs: {op['outputs'] if op['outputs'] >= 0 else 'as the arguments say'}"]
    facts += [f"layouts: {op['layouts']}"] if op["layouts"] else []
    facts += [f"also known as `{op['alias']}`"] if "alias" in op else []
    facts += ["reader"] if op["reader"] else []
    facts += ["random"] if op["random"] else []
    facts += ["needs the whole batch"] if op["batch"] else []
    facts += ["runs only on the CPU"] if op["on_cores"] else []
    facts += ["on a GPU, NVDEC decodes the videos that it can"] if op["on_nvdec"] else []
    lines += [*prose("; ".join(facts) + "."), ""]
    if "tolerance" in op:
        lines += [*prose(f"Differs from its reference: {op['tolerance']}"), ""]
    shown = [a for a in op["args"] if not a["accepted_only"]]
    if shown:
        lines += ["| argument | type | default | per sample | what it does |", "| --- | --- | --- | --- | --- |"]
        for arg in shown:
            per_sample = "yes, and a frame" if arg["per_frame"] else "yes" if arg["per_sample"] else ""
            row = [f"`{arg['name']}`", cell(describe_type(arg)), describe_default(arg), per_sample, cell(arg["doc"])]
            lines.append("| " + " | ".join(row) + " |")
        lines.append("")
    taken = [f"`{a['name']}`" for a in op["args"] if a["accepted_only"]]
    if taken:
        lines += [*prose(f"Accepted for programs written for DALI, without effect: {', '.join(taken)}."), ""]
    return lines


def main() -> None:
    ops = [op for op in json.load(sys.stdin) if not op["hidden"]]
    lines = ["# Operators", ""]
    intro = "After this page you know the arguments, inputs and outputs of each operator. `make docs` generates the page from the tables"
    lines += [*prose(f"{intro} that the library runs on."), ""]
    for op in ops:
        lines += prose(f"[{op['name']}](#{op['name'].replace('.', '')}): {cell(op['doc'].splitlines()[0])}", "- ", "  ")
    lines.append("")
    cores = ", ".join(f"`{op['name']}`" for op in ops if op["on_cores"] and not op["reader"])
    nvdec = ", ".join(f"`{op['name']}`" for op in ops if op["on_nvdec"])
    lines += prose(
        "[operator-table.md](operator-table.md) shows all of them at a glance, with devices, layouts and element types.\n\n"
        "Operators run on the CPU and on the GPU, with the same integers and the same draws. Readers run only on the CPU, wherever they are placed, and so "
        f"do {cores}. Operators that decode videos are exceptions: if {nvdec} are placed on a GPU, NVDEC decodes the videos that it can. The counter "
        "`on_cores` of `Pipeline.counters()` counts the samples that a GPU left to the CPU for other reasons, such as files that its decoder does not take.\n\n"
        "Arguments must be finite, as constants and for each sample, unless their type says otherwise. NaN is accepted only for outputs of floats."
    ) + [""]
    for op in ops:
        lines += page(op)
    print("\n".join(lines).rstrip())


if __name__ == "__main__":
    main()
