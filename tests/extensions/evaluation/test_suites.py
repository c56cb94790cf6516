"""Minimal pairs, last words, facts and layers, against the model's own scores of one text at a
time."""

import json

import numpy as np
import pytest

from clozeline import HOME
from clozeline.errors import IntegrityError
from clozeline.extensions.evaluation import masked_facts
from clozeline.extensions.evaluation.commands.evaluate import main as evaluate
from clozeline.extensions.evaluation.last_word_prediction import last_word_lines, read_passages
from clozeline.extensions.evaluation.masked_facts import Fact, _mean_over_relations, read_facts
from clozeline.extensions.evaluation.minimal_pairs import Pair, pair_scores, read_pairs
from clozeline.extensions.evaluation.perplexity import WordNgrams
from clozeline.tools.runs.inference.text_likelihoods import TextScore, TextScorer
from clozeline.train.checkpoint.trained_model import TrainedModel
from tests.pipeline import task_files
from tests.pipeline.task_files import make_sets, write_recipe_of, write_vocabulary
from tests.refusals import refused
from tests.tools.small_run import compute_row_scores
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


PASSAGES = ["the page of the book", "a page of another page", "one book", "unread pages of it, the"]


def test_a_word_is_right_with_all_of_its_tokens(decoder, tmp_path, capsys):
    (run, trained), file = decoder, tmp_path / "passages.jsonl"
    end = trained.tokenizer.vocabulary.specials["eos"]
    row = [end, *trained.tokenizer.encode(["the page of"])[0].ids.tolist()]
    for _ in range(3):  # a passage that ends as the model would write
        row.append(int(compute_row_scores(trained, row, "lm")[-1].argmax()))
    own = trained.tokenizer.decode(row[1:])
    passages = [*PASSAGES, own]
    file.write_text("".join(f"{json.dumps({'text': text})}\n" for text in [*passages, "alone"]))
    right = 0
    total = 0.0

    for text in passages:
        before = len(text.strip().rsplit(maxsplit=1)[0])
        encoding = trained.tokenizer.encode([text.strip()])[0]
        ids = [end, *encoding.ids.tolist()]
        places = [
            place + 1 for place, start in enumerate(encoding.starts.tolist()) if start >= before
        ]
        scores = compute_row_scores(trained, ids, "lm").log_softmax(-1)
        right += all(int(scores[place - 1].argmax()) == ids[place] for place in places)
        total += sum(float(scores[place - 1, ids[place]]) for place in places)

    capsys.readouterr()

    assert evaluate([str(run), "suite=lambada", f"input={file}", "normalize=none", "--json"]) == 0

    found = json.loads(capsys.readouterr().out)

    assert (found["n"], found["skipped"], found["accuracy"]) == (5, 1, right / 5)
    assert found["nats"] == pytest.approx(-total / 5, rel=1e-4)


def test_passages_of_lines(tmp_path):
    """A line of plain text is a passage, as published; one word alone is no test."""
    path = tmp_path / "test.txt"
    path.write_text("one two\n\nthree\n four five \n")

    assert read_passages(path) == ["one two", "three", "four five"]

    path.write_text("one\n")
    with refused("expected passages of two words or more"):
        read_passages(path)


WORDS = ["of", "the", "page", "book", "to", "in", "and", "is", "that", "a", "not"]


def line(text, word, relation=None):
    named = {} if relation is None else {"predicate_id": relation}
    return json.dumps({"masked_sentence": text, "obj_label": word, **named}) + "\n"


def rank(trained, before, after, word, words, previous=0):
    """Candidates that are at least as probable as the word."""
    special = trained.tokenizer.vocabulary.specials
    left, right = (one.ids.tolist() for one in trained.tokenizer.encode([before, after]))
    ids = [special["cls"], *left, special["mask"], *right, special["sep"]]
    scores = compute_row_scores(trained, ids, "masked_lm")[1 + len(left) - previous]
    tokens = [trained.tokenizer.encode([f"x {one}"])[0].ids.tolist()[-1] for one in words]
    own = scores[trained.tokenizer.encode([f"x {word}"])[0].ids.tolist()[-1]]
    return sum(bool(scores[token] >= own) for token in tokens)


