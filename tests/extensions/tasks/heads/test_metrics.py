"""Metrics against their formulas and the libraries' own calls, of classes, numbers and generated
texts."""

import doctest
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu import corpus_bleu, corpus_chrf
from scipy import stats
from sklearn import metrics
from sklearn.metrics import f1_score

from clozeline.extensions.tasks.readers import TaskMetadata
from clozeline.extensions.tasks.sets.task_rows import record_bytes
from clozeline.extensions.tasks.task_heads import _text_metrics
from clozeline.extensions.tasks.task_heads._metrics import (
    CLASS_METRICS,
    NUMBER_METRICS,
    SEVERAL_METRICS,
)
from clozeline.extensions.tasks.task_heads._task_head import Judged
from clozeline.extensions.tasks.task_heads._text_metrics import TEXT_METRICS
from clozeline.extensions.tasks.task_heads.lm import LmTaskHead
from clozeline.pipeline.rows import Ragged, RowBatch
from tests.extensions.tasks.readers.reading import reader_of
from tests.shard_sets import fixed

METRICS = {**CLASS_METRICS, **SEVERAL_METRICS, **NUMBER_METRICS}


def score(facts, answers, guesses, **keys):
    judged = Judged(facts, answers, guesses, **keys)
    return {name: METRICS[name].of(judged) for name in facts.metrics}


def text_metrics(facts, texts, golds, language="und"):
    judged = Judged(facts, golds, texts, language=language)
    return {name: TEXT_METRICS[name].of(judged) for name in facts.metrics}


@pytest.mark.parametrize(
    ("answers", "predicted", "expected"),
    [
        (
            [1, 1, 1, 0, 0],
            [1, 1, 0, 1, 0],
            {"accuracy": 0.6, "f1": 2 / 3, "matthews_correlation": 1 / 6},
        ),
        ([0, 1], [0, 0], {"accuracy": 0.5, "f1": 0.0, "matthews_correlation": 0.0}),
        ([0.0, 1.0, 2.0, 5.0], [0.0, 3.0, 4.0, 5.0], {"pearson": 12 / 14, "spearman": 1.0}),
        ([0.0, 1.0], [2.0, 2.0], {"pearson": 0.0, "spearman": 0.0}),
        ([0.0, 1.0], [3.0, 2.0], {"pearson": -1.0, "spearman": -1.0}),
    ],
)
def test_metrics_by_hand(answers, predicted, expected):
    """Where a side is constant, no correlation is defined."""
    facts = TaskMetadata(
        name="toy",
        head="classification",
        labels=("a", "b", "c"),
        positive=1,
        metrics=tuple(expected),
        high=6.0,
    )

    assert score(facts, np.array(answers), np.array(predicted)) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(5))
def test_macro_f1_is_that_of_scikit_learn(seed):
    """Also where the task has classes that this split lacks.

    Of several classes per row, over those that occur.
    """
    draw = np.random.default_rng(seed)
    facts = TaskMetadata(
        name="t", head="classification", labels=tuple("abcdef"), metrics=("macro_f1",)
    )
    answers = draw.integers(0, 4, 20)
    predicted = draw.integers(1, 5, 20)
    expected = f1_score(answers, predicted, average="macro")

    assert score(facts, answers, predicted) == {"macro_f1": pytest.approx(expected)}

    names = ("micro_f1", "macro_f1", "subset_accuracy")
    several = replace(facts, multi_label=True, metrics=names)
    cells = draw.integers(0, 2, (2, 30, 6))
    cells[:, :, 4:] = 0
    assert score(several, *cells) == {
        "micro_f1": pytest.approx(f1_score(*cells, average="micro")),
        "macro_f1": pytest.approx(f1_score(*cells, average="macro", labels=range(4))),
        "subset_accuracy": pytest.approx(metrics.accuracy_score(*cells)),
    }


def test_answers_of_random_questions():
    draws = np.random.default_rng(2)
    questions = draws.integers(0, 40, 150)
    answers = draws.integers(0, 2, 150)
    predicted = np.where(draws.random(150) < 0.85, answers, 1 - answers)
    keys = np.stack((questions % 7, questions), axis=1).astype(np.uint8)
    facts = TaskMetadata(name="t", head="classification", metrics=("f1", "exact_match"), positive=1)
    found = score(facts, answers, predicted, documents=keys)

    assert found["f1"] == pytest.approx(f1_score(answers, predicted))

    asked = sorted(set(questions.tolist()))
    right = [all(answers[questions == one] == predicted[questions == one]) for one in asked]

    assert found["exact_match"] == pytest.approx(sum(right) / len(asked))
    assert 0.2 < found["exact_match"] < 0.8


