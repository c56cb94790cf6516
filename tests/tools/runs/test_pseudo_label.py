"""Labels of a run for texts without one: those that the model itself gives, as a file that the stage reads again."""

from __future__ import annotations

import doctest
import json
from pathlib import Path

import pytest
import torch

from clozeline.files import file_hash
from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.tools.runs import pseudo_label
from clozeline.tools.runs.evaluation.task_run import open_task_run
from clozeline.tools.runs.inference.unlabeled_rows import task_reader
from clozeline.train.startup.open_run import open_run
from tests.distributed import RankPool
from tests.pipeline.task_files import make_sets, open_split, sentences, texts_of, write_recipe
from tests.tools.runs.evaluation.task_runs import several_run
from tests.train.written_runs import write_run_on


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the small task, with wide random weights: its classes are many and its probabilities differ."""
    folder = tmp_path_factory.mktemp("run")
    sets = make_sets(folder)
    heads = {"classification": {"hidden": "tanh", "labels": ["0", "1"]}}
    manifest = sets / "train" / "manifest.json"
    write_run_on(folder / "run", manifest, [3], 1, model__heads=heads, model__init={"std": 0.5})
    return folder / "run"


def probabilities(run: Path, texts: list[str]) -> list[list[float]]:
    """Each text by itself, without padding."""
    trained, found = open_run(run), []
    special = trained.tokenizer.vocabulary.specials
    for encoding in trained.tokenizer.encode(texts):
        ids = [special["cls"], *encoding.ids.tolist(), special["sep"]]
        row = {"input_ids": torch.tensor([ids]), "position_ids": torch.arange(len(ids))[None]}
        with torch.no_grad():
            scores = trained.model.logits({**row, "lengths": torch.tensor(len(ids))})["classification"]
        found.append(scores[0].softmax(-1).tolist())
    return found


def test_sure_labels_are_those_of_the_model(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The threshold splits the texts; what is written and what is not are all lines."""
    texts = [text for text, _ in sentences(40, first=100)]
    given = probabilities(run, texts)
    threshold = sorted(max(row) for row in given)[20] - 1e-4
    sure = [(text, row.index(max(row))) for text, row in zip(texts, given, strict=True) if max(row) >= threshold]
    source, output = tmp_path / "texts.txt", tmp_path / "pseudo.jsonl"
    source.write_text("\n".join([*texts, "", "a\tb"]) + "\n", encoding="utf-8")
    assert pseudo_label.main([str(run), f"input={source}", f"output={output}", f"threshold={threshold}"]) == 0
    lines = output.read_text(encoding="utf-8").splitlines()
    assert [*map(json.loads, lines)] == [{"sentence": text, "label": str(label)} for text, label in sure]
    assert 0 < sum(label for _, label in sure) < len(sure)
    facts = json.loads((tmp_path / "pseudo.jsonl.json").read_text(encoding="utf-8"))
    assert facts["rows_in"] == 42 == sum(facts["labelled"].values()) + sum(facts["skipped"].values())
    assert facts["skipped"] == {"blank_line": 1, "fields": 1, "below_threshold": 40 - len(sure)}
    assert facts["labelled"] == {str(label): [one for _, one in sure].count(label) for label in (0, 1)}
    assert facts["output"] == {"pseudo.jsonl": file_hash(output)}
    assert f"{len(sure)} rows of 42 labeled" in capsys.readouterr().out


def test_a_class_has_at_most_so_many_of_the_surest(run: Path, tmp_path: Path) -> None:
    texts = [text for text, _ in sentences(40, first=100)]
    source, output = tmp_path / "texts.txt", tmp_path / "pseudo.jsonl"
    source.write_text("\n".join(texts) + "\n", encoding="utf-8")
    words = [str(run), f"input={source}", f"output={output}", "threshold=0", "per_class=3"]
    assert pseudo_label.main(words) == 0
    given = probabilities(run, texts)
    surest: list[int] = []
    for label in (0, 1):
        of_class = [place for place, row in enumerate(given) if row.index(max(row)) == label]
        surest += sorted(of_class, key=lambda place: -max(given[place]))[:3]
    expected = [texts[place] for place in sorted(surest)]
    assert [json.loads(line)["sentence"] for line in output.read_text(encoding="utf-8").splitlines()] == expected
    assert doctest.testmod(pseudo_label).failed == 0