def test_shares_are_means_over_relations(encoder, tmp_path, capsys):
    """A word of several tokens there is skipped; words that compete may come from a file."""
    (run, trained), folder = encoder, tmp_path / "facts"
    folder.mkdir()
    words = [word for word in WORDS if len(trained.tokenizer.encode([f"a {word}"])[0].ids) == 2]

    assert len(words) > 4

    facts = [
        ("it", f"was {number} {words[number % 3]}", words[number % 4], f"R{number // 9}")
        for number in range(13)
    ]
    text = "".join(
        line(f"{before} [MASK] {after}", word, name) for before, after, word, name in facts
    )
    (folder / "facts.jsonl").write_text(
        text
        + line("it [MASK].", "qzxkvqzxkv")
        + line("[MASK] it", words[0], "start")
        + line('it "[MASK]"', words[0], "quote")
    )
    (tmp_path / "words.txt").write_text("\n".join(words))

    for given, compete in ((["candidates=" + f"{tmp_path}/words.txt"], words), ([], words[:4])):
        capsys.readouterr()

        assert evaluate([str(run), "suite=lama", f"input={folder}", "--json", *given]) == 0

        found = json.loads(capsys.readouterr().out)
        ranks = [
            rank(trained, before, f" {after}", word, compete) for before, after, word, _ in facts
        ]
        first = [at == 1 for at in ranks]

        assert found["p_at_1"] == pytest.approx((sum(first[:9]) / 9 + sum(first[9:]) / 4) / 2)
        assert "p_at_10" not in found  # of so few candidates, nearly all are among the first ten
        assert (found["n"], found["skipped"], found["candidates"]) == (13, 3, len(compete))
        assert found["majority"] == pytest.approx((3 / 9 + 1 / 4) / 2)
        assert [one["n"] for one in found["relations"].values()] == [9, 4]

    assert evaluate([str(run), "suite=lama", f"input={folder}"]) == 0
    assert "a share of 13 facts decides nothing" in capsys.readouterr().out


def test_a_model_that_predicts_the_next_position_answers_before_the_mask(
    encoder, tmp_path, monkeypatch
):
    _, trained = encoder
    monkeypatch.setattr(type(trained), "predicts_next", True)
    monkeypatch.setattr(masked_facts, "choose_score", lambda *_: None)
    words = [word for word in WORDS if len(trained.tokenizer.encode([f"a {word}"])[0].ids) == 2]
    facts = [(f"it was {number}", words[number % 5], words[number % 4]) for number in range(12)]
    text = "".join(line(f"{before} [MASK] {after}", word, "R") for before, after, word in facts)
    (tmp_path / "facts.jsonl").write_text(text)

    found = masked_facts.score(trained, tmp_path / "facts.jsonl", None)

    before_mask, at_mask = (
        [
            rank(trained, before, f" {after}", word, words[:4], place)
            for before, after, word in facts
        ]
        for place in (1, 0)
    )

    assert before_mask != at_mask
    assert found["p_at_1"] == pytest.approx(sum(at == 1 for at in before_mask) / 12)


@pytest.mark.parametrize(
    ("candidates", "is_reported"), [(11, False), (99, False), (100, True), (5000, True)]
)
def test_the_top_ten_are_reported_where_chance_is_small(candidates, is_reported):
    facts = [Fact("a ", " b", "c", "R"), Fact("a ", " b", "d", "R")]
    scores = _mean_over_relations(facts, np.array([3, 40]), candidates)
    assert scores.get("p_at_10") == (0.5 if is_reported else None)


def test_files(tmp_path):
    path = tmp_path / "P19.jsonl"
    path.write_text(
        '{"masked_sentences": ["Ada was born", "in [MASK] ."], "obj_label": "London"}\n'
    )

    assert read_facts(path) == [("Ada was born in ", " .", "London", "P19")]

    for text in (
        '{"masked_sentence": "a [MASK] [MASK]", "obj_label": "b"}\n',
        '{"masked_sentence": "a [MASK]"}\n',
    ):
        path.write_text(text)
        with pytest.raises(
            IntegrityError, match=r"P19\.jsonl, line 1: expected obj_label, and a masked_sentence"
        ):
            read_facts(path)

    path.write_text("\n")
    with refused(r"P19\.jsonl: expected rows of .*blank line"):
        read_facts(path)


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
    assert len(read_facts(folder / "cloze.jsonl")) == 17

    pairs = read_pairs(folder / "pairs.jsonl")

    assert len(pairs) == len({pair.paradigm for pair in pairs}) == 6
    # the sentences of a pair are equally long: no pair is decided by its length
    assert all(len(pair.good.split()) == len(pair.bad.split()) for pair in pairs)
    assert len(read_passages(folder / "prompts.jsonl")) == 5


def test_a_perplexity_is_shown_where_it_can_be_read():
    scores = {"suite": "lambada", "n": 200, "truncated": 0, "skipped": 0, "step": 1}
    scores |= {"accuracy": 0.5, "baselines": {"majority": 0.2}}

    for nats, shown in ((2.0, "per word, perplexity 7.39"), (24.9, "24.90 nats per word")):
        assert [*last_word_lines({**scores, "nats": nats})][1].endswith(shown)