def test_parity_of_pairs_in_any_order():
    """A row without its fellow counts for accuracy alone."""
    draws = np.random.default_rng(4)
    pairs = draws.permutation(np.repeat(np.arange(31), 2))[:-1]
    answers, predicted = draws.integers(0, 2, (2, len(pairs)))
    facts = TaskMetadata(name="t", head="classification", metrics=("accuracy", "gender_parity"))
    found = score(facts, answers, predicted, documents=pairs[:, None].astype(np.uint8))
    both = [predicted[pairs == pair].tolist() for pair in range(31) if sum(pairs == pair) == 2]

    assert found["gender_parity"] == sum(one == other for one, other in both) / len(both)
    assert len(both) == 30


def rows_of(*targets):
    records = [
        {"source": f"text {number}", "targets": accepted} for number, accepted in enumerate(targets)
    ]
    columns = {"record": Ragged.from_lists([record_bytes(one) for one in records], np.uint8)}
    return RowBatch(fixed(np.arange(len(records))), columns)


def scored_by(facts, rows, texts):
    task = SimpleNamespace(manifest=SimpleNamespace(languages=["und"]))
    return LmTaskHead(facts).score(task, rows, rows, texts)


def labeled_rows(targets):
    return rows_of(*([target] for target in targets))


def test_the_signature_names_the_tokenizer():
    facts = TaskMetadata(name="toy", head="lm", metrics=("bleu",))
    assert (
        "tok:zh"
        in scored_by(facts, labeled_rows(["我们喜欢小狗和猫。"]), {0: "我们"}).signatures["bleu"]
    )


def test_any_accepted_text_is_right_and_the_most_frequent_first_one_is_the_baseline():
    facts = TaskMetadata(name="toy", head="lm", metrics=("exact_match",))
    scored = scored_by(
        facts, rows_of(["one"], ["same"], ["same", "y"]), {0: "", 1: "same", 2: " y"}
    )

    assert scored.metrics == {"exact_match": 2 / 3}
    assert scored.baselines == {"majority": {"exact_match": 2 / 3}}


WRITTEN = [
    "equivalent",
    "not_equivalent",
    "equivalent",
    "equivalent",
    "not_equivalent",
    "not_equivalent",
    "equivalent",
]


READ = [
    " equivalent\n",
    "equivalent",
    "not_equivalent",
    "equivalent",
    "not_equivalent",
    "equivalentish",
    "",
]


@pytest.mark.parametrize("task", ["cola", "mrpc", "mnli"])
def test_written_classes_have_the_metrics_of_glue(task):
    """An output that is no class is wrong, as in T5's code: of two classes the other one."""
    facts = reader_of("glue", as_text=True, task=task).metadata
    golds = [facts.words[0 if gold.startswith("not") else 1] for gold in WRITTEN]
    outputs = [
        facts.words[0 if text.strip().startswith("not") else 1] if text.strip() in WRITTEN else text
        for text in READ
    ]
    rows = labeled_rows(golds)
    scored = scored_by(facts, rows, dict(enumerate(outputs)))
    answers = [facts.words.index(gold) for gold in golds]
    two = len(facts.words) == 2
    found = [
        facts.words.index(text) if text in facts.words else 1 - answer if two else -1
        for text, answer in zip(outputs, answers, strict=True)
    ]
    expected = {
        "accuracy": metrics.accuracy_score(answers, found),
        "f1": metrics.f1_score(answers, found) if two else None,
        "matthews_correlation": metrics.matthews_corrcoef(answers, found),
    }

    assert facts.metrics == reader_of("glue", task=task).metadata.metrics
    assert scored.metrics == pytest.approx({name: expected[name] for name in facts.metrics})
    assert (scored.count, scored.unparsable) == (7, 2)
    assert set(scored.baselines) == {"majority"}


def test_written_numbers_have_the_metrics_of_glue():
    """An output that is no number from 0 to 5 is the lowest one."""
    facts = reader_of("glue", as_text=True, task="stsb").metadata
    golds = ["0.0", "1.2", "2.4", "3.8", "5.0", "1.0"]
    outputs = ["0.2", " 1.0", "3.0", "four", "4.6", "1e9"]
    scored = scored_by(facts, labeled_rows(golds), dict(enumerate(outputs)))
    answers = [float(gold) for gold in golds]
    found = [0.2, 1.0, 3.0, 0.0, 4.6, 0.0]

    assert scored.metrics == pytest.approx(
        {
            "pearson": stats.pearsonr(answers, found)[0],
            "spearman": stats.spearmanr(answers, found)[0],
        }
    )
    assert scored.unparsable == 2
    assert scored.metrics.keys() == set(reader_of("glue", task="stsb").metadata.metrics)


def test_examples():
    assert not doctest.testmod(_text_metrics).failed


class Characters:
    """Words that the test cuts itself: each character of the cases below, without spaces and
    marks."""

    def tokenize(self, text):
        return [character for character in text if character not in " 。"]


