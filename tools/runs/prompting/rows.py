"""Rows of a file as a template reads them: lines of JSON, or a table with a header."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xxhash import xxh3_64_intdigest

from clozeline.errors import ConfigurationError
from clozeline.tools.runs.evaluation.local_texts import json_lines, text_lines
from clozeline.tools.runs.prompting.template import Template


@dataclass(frozen=True)
class PromptRow:
    """A row: the fields that the example names, and the right label where it is known."""

    uid: int
    """64-bit hash of the fields: equal texts have one, whatever their label, file or place"""
    fields: Mapping[str, str]
    label: str | None


@dataclass(frozen=True)
class PromptRows:
    """Rows of a file in their order, and how many were refused, by reason."""

    rows: list[PromptRow]
    refused: Counter[str]


def read_rows(path: Path, template: Template, *, labelled: bool) -> PromptRows:
    """Read the rows of a file, plain or compressed.

    Args:
        path: `.tsv` with a header, quotes have no meaning; any other file holds lines of JSON.
        template: names of the fields and the label.
        labelled: refuse rows without a label.

    Raises:
        ConfigurationError: there is no such file, or no row that the template can read.
        IntegrityError: the file is damaged.
    """
    if not path.is_file():
        raise ConfigurationError(f"{path}: no such file; give lines of JSON, or a .tsv with a header")
    found, refused = [], Counter[str]()
    lines = _table(path) if ".tsv" in path.suffixes else (plain for _, plain in json_lines(path))
    for plain in lines:
        row = None if plain is None else _row(plain, template)
        if row is None:
            refused["columns"] += 1
        elif isinstance(row, str):
            refused[row] += 1
        elif labelled and row.label is None:
            refused["no_label"] += 1
        else:
            found.append(row)
    if not found:
        reasons = ", ".join(f"{count} x {reason}" for reason, count in refused.items()) or "it is empty"
        names = ", ".join(template.fields.get(name, name) for name in template.names)
        raise ConfigurationError(f"{path}: expected rows with {names}, got none that can be read: {reasons}")
    return PromptRows(found, refused)


def _table(path: Path) -> Iterator[dict[str, Any] | None]:
    """Yield the rows of a table by the names of its header; None: one with another number of cells."""
    header: list[str] | None = None
    for _, line in text_lines(path):
        cells = line.removeprefix("\ufeff").rstrip("\r\n").split("\t")
        if header is None:
            header = cells
        elif any(cells):
            yield dict(zip(header, cells, strict=True)) if len(cells) == len(header) else None


def _row(plain: Mapping[str, Any], template: Template) -> PromptRow | str:
    """Return a row, or the reason to refuse it."""
    fields = {}
    for name in template.names:
        value = plain.get(template.fields.get(name, name))
        if not isinstance(value, str) or not value.strip():
            return f"no_{name}"
        fields[name] = value
    given = plain.get(template.label)
    label = None if given is None or given == "" else template.values.get(str(given), str(given))
    if label is not None and label not in template.labels:
        return "bad_label"
    content = "".join(f"{len(part)}:{part}" for pair in sorted(fields.items()) for part in pair)
    return PromptRow(xxh3_64_intdigest(content.encode()), fields, label)
