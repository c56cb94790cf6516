"""What every algorithm of every registry folder keeps: words for the reader.

Each key occurs in a shipped configuration or in a page; what nobody uses or explains is a constant.
"""

import re

import pytest
import yaml

from clozeline.configuration.described_keys import describe
from clozeline.pipeline.recipe import Recipe
from clozeline.train.configuration.config import TrainConfig
from tests.registries import REGISTRIES, ROOT


def test_every_algorithm_has_words_for_the_reader():
    algorithms = [
        registry.load_class(name) for registry in REGISTRIES for name in registry.available()
    ]
    # a data class without a docstring has its signature there
    assert [
        one
        for one in algorithms
        if (one.__doc__ or f"{one.__name__}(").startswith(f"{one.__name__}(")
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
