"""What every algorithm of every registry folder keeps: words for the reader.

Each key occurs in a shipped configuration or in a page; what nobody uses or explains is a constant.
"""

import ast
import re

import pytest
import yaml

from clozeline.configuration.described_keys import describe
from clozeline.pipeline.recipe import Recipe
from clozeline.train.configuration.config import TrainConfig
from tests.registries import REGISTRIES, ROOT, algorithms


def test_every_algorithm_has_words_for_the_reader():
    classes = [
        registry.load_class(name) for registry in REGISTRIES for name in registry.available()
    ]
    # a data class without a docstring has its signature there
    assert [
        one for one in classes if (one.__doc__ or f"{one.__name__}(").startswith(f"{one.__name__}(")
    ] == []


PARTS = {
    "pipeline": (Recipe, ("pipeline",)),
    "training": (TrainConfig, ("train", "model")),
}
"""Schema of a configuration, and the packages whose algorithms it chooses."""


def keys_of_part(part):
    """Yield the keys of a configuration, and the options of each algorithm below the folder of its
    file."""
    schema, packages = PARTS[part]
    yield from (key for key, *_ in describe(schema))

    for registry in REGISTRIES:
        for name in registry.available() if registry.folder.partition("/")[0] in packages else ():
            # such as published tokenizers have none
            options = getattr(registry.load_class(name), "Options", None)
            for key, *_ in describe(options) if options is not None else ():
                yield f"{registry.folder}.{name}.{key}"


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
    """Yield each word of code in the pages of a folder: in backticks, in blocks and in indented
    lines."""
    for path in folder.rglob("*.md"):
        for code in re.findall(
            r"```.*?```|`[^`]+`|(?m:^    .*$)", path.read_text(encoding="utf-8"), re.DOTALL
        ):
            yield from re.findall(r"\w+", code)


def unused(keys, words):
    """Return the keys whose last word is none of these words."""
    used = set(words)
    return {key for key in keys if key.rpartition(".")[2] not in used}


@pytest.mark.parametrize("part", PARTS)
def test_every_key_is_in_a_configuration_or_a_page(part):
    pages = (word for name in ("docs", "extensions") for word in words_of_pages(ROOT / name))
    words = [*words_of_configurations(ROOT / "configs"), *pages]
    found = unused(keys_of_part(part), words)
    assert found == set(), "use it in a configuration, explain it in a page, or make it a constant"


NAMED_BY_HAND = {
    "published forms read the heads and adapters that they write": (
        "extensions/published/conversion/adapter_export.py",
        "extensions/tasks/sets/chat_template.py",
        "pipeline/tokenize/published/auto_tokenizer.py",
        "pipeline/tokenize/published/importing.py",
    ),
    "what rows hold is not yet a fact of their set": (
        "extensions/tasks/readers/conll.py",
        "extensions/tasks/commands/pseudo_label.py",
        "tools/start/contracts/heads.py",
        "train/data/sets/model_fit.py",
        *(f"extensions/tasks/rows/{name}.py" for name in ("lm", "span", "tagging")),
        "extensions/tasks/task_heads/similarity.py",
        *(
            f"extensions/tasks/heads/{name}.py"
            for name in ("classification", "regression", "span", "tagging")
        ),
        "extensions/evaluation/layer_probes.py",
    ),
    "a fixed part of a rule, which no key chooses": (
        "pipeline/clean/filters/c4_quality.py",
        "extensions/curation/repeats.py",
        "extensions/tasks/task_heads/_text_metrics.py",
        "pipeline/tables/lines.py",
        "pipeline/tables/texts.py",
        "extensions/tasks/unlabeled_rows.py",
        "pipeline/tokenize/merge_steps.py",
        "extensions/datatrove/ingest/readers/datatrove.py",
    ),
}
"""Files that import an algorithm of a registry by its module, and why."""


def test_only_registries_name_the_modules_of_algorithms():
    """Who asks a registry works with algorithms of extensions, too."""
    algorithm = {
        f"{registry.package}.{name}": path.parent
        for registry in REGISTRIES
        for name, path in algorithms(registry.package).items()
    }
    found = set()
    for package in ("pipeline", "model", "train", "tools", "extensions"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                module = node.module if isinstance(node, ast.ImportFrom) else None
                if algorithm.get(module, path.parent) != path.parent:
                    found.add(path.relative_to(ROOT).as_posix())

    assert found == {file for files in NAMED_BY_HAND.values() for file in files}
