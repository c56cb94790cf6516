"""Write into docs/how-it-works.md what is main line, catalogue and extension, and print it.

    python -m docs.generate.house

Figures are weights of `tests/weight.py`. No stage, key, algorithm, command or module of an
extension should stand in a text of another package, nor its key be read there from a configuration.
The page lists those that do; import-linter looks after classes.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import yaml

from clozeline.extension_list import Extension, find_extensions
from clozeline.files import publish_text
from clozeline.pipeline import all_stages, stage_file
from tests.registries import PARTS, REGISTRIES, ROOT
from tests.weight import weigh_files

PAGE: Final = ROOT / "docs" / "how-it-works.md"
MARKS: Final = ("<!-- written by python -m docs.generate.house -->\n", "<!-- until here -->\n")
_PACKAGES: Final = ("clozeline", "pipeline", "model", "train", "tools")
_SAME_WORD: Final = {
    "fill-mask": "a pipeline of transformers",
    "lines": "rules of clean, a reader, and lines of code",
    "prompt": "an adapter, and the text before a guess",
    "span": "a unit of objectives, and an element of HTML",
    "spans": "parts of a dialogue",
    "task": "work of a thread, and a prefix of text_to_text",
    "tasks": "work of an executor, and prefixes of text_to_text",
}
"""Names that mean something else in the main line, and what."""


def write_block(weights: Mapping[str, int]) -> str:
    """Return the part between the marks from the weights of files."""

    def weigh(*folders: str) -> str:
        tokens = sum(weight for file, weight in weights.items() if file.startswith(folders))
        return f"{tokens / 1000:.0f}k"

    ours = [each for each in find_extensions().values() if each.distribution == "clozeline"]
    registries = _describe_registries()
    exceptions = [f"`{line}`" for line in _read_exceptions() if "clozeline.extensions" in line]
    found = sorted({f"`{name}` in `{file}`" for each in ours for name, file in find_names(each)})
    rows = [
        f"| [{each.name}](../extensions/{each.name}/README.md) | {each.summary} "
        f"| {', '.join(each.needs)} | {weigh(f'extensions/{each.name}/')} |"
        for each in ours
    ]
    empty = [name for name in registries if not any((ROOT / name).glob("[!_]*.py"))]
    rows += [
        f"| `{name}` | {text} | | {weigh(f'{name}/')} |"
        for name, text in registries.items()
        if name not in empty
    ]
    names = ", ".join(f"`{name}`" for name in empty)
    rows.append(f"| {names} | Places that extensions fill. | | {weigh(*empty)} |")
    listed = "\n".join(rows)
    return f"""
| you may ignore | what it does | needs | tokens of code |
|---|---|---|---|
{listed}

The main line and the catalogue have {weigh(*_PACKAGES)} tokens of code, {weigh(*registries)} of \
them in the catalogue. Extensions have {weigh("extensions/")}.

- Imports of extensions in other packages: {", ".join(exceptions) or "none"}.
- Names of extensions in other packages: {", ".join(found) or "none"}.

"""


def _describe_registries() -> dict[str, str]:
    """Return the text below each registry, by the folder of its algorithms."""
    meanings = {}
    for part in PARTS:
        source = Path(str(part.__file__)).read_text(encoding="utf-8")
        for name, text in re.findall(r'^([A-Z_]+): Registry.*?"""(.*?)"""', source, re.M | re.S):
            if not (folder := getattr(part, name).folder).startswith("extensions/"):
                meanings[folder] = " ".join(text.split())
    return meanings


def _read_exceptions() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    return [line for each in contracts for line in each.get("ignore_imports", ())]


def find_names(extension: Extension) -> Iterator[tuple[str, str]]:
    """Yield the names of an extension that stand in other packages, each with the file."""
    files = [*extension.folder.rglob("[!_]*.py")]
    folders = [
        extension.folder / (each.address or each.name)
        for each in REGISTRIES
        if not each.package.startswith("clozeline.extensions")  # the main line cannot choose those
    ]
    keys = {name for name in all_stages() if stage_file(name) in files}
    keys |= {file.stem for file in files if file.parent in folders}
    commands = {file.stem for file in files if file.parent.name == "commands"}
    told = re.compile(
        "|".join(
            [
                rf"extensions[./]{extension.name}\b",
                *(rf"^{name}(?=[.=:]|$)" for name in keys),
                *(rf"^{name}$|clozeline {name}\b" for name in commands),
                *(rf"\b{name.replace('_', '[-_]')}\b" for name in commands if "_" in name),
            ]
        )
    )
    for file, texts in _read_packages().items():
        names = {name for text in texts for name in told.findall(text)}  # no groups: whole matches
        yield from ((name, file) for name in names - _SAME_WORD.keys())


@cache
def _read_packages() -> dict[str, set[str]]:
    """Return texts of each file, and keys that it reads from configurations as `key=`."""
    paths = [path for package in _PACKAGES for path in (ROOT / package).rglob("*.*")]
    read = {".py": _read_code, ".yaml": _read_yaml}
    return {
        path.relative_to(ROOT).as_posix(): {*read[path.suffix](path.read_text(encoding="utf-8"))}
        for path in paths
        if path.suffix in read
    }


def _read_yaml(text: str) -> Iterator[str]:
    yield from (each.value for each in yaml.parse(text) if isinstance(each, yaml.ScalarEvent))


def _read_code(text: str) -> Iterator[str]:
    nodes = [*ast.walk(ast.parse(text))]
    described = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        match node:
            case ast.Constant(value=str(value)) if id(node) not in described:
                yield value
            case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=key):
                if owner.endswith(("config", "options", "recipe", "entry")):
                    yield f"{key}="


if __name__ == "__main__":
    block = write_block(weigh_files())
    sys.stdout.write(block)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
    publish_text(PAGE, f"{before}{MARKS[0]}{block}{MARKS[1]}{rest.partition(MARKS[1])[2]}")
