"""Prompts: rows, demonstrations, templates, and labels by scores that are known."""

import gzip
import json
import math
from pathlib import Path
from zlib import crc32

import pytest
import torch

from clozeline.configuration.config import validate
from clozeline.extensions.evaluation.commands.prompt import main as prompt_main
from clozeline.extensions.evaluation.prompting.answers import Answered, answer_rows
from clozeline.extensions.evaluation.prompting.report import metrics_of, prompt_scores
from clozeline.extensions.evaluation.prompting.scorers import Candidate
from clozeline.extensions.evaluation.prompting.template import (
    Demonstrations,
    LabelPrompt,
    PromptRow,
    Template,
    prompt_of,
    read_rows,
    read_template,
)
from clozeline.model.scoring.causal import log_likelihoods
from tests.refusals import refused

PLAIN = {
    "example": "{text} is{label}",
    "separator": " ; ",
    "labels": {"a": [" x", " xyz"], "b": [" yy"]},
    "null": "-",
}


def template(plain=PLAIN, **changes):
    return validate(Template, plain | changes, "test")


class Letters:
    """Every letter is a token.

    Each of a word has a log-probability that its prompt's first letter tells.
    """

    def candidate(self, prompt, word):
        ids = tuple(map(ord, prompt.before + word))
        return Candidate(ids, tuple(range(len(prompt.before) + 1, len(ids))))

    def scores(self, candidates):
        weights = {
            "p": {"x": -1.0, "y": -0.7, "z": -0.5},
            "-": {"x": -0.1, "y": -0.6, "z": -0.5},
        }
        found = []

        for one in candidates:
            of = weights["-" if chr(one.ids[0]) == "-" else "p"]
            found.append(
                torch.tensor(
                    [of[chr(one.ids[place])] for place in one.positions], dtype=torch.float64
                )
            )

        return found


def row(text, label="a"):
    return PromptRow(crc32(text.encode()), {"text": text}, label)


def none(_):
    return []


@pytest.mark.parametrize(
    ("normalize", "words"),
    [
        ("sum", ([-1.0, -2.2], [-1.4])),
        ("mean", ([-1.0, -2.2 / 3], [-0.7])),
        ("per_byte", ([-1.0, -2.2 / 3], [-0.7])),
        ("pmi", ([-0.9, -2.2 + 1.2], [-1.4 + 1.2])),
    ],
)
def test_scores_of_labels(normalize, words):
    (found,) = answer_rows([row("page")], template(), none, Letters(), 99, normalize)
    assert found.scores == pytest.approx([math.log(sum(map(math.exp, own))) for own in words])
    (found,) = answer_rows(
        [row("page")],
        template(words="mean"),
        none,
        Letters(),
        99,
        normalize,
    )
    assert found.scores == pytest.approx([sum(own) / len(own) for own in words])


@pytest.mark.parametrize("window", range(9, 40))
def test_the_oldest_demonstrations_are_left_out_and_the_row_never_is_cut(window):
    """`page is xyz` has 11 letters, each demonstration before it 9 more: `oldest is x .

    `, and the last one.
    """
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


def test_demonstrations_come_between_the_instruction_and_the_row():
    shown = [({"text": "{a}"}, "negative"), ({"text": "b"}, "positive")]
    prompt = prompt_of(
        template(POLARITY, instruction="Say.", separator=" | "), shown, {"text": "c"}
    )
    before = "Say. | Input: {a}\nPolarity: bad. | Input: b\nPolarity: good. | Input: c\nPolarity:"

    assert prompt == LabelPrompt(before, ".")
    assert prompt_of(template(POLARITY), [], {"text": "c"}) == LabelPrompt(
        "Input: c\nPolarity:", "."
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"example": "{text}"}, "expected {label} once, got it 0 times"),
        ({"example": "{label}{text}{label}"}, "expected {label} once, got it 2 times"),
        ({"example": "It is{label}"}, "expected a field of the row"),
        ({"example": "{text.__class__}{label}"}, "expected names in braces"),
        ({"example": "{text!r}{label}"}, "expected names in braces"),
        ({"example": "{text:>9}{label}"}, "expected names in braces"),
        ({"labels": {"positive": [" good"]}}, "expected two or more"),
        ({"labels": {"positive": [" good"], "negative": []}}, "each with at least one word"),
        ({"labels": {"positive": [" good"], "negative": ["good"]}}, "'good' more than once"),
        ({"values": {"1": "positiv"}}, "expected labels of positive, negative, got 'positiv'"),
        ({"fields": {"txt": "sentence"}}, "'txt' is not a name of the example; it has text"),
    ],
)
def test_mistakes_are_named(changes, message):
    with refused(".") as caught:
        template(POLARITY, **changes)
    assert message in str(caught.value)


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
    """Of the rows 1, 2, 3 and 6 the first and the last are right.

    The third is a tie, which the first label has.
    """
    found = prompt_scores(ANSWERED, LABELS, [])

    assert {name: found[name] for name in ("n", "unlabeled", "skipped", "truncated", "ties")} == {
        "n": 4,
        "unlabeled": 1,
        "skipped": 1,
        "truncated": 0,
        "ties": 1,
    }
    assert (found["dropped_demonstrations"], found["rows_with_dropped"]) == (5, 3)
    assert found["predicted"] == {"a": 3, "b": 2}
    assert found["metrics"]["accuracy"] == 0.5
    assert found["metrics"]["macro_f1"] == pytest.approx((0.5 + 0.5) / 2)

    majority = found["baselines"]["majority"]

    assert (majority["label"], majority["metrics"]["accuracy"]) == ("b", 0.75)

    train = [PromptRow(9, {}, "a")]

    assert (
        prompt_scores(ANSWERED, LABELS, train)["baselines"]["majority"]["metrics"]["accuracy"]
        == 0.25
    )
    assert metrics_of([], []) == {}
    assert metrics_of(["a", "b", "a", "b"], ["a", "b", "b", "b"])["matthews"] == pytest.approx(
        3**-0.5
    )


