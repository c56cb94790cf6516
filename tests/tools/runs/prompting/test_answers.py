"""Labels by scores that are known, prompts that do not fit, templates, and the counts of a report."""

import json
import math
from zlib import crc32

import pytest
import torch

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError
from clozeline.tools.runs.prompting.answers import Answered, answer_rows
from clozeline.tools.runs.prompting.report import metrics_of, prediction_lines, prompt_scores
from clozeline.tools.runs.prompting.rows import PromptRow
from clozeline.tools.runs.prompting.scorers import Candidate
from clozeline.tools.runs.prompting.template import Prompt, Template, prompt_of, read_template

PLAIN = {
    "example": "{text} is{label}", "separator": " ; ", "labels": {"a": [" x", " xyz"], "b": [" yy"]}, "null": "-",
}  # fmt: skip


def template(**changes):
    return validate(Template, PLAIN | changes, "test")


class Letters:
    """Every letter is a token; each of a word has a log-probability that its prompt's first letter tells."""

    def candidate(self, prompt, word):
        ids = tuple(map(ord, prompt.before + word))
        return Candidate(ids, tuple(range(len(prompt.before) + 1, len(ids))))

    def scores(self, candidates):
        weights = {"p": {"x": -1.0, "y": -0.7, "z": -0.5}, "-": {"x": -0.1, "y": -0.6, "z": -0.5}}
        found = []
        for one in candidates:
            of = weights["-" if chr(one.ids[0]) == "-" else "p"]
            found.append(torch.tensor([of[chr(one.ids[place])] for place in one.positions], dtype=torch.float64))
        return found


def row(text, label="a"):
    return PromptRow(crc32(text.encode()), {"text": text}, label)


def none(_):
    return []


@pytest.mark.parametrize(
    ("normalise", "words"),
    [
        ("sum", ([-1.0, -2.2], [-1.4])),
        ("mean", ([-1.0, -2.2 / 3], [-0.7])),
        ("per_byte", ([-1.0, -2.2 / 3], [-0.7])),
        ("pmi", ([-0.9, -2.2 + 1.2], [-1.4 + 1.2])),
    ],
    ids=["sum", "mean", "per_byte", "pmi"],
)
def test_scores_of_labels(normalise, words):
    (found,) = answer_rows([row("page")], template(), none, Letters(), 99, normalise)
    assert found.scores == pytest.approx([math.log(sum(map(math.exp, own))) for own in words])
    (found,) = answer_rows([row("page")], template(words="mean"), none, Letters(), 99, normalise)
    assert found.scores == pytest.approx([sum(own) / len(own) for own in words])


@pytest.mark.parametrize("window", range(9, 40))
def test_the_oldest_demonstrations_are_left_out_and_the_row_never_is_cut(window):
    """`page is xyz` has 11 letters, each demonstration before it 9 more: `oldest is x ; `, and the last one."""
    shown = [row("o1"), row("m2"), row("n3")]
    (found,) = answer_rows([row("page")], template(), lambda _: shown, Letters(), window)
    whole = len("page is xyz")
    room = max(0, min(3, (window - whole) // len("o1 is x ; ")))
    assert found.dropped == 3 - room
    assert found.demonstrations == tuple(one.uid for one in shown[3 - room :])
    assert bool(found.scores) == (window >= whole)


POLARITY = {
    "example": "Input: {text}\nPolarity:{label}.",
    "labels": {"positive": [" good", " fine"], "negative": [" bad"]},
}


def written_template(**changes):
    return validate(Template, POLARITY | changes, "test")


def test_demonstrations_come_between_the_instruction_and_the_row():
    shown = [({"text": "{a}"}, "negative"), ({"text": "b"}, "positive")]
    prompt = prompt_of(written_template(instruction="Say.", separator=" | "), shown, {"text": "c"})
    before = "Say. | Input: {a}\nPolarity: bad. | Input: b\nPolarity: good. | Input: c\nPolarity:"
    assert prompt == Prompt(before, ".")
    assert prompt_of(written_template(), [], {"text": "c"}) == Prompt("Input: c\nPolarity:", ".")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"example": "{text}"}, "expected {label} once, got it 0 times"),
        ({"example": "{label}{text}{label}"}, "expected {label} once, got it 2 times"),
        ({"example": "It is{label}"}, "expected a field of the row"),
        ({"example": "{text.__class__}{label}"}, "expected plain names in braces"),
        ({"example": "{text!r}{label}"}, "expected plain names in braces"),
        ({"example": "{text:>9}{label}"}, "expected plain names in braces"),
        ({"labels": {"positive": [" good"]}}, "expected two or more"),
        ({"labels": {"positive": [" good"], "negative": []}}, "each with at least one word"),
        ({"labels": {"positive": [" good"], "negative": ["good"]}}, "'good' more than once"),
        ({"values": {"1": "positiv"}}, "expected labels of positive, negative, got 'positiv'"),
        ({"fields": {"txt": "sentence"}}, "'txt' is no name of the example; it has text"),
        ({"shot": 3}, "shot"),
    ],
)
def test_mistakes_are_named(changes, message):
    with pytest.raises(ConfigurationError) as caught:
        written_template(**changes)
    assert message in str(caught.value)


