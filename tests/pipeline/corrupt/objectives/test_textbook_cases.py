"""The examples that the field teaches with: each is reached by the objective named, and undone again.

Tokens are words. Where a corruption is drawn, variants are searched for the one that is printed; the rates are those at
which it has that number of masks, spans or labels.
"""

import numpy as np
import pytest

from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.corrupt.preview.words import Text, Words, sample_rows_of

VARIANTS, SEEDS = 1 << 16, 8
KITTEN = "The kitten is chasing the ball ."
BALL = "The ball rolls away swiftly ."
PUPPIES = "The puppies are frolicking outside the house ."
SIDES = {"architecture": "encoder_decoder"}
AS_IT_IS = {"mask_share": 0.0, "random_share": 0.0}
"""Labels without a change of the input: the textbook prints sentence pairs unmasked."""
TWO_DOCUMENTS = (Text((KITTEN, BALL)), Text(("Birds eat worms .",)))
NOT_NEXT = (Text(("The cat sleeps on the windowsill .", "It dreams of birds .")),
            Text(("Apples grow on trees .", "They are ripe in the autumn .")))  # fmt: skip


ONE_SENTENCE = (Text((KITTEN,)),)


def case(task, objective, wanted, options=None, texts=ONE_SENTENCE, also=()):
    """A printed example; `wanted` has the features to be found: ids as words, other values as numbers."""
    return pytest.param({"name": objective, **(options or {})}, wanted, texts, also, id=f"{task}: {objective}")


def masked(row, **labels):
    return {"input_ids": f"[CLS] {row} [SEP]", **labels}


def pair(source, target, **noise):
    """A denoising pair whose source begins with [CLS]."""
    return {"input_ids": f"[CLS] {source} </s>", "target_ids": f"{target} </s>", **noise}


DOCUMENT = {"grouping": "document"}
CLS = {"source_head": "cls"}
BERT = {"mask_rate": 0.55, "mask_share": 0.5, "random_share": 0.25}
BERT_ROW = masked("The kitten [MASK] playing the [MASK] .", label_positions=[2, 3, 4, 6],
                  label_ids="kitten is chasing ball")  # fmt: skip
MASS_ROW = "[CLS] The kitten [MASK] [MASK] [MASK] ball . [SEP]"
MASS = {"mask_rate": 0.4, "mask_share": 1.0, "random_share": 0.0}
TWO_MASKS = masked("The kitten [MASK] chasing the [MASK] .", label_positions=[3, 6], label_ids="is ball")

