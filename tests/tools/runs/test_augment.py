"""Copies of rows with other words: candidates by a slow version of TinyBERT's algorithm, draws by row, and refusals."""

from __future__ import annotations

import doctest
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from clozeline.model.build import build_model
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import PositionConfig
from clozeline.pipeline.tasks.readers import LabeledText
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.tools.runs import augment
from clozeline.tools.runs.augment import AugmentOptions, Candidates, augment_row
from clozeline.tools.runs.inference.trained_model import TrainedModel, load_trained
from tests.pipeline.task_files import SPECIALS, WORDS, make_sets
from tests.pipeline.tokenize.tokenizers.word_marks import KINDS, ROLES
from tests.tools.runs.inference.test_trained_model import write_run_on

PIECES = (*SPECIALS, *WORDS, "##ting", "##s", "42", ",")
TEXT = "a good plotting,  films not 42 FINE dulls unseen."


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A masked LM with wide random weights, whose vocabulary has words of several pieces."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "pieces").mkdir()
    (folder / "pieces" / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES), encoding="utf-8")
    sets = make_sets(folder, f"tokenizer.path={folder / 'pieces' / 'vocab.txt'}")
    write_run_on(
        folder / "run",
        sets / "train" / "manifest.json",
        [3],
        1,
        model__heads={"masked_lm": 1.0},
        model__init={"std": 0.5},
    )
    return folder / "run"


@pytest.fixture(scope="module")
def trained(run: Path) -> TrainedModel:
    return load_trained(run)


def slow_candidates(trained: TrainedModel, pieces: list[str], first: int, last: int, count: int) -> list[str]:
    """The best whole words at pieces [first, last) of a text: one masked row, or cosines one by one."""
    ids = [PIECES.index(piece) for piece in pieces]
    if last - first == 1:
        row = [2, *ids, 3]
        row[first + 1] = 4
        tensors = {"input_ids": torch.tensor([row]), "position_ids": torch.arange(len(row))[None]}
        with torch.no_grad():
            logits = trained.model.logits({**tensors, "lengths": torch.tensor([len(row)])})["masked_lm"]
        scores = logits[0, first + 1].tolist()
    else:
        table = trained.model.family.tokens.weight.detach().double().numpy()
        mean = np.mean([table[token] for token in ids[first:last]], axis=0)
        scores = [float(vector @ mean / np.linalg.norm(vector) / np.linalg.norm(mean)) for vector in table]
    word = "".join(piece.removeprefix("##") for piece in pieces[first:last])
    order = sorted(range(len(PIECES)), key=lambda token: -scores[token])
    return [PIECES[token] for token in order if PIECES[token].isalpha() and PIECES[token] != word][:count]


def test_candidates_are_those_of_the_paper(trained: TrainedModel) -> None:
    pieces = ["a", "good", "plot", "##ting", ",", "film", "##s", "not", "42", "fine", "dull", "##s", "[UNK]", "."]
    expected = [("a", 0, 1), ("good", 1, 2), ("plotting", 2, 4), ("films", 5, 7), ("not", 7, 8), ("FINE", 9, 10)]
    expected += [("dulls", 10, 12)]
    words = Candidates(trained, 4).find_words(TEXT)
    assert [TEXT[word.start : word.end] for word in words] == [text for text, *_ in expected]
    for word, (_, first, last) in zip(words, expected, strict=True):
        assert word.candidates == slow_candidates(trained, pieces, first, last, 4)
    assert Candidates(trained, 4).find_words("!") == Candidates(trained, 4).find_words(" ") == []
    long = Candidates(trained, 2).find_words("good " * 100)
    assert len(long) == trained.max_length - 2


def test_a_word_of_bytes_ends_at_punctuation(shard_sets: Path) -> None:
    """Pieces after a bracket open no word by themselves."""
    tokenizer = load_tokenizer(shard_sets / "train_tokenizer" / "tokenizer")
    vocabulary = tokenizer.vocabulary
    sizes = {"dim": 8, "layers": 1, "attention_heads": 2, "ffn_dim": 8}
    config = ModelConfig(family="encoder", **sizes, heads={"masked_lm": 1.0}, position=PositionConfig(maximum=64))
    model = build_model(config, vocabulary.size, vocabulary.specials, seed=1).eval()
    text = "The rain (water), 17 cats:dogs the"
    words = Candidates(TrainedModel(model, tokenizer, (), 0), 5).find_words(text)
    assert [text[word.start : word.end] for word in words] == ["The", "rain", "water", "cats", "dogs", "the"]
    assert all(piece.isalpha() and piece == piece.strip() for word in words for piece in word.candidates)


