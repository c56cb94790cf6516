"""Minimal pairs and layers, against the model's own scores of one text at a
time."""

import json

import numpy as np
import pytest

from clozeline import HOME
from clozeline.errors import IntegrityError
from clozeline.extensions.evaluation.commands.evaluate import main as evaluate
from clozeline.extensions.evaluation.minimal_pairs import Pair, pair_scores, read_pairs
from clozeline.extensions.evaluation.perplexity import WordNgrams
from clozeline.tools.runs.inference.text_likelihoods import TextScore, TextScorer
from clozeline.train.checkpoint.trained_model import TrainedModel
from tests.pipeline import task_files
from tests.pipeline.task_files import make_sets, write_recipe_of, write_vocabulary
from tests.refusals import refused
from tests.train.written_runs import write_run_on

PAIRS = [
    Pair("the cat runs", "the cat run", "agreement", "morphology"),
    Pair("the dog runs", "the dog run fast", "agreement", "morphology"),
    Pair("a dog runs", "a dog runs", "agreement", "morphology"),
    Pair("who left", "left who", "questions", "syntax"),
    Pair("who ran off", "ran who off", "questions", "syntax"),
    Pair("she saw it", "she saw", "objects", "syntax"),
]
TOTALS = {
    "the cat runs": -3.0,
    "the cat run": -4.0,
    "the dog runs": -9.0,
    "the dog run fast": -2.0,
    "a dog runs": -1.0,
    "who left": -1.0,
    "left who": -2.0,
    "who ran off": -3.0,
    "ran who off": -5.0,
    "she saw it": -7.0,
    "she saw": -3.0,
}


class Table(TextScorer):
    def __init__(self):
        pass

    def score(self, texts):
        return (TextScore(TOTALS[text], len(text.split())) for text in texts)


def write(path, pairs):
    names = ("sentence_good", "sentence_bad", "UID", "linguistics_term")
    rows = [dict(zip(names, vars(one).values(), strict=False)) for one in pairs]
    path.write_text("".join(json.dumps(row | {"pairID": "1"}) + "\n" for row in rows))


def test_shares_are_means_over_paradigms_and_ties_are_wrong():
    found = pair_scores(
        PAIRS, Table(), WordNgrams(["the dog run fast . who left ? she saw it . she saw it"])
    )

    assert {name: one["accuracy"] for name, one in found["paradigms"].items()} == {
        "agreement": pytest.approx(1 / 3),
        "objects": 0.0,
        "questions": 1.0,
    }
    assert found["accuracy"] == pytest.approx((1 / 3 + 0 + 1) / 3)
    assert found["phenomena"] == {"morphology": pytest.approx(1 / 3), "syntax": 0.5}
    assert (found["n"], found["ties"], found["paradigms"]["agreement"]["ties"]) == (6, 1, 1)
    assert found["same_length"] == {"n": 4, "accuracy": 0.75}

    by_paradigm = {name: one["baselines"] for name, one in found["paradigms"].items()}

    assert by_paradigm["agreement"]["shorter"] == pytest.approx(1 / 3)
    assert by_paradigm["questions"] == {"shorter": 0.0, "unigram": 0.0, "bigram": 0.5}, (
        "the second is a tie"
    )
    assert found["baselines"]["shorter"] == pytest.approx((1 / 3 + 0 + 0) / 3)

    ours = [1 / 3, 0.0, 1.0]
    bigrams = [by_paradigm[name]["bigram"] for name in found["paradigms"]]

    assert found["correlation_with_bigram"] == pytest.approx(np.corrcoef(ours, bigrams)[0, 1])


def test_files_in_the_format_of_blimp(tmp_path):
    write(tmp_path / "a.jsonl", PAIRS[:4])
    write(tmp_path / "b.jsonl", PAIRS[4:])

    assert read_pairs(tmp_path) == PAIRS
    assert read_pairs(tmp_path, 1) == [PAIRS[0], PAIRS[3], PAIRS[5]]

    path = tmp_path / "order.jsonl"  # a file is a paradigm where its lines name none
    path.write_text(
        '{"good": "a b", "bad": "b a"}\n{"good": "c", "bad": "d", "UID": "x", "linguistics_term": '
        '"y"}\n'
    )

    assert read_pairs(path) == [Pair("a b", "b a", "order", "pairs"), Pair("c", "d", "x", "y")]

    (tmp_path / "c.jsonl").write_text('{"sentence_good": "a"}\n')

    with pytest.raises(
        IntegrityError, match=r"c.jsonl, line 1: expected a field 'sentence_bad', got sentence_good"
    ):
        read_pairs(tmp_path)

    (tmp_path / "none.jsonl").write_text("")
    with refused(r"none\.jsonl: expected rows of .*it is empty"):
        read_pairs(tmp_path / "none.jsonl")


