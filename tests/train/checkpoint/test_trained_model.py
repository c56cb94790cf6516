"""Opening a run or a model folder: the parts of a checkpoint, its adapter's base, and what is
refused."""

import shutil
from types import SimpleNamespace

import pytest
import torch

from clozeline.errors import CheckpointError, ConfigurationError
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tokenize.tokenizers.word import Word
from clozeline.train.checkpoint.stored_checkpoint import StoredCheckpoint, part_name
from clozeline.train.checkpoint.trained_model import TrainedModel, token_bytes
from tests.tools.small_run import example_sets
from tests.train.masked_set import write_config
from tests.train.runs import start
from tests.train.written_runs import write_run


def test_parameters_are_those_of_the_parts(shard_sets, tmp_path):
    with pytest.raises(ConfigurationError, match="not a run or model directory"):
        TrainedModel.open(tmp_path)
    (tmp_path / "seed-0" / "checkpoints").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match=r"contains runs: choose one, such as .*seed-0$"):
        TrainedModel.open(tmp_path)
    project = tmp_path / "mine"  # of `clozeline new`
    model = write_run(project / "run", shard_sets, [12], 3)
    (project / "train.yaml").touch()
    found = TrainedModel.open(project)

    assert (found.step, found.model.training) == (12, False)

    manifest = example_sets(shard_sets)["masked_lm"][0]

    assert (
        found.tokenizer.vocabulary.fingerprint
        == open_shards(manifest).manifest.tokenizer.fingerprint
    )
    assert [one.path for one in found.sets] == [str(manifest)]

    wanted = dict(model.named_parameters())
    for name, parameter in found.model.named_parameters():
        assert torch.equal(parameter, wanted[name]), name


@pytest.mark.parametrize(
    ("specials", "head", "before"),
    [({"bos": 1, "eos": 2}, (1,), (1,)), ({"bos": 2, "eos": 2}, (), (2,)), ({}, (), ())],
)
def test_a_decoder_from_elsewhere_reads_a_start_token_of_its_own_first(specials, head, before):
    config = SimpleNamespace(architecture="decoder", targets={"lm": "lm"})
    tokenizer = SimpleNamespace(vocabulary=SimpleNamespace(specials=specials))
    run = SimpleNamespace(
        checkpoint=SimpleNamespace(config=config), recorded=(), tokenizer=tokenizer
    )
    (facts,) = TrainedModel.objectives.fget(run)

    assert (facts.frame.head, facts.frame.before_text) == (head, before)


def test_any_checkpoint_of_a_run_is_read(shard_sets, tmp_path, capsys):
    """By its step; a damaged one is an error then, and passed over where none was asked for."""
    write_run(tmp_path, shard_sets, [12, 24], 2)

    assert [TrainedModel.open(tmp_path, step).step for step in (None, 12, 24)] == [24, 12, 24]

    with pytest.raises(
        ConfigurationError, match="there is no checkpoint of step 1, only of 12, 24"
    ):
        TrainedModel.open(tmp_path, 1)

    assert capsys.readouterr().err == ""

    part = tmp_path / "checkpoints" / "step-00000024" / part_name(1)
    part.write_bytes(part.read_bytes()[:-1])

    assert TrainedModel.open(tmp_path).step == 12
    assert "note: step-00000024 is not used" in capsys.readouterr().err

    with pytest.raises(CheckpointError, match="truncated or replaced"):
        TrainedModel.open(tmp_path, 24)
    path = tmp_path / "config.yaml"
    path.write_text(path.read_text().replace("ffn_dim: ", "ffn_dim: 1"))
    with pytest.raises(CheckpointError, match="has another model than"):
        TrainedModel.open(tmp_path)


def test_the_base_of_an_adapter_comes_from_where_it_was(tmp_path, one_rank, shards):
    base = tmp_path / "base"
    output = tmp_path / "adapted"
    config = write_config(tmp_path / "train.yaml", shards, base, evaluate__max_rows=0)
    one_rank.run(start, config, ["steps=2"])
    padded = ["model.vocab_multiple=64", "model.adapter=lora", f"model.init_from={base}"]
    one_rank.run(start, config, [f"output={output}", "steps=2", *padded])
    weights = TrainedModel.open(output).checkpoint.tensors
    own = StoredCheckpoint.find(output).read_weights()
    first = TrainedModel.open(base).checkpoint.tensors

    assert own.keys() | first.keys() == weights.keys()

    for name, tensor in first.items():
        assert torch.equal(weights[name][: len(tensor)], tensor), name

    assert len(weights["family.tokens.weight"]) == 64
    assert one_rank.run(start, config, ["steps=3"]) == [(0, "")]

    with pytest.raises(ConfigurationError, match="the run started from weights with digest"):
        TrainedModel.open(output)
    shutil.move(base, tmp_path / "gone")
    with pytest.raises(ConfigurationError, match="has only an adapter, and its base model"):
        TrainedModel.open(output)


def test_each_token_is_spelled(tmp_path):
    tokenizer = Word.train(["the cat, the café"], Word.Options(size=400, min_frequency=1), tmp_path)
    found = token_bytes(tokenizer)

    assert len(found) == tokenizer.vocabulary.size

    words = [found[token] for token in tokenizer.encode(["the cat, café"])[0].ids.tolist()]

    assert words == [b"the", b" cat", b",", " café".encode()]
    assert found[tokenizer.vocabulary.specials["bos"]] == b"<s>"
