"""One text through every objective, in one call."""

import re

import pytest

from clozeline.errors import ConfigurationError
from clozeline.extensions.preview import corrupt_text, corrupted_text
from clozeline.pipeline.registries import OBJECTIVES, TOKENIZERS
from clozeline.pipeline.rows import Ragged
from clozeline.pipeline.tokenize.tokenizers import list_trainable
from clozeline.pipeline.vocabulary import SENTINELS
from clozeline.report.views import Span
from clozeline.train.data.stream.collate import Collate
from tests.contracts import cases_about, contract
from tests.pipeline.corrupt.test_drawn_ids import run_dna
from tests.pipeline.tokenize.tokenizers.test_tokenizer import trained as train_tokenizer

TEXT = "Hard work leads to success. Success brings happiness."
TARGET = "Fleiß führt zum Erfolg."


@contract(OBJECTIVES)
def test_every_objective_corrupts_a_text_shows_and_restores_it(name):
    found = corrupt_text(name, TEXT, target=TARGET)

    assert (
        str(found)
        .splitlines()[0]
        .split(maxsplit=1)[1]
        .startswith("Hard work leads to success . | Success brings")
    )
    uses_other = name == "next_sentence_prediction" and found.follows == "no"
    assert ("Apples" in str(found)) == uses_other

    original = found.objective.original(found.sample, found.example)

    assert found.restored.split() == found.codec.words(original.tolist())
    assert re.match(rf"{name}: (a decoder|an encoder(-decoder)?) learns \w", found.view().title)

    assert found._repr_html_().startswith("<div")
    assert repr(found).startswith(f"CorruptedText({name}: input_ids")


def architectures():
    """Return every objective with each of its architectures."""
    for name in OBJECTIVES.available():
        kind = OBJECTIVES.load_class(name)
        has_choice = "architecture" in kind.Options.__pydantic_fields__
        yield from (
            {"name": name, "architecture": one} if has_choice else {"name": name}
            for one in kind.architectures
        )


@pytest.mark.parametrize("entry", [*architectures()], ids=lambda entry: " ".join(entry.values()))
def test_labels_are_at_the_positions_of_those_of_a_batch(entry):
    found = corrupt_text(entry, TEXT, target=TARGET)
    objective = found.objective
    example = found.example
    roles = {feature.name: feature.role for feature in objective.features}
    specials = dict(objective.vocabulary.specials)
    collate = Collate(objective.architecture, roles, specials, objective.form)
    tensors = collate(
        {name: Ragged.from_lists([one], one.dtype) for name, one in example.columns.items()}, None
    )
    _, labels = found.labels()

    if "input_ids_b" in example.columns:
        assert "label_index" not in tensors
        assert not labels
    elif objective.architecture != "encoder_decoder":
        assert list(labels) == tensors["label_index"].tolist()
    else:
        assert len(labels or example["target_ids"]) == len(tensors["label_index"])


@pytest.mark.parametrize(
    ("name", "text", "options", "said"),
    [
        ("masked_lm", "  ", {}, "the text is empty"),
        (
            "sentence_reordering",
            "One sentence.",
            {},
            "write at least 2 sentences; the text has one",
        ),
        ("translation_lm", TEXT, {}, "give the other side as `target`"),
        ("masked_lm", TEXT, {"variant": 1 << 16}, "expected a variant from 0 to 65,535"),
        ("masked_lm", [TEXT], {}, "expected text and target as strings"),
        ("masked_lm", TEXT, {"others": "Owls sleep."}, "others as a list"),
    ],
)
def test_what_cannot_be_corrupted_is_said(name, text, options, said):
    with pytest.raises((ConfigurationError, TypeError), match=said):
        corrupt_text(name, text, **options)


def test_numbers_and_contractions_are_printed_as_typed():
    text = "I don't pay 0.81 or 1,000; It’s 'so'."
    words = str(corrupt_text("text_to_text", text, target="0.81")).split("\n")

    assert words[0].split()[1:] == "I don't pay 0.81 or 1,000 ; It’s ' so ' .".split()
    assert words[-1].split() == ["target", "0.81", "</s>"]


def test_a_chosen_translation_keeps_the_order_of_its_sides():
    for variant in range(4):
        lines = str(
            corrupt_text(
                "translation_lm",
                "Owls sleep.",
                target="Eulen schlafen.",
                choose=["2"],
                variant=variant,
            )
        )
        assert "[CLS] Owls [MASK]" in " ".join(lines.split())


# Tokenizers
# --------------------------------------------------------------------------------------------------


def test_a_published_tokenizer_gets_the_special_tokens_that_it_lacks(tmp_path, monkeypatch):
    """A WordPiece vocabulary has a mask and no sentinels; no weights are fetched for it."""
    monkeypatch.setattr(
        corrupted_text, "fetch_folder", lambda path, *, weights: None if weights else path
    )
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hard", "work", "lead", "##s", "."]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    masked, spans = (
        corrupt_text(name, "Hard work leads.", tokenizer=tmp_path)
        for name in ("masked_lm", "span_corruption")
    )

    assert masked.codec.vocabulary.size == len(pieces) < spans.codec.vocabulary.size
    assert masked.restored.startswith("[CLS] hard work lead ##s .")
    assert len(spans.codec.vocabulary.sentinels) == SENTINELS


def test_sentence_pairs_take_their_partner_from_the_other_documents():
    others = ["Owls sleep by day. Owls hunt."]
    found = [
        corrupt_text("next_sentence_prediction", TEXT, others=others, seed=n) for n in range(20)
    ]

    assert {"Owls", "sleep"} <= {
        word for one in found for word in one.codec.words(one.sample["partner_ids"].tolist())
    }


def test_the_answer_to_next_sentence_prediction_is_shown():
    for variant in range(8):
        found = corrupt_text("next_sentence_prediction", TEXT, variant=variant)
        answer = "no" if found.example["sentence_label"][0] else "yes"
        assert found.lines().blocks[-1] == [("does B follow A:", [Span(answer)])]


def test_replacements_are_drawn_as_the_pipeline_draws_them(tmp_path):
    tokenizer, occurring = run_dna(tmp_path, "character")

    shown = corrupt_text(
        {"name": "masked_lm", "mask_share": 0.0, "random_share": 1.0, "mask_rate": 1.0},
        "ACGT" * 20,
        tokenizer=f"{tmp_path}/out",
    )
    written = shown.example["input_ids"]
    written = written[~tokenizer.vocabulary.special[written]]

    assert len(written) > 5
    assert set(written.tolist()) <= set(occurring.tolist())


@pytest.fixture(scope="module", params=cases_about(TOKENIZERS, list_trainable(), str))
def tokenizer_folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    train_tokenizer(request.param, folder)
    return folder


@contract(OBJECTIVES)
def test_every_objective_restores_its_tokens(tokenizer_folder, name):
    text = (
        "The quick <mask> fox </s> jumps, \u0301 near 中文 \x00 brews. A lazy dog <extra_0> sat "
        "\u2581 over 東京."
    )
    found = corrupt_text(name, text, target="strange [MASK] potions", tokenizer=tokenizer_folder)
    original = found.objective.original(found.sample, found.example)

    assert found.objective.restore(found.example).tolist() == original.tolist()
