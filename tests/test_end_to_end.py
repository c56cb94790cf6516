"""The whole chain in miniature: a crawled site, its shards, two ranks that train, stop and
continue."""

import json

import pytest

from clozeline.tools.runs.inference.masked_text import encode_masked_text, guesses
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.logs.json_lines import step_records
from tests.distributed import run_ranks
from tests.train.faulty import train_normally

STEPS = 20
SMALL = (
    *("model.dim=32", "model.layers=1", "model.attention_heads=2", "model.ffn_dim=64"),
    *("data.global_batch=16", "data.micro_batch=8", "schedule.warmup=2", f"schedule.steps={STEPS}"),
    *("checkpoint.every=null", "evaluate.every=null", "log.tensorboard=false", "zero.stage=2"),
)


def train(chain, output, steps):
    """Run the demo's training, made small, on two ranks; the objects of metrics.jsonl."""
    shards = chain.output / "corrupt" / "masked_lm" / "train" / "manifest.json"
    overrides = [f"data.shards={shards}", f"output={output}", f"steps={steps}", *SMALL]
    words = ["--config", "recipe:demo", *overrides]
    finished = run_ranks(2, train_normally, *words, folder=output.parent)

    assert finished.codes == [0, 0], finished.errors

    return [
        json.loads(line)
        for line in (output / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    ]


@pytest.fixture(scope="module")
def straight(chain, tmp_path_factory):
    output = tmp_path_factory.mktemp("straight") / "run"
    return output, train(chain, output, STEPS)


def test_it_learns(straight):
    output, records = straight
    losses = [record["loss"] for record in step_records(records)]

    assert len(losses) == STEPS
    assert losses[-1] < losses[0]

    heldout = records[-1]["heldout"]["heldout"]

    assert 0 < heldout["loss"] < records[0]["loss"]
    assert heldout["labels"] > 0

    for name in ("config.yaml", "events.jsonl", "status.json", "report.html", "checkpoints/latest"):
        assert (output / name).is_file(), name


def test_the_model_guesses_a_mask(straight):
    trained = TrainedModel.open(straight[0])
    ids, (position,) = encode_masked_text(trained, "They were all in the <mask> that day.")
    found = [guess.probability for guess in guesses(trained, ids, position, 5)]

    assert len(found) == 5
    assert 1 > found[0] >= found[-1] > 0
