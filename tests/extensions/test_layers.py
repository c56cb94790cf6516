"""Layers inside of an extension, by the names of its folders."""

import ast
import subprocess
import sys

import pytest

from clozeline.extension_list import find_extensions

WITH_TORCH = {"commands", "heads", "families", "hooks", "task_heads"}
FILES = [
    (each, path, set(path.relative_to(each.folder).parts[:-1]))
    for each in find_extensions().values()
    for path in sorted(each.folder.rglob("*.py"))
]
IMPORT = "import importlib, sys\nfor name in sys.argv[1:]:\n    importlib.import_module(name)\n"


def module(each, path):
    parts = path.relative_to(each.folder).with_suffix("").parts
    return ".".join([each.package, *parts]).removesuffix(".__init__")


def says_torch(path):
    return "torch" in (ast.get_docstring(ast.parse(path.read_text())) or "")


def test_files_without_a_word_of_torch_import_none():
    names = [
        module(each, path)
        for each, path, folders in FILES
        if not (folders & WITH_TORCH or says_torch(path) or says_torch(each.folder / "__init__.py"))
    ]
    check = f"{IMPORT}    assert 'torch' not in sys.modules, name\n"
    done = subprocess.run([sys.executable, "-c", check, *names], capture_output=True, text=True)

    assert names
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("folders", "above"),
    [({"heads", "families"}, "clozeline.pipeline"), ({"hooks"}, "clozeline.tools")],
)
def test_algorithms_import_nothing_from_above(folders, above):
    """Heads of tasks read rows, to say what their scores mean."""
    for each, path, inside in FILES:
        if each.name == "tasks":
            continue
        tree = ast.parse(path.read_text()) if inside & folders else ast.Module([])
        modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert not [name for name in modules if name.startswith(above)], module(each, path)
