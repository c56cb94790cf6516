"""One text through every objective, in one call."""

import re

import pytest

from clozeline import registry
from clozeline.errors import ConfigurationError
from clozeline.pipeline.corrupt.preview import corrupt_text
from clozeline.pipeline.corrupt.preview.view import Passage
from clozeline.pipeline.tokenize.published.importing import ask_child
from clozeline.pipeline.tokenize.tokenizers import save_tokenizer
from clozeline.pipeline.tokenize.tokenizers.byte_bpe import ByteBpe
from clozeline.pipeline.vocabulary import SENTINELS

TEXT = "Hard work leads to success. Success brings happiness."


@pytest.mark.parametrize("name", registry.names("clozeline.pipeline.corrupt.objectives"))
def test_every_objective_corrupts_a_text_and_restores_it(name):
    found = corrupt_text(name, TEXT, target="Fleiß führt zum Erfolg.")
    assert str(found).splitlines()[0].split(maxsplit=1)[1].startswith("Hard work leads to success . | Success brings")
    assert ("Apples" in str(found)) == (name == "next_sentence_prediction")
    original = found.objective.original(found.sample, found.example)
    assert found.restored.split() == found.codec.words(original.tolist())


def test_options_variant_and_seed_decide_the_corruption():
    objective = {"name": "document_rotation", "max_length": 32}
    shown = {corrupt_text(objective, TEXT, variant=variant).example["rotation"][0] for variant in range(40)}
    assert len(shown) > 4
    assert str(corrupt_text(objective, TEXT, variant=3)) == str(corrupt_text(objective, TEXT, variant=3))
    others = {corrupt_text(objective, TEXT, seed=seed).example["rotation"][0] for seed in range(40)}
    assert len(others) > 4
    assert corrupt_text(objective, TEXT).objective.options.max_length == 32


def test_a_trained_tokenizer_gives_its_own_pieces(tmp_path):
    save_tokenizer(ByteBpe.train([TEXT] * 20, ByteBpe.Options(size=420), tmp_path), "byte_bpe", tmp_path)
    found = corrupt_text("sentence_reordering", TEXT, tokenizer=tmp_path)
    assert found.sample["sentence_starts"][0] == 0
    assert len(found.sample["sentence_starts"]) == 2
    assert found.restored.replace(" ", "").replace("Ġ", " ") == f"<s>{TEXT}</s>"


def test_sentence_pairs_take_their_partner_from_the_other_documents():
    partners = set()
    for variant in range(20):
        found = corrupt_text(
            "next_sentence_prediction", TEXT, others=["Owls sleep by day. Owls hunt."], variant=variant
        )
        partners |= set(found.codec.words(found.sample["partner_ids"].tolist()))
    assert {"Owls", "sleep"} <= partners


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("masked_lm", "  ", "expected a text"),
        ("sentence_reordering", "One sentence.", "at least 1 tokens and 2 sentences, the text has 1"),
        ("translation_lm", TEXT, "give the other side as target"),
        ("masked_ml", TEXT, "did you mean 'masked_lm'"),
    ],
)
def test_what_cannot_be_corrupted_is_said(name, text, said):
    with pytest.raises(ConfigurationError, match=said):
        corrupt_text(name, text)


@pytest.mark.parametrize("variant", [-1, 1 << 16])
def test_a_variant_out_of_range_is_refused(variant):
    with pytest.raises(ConfigurationError, match="expected a variant from 0 to 65,535"):
        corrupt_text("masked_lm", TEXT, variant=variant)


def test_labels_are_below_the_positions_that_predict_them():
    for architecture in ("decoder", "encoder"):
        objective = {"name": "causal_lm", "architecture": architecture, "grouping": "document"}
        lines = dict(line.split(maxsplit=1) for line in str(corrupt_text(objective, "It rains.")).splitlines())
        labels, inputs = lines["labels"].split(), lines["input"].split()
        assert labels[:-1] == inputs[1:]
        assert labels[-1] == "__"


