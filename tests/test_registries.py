"""What every algorithm of every registry folder keeps: the name of its class, and words for the reader."""

import ast

import pytest

from tests.registries import ROOT, algorithms, registries

FILES = [path for package in registries() for path in algorithms(package)]


def relative(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_file_class_and_name_agree(path):
    """`masked_lm.py` holds `MaskedLM`; where the class says its `name`, it is the file's."""
    classes = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)]
    same = [node for node in classes if node.name.lower() == path.stem.replace("_", "")]
    assert len(same) == 1, (
        f"{relative(path)}: expected one class with the file's name in CamelCase, found {[one.name for one in classes]}"
    )
    assert ast.get_docstring(same[0]), f"{relative(path)}: the class {same[0].name} needs a docstring"
    assert set(_names_given(same[0])) <= {path.stem}, f"{relative(path)}: `name` must be {path.stem!r}, like the file"


def _names_given(node):
    """Return values given to `name` in the class body, with or without an annotation."""
    found = []
    for statement in node.body:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
        value = getattr(statement, "value", None)
        if isinstance(target, ast.Name) and target.id == "name" and isinstance(value, ast.Constant):
            found.append(value.value)
    return found