def test_files_of_the_evaluation_of_babylm(tmp_path):
    rows = {
        "hypernym": {"sentence_good": "she saw it", "sentence_bad": "she saw"},
        "social": {
            "Domain": "social-relations",
            "Context1": "who",
            "Target1": "left",
            "Target2": "ran off",
            "Context2": "ran who",
            "ContextType": "direct",
            "ContextDiff": "swap",
            "TargetDiff": "swap",
        },
        "regular": {
            "input_prefix": "the ",
            "options": ["dog runs", "cat run", "cat runs"],
            "numops": 2,
        },
        "uncounted": {"input_prefix": "the ", "options": ["dog runs", "cat run"]},
    }
    for name, row in rows.items():
        (tmp_path / f"{name}.jsonl").write_text(f"{json.dumps(row)}\n")
    pairs = read_pairs(tmp_path)

    assert {pair.paradigm: pair.sentences for pair in pairs} == {
        "hypernym": ("she saw it", "she saw"),
        "regular_2_ops": ("the dog runs", "the cat run", "the cat runs"),
        "uncounted": ("the dog runs", "the cat run"),
        "social-relations": ("who left", "who ran off"),
    }

    found = {
        name: one["accuracy"]
        for name, one in pair_scores(pairs, Table(), None)["paradigms"].items()
    }

    assert found == {
        "hypernym": 0.0,
        "regular_2_ops": 0.0,
        "uncounted": 0.0,
        "social-relations": 1.0,
    }

    best = Pair("the cat runs", "the dog runs", "p", "p", ("the cat run",))

    assert pair_scores([best], Table(), None)["same_length"] == {"n": 1, "accuracy": 1.0}

    (tmp_path / "regular.jsonl").write_text('{"input_prefix": "the ", "options": ["dog"]}\n')
    with pytest.raises(IntegrityError, match="expected a field 'options' with two texts or more"):
        read_pairs(tmp_path)


def test_pairs_are_scored_by_a_decoder(decoder, tmp_path, capsys):
    text = tmp_path / "text.txt"
    pairs = tmp_path / "pairs.jsonl"
    text.write_text("the page of the book .")
    ordered = Pair(text.read_text(), "page the book of the .", "order", "syntax")
    write(pairs, [ordered, Pair("a page", "a a", "noun", "syntax")])
    keys = ["suite=blimp", f"input={pairs}", f"baseline={text}", f"output={tmp_path}/scores.json"]

    assert evaluate([str(decoder[0]), *keys]) == 0

    assert "2 pairs of 2 paradigms, 0 ties" in capsys.readouterr().out
    found = json.loads((tmp_path / "scores.json").read_text())

    assert found["paradigms"]["order"]["baselines"]["bigram"] == 1.0
    assert (found["baseline_words"], found["correlation_with_bigram"]) == (6, None)


FILLERS = ("film", "one", "with", "heart")


@pytest.fixture(scope="module")
def run_and_task(tmp_path_factory):
    """Sentences in which the class of `plot` is told by the word before it, and an untrained
    encoder."""
    folder = tmp_path_factory.mktemp("probe")
    files = folder / "files"
    draws = np.random.default_rng(3)
    files.mkdir()

    for name, count in (("train", 160), ("dev", 60)):
        lines = []

        for _ in range(count):
            good = bool(draws.integers(2))
            before = draws.choice(FILLERS, 2).tolist()
            after = draws.choice(FILLERS, 1).tolist()
            tagged = [*((word, "DET") for word in before), ("good" if good else "bad", "ADJ")]
            tagged += [("plot", "NOUN" if good else "VERB"), *((word, "DET") for word in after)]
            lines += [
                f"{at}\t{word}\t_\t{tag}{chr(9)}_\t_\t_\t_\t_\t_"
                for at, (word, tag) in enumerate(tagged, 1)
            ]
            lines.append("")

        (files / f"{name}.conllu").write_text("\n".join(lines) + "\n")

    write_recipe_of(folder, "{name: conllu, task: toy, column: upos}", max_length=16)
    task = task_files.run(folder, write_vocabulary(folder / "words"))
    model = {"model__dropout": {}, "model__init": {"std": 0.3}}
    write_run_on(folder / "run", task / "train/manifest.json", [1], 1, **model)
    return folder / "run", task


def test_layers_with_attention_know_the_neighbors(run_and_task, capsys):
    run, task = run_and_task

    assert evaluate([str(run), "probe=layers", f"task={task}", "--json"]) == 0

    scores = json.loads(capsys.readouterr().out)
    layers = TrainedModel.open(run).model.config.layers

    assert len(scores["layers"]) == layers + 1
    assert (scores["train_words"], scores["words"], scores["ambiguous_words"]) == (
        160 * 5,
        60 * 5,
        60,
    )

    usual = scores["baselines"]["most_frequent_tag"]
    # words tell everything but the class of `plot`
    assert usual["accuracy"] == pytest.approx(0.8 + 0.2 * usual["ambiguous_accuracy"])
    assert scores["layers"][0]["ambiguous_accuracy"] == pytest.approx(
        usual["ambiguous_accuracy"], abs=0.2
    )
    assert scores["layers"][0]["accuracy"] < 0.95
    assert scores["layers"][layers]["accuracy"] > 0.97


def test_what_cannot_be_probed_is_refused(run_and_task, tmp_path, capsys):
    run, task = run_and_task

    assert evaluate([str(run), "probe=layers"]) == 64
    assert "'task' is missing" in capsys.readouterr().err

    sets = make_sets(tmp_path)

    assert evaluate([str(run), "probe=layers", f"task={sets}"]) == 64
    assert "is a task of classification, expected one of tagged words" in capsys.readouterr().err
    assert evaluate([str(run), "probe=layers", f"task={task}", "split=test"]) == 64
    assert "holds no such split" in capsys.readouterr().err


def test_sentences_of_the_textbook_are_read_by_their_tools():
    folder = HOME / "configs/textbook"
    cloze = (folder / "cloze.txt").read_text().splitlines()

    assert [sentence.count("<mask>") for sentence in cloze] == [1] * 17

    pairs = read_pairs(folder / "pairs.jsonl")

    assert len(pairs) == len({pair.paradigm for pair in pairs}) == 6
    # the sentences of a pair are equally long: no pair is decided by its length
    assert all(len(pair.good.split()) == len(pair.bad.split()) for pair in pairs)
