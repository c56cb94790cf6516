"""Features by the command: a manifest that says where they come from, refusals, and a classifier that learns them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from sklearn.linear_model import LogisticRegression

from clozeline.configuration.config import load_config
from clozeline.files import file_hash
from clozeline.tools.models.export_model import main as export
from clozeline.tools.runs.evaluate import EvaluateOptions, evaluate_run
from clozeline.tools.runs.extract_features import main
from clozeline.tools.runs.inference.feature_files import open_features
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from clozeline.train.run import run
from clozeline.train.startup.open_run import open_run
from tests.distributed import RankPool
from tests.pipeline.task_files import sentences
from tests.tools.models.test_export_model import BERT
from tests.tools.runs.evaluation.task_runs import tuned_run
from tests.train.written_runs import write_run


@pytest.fixture(scope="module")
def tuned(one_rank: RankPool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tuned_run(one_rank, tmp_path_factory.mktemp("tuned"))


def lines(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return path


def test_the_manifest_says_where_vectors_come_from(
    tuned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = lines(tmp_path / "texts.jsonl", ["a good film", "a bad plot with no heart"])
    words = [str(tuned), f"input={texts}", f"output={tmp_path / 'out'}", "layer=last", "pool=token", "max_length=7"]
    assert main(words) == 0
    said = "8 vectors of 20 numbers from 2 texts, layer last, pool token; 1 cut at 7 tokens, 0 without a token"
    assert said in capsys.readouterr().out
    found = open_features(tmp_path / "out")
    facts = found.facts
    assert (facts["layer"], facts["pool"], facts["step"], facts["rows"]) == ("last", "token", 6, 3 + 5)
    assert facts["truncated"] == 1
    assert facts["tokenizer"] == open_run(tuned).tokenizer.vocabulary.fingerprint
    assert facts["checkpoint"] == file_hash(tuned / "checkpoints" / "step-00000006" / "checkpoint.json")
    assert facts["input"] == {"texts.jsonl": file_hash(texts)}
    assert found.uids == ["texts.jsonl:1"] * 3 + ["texts.jsonl:2"] * 5
    assert main(words) == 64
    assert "holds something already" in capsys.readouterr().err


def test_a_text_longer_than_the_training_rows_is_read_as_far_as_by_the_export(shard_sets: Path, tmp_path: Path) -> None:
    """Rows of the training have up to 48 tokens, the model 64 positions; transformers' own classes are the oracle."""
    write_run(tmp_path / "run", shard_sets, [3], 1, **BERT)
    texts = ["the page", "a longer text about the cat and the page of the book " * 2, "many more words " * 60]
    given = lines(tmp_path / "texts.jsonl", texts)
    assert main([str(tmp_path / "run"), f"input={given}", f"output={tmp_path / 'out'}"]) == 0
    assert export([str(tmp_path / "run"), str(tmp_path / "exported"), "--parts", "encoder"]) == 0
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "exported")
    body = transformers.AutoModel.from_pretrained(tmp_path / "exported", add_pooling_layer=False).eval()
    found, lengths = open_features(tmp_path / "out"), []
    for text, vector in zip(texts, found.vectors, strict=True):
        rows = tokenizer(text, return_tensors="pt", truncation=True)
        lengths.append(rows["input_ids"].shape[1])
        with torch.no_grad():
            wanted = body(**rows).last_hidden_state[0].mean(0)
        assert np.abs(vector - wanted.numpy()).max() < 1e-4, text
    assert lengths[0] < 48 < lengths[1] < lengths[2] == 64
    assert found.facts["truncated"] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["output=out"], "'input' is missing"),
        (["input=TEXTS", "output=out", "layer=12"], "layer=12: expected table, last"),
        (["input=TEXTS", "output=out", "pool=middle"], "pool"),
        (["input=TEXTS", "output=out", "layer=scalar_mix"], "no head has learned a mix"),
        (["input=nowhere", "output=out"], "nowhere: no such file: give a file, or a folder"),
        (["input=TEXTS", "output=out", "step=7"], "no checkpoint of step 7"),
    ],
    ids=["input", "layer", "pool", "mix", "file", "step"],
)
def test_mistakes(
    tuned: Path, tmp_path: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    lines(tmp_path / "texts.jsonl", ["a good film"])
    assert main([str(tuned), *(word.replace("TEXTS", "texts.jsonl") for word in words)]) == 64
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def start(world: World, config: Path, words: list[str]) -> int:
    return run(load_config(TrainConfig, config, words), joined=world)


@pytest.mark.slow
@pytest.mark.parametrize("mix", [False, True], ids=["last layer", "mix of all layers"])
def test_a_classifier_learns_from_vectors_what_a_head_learns_beside_a_frozen_body(
    one_rank: RankPool, tuned: Path, tmp_path: Path, mix: bool
) -> None:
    """The logistic regression of scikit-learn on exported vectors, within a hundredth of the head trained inside."""
    words = [f"model.init_from={tuned}", "freeze=body", "steps=400", "schedule.steps=400", "evaluate.max_rows=0"]
    head = {"hidden": None, "pool": "mean", "scalar_mix": mix}
    words += [f"model.heads={json.dumps({'classification': head})}", "optimizer.learning_rate=0.03"]
    frozen = tmp_path / "frozen"
    assert one_rank.run(start, tuned.parent / "train.yaml", [*words, f"output={frozen}", "checkpoint.every=400"]) == [0]
    inside = json.loads(evaluate_run(frozen, EvaluateOptions()))["metrics"]["accuracy"]
    rows, vectors = sentences(81), []
    for name, part in (("train", rows[:60]), ("dev", rows[60:])):
        texts = lines(tmp_path / f"{name}.jsonl", [text for text, _ in part])
        layer = "scalar_mix" if mix else "last"
        assert main([str(frozen), f"input={texts}", f"output={tmp_path / name}", f"layer={layer}", "pool=mean"]) == 0
        vectors.append(open_features(tmp_path / name).vectors)
    train, dev = np.array([label for _, label in rows[:60]]), np.array([label for _, label in rows[60:]])
    outside = LogisticRegression(C=100, max_iter=5000).fit(vectors[0], train).score(vectors[1], dev)
    assert inside > 0.7
    assert outside >= inside - 0.01
