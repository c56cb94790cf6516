"""A recipe with a published tokenizer, from text to examples."""

import json
from dataclasses import replace

import pytest

from clozeline.configuration.config import validate
from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tokenize.import_published.config import TokenizerConfig
from clozeline.pipeline.tokenize.import_published.stage import (
    find_missing_roles,
    special_token_users,
)
from clozeline.pipeline.tokenize.tokenizers import find_vocabulary, load_tokenizer
from clozeline.pipeline.tokenize.tokenizers._pieces import expected_vocabulary, special_pieces
from tests.pipeline.miniature import write_corpus, write_recipe
from tests.pipeline.tokenize.published.published_files import (
    LIKE_T5,
    byte_level,
    sentencepiece_model,
)
from tests.refusals import refused


def recipe(tmp_path, tokenizer, objective="masked_lm"):
    text = f"""
        {{corpus: c, output: {tmp_path}/out, input: {write_corpus(tmp_path / "in", 30)}, heldout: {{fraction: 0.1}},
        clean: {{language: null, filters: []}}, tokenizer: {tokenizer}, encode: {{}}, group: {{}},
        corrupt: [{{name: {objective}, max_length: 64}}]}}
    """

    return write_recipe(tmp_path, text)


def facts_of(tmp_path, objective="masked_lm"):
    return open_shards(tmp_path / "out" / "corrupt" / objective / "train").manifest.tokenizer


def test_a_recipe_runs_with_a_published_tokenizer(tmp_path, capsys, caplog):
    path = byte_level(tmp_path / "published")
    size = len(json.loads(path.read_text()))
    file = recipe(tmp_path, f"{{path: {path}, add: true}}")

    assert main(["--config", str(file)]) == 0

    added = f"<pad> {size}, <cls> {size + 1}, <sep> {size + 2}, <mask> {size + 3}"

    assert (
        f"added after the vocabulary of vocab.json: {added}"
        in caplog.text + capsys.readouterr().err
    )

    examples = open_shards(tmp_path / "out" / "corrupt" / "masked_lm" / "train")
    facts = examples.manifest.tokenizer

    assert (facts.name, facts.vocab_size) == ("tokenizer_json", size + 4)

    end = dict.fromkeys(("bos", "eos", "unk"), size - 1)  # the roles that GPT2Tokenizer gives

    assert facts.special_ids == {
        "pad": size,
        "cls": size + 1,
        "sep": size + 2,
        "mask": size + 3,
        **end,
    }
    assert find_vocabulary(examples).folder == tmp_path / "out" / "tokenizer" / "tokenizer"
    assert (
        load_tokenizer(tmp_path / "out" / "tokenizer" / "tokenizer").vocabulary.fingerprint
        == facts.fingerprint
    )

    report = json.loads((tmp_path / "out" / "tokenizer" / "report.json").read_text())

    assert report["counts"]["added"] == {
        "<pad>": size,
        "<cls>": size + 1,
        "<sep>": size + 2,
        "<mask>": size + 3,
    }

    (path.parent / "chat_template.jinja").write_text("{{ messages }}")

    assert main(["--config", str(file)]) == 0

    kept = tmp_path / "out" / "tokenizer" / "tokenizer" / "source" / "chat_template.jinja"

    assert kept.read_text() == "{{ messages }}", "a changed file of the publisher is taken anew"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("", "objective 'masked_lm' (masked_lm) needs the special token"),
        (", specials: {mask: x0}", "the vocabulary of"),
        ("/none.json", "no such file or folder"),
    ],
)
def test_what_the_tokenizer_lacks_is_said_before_any_stage(tmp_path, capsys, options, said):
    path = byte_level(tmp_path / "published")
    assert main(["--config", str(recipe(tmp_path, f"{{path: {path}{options}}}"))]) == 64
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


def test_without_a_pad_rows_are_filled_up_with_the_end_token(tmp_path, caplog):
    """As decoders such as GPT-2 are used; `add` appends a pad instead."""
    path = byte_level(tmp_path / "published")
    size = len(json.loads(path.read_text()))

    assert main(["--config", str(recipe(tmp_path, f"{{path: {path}}}", "causal_lm"))]) == 0

    facts = facts_of(tmp_path, "causal_lm")

    assert (facts.vocab_size, facts.special_ids) == (
        size,
        dict.fromkeys(("bos", "eos", "pad", "unk"), size - 1),
    )
    assert "no pad token: rows are padded with <|endoftext|>" in caplog.text


def test_roles_are_checked_when_the_recipe_is_read():
    with refused("expected roles among pad cls sep mask bos eos unk, got maks"):
        validate(TokenizerConfig, {"path": "x", "specials": {"maks": "x"}}, "recipe")

    assert (
        validate(TokenizerConfig, {"path": "x", "sentinels": "[unused{}]"}, "recipe").sentinels
        == "[unused{}]"
    )


def test_a_bare_file_is_read_by_the_class_that_the_recipe_names(tmp_path, capsys):
    path = sentencepiece_model(tmp_path / "bare", **LIKE_T5)

    assert main(["--config", str(recipe(tmp_path, f"{{path: {path}}}"))]) == 64
    assert "name the class by tokenizer.tokenizer_class" in " ".join(
        capsys.readouterr().err.split()
    )

    file = recipe(tmp_path, f"{{path: {path}, tokenizer_class: T5Tokenizer, add: true}}")

    assert main(["--config", str(file)]) == 0

    facts = facts_of(tmp_path)

    assert {"pad": 0, "eos": 1, "unk": 2}.items() <= facts.special_ids.items()
    assert len(facts.sentinels) == 100


WHOLE = expected_vocabulary(1024, special_pieces(0))


def rows(entry):
    return {"group": {}, "corrupt": [entry]}


@pytest.mark.parametrize(
    ("stages", "has", "needed"),
    [
        (
            rows({"name": "masked_lm", "max_length": 64}),
            {"eos"},
            ["pad", "cls", "sep", "mask"],
        ),
        (
            rows({"name": "masked_lm", "max_length": 64}),
            {"pad", "cls", "sep", "mask"},
            [],
        ),
        (
            rows({"name": "span_corruption", "input_length": 64}),
            {"pad"},
            ["eos", "sentinels"],
        ),
        (
            rows({"name": "span_corruption", "input_length": 64, "mode": "R"}),
            {"pad", "eos"},
            ["sentinels", "modes"],
        ),
        ({"group": {}, "encode": {}}, {"eos"}, ["pad"]),
        ({"encode": {}}, {"eos"}, []),
        (
            {"tasks": {"reader": {"name": "glue", "task": "sst2"}, "frame": "roberta"}},
            {"mask"},
            ["pad", "cls", "sep"],
        ),
    ],
)
def test_rows_need_what_they_refuse_to_be_without(stages, has, needed):
    poor = replace(
        WHOLE, specials={name: WHOLE.specials[name] for name in has}, sentinels=(), modes={}
    )
    recipe = validate(Recipe, {"corpus": "c", **stages}, "recipe")
    assert list(find_missing_roles(special_token_users(recipe), poor)) == needed


def test_more_sentinels_than_can_be_added_are_refused_by_that_reason():
    """Not by another token of the objective, which adding would give."""
    recipe = validate(
        Recipe, {"corpus": "c", **rows({"name": "span_corruption", "input_length": 4096})}, "recipe"
    )

    with refused(r"needs .* sentinels"):
        list(
            find_missing_roles(
                special_token_users(recipe), replace(WHOLE, specials={}, sentinels=(), modes={})
            )
        )