def test_labels_stand_below_their_positions():
    options = {"grouping": "document", "mask_rate": 0.25, "mask_share": 1.0, "random_share": 0.0}
    found = set()
    for variant in range(60):
        text, row, labels = str(
            corrupt_text({"name": "masked_lm", **options}, "It is raining.", variant=variant)
        ).split("\n")
        assert text == "text    It is raining ."
        found.add((row, labels))
    assert found == {
        ("input   [CLS] [MASK] is raining .  [SEP]", "labels  __    It     __ __      __ __"),
        ("input   [CLS] It [MASK] raining .  [SEP]", "labels  __    __ is     __      __ __"),
        ("input   [CLS] It is [MASK]  .  [SEP]", "labels  __    __ __ raining __ __"),
        ("input   [CLS] It is raining [MASK] [SEP]", "labels  __    __ __ __      .      __"),
    }


def test_a_published_tokenizer_gets_the_special_tokens_that_it_lacks(tmp_path):
    """A WordPiece vocabulary has a mask and no sentinels."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hard", "work", "lead", "##s", "."]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces), encoding="utf-8")
    masked = corrupt_text("masked_lm", "Hard work leads.", tokenizer=tmp_path)
    assert masked.codec.vocabulary.size == len(pieces)
    assert masked.restored.startswith("[CLS] hard work lead ##s .")
    spans = corrupt_text("span_corruption", "Hard work leads.", tokenizer=tmp_path)
    assert spans.codec.vocabulary.size > len(pieces)
    assert len(spans.codec.vocabulary.sentinels) == SENTINELS


def test_an_output_folder_has_its_own_tokenizer(tmp_path):
    folder = tmp_path / "train_tokenizer" / "tokenizer"
    folder.mkdir(parents=True)
    save_tokenizer(ByteBpe.train([TEXT] * 20, ByteBpe.Options(size=420), folder), "byte_bpe", folder)
    assert str(corrupt_text("masked_lm", TEXT, tokenizer=tmp_path)) == str(
        corrupt_text("masked_lm", TEXT, tokenizer=folder)
    )
    with pytest.raises(ConfigurationError, match="nowhere: no such file or folder"):
        corrupt_text("masked_lm", TEXT, tokenizer=tmp_path / "nowhere")


def test_a_notebook_shows_the_view():
    found = corrupt_text("masked_lm", TEXT)
    html = found._repr_html_()
    assert "masked" in html
    assert repr(found).startswith("CorruptedText(masked_lm: input_ids [")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"text": [TEXT]}, "expected text and target as strings"),
        ({"text": TEXT, "target": 5}, "corrupt texts one by one"),
        ({"text": TEXT, "others": "Owls sleep."}, "others as a list"),
    ],
)
def test_wrong_types_get_a_message(arguments, said):
    with pytest.raises(TypeError, match=said):
        corrupt_text("masked_lm", **arguments)


def test_a_published_tokenizer_is_read_once_until_its_file_changes(tmp_path, monkeypatch):
    """Reading it takes seconds, and a notebook calls again and again."""
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\nsat\n", encoding="utf-8")
    asked = []

    def count(request):
        asked.append(request["path"])
        return ask_child(request)

    monkeypatch.setattr("clozeline.pipeline.tokenize.published.importing.ask_child", count)
    for variant in range(3):
        corrupt_text("masked_lm", "the cat sat", variant=variant, tokenizer=tmp_path)
    assert asked == [str(tmp_path)]
    path.write_text(path.read_text(encoding="utf-8") + "further\n", encoding="utf-8")
    corrupt_text("masked_lm", "the cat sat", tokenizer=tmp_path)
    assert asked == [str(tmp_path)] * 2


def passages(view):
    return {part.title.rpartition(" (")[0]: part.text.plain for part in view.parts if isinstance(part, Passage)}


@pytest.mark.parametrize("name", registry.names("clozeline.pipeline.corrupt.objectives"))
def test_a_view_begins_with_the_text(name):
    view = corrupt_text(name, TEXT, target="Fleiß führt zum Erfolg.").view()
    shown = next(iter(passages(view).values()))
    assert re.sub("[|▌]", "", shown).startswith(" Hard work leads to success. Success brings")
    assert view.title.startswith(f"{name} · ")


def test_words_are_written_as_people_write_them():
    masks = {"name": "masked_lm", "grouping": "document", "mask_rate": 0.1, "mask_share": 1.0, "random_share": 0.0}
    shown = passages(corrupt_text(masks, TEXT).view())
    assert shown["original"] == " [CLS] Hard work leads to success. Success brings happiness. [SEP]"
