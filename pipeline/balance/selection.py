"""Choose documents by an expression over their columns: `quality > 0.7 and language == 'en'`.

Comparisons, `and`, `or`, `not`, parentheses, numbers, strings and lists of them; Python parses the text, and nothing of
it is ever executed.
"""

import ast
import difflib
import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.documents.files import documents_of, read_batches

SELECTED_COLUMNS: Final = (
    "language", "language_score", "source_group", "host", "url", "n_chars", "n_words", "flags",
)  # fmt: skip
"""Columns of documents that an expression may name, next to those in `extra`."""
_COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne, ast.In: lambda value, listed: value in listed,
    ast.NotIn: lambda value, listed: value not in listed,
}  # fmt: skip
_EXTRA: Final = "extra"
_EXAMPLE: Final = "such as \"quality > 0.7 and language == 'en'\""


class Selection:
    """A parsed expression; ConfigurationError if it is none.

    `extra.NAME` is a field of the input that is no column. A comparison with a value that a document lacks is false.
    """

    def __init__(self, text: str, key: str = "balance.select") -> None:
        self.text, self._key = text, key
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ConfigurationError(f"{key}: {text!r} is no expression ({error}); expected one {_EXAMPLE}") from error
        self.names: set[str] = set()
        self._check_condition(self._tree)

    def check_names(self, known: Iterable[str]) -> None:
        """Raise ConfigurationError for a name that is no column, naming the nearest column."""
        listed = sorted(known)
        for name in sorted(self.names - set(listed)):
            near = difflib.get_close_matches(name, listed, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"columns: {', '.join(listed)}"
            raise ConfigurationError(
                f"{self._key}: no stage writes the column '{name}'; {hint} Add its filter to clean.annotate, or "
                f"write extra.{name} for a field of the input"
            )

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Return whether the expression is true of a document, from its columns and its `extra`."""
        return self._is_true(self._tree, row)

    def select(self, documents: Path, unit: int) -> Iterator[tuple[bytes, bool]]:
        """Yield the uid of each document of a part, and whether the expression is true of it."""
        for batch in read_batches(documents_of(documents, unit), ("uid", *SELECTED_COLUMNS, "extra")):
            for row in batch.to_pylist():
                yield row["uid"], self.holds({**row, "extra": json.loads(row["extra"])})

    def _check_condition(self, node: ast.expr) -> None:
        if isinstance(node, ast.BoolOp):
            for value in node.values:
                self._check_condition(value)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self._check_condition(node.operand)
        elif isinstance(node, ast.Compare):
            if any(type(operation) not in _COMPARISONS for operation in node.ops):
                self._refuse(node)
            for value in (node.left, *node.comparators):
                self._check_value(value)
        else:
            self._refuse(node)

    def _check_value(self, node: ast.expr) -> None:
        if isinstance(node, ast.Name):
            self.names.add(node.id)
        elif isinstance(node, ast.List | ast.Tuple):
            for item in node.elts:
                self._check_value(item)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            self._check_value(node.operand)
        elif not _is_field(node) and not (isinstance(node, ast.Constant) and type(node.value) in (int, float, str)):
            self._refuse(node)

    def _refuse(self, node: ast.AST) -> None:
        raise ConfigurationError(
            f"{self._key}: {ast.unparse(node)!r} in {self.text!r} is not allowed; expected comparisons of columns "
            f"with numbers and strings, joined by and, or, not, {_EXAMPLE}"
        )

    def _is_true(self, node: ast.expr, row: Mapping[str, Any]) -> bool:
        if isinstance(node, ast.BoolOp):
            join = all if isinstance(node.op, ast.And) else any
            return join(self._is_true(value, row) for value in node.values)
        if isinstance(node, ast.UnaryOp):
            return not self._is_true(node.operand, row)
        assert isinstance(node, ast.Compare)
        values = [_value(value, row) for value in (node.left, *node.comparators)]
        if None in values:
            return False
        try:
            pairs = zip(node.ops, values, values[1:], strict=False)
            return all(_COMPARISONS[type(operation)](left, right) for operation, left, right in pairs)
        except TypeError as error:
            raise ConfigurationError(
                f"{self._key}: {ast.unparse(node)!r} compares {' with '.join(map(repr, values))}: {error}"
            ) from error


def _is_field(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == _EXTRA


def _value(node: ast.expr, row: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return row[node.id] if node.id in row else row[_EXTRA].get(node.id)
    if isinstance(node, ast.Attribute):
        return row[_EXTRA].get(node.attr)
    if isinstance(node, ast.UnaryOp):
        return -_value(node.operand, row)
    assert isinstance(node, ast.List | ast.Tuple)
    return [_value(item, row) for item in node.elts]
