#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the site: the pages of doc/, a gallery, the Python and C interfaces and the command, as HTML that needs no network.

usage: make_site.py OUT [--command PATH]     OUT/html/index.html is the home page
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import gallery
import gallery_samples
from sphinx.cmd.build import main as sphinx

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# The guides of doc/ in the order of the menu. A page that is not named here fails the build.
GUIDES = {
    "Begin": ["install", "getting-started"],
    "Come from": ["from-torchvision", "from-dali", "from-others"],
    "Guides": [
        "loader",
        "training",
        "storage",
        "structured",
        "batching",
        "video",
        "audio",
        "tables",
        "robots",
        "metrics",
        "recipes",
        "troubleshooting",
    ],
    "Reference": ["transforms", "operator-table", "operators", "image-formats", "environment", "parity", "benchmarks"],
}
# The classes and functions of the package, grouped by the subject of their page.
PYTHON = {
    "Loaders": ["stoker.Loader", "stoker.DataLoader", "stoker.sample_rng", "stoker.Storage"],
    "Single files": ["stoker.imread", "stoker.imdecode", "stoker.VideoDecoder", "stoker.view"],
    "Pipelines": ["stoker.Pipeline", "stoker.pipeline_def"],
    "Diagnosis": ["stoker.advise", "stoker.metrics"],
    "Transforms": ["stoker.transforms"],
    "Batched losses": ["stoker.batching"],
    "Errors": ["stoker.errors"],
}
MODULES = ("batching", "errors", "metrics", "transforms")  # of these names


def guides(out: Path) -> None:
    """Copies README.md and doc/. Turns links to files of the repository that have no page into plain text."""
    known = {f"doc/{name}.md" for names in GUIDES.values() for name in names}
    there = {f"doc/{path.name}" for path in (ROOT / "doc").glob("*.md")}
    if there - known:
        raise SystemExit(f"site: make_site.py puts these pages nowhere: {', '.join(sorted(there - known))}")
    (out / "doc").mkdir()
    for path in [ROOT / "README.md", *(ROOT / name for name in sorted(there))]:
        text = re.sub(r"\[([^][]*)\]\(([^)#\s]+)(#[^)]*)?\)", lambda m, page=path: _link(m, page), path.read_text())
        (out / path.relative_to(ROOT)).write_text(text)
    for ending in ("svg", "json", "png"):
        for path in (ROOT / "doc").glob(f"*.{ending}"):
            shutil.copy(path, out / "doc")
    menu = [_menu(title, [f"doc/{name}" for name in names if f"doc/{name}.md" in there]) for title, names in GUIDES.items()]
    menu.append(_menu("Notebooks", notebooks(out)))
    menu.append(
        _menu("Look up", ["gallery-transforms", "gallery-operators", "gallery-samples", "gallery-pipelines", "python", "command", "c"])
    )
    (out / "index.md").write_text((out / "README.md").read_text() + "\n" + "\n".join(menu))
    (out / "README.md").unlink()


def notebooks(out: Path) -> list[str]:
    """Writes a page for each notebook of examples/, and returns their names."""
    (out / "notebooks").mkdir()
    pages = []
    for path in sorted((ROOT / "examples/notebooks").glob("*.ipynb")):
        parts = []
        for cell in json.loads(path.read_text())["cells"]:
            text = "".join(cell["source"]).replace(".ipynb)", ".md)")
            parts.append(f"```python\n{text}\n```" if cell["cell_type"] == "code" else text)
        parts.append(f"The notebook is `examples/notebooks/{path.name}`.")
        (out / "notebooks" / f"{path.stem}.md").write_text("\n\n".join(parts) + "\n")
        pages.append(f"notebooks/{path.stem}")
    return pages


def _menu(title: str, pages: list[str]) -> str:
    return "\n".join(["```{toctree}", f":caption: {title}", ":hidden:", "", *pages, "```", ""])


def _link(found: re.Match[str], page: Path) -> str:
    text, target, part = found.group(1), found.group(2), found.group(3) or ""
    path = (page.parent / target).resolve()
    if "://" in target or (path.suffix in (".md", ".svg", ".json", ".png") and path.parent == ROOT / "doc"):
        return found.group(0)
    if path == ROOT / "README.md":
        return f"[{text}](../index.md{part})"
    return text


def python(out: Path) -> None:
    """Writes the page of the Python package; Sphinx fills it from the docstrings."""
    lines = ["# Python", ""]
    for subject, names in PYTHON.items():
        lines += [f"## {subject}", ""]
        for name in names:
            last = name.rsplit(".")[-1]
            kind = "module" if last in MODULES else "class" if last[0].isupper() else "function"
            members = "" if kind == "function" else "   :members:\n"
            lines += ["```{eval-rst}", f".. auto{kind}:: {name}", members, "```", ""]
    (out / "python.md").write_text("\n".join(lines))