ROOT = Path(__file__).parents[4]
TEMPLATE = """
example: "{text}: {label}."
fields: {text: sentence}
values: {"1": positive, "0": negative}
"""
ROWS = [
    (f"{'page of a note, line'[: 4 + 3 * number]} {number}", number % 2) for number in range(10)
]


@pytest.fixture
def labeled(tmp_path):
    path = tmp_path / "dev.tsv"
    path.write_text("sentence\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in ROWS))
    return path


def test_answers_of_a_list_are_scored_by_their_share_of_the_probability(
    decoder, labeled, tmp_path, capsys
):
    """Probabilities are those of the answers alone.

    A correct label that no answer names is counted.
    """
    answers = ["page", "book", "negative", "no"]
    (tmp_path / "answers.txt").write_text("".join(f"{each}\n" for each in answers))
    (tmp_path / "open.yaml").write_text(TEMPLATE)
    words = [
        f"template={tmp_path}/open.yaml",
        f"answers={tmp_path}/answers.txt",
        f"input={labeled}",
    ]

    output = [f"output={tmp_path}/scores.json", f"predictions={tmp_path}/rows.jsonl"]
    run, trained = decoder

    assert prompt_main([str(run), *words, *output]) == 0

    scores = json.loads((tmp_path / "scores.json").read_text())
    lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]

    assert (scores["n"], scores["refused"]) == (5, {"bad_label": 5})  # the rows that are positive
    assert "worse than this baseline" in capsys.readouterr().out

    end = trained.tokenizer.vocabulary.specials["eos"]
    rows = [text for text, label in ROWS if label == 0]
    for text, line in zip(rows, lines, strict=True):
        prompt = [
            end,
            *trained.tokenizer.encode([f"{text}:"])[0].ids.tolist(),
        ]
        joined = [
            [end, *trained.tokenizer.encode([f"{text}: {each}"])[0].ids.tolist()]
            for each in answers
        ]
        sums = [
            float(each[len(prompt) - 1 :].sum()) for each in log_likelihoods(trained.model, joined)
        ]
        shares = torch.tensor(sums, dtype=torch.float64).softmax(0).tolist()

        assert [*line["probabilities"]] == answers
        assert [*line["probabilities"].values()] == pytest.approx(shares, rel=1e-4)
        assert line["prediction"] == answers[shares.index(max(shares))]


def test_refusals(decoder, labeled, tmp_path, capsys):
    (tmp_path / "open.yaml").write_text('example: "{sentence}: {label}"')
    given = [f"template={ROOT}/configs/prompts/polarity.yaml", f"input={labeled}"]

    for words, message in (
        (["shots=2"], "shots=2: expected train=FILE"),
        (["shots=30", f"train={labeled}"], "with more labeled rows than that, got 10"),
        (["window=65"], "window: the position table has 64 entries, got 65"),
        (["mode=cloze"], "mode=cloze: the run was not trained for it"),
        (["answers=[yes]"], "answers: expected two or more different texts, got 1"),
        ([f"template={tmp_path}/open.yaml"], "open.yaml: has no labels"),
    ):
        assert prompt_main([str(decoder[0]), *given, *words]) == 64
        assert message in capsys.readouterr().err


TEMPLATE_OF_ROWS = template(
    example="{text}{label}",
    labels={"yes": [" yes"], "no": [" no"]},
    fields={"text": "sentence"},
    values={"1": "yes", "0": "no"},
)