def test_a_file_is_read_as_yaml(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text('example: "{text}{label}"\nlabels: {a: [" x"], b: [" y"]}\nvalues: {"1": a}\n')
    assert read_template(path).labels == {"a": (" x",), "b": (" y",)}
    with pytest.raises(ConfigurationError, match="no such file"):
        read_template(tmp_path / "none.yaml")


LABELS = ["a", "b"]
ANSWERED = [
    Answered(PromptRow(1, {}, "a"), (-1.0, -2.0), (7, 8), 0),
    Answered(PromptRow(2, {}, "b"), (-1.0, -2.0), (7,), 1),
    Answered(PromptRow(3, {}, "b"), (-3.0, -3.0), (), 2),
    Answered(PromptRow(4, {}, None), (-3.0, -1.0), (), 0),
    Answered(PromptRow(5, {}, "a"), (), (), 2),
    Answered(PromptRow(6, {}, "b"), (-3.0, -2.0), (), 0),
]


def test_counts_and_metrics():
    """Of the rows 1, 2, 3 and 6 the first and the last are right; the third is a tie, which the first label has."""
    found = prompt_scores(ANSWERED, LABELS, [])
    assert {name: found[name] for name in ("n", "unlabelled", "skipped", "truncated", "ties")} == {
        "n": 4, "unlabelled": 1, "skipped": 1, "truncated": 0, "ties": 1,
    }  # fmt: skip
    assert (found["dropped_demonstrations"], found["rows_with_dropped"]) == (5, 3)
    assert found["predicted"] == {"a": 3, "b": 2}
    assert found["metrics"]["accuracy"] == 0.5
    assert found["metrics"]["macro_f1"] == pytest.approx((0.5 + 0.5) / 2)
    majority = found["baselines"]["majority"]
    assert (majority["label"], majority["metrics"]["accuracy"]) == ("b", 0.75)
    train = [PromptRow(9, {}, "a")]
    assert prompt_scores(ANSWERED, LABELS, train)["baselines"]["majority"]["metrics"]["accuracy"] == 0.25
    assert metrics_of([], [], LABELS) == {}
    assert metrics_of(["a", "b", "a", "b"], ["a", "b", "b", "b"], LABELS)["matthews"] == pytest.approx(3**-0.5)


def test_a_line_for_each_row():
    lines = [json.loads(line) for line in prediction_lines(ANSWERED, LABELS)]
    assert [line["prediction"] for line in lines] == ["a", "a", "a", "b", None, "b"]
    assert lines[1] == {
        "uid": "0000000000000002", "label": "b", "prediction": "a", "scores": {"a": -1.0, "b": -2.0},
        "probabilities": pytest.approx({"a": 1 / (1 + math.exp(-1)), "b": 1 / (1 + math.exp(1))}),
        "demonstrations": ["0000000000000007"], "dropped": 1,
    }  # fmt: skip
    assert lines[4]["scores"] is None
