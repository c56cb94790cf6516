"""What a user chooses to corrupt, against the rows of a textbook's table."""

import itertools

import numpy as np
import pytest

from clozeline.extensions.preview import corrupt_text
from clozeline.pipeline.registries import OBJECTIVES
from tests.refusals import refused

KITTEN = "The kitten is chasing the ball."
PUPPIES = "The puppies are frolicking outside the house."
ROLLS = "The kitten is chasing the ball. The ball rolls away swiftly."
SWAPPED = "The ball rolls away swiftly. The kitten is chasing the ball."

TABLE = {
    "prefix_lm": (KITTEN, [3], "input_ids", "[CLS] The kitten is </s>"),
    "masked_lm": (
        KITTEN,
        [3, 6],
        "input_ids",
        "[CLS] The kitten [MASK] chasing the [MASK] . [SEP]",
    ),
    "mass": (KITTEN, ["3-5"], "target_ids", "is chasing the"),
    "token_reordering": (
        KITTEN,
        [7, 2, 5, 4, 1, 3, 6],
        "input_ids",
        "[CLS] . kitten the chasing The is ball </s>",
    ),
    "token_deletion": (KITTEN, [3, "5-6"], "input_ids", "[CLS] The kitten chasing . </s>"),
    "text_infilling": (
        KITTEN,
        ["before 3", "4-6"],
        "input_ids",
        "[CLS] The kitten [MASK] is [MASK] . </s>",
    ),
    "denoising_autoencoding": (
        PUPPIES,
        [4, 6],
        "input_ids",
        "[CLS] The puppies are [MASK] outside [MASK] house . </s>",
    ),
    "span_corruption": (
        KITTEN,
        ["6-7", "3-4"],
        "target_ids",
        "<extra_0> is chasing <extra_1> ball . </s>",
    ),
    "sentence_reordering": (
        SWAPPED,
        [2, 1],
        "input_ids",
        "[CLS] The kitten is chasing the ball . The ball rolls away swiftly . </s>",
    ),
    "document_rotation": (
        ROLLS,
        [4],
        "input_ids",
        "[CLS] chasing the ball . The ball rolls away swiftly . The kitten is </s>",
    ),
}
"""text, choice, column, and its words in the table, by objective"""


def words_of(found, column):
    return " ".join(found.codec.words(found.example[column].tolist()))


@pytest.mark.parametrize("name", TABLE)
def test_a_row_of_the_table_is_chosen(name):
    text, choice, column, words = TABLE[name]
    entry = {"name": name}
    if "source_head" in OBJECTIVES.load_class(name).Options.__pydantic_fields__:
        entry["source_head"] = "cls"
    if name == "prefix_lm":
        entry["architecture"] = "encoder_decoder"
    for seed in (1, 2):
        found = corrupt_text(entry, text, choose=choice, seed=seed)
        found_words = words_of(found, column)
        assert found_words.replace("[CLS] ", "") == words.replace("[CLS] ", "")
        assert ("[CLS]" in found_words) == ("[CLS]" in words)
        original = found.objective.original(found.sample, found.example)
        assert found.restored.split() == found.codec.words(original.tolist())


def test_labels_are_masked_replaced_or_kept():
    choice = [{2: "keep"}, {"3": "mask", 4: "playing"}, 6]
    for name in ("masked_lm", "whole_word_masking", "span_boundary", "masked_encoder_decoder"):
        found = corrupt_text(name, KITTEN, choose=choice)
        row = words_of(found, "input_ids")
        assert row == "[CLS] The kitten [MASK] playing the [MASK] . [SEP]"
        assert words_of(found, "label_ids") == "kitten is chasing ball"
        assert found.example["label_positions"].tolist() == [2, 3, 4, 6]


