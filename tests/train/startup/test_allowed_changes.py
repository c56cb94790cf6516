"""A refused change of keys offers only what then works, and what the help names works."""

import re
import shutil

import pytest

from clozeline.train.checkpoint.stored_checkpoint import StoredCheckpoint
from tests.matrices import mark_slow_but
from tests.refusals import refused
from tests.train.masked_set import write_config
from tests.train.runs import complete, start, steps
from tests.train.synthetic import tiny

CHANGES = {
    "seed": "seed=1",
    "data.seed": "data.seed=1",
    "data.lanes": "data.lanes=2",
    "data.global_batch": "data.global_batch=16",
    "data.batch_tokens": "data.batch_tokens=200",
    "optimizer.learning_rate": "optimizer.learning_rate=0.01",
    "decays": "optimizer.decays=[norms]",
    "optimizer": "optimizer={name: adafactor, learning_rate: 0.01}",
    "optimizer_and_schedule": "optimizer={name: muon, learning_rate: 0.01}; schedule=cosine",
    "schedule": "schedule=cosine",
    "gradient_clipping": "gradient_clipping=0.5",
    "precision": "precision=bf16",
    "freeze": "freeze=embeddings",
    "hooks": "hooks=[average]",
    "prune": "prune={name: magnitude, sparsity: 0.5}",
    "dropout": "model.dropout.hidden=0.2",
    "weight": "model.heads.masked_lm=2.0",
    "dim": "model.dim=24",
    "layers": "model.layers=3",
    "fewer_layers": "model.layers=1",
    "tied": "model.tied=false",
    "eps": "model.eps=1e-3",
    "ffn": "model.ffn_dim=41",
    "heads": "model.heads={masked_lm: {transform: false}}",
    "kv": "model.kv_heads=1",
    "attention_heads": "model.attention_heads=4",
    "activation": "model.activation=relu",
    "maximum": "model.position.maximum=17",
    "norm": "model.norm=rms",
}
OTHER_WEIGHTS = {
    *("dim", "layers", "fewer_layers", "tied", "ffn", "heads", "kv", "maximum", "norm"),
}


@pytest.fixture(scope="module")
def trained(one_rank, tmp_path_factory, shards):
    """A run of two steps."""
    folder = tmp_path_factory.mktemp("trained")
    config = write_config(
        folder / "train.yaml", shards, folder / "run", steps=2, evaluate__max_rows=0
    )

    complete(one_rank, config)

    return folder


USUAL = (
    "data.global_batch",
    "optimizer_and_schedule",
    "precision",
    "freeze",
    "hooks",
    "dropout",
    "dim",
    "heads",
)


@pytest.mark.parametrize("name", mark_slow_but(USUAL, CHANGES))
def test_what_is_offered_works(one_rank, trained, tmp_path, name):
    shutil.copytree(trained / "run", tmp_path / "run")
    words = [f"output={tmp_path / 'run'}", "steps=4", *CHANGES[name].split("; ")]
    ((code, message),) = one_rank.run(start, trained / "train.yaml", words)

    assert code == 64

    offered = re.search(r"checkpoint\.allow_changed=\[.*\]", message)

    assert bool(offered) == (name not in OTHER_WEIGHTS)

    if offered:
        assert "…" not in offered[0]
        complete(one_rank, trained / "train.yaml", [*words, offered[0]])


def test_rows_after_another_order_are_those_of_that_order(one_rank, trained, tmp_path):
    """After two steps of 8 rows, the rows of steps 3 and 4 are those that a run with the other seed
    reads there."""
    for folder, words in (
        (tmp_path / "straight", []),
        (tmp_path / "changed", ["checkpoint.allow_changed=[data]"]),
    ):
        if words:
            shutil.copytree(trained / "run", folder)
        words = [
            *words,
            f"output={folder}",
            "steps=4",
            "data.seed=5",
            "data.lanes=2",
            "log.every=1",
        ]

        complete(one_rank, trained / "train.yaml", words)

    labels = [
        [one["labels"] for one in steps(tmp_path / name)][-2:] for name in ("straight", "changed")
    ]

    assert labels[0] == labels[1]


def test_parts_of_no_model():
    with refused("init_parts: "):
        tiny(init_parts="body")


def test_a_key_that_is_younger_than_the_checkpoint_has_its_default_there(
    one_rank, trained, tmp_path
):
    run = shutil.copytree(trained / "run", tmp_path / "run")
    checkpoint = StoredCheckpoint.find(run)
    state = checkpoint.index.state
    del state["frozen"]["optimizer.decays"]
    checkpoint.index.write(checkpoint.folder)
    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(re.sub(r"  decays:\n(  - \w+\n)+", "", config))

    ((code, message),) = one_rank.run(
        start, trained / "train.yaml", [f"output={run}", "steps=3", "optimizer.decays=[norms]"]
    )
    assert (code, "optimizer.decays: ['matrices', 'tables', 'head'] in" in message) == (64, True)
    complete(one_rank, trained / "train.yaml", [f"output={run}", "steps=3"])
