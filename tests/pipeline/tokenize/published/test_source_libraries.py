"""The owner of a published tokenizer is chosen by its files and its class."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tokenize.published.source_libraries import find_source, roles_by_name, sentinels_by_name
from tests.pipeline.tokenize.published.published_files import directory


def folder_of(tmp_path: Path, names: list[str], family: str, config: dict[str, object] | None = None) -> Path:
    for name in names:
        (tmp_path / name).write_text("{}")
    return directory(tmp_path, family, config)


@pytest.mark.parametrize(
    ("names", "family", "kind", "first"),
    [
        (["spiece.model", "tokenizer.json"], "T5", "sentencepiece_model", "spiece.model"),
        (["tokenizer.model", "tokenizer.json"], "Llama", "sentencepiece_model", "tokenizer.model"),
        (["spiece.model", "tokenizer.json"], "Pegasus", "tokenizer_json", "tokenizer.json"),
        (["vocab.txt", "tokenizer.json"], "BertTokenizerFast"[:4], "wordpiece", "vocab.txt"),
        (["vocab.txt", "tokenizer.json"], "BertJapanese", "tokenizer_json", "tokenizer.json"),
        (["vocab.json", "merges.txt", "tokenizer.json"], "GPT2", "tokenizer_json", "tokenizer.json"),
        (["encoder.json", "vocab.bpe"], "GPT2", "tokenizer_json", "encoder.json"),
    ],
)
def test_a_folder_belongs_to_the_library_that_its_model_was_trained_with(tmp_path, names, family, kind, first):
    source = find_source(folder_of(tmp_path, names, family))
    assert (source.kind, source.files[0].name) == (kind, first)


def test_roles_and_added_tokens_of_a_folder_are_read(tmp_path):
    added = {"7": {"content": "<x>"}, "6": {"content": "<y>", "special": True}}
    config = {"mask_token": {"content": "<m>"}, "pad_token": "<p>", "cls_token": None, "added_tokens_decoder": added}
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<z>": 8}))
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"eos_token": "<e>", "pad_token": "other"}))
    source = find_source(folder_of(tmp_path, ["tokenizer.json"], "PreTrained", config))
    assert source.roles == {"mask": "<m>", "pad": "<p>", "eos": "<e>"}
    assert (source.behind, source.behind_ids) == (["<y>", "<x>", "<z>"], [6, 7, 8])


@pytest.mark.parametrize(
    ("family", "count", "first", "last"),
    [
        ("XLMRoberta", 1, "<mask>", "<mask>"),
        ("MBart", 26, "ar_AR", "<mask>"),
        ("T5", 100, "<extra_id_99>", "<extra_id_0>"),
        ("Camembert", 1, "<mask>", "<mask>"),
    ],
)
def test_a_family_has_its_usual_pieces_where_its_folder_is_silent(tmp_path, family, count, first, last):
    source = find_source(folder_of(tmp_path, ["sentencepiece.bpe.model"], family))
    assert (len(source.behind), source.behind[0], source.behind[-1]) == (count, first, last)
    assert source.fairseq == (family in ("XLMRoberta", "MBart"))


def test_t5_appends_as_many_sentinels_as_its_folder_says(tmp_path):
    source = find_source(folder_of(tmp_path, ["spiece.model"], "T5", {"extra_ids": 7}))
    assert source.behind == [f"<extra_id_{number}>" for number in (6, 5, 4, 3, 2, 1, 0)]


@pytest.mark.parametrize(
    ("names", "family", "said"),
    [
        (["spiece.model"], "XLNet", "the ids that XLNetTokenizer gives with spiece.model are not known"),
        (["README.md"], "", "got README.md, tokenizer_config.json"),
        (["vocab.json", "source.spm", "target.spm"], "Marian", "numbers the pieces of two models, source.spm and"),
        (["vocab.json"], "GPT2", "expected its merges, merges.txt or vocab.bpe"),
    ],
)
def test_a_folder_whose_ids_are_not_known_is_refused(tmp_path, names, family, said):
    with pytest.raises(ConfigurationError, match=said):
        find_source(folder_of(tmp_path, names, family))


@pytest.mark.parametrize("facts", [{"extra_ids": "many"}, {"added_tokens_decoder": ["<x>"]}])
def test_a_configuration_of_other_types_is_refused(tmp_path, facts):
    with pytest.raises(ConfigurationError, match=r"expected pieces by id, and a number as extra_ids .*restore"):
        find_source(folder_of(tmp_path, ["spiece.model"], "T5", facts))


@pytest.mark.parametrize(("name", "said"), [("none", "no such file"), ("weights.bin", r"expected tokenizer\.json")])
def test_other_files_are_refused(tmp_path, name, said):
    (tmp_path / "weights.bin").write_bytes(b"")
    with pytest.raises(ConfigurationError, match=said):
        find_source(tmp_path / name)


def test_names_tell_roles_and_the_order_of_sentinels():
    assert roles_by_name(["[MASK]", "<s>", "<|endoftext|>", "x"]) == {
        "mask": "[MASK]",
        "bos": "<s>",
        "eos": "<|endoftext|>",
    }
    assert sentinels_by_name(["<extra_id_10>", "<extra_id_2>", "extra", "<extra_0>"]) == [
        "<extra_0>",
        "<extra_id_2>",
        "<extra_id_10>",
    ]


@pytest.mark.parametrize(
    ("model_type", "family", "fairseq", "behind"),
    [
        ("xlm-roberta", "XLMRoberta", True, 1),
        ("xlm-roberta-xl", "XLMRoberta", True, 1),
        ("camembert", "Camembert", False, 1),
        ("t5", "T5", False, 100),
        ("umt5", "T5", False, 100),
        ("pegasus", "Pegasus", False, 0),
        ("albert", "Albert", False, 0),
    ],
)
def test_a_model_without_a_class_is_read_by_the_type_of_its_model_and_says_so(
    tmp_path, model_type, family, fairseq, behind
):
    for name, facts in {"spiece.model": {}, "config.json": {"model_type": model_type}}.items():
        (tmp_path / name).write_text(json.dumps(facts))
    silent = find_source(tmp_path)
    said = f"spiece.model is read as {family}Tokenizer does, by the model_type {model_type} of config.json"
    assert [said in guess for guess in silent.guesses] == [False, True]
    assert (silent.fairseq, len(silent.behind)) == (fairseq, behind)
    told = find_source(directory(tmp_path, family))
    assert told.guesses == []
    assert (silent.kind, silent.files, silent.fairseq, silent.layout, silent.steps) == (
        told.kind,
        told.files,
        told.fairseq,
        told.layout,
        told.steps,
    )


def test_what_a_folder_does_not_say_is_listed(tmp_path):
    (tmp_path / "spiece.model").write_text("")
    assert "the ids are taken to be those of spiece.model itself" in find_source(tmp_path).guesses[1]
    (tmp_path / "config.json").write_text('{"model_type": "xlnet"}')
    with pytest.raises(ConfigurationError, match="the ids that XlnetTokenizer gives with"):
        find_source(tmp_path)
    (tmp_path / "bert").mkdir()
    bert = folder_of(tmp_path / "bert", ["tokenizer.json"], "Bert")
    assert find_source(bert).guesses == ["no vocab.txt, from which BertTokenizer reads: tokenizer.json is taken"]
