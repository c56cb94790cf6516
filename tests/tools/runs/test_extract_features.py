"""Features by the command: a manifest that says where they come from, refusals, and a classifier that learns them."""

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from clozeline.configuration.config import load_config
from clozeline.files import file_hash
from clozeline.tools.runs.evaluate import EvaluateOptions, evaluate_run
from clozeline.tools.runs.extract_features import main
from clozeline.tools.runs.inference.feature_files import open_features
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.open_run import open_run
from clozeline.train.run import run
from tests.pipeline.task_files import sentences
from tests.tools.runs.evaluation.task_runs import tuned_run


@pytest.fixture(scope="module")
def tuned(one_rank, tmp_path_factory):
    return tuned_run(one_rank, tmp_path_factory.mktemp("tuned"))


def lines(path, texts):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return path


def test_the_manifest_says_where_vectors_come_from(tuned, tmp_path, capsys):
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
def test_mistakes(tuned, tmp_path, words, said, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines(tmp_path / "texts.jsonl", ["a good film"])
    assert main([str(tuned), *(word.replace("TEXTS", "texts.jsonl") for word in words)]) == 64
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def start(world, config, words):
    return run(load_config(TrainConfig, config, words), joined=world)


@pytest.mark.slow
@pytest.mark.parametrize("mix", [False, True], ids=["last layer", "mix of all layers"])
def test_a_classifier_learns_from_vectors_what_a_head_learns_beside_a_frozen_body(one_rank, tuned, tmp_path, mix):
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
