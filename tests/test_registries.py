"""What every algorithm of every registry folder keeps: the name of its class, and words for the reader.

Each key occurs in a shipped configuration or in a page; what nobody uses or explains is a constant.
"""

import ast
import re

import pytest
import yaml

from clozeline.configuration.config import describe
from clozeline.pipeline.recipe import Recipe
from clozeline.registry import find, names
from clozeline.train.configuration.config import TrainConfig
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


# Keys ----------------------------------------------------------------------------------------------------------------

PARTS = {"pipeline": (Recipe, ("pipeline",)), "training": (TrainConfig, ("train", "model"))}
"""Schema of a configuration, and the packages whose algorithms it chooses."""


def keys_of_part(part):
    """Yield the keys of a configuration, and the options of each algorithm below the folder of its file."""
    schema, packages = PARTS[part]
    yield from (key for key, *_ in describe(schema))
    for package in registries():
        folder = package.removeprefix("clozeline.")
        for name in names(package) if folder.partition(".")[0] in packages else ():
            options = getattr(find(package, name), "Options", None)  # such as published tokenizers have none
            for key, *_ in describe(options) if options is not None else ():
                yield f"{folder}.{name}.{key}"


def words_of_configurations(folder):
    """Yield each word of the keys of all YAML files of a folder."""

    def keys_in(plain):
        for key, value in plain.items() if isinstance(plain, dict) else enumerate(plain):
            yield from re.findall(r"[a-z]\w*", str(key))
            if isinstance(value, (dict, list)):
                yield from keys_in(value)

    for path in folder.rglob("*.yaml"):
        yield from keys_in(yaml.safe_load(path.read_text(encoding="utf-8")))


def words_of_pages(folder):
    """Yield each word of code in the pages of a folder: in backticks, in blocks and in indented lines."""
    for path in folder.rglob("*.md"):
        for code in re.findall(r"```.*?```|`[^`]+`|(?m:^    .*$)", path.read_text(encoding="utf-8"), re.DOTALL):
            yield from re.findall(r"\w+", code)


def unused(keys, words):
    """Return the keys whose last word is none of these words."""
    used = set(words)
    return {key for key in keys if key.rpartition(".")[2] not in used}


@pytest.mark.parametrize("part", PARTS)
def test_every_key_is_in_a_configuration_or_a_page(part):
    words = [*words_of_configurations(ROOT / "configs"), *words_of_pages(ROOT / "docs")]
    found = unused(keys_of_part(part), words)
    assert found == set(), "use it in a configuration, explain it in a page, or make it a constant"