def test_a_drawn_corruption_can_be_chosen_again():
    """The choice that follows from an example gives the same example: all columns."""
    for variant in range(12):
        drawn = corrupt_text("masked_lm", ROLLS, variant=variant, others=["playing"])
        words = words_of(drawn, "input_ids").split()
        labels = dict(
            zip(
                drawn.example["label_positions"].tolist(),
                words_of(drawn, "label_ids").split(),
                strict=True,
            )
        )
        choice = [
            {at: "mask" if words[at] == "[MASK]" else "keep" if words[at] == label else words[at]}
            for at, label in labels.items()
        ]
        check_same(drawn, corrupt_text("masked_lm", ROLLS, choose=choice, others=["playing"]))

        order = corrupt_text("permuted_lm", ROLLS, variant=variant)
        choice = order.example["prediction_order"].tolist()
        check_same(order, corrupt_text("permuted_lm", ROLLS, choose=choice))

        spans = corrupt_text(
            {"name": "text_infilling", "noise_density": 0.4}, ROLLS, variant=variant
        )
        columns = (spans.example[name].tolist() for name in ("span_starts", "span_lengths"))
        choice = [
            f"{start + 1}-{start + size}" if size else f"before {start + 1}"
            for start, size in zip(*columns, strict=True)
        ]
        check_same(spans, corrupt_text("text_infilling", ROLLS, choose=choice))


def check_same(first, second):
    assert first.example.columns.keys() == second.example.columns.keys()
    for name, column in first.example.columns.items():
        assert np.array_equal(column, second.example[name]), name


@pytest.mark.parametrize("answer", ["yes", "no"])
def test_the_answer_for_a_pair_is_chosen(answer):
    for name, seed in itertools.product(
        ("next_sentence_prediction", "sentence_order_prediction"), range(4)
    ):
        found = corrupt_text(name, ROLLS, choose=[answer, {3: "mask"}], seed=seed)
        assert found.follows == answer
        row = words_of(found, "input_ids").split()
        assert row[3] == "[MASK]"
        assert row.count("[MASK]") == 1


def test_a_sentence_alone_gets_a_partner_that_ends_with_its_full_stop():
    others = ["Birds eat worms. They sing."]
    for seed in range(4):
        found = corrupt_text("next_sentence_prediction", KITTEN, others=others, seed=seed)
        assert found.follows == "no"
        assert words_of(found, "input_ids").count("[SEP]") == 2
        text = str(found).partition("input")[0]
        assert "|" not in text
        first, _, second = found.restored.partition(" [SEP] ")
        assert first == "[CLS] The kitten is chasing the ball ."
        assert second.removesuffix(" [SEP]") in ("Birds eat worms . They sing .", "They sing .")


@pytest.mark.parametrize(
    ("name", "choice", "said"),
    [
        ("masked_lm", [8], "tokens 1 to 7"),
        ("masked_lm", ["0"], "does not say which tokens"),
        ("masked_lm", [3, "2-4"], "overlap"),
        ("masked_lm", ["before 3"], "no token"),
        ("masked_lm", ["4-3"], "does not say which tokens"),
        ("masked_lm", ["yes"], "only pairs of sentences"),
        ("masked_lm", [{3: "two words"}], "not one word"),
        ("mass", [2, 4], "one fragment"),
        ("span_corruption", ["2-3", "4-5"], "touch"),
        ("span_corruption", ["1-7"], "a token that stays"),
        ("span_corruption", [{3: "hat"}], "cannot become"),
        ("span_corruption", ["before 3"], "spans of a token"),
        ("token_deletion", ["1-7"], "must stay"),
        ("token_reordering", [2, 1], "all tokens from 1 to 7"),
        ("token_reordering", [1, 2, 3, 4, 5, 6, 7], "order of the text"),
        ("permuted_lm", [2, 2], "once"),
        ("document_rotation", [1], "from 2 to 7"),
        ("prefix_lm", [7], "from 1 to 6"),
        ("prefix_lm", [1, 2], "one number"),
        ("replaced_token_detection", [{3: "hat"}], "cannot become"),
        ({"name": "replaced_token_detection", "replacement": "uniform"}, [3], "write the word"),
        ("causal_lm", [3], "nothing that you could choose"),
        ("next_sentence_prediction", ["yes"], "one sentence"),
    ],
)
def test_what_cannot_be_chosen_is_said(name, choice, said):
    with refused(said):
        corrupt_text(name, KITTEN, choose=choice)