@pytest.mark.parametrize("name", KINDS)
def test_words_and_candidates_are_words_in_every_kind_of_tokenizer(name: str, tmp_path: Path) -> None:
    """Words by the letters of the text; a candidate is one piece where it stands alone."""
    tokenizer = import_tokenizer(KINDS[name][0](tmp_path / "in"), tmp_path / "out", **ROLES)
    vocabulary = tokenizer.vocabulary
    sizes = {"dim": 8, "layers": 1, "attention_heads": 2, "ffn_dim": 8}
    config = ModelConfig(family="encoder", **sizes, heads={"masked_lm": 1.0}, position=PositionConfig(maximum=64))
    model = build_model(config, vocabulary.size, vocabulary.specials, seed=1).eval()
    text = "the old miller watches strange stories through the garden"
    words = Candidates(TrainedModel(model, tokenizer, (), 0), 5).find_words(text)
    assert [text[word.start : word.end] for word in words] == text.split()
    assert all(word.candidates for word in words)
    for candidate in {piece for word in words for piece in word.candidates}:
        (pieces,) = [encoding.ids.tolist() for encoding in tokenizer.encode([f"the {candidate} the"])]
        spelled = [tokenizer.decode_part([piece]).strip() for piece in pieces]
        assert candidate in spelled, (candidate, spelled)


def test_words_are_replaced_with_probability_p_by_equal_draws(trained: TrainedModel) -> None:
    candidates = Candidates(trained, 3)
    options = AugmentOptions(task="sst2", input=Path(), output=Path(), copies=600, p=0.4, seed=5)
    words = candidates.find_words(TEXT)
    rows = augment_row(LabeledText((TEXT, "a film"), 1, None, 7), options, candidates)
    assert all((row.label, row.index) == (1, 7) for row in rows)
    assert len({row.texts for row in rows}) == len(rows)
    split = [row.texts[0].replace(",  ", " ").removesuffix(" unseen.").split(" ") for row in rows]
    kept = [text for text in TEXT.replace(",  ", " ").removesuffix(" unseen.").split(" ") if text != "42"]
    changed = [[own for own in row if own != "42"] for row in split]
    for at, word in enumerate(words):
        new = [row[at] for row in changed if row[at] != kept[at]]
        assert set(new) == set(word.candidates)
        assert 0.3 < len(new) / len(rows) < 0.5
        for candidate in word.candidates:
            assert 0.2 < new.count(candidate) / len(new) < 0.47
    assert not [row for row in split if row[5] != "42"]
    # other rows and other seeds draw anew, the same one does not; more copies leave the first ones
    again = augment_row(LabeledText((TEXT, "a film"), 1, None, 7), options, Candidates(trained, 3))
    assert again == rows
    other = augment_row(LabeledText((TEXT, "a film"), 1, None, 8), options, candidates)
    assert [row.texts for row in other] != [row.texts for row in rows]


def test_a_file_becomes_rows_that_the_reader_reads(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = tmp_path / "train.tsv", tmp_path / "more.tsv"
    source.write_text("sentence\tlabel\na good film\t1\n42\t0\nno plot\t3\ndull heart .\t0\n", encoding="utf-8")
    words = [str(run), "task=sst2", f"input={source}", f"output={output}", "copies=6", "p=0.9", "candidates=5"]
    assert augment.main(words) == 0
    lines = output.read_text(encoding="utf-8").splitlines()
    facts = json.loads((tmp_path / "more.tsv.json").read_text(encoding="utf-8"))
    assert lines[0] == "sentence\tlabel"
    assert {line.split("\t")[1] for line in lines[1:]} == {"0", "1"}
    assert all(line.endswith((" .\t0", "\t1")) for line in lines[1:])
    assert (facts["rows_in"], facts["rejected"], facts["rows_out"]) == (4, {"bad_label": 1}, len(lines) - 1)
    assert facts["equal"] == 3 * 6 - facts["rows_out"]
    assert f"{facts['rows_out']} copies of 4 rows" in capsys.readouterr().out
    before = output.read_bytes()
    assert augment.main(words) == 0
    assert output.read_bytes() == before
    assert augment.main([*words, "seed=1"]) == 0
    assert output.read_bytes() != before
    assert doctest.testmod(augment).failed == 0


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (["task=stsb"], "no layout of classes that can be written"),
        (["task=squad"], "no layout of classes that can be written"),
        (["task=nothing"], "nothing"),
        (["input=absent.tsv"], "absent.tsv: no such file"),
        (["p=0"], "p"),
    ],
)
def test_what_cannot_be_augmented_is_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: list[str], expected: str
) -> None:
    source = tmp_path / "train.tsv"
    source.write_text("sentence\tlabel\n42\t1\n", encoding="utf-8")
    assert augment.main([str(run), "task=sst2", f"input={source}", f"output={tmp_path / 'o'}", *changes]) == 64
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


def test_rows_without_a_word_and_runs_without_a_masked_lm_are_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "train.tsv"
    source.write_text("sentence\tlabel\n42\t1\n", encoding="utf-8")
    words = ["task=sst2", f"input={source}", f"output={tmp_path / 'o'}"]
    assert augment.main([str(run), *words]) == 64
    assert "no word of 1 rows" in capsys.readouterr().err
    heads = {"classification": {"hidden": "tanh", "labels": ["0", "1"]}}
    manifest = run.parent / "out" / "tasks" / "sst2" / "train" / "manifest.json"
    write_run_on(tmp_path / "tuned", manifest, [3], 1, model__heads=heads)
    assert augment.main([str(tmp_path / "tuned"), *words]) == 64
    assert "needs a head masked_lm" in capsys.readouterr().err