def command(out: Path, program: Path) -> None:
    """Writes the page of the command from its help texts."""

    def said(*arguments: str) -> str:
        done = subprocess.run([program, *arguments], check=True, capture_output=True, text=True, env={"COLUMNS": "100"})
        return f"```text\n{done.stdout.rstrip()}\n```\n"

    names = re.findall(r"^  ([\w-]+)  ", said("--help").split("commands:")[1].split("exit codes")[0], re.M)
    parts = ["# The command\n", said("--help"), *(f"## stoker {name}\n\n{said(name, '--help')}" for name in names)]
    (out / "command.md").write_text("\n".join(parts))


def c(out: Path) -> None:
    """Writes a page for each public header: its comments as text, its declarations as code."""
    (out / "c").mkdir()
    headers = sorted((ROOT / "include/stoker").glob("*.h"))
    for header in headers:
        (out / "c" / f"{header.stem}.md").write_text(f"# {header.name}\n\n" + "\n\n".join(_blocks(header.read_text())) + "\n")
    pages = "\n".join(f"c/{header.stem}" for header in headers)
    text = "`#include <stoker/stoker.h>` includes all of these; `pkg-config --cflags --libs stoker` and CMake's `find_package(Stoker)` find them."
    (out / "c.md").write_text(f"# C\n\n{text}\n\n```{{toctree}}\n\n{pages}\n```\n")


def _paragraph(text: str) -> str:
    """Returns a paragraph of a comment as HTML. An indented one is an example, whose lines stay as they are."""
    if text.startswith("  "):
        return f"<pre>{_escaped(text)}</pre>"
    return "<p>" + re.sub(r"`([^`\n]+)`", r"<code>\1</code>", _escaped(text)) + "</p>"


def _blocks(text: str) -> list[str]:
    """Converts a header to Markdown: its comments become paragraphs, and the text between them code."""
    text = re.sub(
        r"^\s*(#ifdef __cplusplus\n(extern \"C\" \{|\})\n#endif|#ifn?def \S+|#define STOKER_\w+_H|#endif)\n", "", text, flags=re.M
    )
    blocks = []
    for comment, code in re.findall(r"^/\*(.*?)\*/\n(.*?)(?=^/\*|\Z)", text, re.M | re.S):
        plain = re.sub(r"^ \* ?", "", comment.strip(), flags=re.M).replace("SPDX-License-Identifier: Apache-2.0", "").strip()
        html = "\n".join(_paragraph(part) for part in plain.split("\n\n")) if plain else ""
        blocks.append(f"```{{raw}} html\n{html}\n```" if html else "")
        lines = [
            line for line in code.rstrip().splitlines() if not line.startswith(("#include", "#ifdef", "#endif", "#else", 'extern "C"'))
        ]
        kept = "\n".join(lines).strip()
        if kept:
            blocks.append(f"```c\n{kept}\n```")
    return [block for block in blocks if block]


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def dead_links(html: Path) -> list[str]:
    """Returns the links of all pages whose file or anchor does not exist in the site."""
    places = {page: {*re.findall(r'\bid="([^"]+)"', page.read_text())} for page in html.rglob("*.html")}
    dead = []
    for page in places:
        for link in re.findall(r'\b(?:href|src)="([^"]+)"', page.read_text()):
            path, _, place = link.replace("&amp;", "&").partition("#")
            if re.match(r"[a-z]+:", path) or link == "#":
                continue
            target = (page.parent / unquote(path.partition("?")[0])).resolve() if path else page
            if not target.exists() or (place and target in places and unquote(place) not in places[target]):
                dead.append(f"{page.relative_to(html)}: {link}")
    return sorted({*dead})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--command", type=Path, default=ROOT / "build/cli/stoker")
    a = parser.parse_args()
    pages = a.out / "pages"
    shutil.rmtree(a.out, ignore_errors=True)
    (pages / "_static").mkdir(parents=True)
    for name in ("conf.py", "site.css"):
        shutil.copy(HERE / name, pages / ("_static" if name.endswith("css") else ""))
    print("site: pages of doc/, the command and the headers", flush=True)
    guides(pages)
    python(pages)
    command(pages, a.command.resolve())
    c(pages)
    print("site: pictures of transforms and operators", flush=True)
    gallery.pages(pages)
    gallery_samples.pages(pages)
    print("site: HTML", flush=True)
    failed = sphinx(["-q", "-W", "--keep-going", "-b", "html", str(pages), str(a.out / "html")])
    dead = dead_links(a.out.resolve() / "html")
    for link in dead:
        print(f"site: a dead link in {link}", file=sys.stderr)
    failed = failed or bool(dead)
    if not failed:
        print(f"site: {a.out / 'html/index.html'}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