UNSPACED = {
    "zh": ("我们喜欢小猫。", "我们喜欢小狗和猫。"),
    "ja": ("ねこが好きです", "いぬが好きです"),
    "lo": ("ລາວສວຍງາມ", "ລາວສວຍດ"),
    "km": ("ខមរភសនង", "ខមរភសក"),
}


@pytest.mark.parametrize("language", UNSPACED)
@pytest.mark.parametrize("metric", ["rouge1", "rouge2", "rougeL"])
def test_characters_are_words_where_no_spaces_are(language, metric):
    found, gold = UNSPACED[language]
    facts = TaskMetadata(name="toy", head="lm", metrics=(metric,))
    expected = RougeScorer([metric], tokenizer=Characters()).score(gold, found)[metric].fmeasure
    assert 0 < expected < 1
    assert text_metrics(facts, [found], [[gold]])[metric] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("language", "tokenize"),
    [("zh", "zh"), ("ja", "char"), ("lo", "char"), ("km", "char"), ("th", "char")],
)
@pytest.mark.parametrize("named", [True, False])
def test_bleu_by_language_or_script(language, tokenize, named):
    """Of a set without a language the script of its targets decides."""
    found, gold = UNSPACED.get(language, ("แมวนอนหลับ", "แมวนอนอยู่"))
    facts = TaskMetadata(name="toy", head="lm", metrics=("bleu", "chrf"))
    scores = text_metrics(facts, [found], [[gold]], language if named else "und")

    assert scores["bleu"] == pytest.approx(
        corpus_bleu([found], [[gold]], tokenize=tokenize).score / 100
    )
    assert scores["bleu"] > corpus_bleu([found], [[gold]]).score / 100
    assert scores["chrf"] == pytest.approx(corpus_chrf([found], [[gold]]).score / 100)


ALL = ("exact_match", "bleu", "chrf", "rouge1", "rouge2", "rougeL", "rougeLsum")
FACTS = TaskMetadata(name="toy", head="lm", metrics=ALL)
TEXTS = ["The cats sat on the mats near us.", "One two three four five."]
GOLDS = [["A cat sat on the mat near us.", "The cat was there."], ["One two three four six."]]


def test_metrics_are_those_of_the_libraries():
    found = text_metrics(FACTS, TEXTS, GOLDS)
    references = [[gold[0] for gold in GOLDS], ["The cat was there.", None]]

    assert found["bleu"] == pytest.approx(corpus_bleu(TEXTS, references).score / 100)
    assert found["chrf"] == pytest.approx(corpus_chrf(TEXTS, references).score / 100)

    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)

    for name in ("rouge1", "rouge2", "rougeL"):
        pairs = zip(TEXTS, GOLDS, strict=True)
        best = [
            max(scorer.score(gold, text)[name].fmeasure for gold in given) for text, given in pairs
        ]
        assert found[name] == pytest.approx(np.mean(best))

    assert found["exact_match"] == 0


def test_sentences_in_another_order():
    facts = TaskMetadata(name="toy", head="lm", metrics=("rougeL", "rougeLsum"))
    found = text_metrics(facts, ["The dog ran. A cat sat."], [["A cat sat. The dog ran."]])
    assert found["rougeLsum"] == 1.0
    assert found["rougeL"] == pytest.approx(0.5)


def test_the_first_three_sentences_are_a_baseline_of_summaries():
    """The scores are those of rouge_score on sentences that are cut by hand."""
    leads = ["Owls sleep by day.", "They hunt at night.", "Mice fear them."]
    sources = [" ".join([*leads, "A farmer built a barn for owls."]), "It rains."]
    expected = [" ".join(leads), "It rains."]
    targets = ["Owls hunt mice at night.", "Rain."]
    records = [
        {"source": source, "targets": [target]}
        for source, target in zip(sources, targets, strict=True)
    ]
    columns = {"record": Ragged.from_lists([record_bytes(one) for one in records], np.uint8)}
    rows = RowBatch(fixed(np.arange(2)), columns)
    facts = TaskMetadata(name="toy", head="lm", metrics=("rouge1", "rougeL"))
    found = scored_by(facts, rows, dict(enumerate(targets)))
    assert found.metrics == {"rouge1": 1.0, "rougeL": 1.0}
    scorer = RougeScorer(["rouge1", "rougeL"], use_stemmer=True)
    for name, value in found.baselines["lead_3"].items():
        scores = map(scorer.score, targets, expected)
        assert value == pytest.approx(np.mean([score[name].fmeasure for score in scores]))
    translations = TaskMetadata(name="toy", head="lm", metrics=("bleu", "exact_match"))
    assert scored_by(translations, rows, dict(enumerate(targets))).baselines.keys() == {"majority"}
