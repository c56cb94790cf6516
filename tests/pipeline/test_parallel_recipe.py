"""A recipe over pairs of aligned texts, from tab-separated lines to examples, beside plain documents."""

from pathlib import Path

import numpy as np
import pytest

from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.group.groupings import GroupingSpec
from clozeline.pipeline.rows import Rows
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.pipeline.shards.layout import is_heldout
from clozeline.pipeline.shards.token_set import find_token_counts
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.tools.shards.validate_shards import validate
from tests.pipeline.miniature import sentence, text
from tests.pipeline.run_counts import check_run

PAIRS = 300
RECIPE = """
corpus: pairs
seed: 7
heldout: {fraction: 0.1}
plan: {unit_bytes: 20000, shard_bytes: 60000}
input:
  - {path: PAIRS, source: pairs, language: en, target_language: de}
  - {path: NAMES, source: names, language: en, target_language: en}
  - {path: PLAIN, source: plain, language: fr}
clean: {language: null, filters: []}
dedup: {exact: {key: text}, near: null}
train_tokenizer: {name: byte_bpe, size: 700}
encode: {sentences: regex}
balance: {alpha: 0.5}
group: {}
corrupt:
  - {name: translation_lm, max_length: 48, variants: 2}
  - name: text_to_text
    input_length: 40
    target_length: 60
    tasks:
      - {source: pairs, template: "Translate from English to German: {source}"}
      - {source: names, template: "Name {source}:"}
"""


def german(number: int) -> str:
    return sentence(number, 1).upper()


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    lines = [f"{sentence(number, 0)}\t{german(number)}" for number in range(PAIRS)]
    (folder / "pairs.tsv").write_text("\n".join([*lines, lines[0], "half a pair"]) + "\n", encoding="utf-8")
    (folder / "names.tsv").write_text("".join(f"thing {n}\tname {n}\n" for n in range(80)), encoding="utf-8")
    (folder / "plain.jsonl").write_text(
        "".join(f'{{"text": "{text(number, 9)}"}}\n'.replace("\n\n", " ") for number in range(80)), encoding="utf-8"
    )
    plain = RECIPE
    for name, path in (("PAIRS", "pairs.tsv"), ("NAMES", "names.tsv"), ("PLAIN", "plain.jsonl")):
        plain = plain.replace(name, str(folder / path))
    (folder / "recipe.yaml").write_text(plain, encoding="utf-8")
    return folder / "recipe.yaml"


@pytest.fixture(scope="module")
def out(recipe: Path) -> Path:
    assert main(["--config", str(recipe), f"output={recipe.parent / 'out'}"]) == 0
    assert check_run(recipe.parent / "out")
    return recipe.parent / "out"


def rows_of(shards: ShardSet) -> Rows:
    return Rows.concatenate([shards.read_block(block) for block in range(len(shards.index))])


def test_both_sides_are_in_the_token_set(out: Path) -> None:
    tokens, tokenizer = open_shards(out / "encode"), load_tokenizer(out / "train_tokenizer" / "tokenizer")
    names = tokens.manifest.languages
    found = {}
    for row in rows_of(tokens):
        language = [names[code] for code in row["target_language"].tolist()]
        found[tokenizer.decode(row["token_ids"])] = (tokenizer.decode(row["target_ids"]), language)
    wanted = {sentence(number, 0): (german(number), ["de"]) for number in range(PAIRS)}
    wanted |= {f"thing {number}": (f"name {number}", ["en"]) for number in range(80)}
    assert {text: found[text] for text in wanted} == wanted
    assert sum(pair == ("", []) for pair in found.values()) == len(found) - len(wanted) > 50
    rows = rows_of(tokens)
    train = np.flatnonzero([not is_heldout(uid.tobytes(), 0.1, 7) for uid in rows.fixed["document_uid"]])
    sides = np.concatenate([rows.columns[name].take(train).values for name in ("token_ids", "target_ids")])
    counts = find_token_counts(out / "encode" / "manifest.json")
    assert counts is not None
    assert counts.tolist() == np.bincount(sides, minlength=len(counts)).tolist()


def test_every_example_is_restored_to_its_sample(out: Path) -> None:
    for name in ("translation_lm", "text_to_text"):
        for split in ("train", "heldout"):
            examples = out / "corrupt" / name / split
            grouping = open_shards(examples).manifest.grouping
            assert grouping is not None
            samples = out / "group" / GroupingSpec.of(grouping.name, grouping.options).label / split
            assert "examples restored" in validate(examples, samples)