def test_the_stage_reads_them_beside_the_labelled_ones(run: Path, tmp_path: Path) -> None:
    texts = [text for text, _ in sentences(20, first=200)]
    source, output = tmp_path / "texts.txt", tmp_path / "pseudo.jsonl"
    source.write_text("\n".join(texts) + "\n", encoding="utf-8")
    assert pseudo_label.main([str(run), f"input={source}", f"output={output}", "threshold=0"]) == 0
    files = run.parent / "files"
    given = f"[{{path: {files / 'train.tsv'}, source: train}}, {{path: {output}, source: train_pseudo}}]"
    words = [f"input={given}", f"tokenizer.path={run.parent / 'words' / 'vocab.txt'}", f"output={tmp_path / 'out'}"]
    assert run_pipeline(["--config", str(write_recipe(tmp_path)), *words]) == 0
    sets = tmp_path / "out" / "tasks" / "sst2"
    held = texts_of(open_split(sets, "train_pseudo"))
    assert sum(map(len, held.values())) == 20
    for text, row in zip(texts, probabilities(run, texts), strict=True):
        assert set(held[text]) == {row.index(max(row))}


def test_several_classes_are_those_above_one_half(one_rank: RankPool, tmp_path: Path) -> None:
    """The least certain class decides whether a row is kept; the stage reads back what was written."""
    run = several_run(one_rank, tmp_path / "first")
    texts = [text for text, _ in sentences(30, first=100)]
    source, output = tmp_path / "texts.txt", tmp_path / "pseudo.jsonl"
    source.write_text("\n".join(texts) + "\n", encoding="utf-8")
    trained, expected, certain = open_run(run), [], []
    special, names = trained.tokenizer.vocabulary.specials, open_task_run(run, "train").facts.labels
    for encoding in trained.tokenizer.encode(texts):
        ids = [special["cls"], *encoding.ids.tolist(), special["sep"]]
        row = {"input_ids": torch.tensor([ids]), "position_ids": torch.arange(len(ids))[None]}
        with torch.no_grad():
            found = trained.model.logits({**row, "lengths": torch.tensor(len(ids))})["classification"][0].sigmoid()
        expected.append([name for name, chance in zip(names, found.tolist(), strict=True) if chance > 0.5])
        certain.append(min(max(chance, 1 - chance) for chance in found.tolist()))
    threshold = sorted(certain)[12] - 1e-5
    assert pseudo_label.main([str(run), f"input={source}", f"output={output}", f"threshold={threshold}"]) == 0
    written = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    kept = [index for index in range(30) if certain[index] >= threshold]
    assert len({tuple(classes) for classes in expected}) > 1
    assert [list(row.values())[-1] for row in written] == [expected[index] for index in kept]
    facts = json.loads((tmp_path / "pseudo.jsonl.json").read_text(encoding="utf-8"))
    assert facts["rows_out"] == len(kept)
    assert sum(facts["labelled"].values()) == sum(len(expected[index]) for index in kept)
    reader = task_reader(open_task_run(run, "train").train.manifest)
    items = list(reader.read(reader.open(output)))
    assert [[names[n] for n in item.classes] for item in items] == [expected[index] for index in kept]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["threshold=1.5"], "threshold"),
        (["input=nowhere.txt"], "no such file"),
        (["threshold=1"], "lower the threshold"),
    ],
)
def test_mistakes(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    source = tmp_path / "texts.txt"
    source.write_text("a film\n", encoding="utf-8")
    own = [f"input={source}"] if not words[0].startswith("input") else []
    assert pseudo_label.main([str(run), *own, f"output={tmp_path / 'new.tsv'}", *words]) == 64
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new.tsv").exists()