TABLE = (
    case("Causal LM", "causal_lm", {"input_ids": f"{KITTEN} </s>"}, DOCUMENT),
    case("Causal LM", "causal_lm", {"input_ids": "</s>", "target_ids": f"{KITTEN} </s>"}, {**DOCUMENT, **SIDES}),
    case("Prefix LM", "prefix_lm", {"input_ids": "The kitten is </s>", "target_ids": "chasing the ball . </s>"}, SIDES),
    case("Prefix LM", "prefix_lm", {"input_ids": f"{KITTEN} </s>", "prefix_length": [3]}),
    case("Masked LM", "masked_lm", TWO_MASKS, {**DOCUMENT, "mask_rate": 0.3}),
    case("Masked LM", "masked_encoder_decoder", TWO_MASKS, {"mask_rate": 0.3}),
    case("MASS-style", "mass", {"input_ids": MASS_ROW, "target_ids": "is chasing the", "target_start": [3]}, MASS),
    case("MASS-style", "mass", {"input_ids": MASS_ROW, "label_ids": "is chasing the"},
         {**MASS, "architecture": "encoder"}),
    case("BERT-style", "masked_encoder_decoder", BERT_ROW, BERT, also=("playing",)),
    case("BERT-style", "masked_lm", BERT_ROW, {**DOCUMENT, **BERT}, also=("playing",)),
    case("Permuted LM", "permuted_lm", masked(KITTEN, prediction_order=[4, 6, 7, 5, 1, 3, 2]),
         {"prediction_rate": 1.0, "grouping": "document"}),
    case("Next sentence", "next_sentence_prediction",
         masked(f"{KITTEN} [SEP] Birds eat worms .", segment_starts=[0, 9], sentence_label=[1]), AS_IT_IS,
         TWO_DOCUMENTS),
    case("Sentence comparison", "sentence_comparison",
         {"input_ids": f"[CLS] {KITTEN} [SEP]", "input_ids_b": f"[CLS] {BALL} [SEP]"}, {}, (Text((KITTEN, BALL)),)),
    case("Token classification", "replaced_token_detection",
         masked("The kitten is chasing the puppies .", label_positions=[6], label_ids="ball"),
         {**DOCUMENT, "replacement": "uniform"}, also=("puppies",)),
    case("Token reordering", "token_reordering", pair(". kitten the chasing The is ball", KITTEN), CLS),
    case("Token deletion", "token_deletion",
         pair("The kitten chasing the .", KITTEN, kept_positions=[0, 1, 3, 4, 6]), {**CLS, "noise_density": 0.3}),
    case("Span masking", "text_infilling",
         pair("The kitten [MASK] is [MASK] .", KITTEN, span_starts=[2, 3], span_lengths=[0, 3]),
         {**CLS, "noise_density": 0.4}),
    case("Sentinel masking", "span_corruption",
         {"input_ids": "The kitten <extra_0> the <extra_1> </s>",
          "target_ids": "<extra_0> is chasing <extra_1> ball . </s>"},
         {"noise_density": 0.55, "mean_noise_span_length": 2.0, "input_length": 64}),
    case("Sentinel masking", "span_corruption",
         {"target_ids": "<extra_0> is chasing <extra_1> ball . <extra_2> </s>"},
         {"noise_density": 0.55, "mean_noise_span_length": 2.0, "input_length": 64, "final_sentinel": True}),
    case("Sentence reordering", "sentence_reordering", pair(f"{BALL} {KITTEN}", f"{KITTEN} {BALL}"), CLS,
         (Text((KITTEN, BALL)),)),
    case("Document rotation", "document_rotation",
         pair(f"chasing the ball . {BALL} The kitten is", f"{KITTEN} {BALL}", rotation=[3]), CLS,
         (Text((KITTEN, BALL)),)),
)  # fmt: skip

LONGER = (
    case("puppies masked", "denoising_autoencoding",
         pair("The puppies are [MASK] outside [MASK] house .", PUPPIES, noise_positions=[3, 5]),
         {**CLS, "mask_rate": 0.25}, (Text((PUPPIES,)),)),
    case("cat, not next", "next_sentence_prediction",
         masked("The cat sleeps on the windowsill . [SEP] Apples grow on trees .", sentence_label=[1]), AS_IT_IS,
         NOT_NEXT),
    # token 1 is predicted from the tokens 0, 4 and 2
    case("five tokens permuted", "permuted_lm", {"prediction_order": [1, 5, 3, 2, 4]},
         {"prediction_rate": 1.0, "grouping": "document"}, (Text(("The kitten is chasing it",)),)),
)  # fmt: skip


def matches(examples, wanted):
    """Rows that have these features."""
    found = np.ones(len(examples), np.bool_)
    for name, values in wanted.items():
        column = examples.columns[name]
        found &= column.lengths == len(values)
        rows = np.flatnonzero(found)
        places = column.offsets[rows][:, None] + np.arange(len(values))
        found[rows] = (column.values[places] == np.array(values)).all(axis=1)
    return found


def search(objective, sample, wanted):
    """The first example of the sample with these features, over variants and seeds."""
    for seed in range(SEEDS):
        for count in (256, VARIANTS):
            rows = sample.take(np.zeros(count, np.int64))
            examples, skips = objective.corrupt(rows, np.arange(count, dtype=np.uint16), seed)
            assert not skips.any()
            found = np.flatnonzero(matches(examples, wanted))
            if len(found):
                return examples.row(int(found[0]))
    return None


def numbers(words, value):
    return words.ids(value) if isinstance(value, str) else list(value)


@pytest.mark.parametrize(("options", "wanted", "texts", "also"), [*TABLE, *LONGER])
def test_is_reached_and_undone(options, wanted, texts, also):
    words = Words([*(part for text in texts for part in (*text.sentences, text.target)), *also])
    objective = build_objective(options, words.vocabulary)
    samples = sample_rows_of(objective, words, texts).take(np.array([0]))
    example = search(objective, samples, {name: numbers(words, value) for name, value in wanted.items()})
    assert example is not None, "no variant gives the printed example"
    assert objective.uncorrupt(example).tolist() == objective.original(samples.row(0), example).tolist()