def test_a_table_has_a_header_and_quotes_without_meaning(tmp_path):
    path = tmp_path / "dev.tsv"
    path.write_text(
        '\ufeffsentence\tlabel\r\na "film\t1\r\nb\t0\r\nc\r\n\r\nd\t7\r\n \t1\r\n',
        newline="",
    )

    found = read_rows(path, TEMPLATE_OF_ROWS, labeled=True)

    assert [(row.fields["text"], row.label) for row in found.rows] == [
        ('a "film', "yes"),
        ("b", "no"),
    ]
    assert found.refused == {"fields": 1, "blank_line": 1, "bad_label": 1, "no_text": 1}


def test_lines_of_json_plain_or_compressed(tmp_path):
    content = (
        '{"sentence": "a", "label": 1}\n{"sentence": "b"}\n{"text": "c"}\n{"sentence": "d", '
        '"label": "no"}\n'
    )
    (tmp_path / "dev.jsonl").write_text(content)
    (tmp_path / "dev.jsonl.gz").write_bytes(gzip.compress(content.encode()))
    found = read_rows(tmp_path / "dev.jsonl", TEMPLATE_OF_ROWS, labeled=False)

    assert [row.label for row in found.rows] == ["yes", None, "no"]
    assert found.refused == {"no_text": 1}

    packed = read_rows(tmp_path / "dev.jsonl.gz", TEMPLATE_OF_ROWS, labeled=True)
    assert packed.refused == {"no_text": 1, "no_label": 1}


def rows(count, first=0):
    numbers = range(first, first + count)
    return [
        PromptRow(1000 + number, {"text": str(number)}, "ababac"[number % 6]) for number in numbers
    ]


@pytest.mark.parametrize("selection", ["random", "balanced", "fixed"])
def test_they_do_not_depend_on_the_order_and_never_hold_the_row(selection):
    pool = rows(24)
    one, other = (Demonstrations(part, 5, selection, 3) for part in (pool, pool[::-1]))
    seen = set()

    for row in rows(30):
        found = one.of(row)
        assert found == other.of(row)
        assert len({shown.uid for shown in found}) == 5
        assert row.uid not in {shown.uid for shown in found}
        seen.add(tuple(shown.uid for shown in found))

    own = {shown.uid for shown in one.of(PromptRow(1, {}, None))}

    assert len(seen) == (1 + sum(row.uid in own for row in pool) if selection == "fixed" else 30)
    assert [Demonstrations(pool, 5, selection, 4).of(row) for row in pool] != [
        one.of(row) for row in pool
    ]


@pytest.mark.parametrize("selection", ["balanced", "fixed"])
@pytest.mark.parametrize("shots", [3, 4, 12])
def test_each_label_has_as_many_or_one_more(selection, shots):
    """As long as the rarest has so many; balanced ones come in an order that is drawn, too."""
    found = Demonstrations(rows(60), shots, selection, 0)
    shown = [[one.label for one in found.of(row)] for row in rows(40, first=100)]
    assert all(max(map(one.count, "abc")) - min(map(one.count, "abc")) <= 1 for one in shown)
    assert len({one[0] for one in shown}) == (3 if selection == "balanced" else 1)


def test_equal_rows_are_one_and_too_few_are_refused():
    twice = [
        PromptRow(7, {"text": "x"}, "b"),
        PromptRow(7, {"text": "x"}, "a"),
        *rows(2),
    ]

    assert {shown.label for shown in Demonstrations(twice, 2, "random", 0).of(rows(1)[0])} == {
        "a",
        "b",
    }

    with refused("shots=3: expected a file train=FILE with more labeled rows"):
        Demonstrations(twice, 3, "random", 0)

    assert Demonstrations([], 0, "random", 0).of(rows(1)[0]) == []


@pytest.mark.parametrize("name", ["polarity", "polarity_cloze", "polarity_three"])
def test_shipped_prompts_read_the_shipped_reviews(name):
    shipped = read_template(ROOT / f"configs/prompts/{name}.yaml")
    for file in (ROOT / "configs/textbook").glob("reviews_*.jsonl"):
        found = read_rows(file, shipped, labeled=True)
        assert not found.refused
        assert len(found.rows) == len(file.read_text().splitlines())
        assert {row.label for row in found.rows} == {"positive", "negative"}


def test_a_field_may_have_several_columns(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = [
        {"sentence": "one", "label": "a"},
        {"text": "two", "label": "b"},
        {"body": "three", "label": "a"},
    ]

    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    several = template(fields={"text": ["sentence", "text"]})
    found = read_rows(path, several, labeled=True)

    assert [row.fields["text"] for row in found.rows] == ["one", "two"]
    assert found.refused == {"no_text": 1}

    with refused("columns are sentence, label, text, body") as caught:
        read_rows(path, template(fields={"text": ["review"]}), labeled=True)

    assert "reads review" in str(caught.value)
