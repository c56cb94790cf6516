"""Runs and model folders that are made smaller, and what the other tools read of them."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
import transformers

from clozeline.extensions.compression.commands.compress import main
from clozeline.extensions.compression.comparison import random_batch
from clozeline.extensions.compression.token_pruning import TokenPruning
from clozeline.extensions.compression.token_rules import TopTokens
from clozeline.extensions.evaluation.commands.evaluate import main as evaluate
from clozeline.extensions.published.commands.export_model import main as export
from clozeline.extensions.published.commands.import_model import main as import_model
from clozeline.model.checkpoints.reading import read_checkpoint
from clozeline.train.checkpoint.stored_checkpoint import StoredCheckpoint
from clozeline.train.checkpoint.trained_model import TrainedModel
from tests.tools.small_run import example_sets
from tests.train.written_runs import BERT, write_run

FAST = ["length=16", "repeats=1"]


METHODS = {"layers": ["keep=[1]"], "heads": ["sparsity=0.5"], "magnitude": ["sparsity=0.5"]}


@pytest.mark.parametrize("method", METHODS)
def test_a_compressed_run_is_read_like_a_run(tuned, tmp_path, capsys, method):
    output = tmp_path / "small"

    assert (
        main(
            [str(tuned), f"method={method}", *METHODS[method], *FAST, "rows=8", f"output={output}"]
        )
        == 0
    )

    printed = capsys.readouterr().out

    assert "the paper's claim" in printed

    small = TrainedModel.open(output)
    dense = TrainedModel.open(tuned)

    assert small.step == dense.step

    fewer = small.model.num_parameters() < dense.model.num_parameters()

    assert fewer == (method in ("layers", "heads"))
    assert evaluate([str(output), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n"] == 21


def test_a_run_that_drops_tokens_keeps_its_rule(tuned, tmp_path, capsys):
    pruned = tmp_path / "pruned"
    rule = TopTokens((0.6, 0.3))
    shutil.copytree(tuned, pruned)
    found = StoredCheckpoint.find(pruned)
    replace(found.index, state={**found.index.state, "token_rule": {"shares": rule.shares}}).write(
        found.folder
    )
    # the score is that of the model without the dropped tokens
    models = [TrainedModel.open(folder).model for folder in (pruned, tuned)]

    assert evaluate([str(pruned), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n"] == 21

    batch = random_batch(models[1], 9, 10)
    mine = models[0].logits(batch)
    expected = TokenPruning(models[1], rule).logits(batch)

    assert all(torch.equal(mine[head], expected[head]) for head in expected)
    assert any(
        not torch.equal(mine[head], other) for head, other in models[1].logits(batch).items()
    )
    # a model of the same depth keeps the rule; one of fewer layers cannot
    small = [str(pruned), *FAST, "rows=8", f"output={tmp_path}/small"]

    assert main([*small, "method=magnitude", "sparsity=0.5"]) == 0

    kept = TrainedModel.open(tmp_path / "small").model

    assert isinstance(kept, TokenPruning)
    assert kept.rule == rule

    shutil.rmtree(tmp_path / "small")

    assert main([*small, "method=layers", "keep=[1]"]) == 64
    assert "shares: expected a number in (0, 1] per layer (1)" in capsys.readouterr().err
    assert not (tmp_path / "small").exists()


INTEGERS = ("int8", "int8_dynamic", "int4")
LOADS = pytest.mark.filterwarnings("ignore")
"""torchao and transformers warn about names that they are going to change."""


@LOADS
@pytest.mark.parametrize("method", INTEGERS)
def test_integers_are_what_transformers_loads(shard_sets, tmp_path, capsys, method):
    sizes = {"model__dim": 32, "model__attention_heads": 2, "model__ffn_dim": 64}
    write_run(tmp_path / "run", shard_sets, [4], 2, **BERT, **sizes)
    small = tmp_path / "small"

    assert main([f"{tmp_path}/run", f"method={method}", *FAST, f"output={small}"]) == 0

    printed = capsys.readouterr().out

    assert "loaded by AutoModelForMaskedLM" in printed
    assert "saves disk" in printed

    transformers.BertForMaskedLM.from_pretrained(small)
    transformers.AutoTokenizer.from_pretrained(small, local_files_only=True)
    # a folder says how the run's rows start, so that texts are read alike
    texts = tmp_path / "texts.txt"
    texts.write_text("the people of the time")

    likelihoods = []
    for folder in (tmp_path / "run", small):
        assert evaluate([str(folder), f"perplexity={texts}", "--json"]) == 0
        likelihoods.append(json.loads(capsys.readouterr().out.splitlines()[-1])["nats"])

    assert likelihoods[0] != likelihoods[1] == pytest.approx(likelihoods[0], abs=0.1)

    for convert in (
        lambda: main([str(small), "method=layers", "keep=[0]", f"output={tmp_path}/out"]),
        lambda: export([str(small), f"{tmp_path}/out"]),
        lambda: import_model([str(small), f"{tmp_path}/out"]),
    ):
        assert convert() == 64
        assert (
            "cannot be trained or converted; use the model that they were made from"
            in capsys.readouterr().err
        )
        assert not (tmp_path / "out").exists()


@LOADS
def test_integers_of_a_task_know_its_sets(tuned, tmp_path, capsys):
    small = tmp_path / "small"

    assert main([str(tuned), "method=int8", *FAST, f"output={small}"]) == 0

    capsys.readouterr()

    assert evaluate([str(small), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n"] == 21


def test_integers_of_a_head_without_a_class_are_written_in_our_format(shard_sets, tmp_path, capsys):
    """The class with the body of EuroBERT has no head with a transform."""
    keys = {"norm": "rms", "norm_place": "pre", "final_norm": True, "activation": "silu"}
    keys |= {"gated": True, "position": {"kind": "rope", "maximum": 64}}
    changes = {f"model__{key}": value for key, value in keys.items()}
    write_run(tmp_path / "run", shard_sets, [4], 2, **changes)

    assert main([f"{tmp_path}/run", "method=int8", *FAST, f"output={tmp_path}/small"]) == 0
    assert "in our format, which transformers does not load: " in capsys.readouterr().out


def test_a_folder_becomes_a_folder(bert, tmp_path, shard_sets, capsys):
    """An export of ours, and its import, lose layers; a folder without its tokenizer is refused."""
    assert export([str(bert), f"{tmp_path}/theirs"]) == 0
    assert import_model([f"{tmp_path}/theirs", f"{tmp_path}/ours"]) == 0

    expected = TrainedModel.open(bert).model.family.stack.layers[1].attention.body.out.weight

    for source in ("theirs", "ours"):
        output = tmp_path / f"{source}-small"

        assert (
            main([str(tmp_path / source), "method=layers", "keep=[1]", *FAST, f"output={output}"])
            == 0
        )

        small = read_checkpoint(output)

        assert (small.config.layers, small.model_type) == (1, "bert")
        assert torch.equal(
            small.tensors["family.stack.layers.0.attention.body.out.weight"], expected
        )

    # rows for calibration are of a set with the same tokenizer, or none at all
    manifest = example_sets(shard_sets)["masked_lm"][0]
    words = [f"{tmp_path}/ours", "method=rows", "keep=5", "rows=4", *FAST]

    for more, said in (([], "by weights"), ([f"data={manifest}"], "over 4 rows")):
        capsys.readouterr()
        assert main([*words, *more, f"output={tmp_path / said}"]) == 0
        assert said in capsys.readouterr().out


REFUSED = {
    "layers that are not there": (["method=layers", "keep=[0,7]"], "layers 0 to 1, got 7"),
    "no such method": (["method=heds", "keep=1"], "did you mean 'heads'"),
    "nothing to compare": (["--compare"], "expected the dense model and others"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_mistakes(bert, tmp_path, capsys, case):
    words, message = REFUSED[case]

    assert (
        main([str(bert), *words, *([] if "--compare" in words else [f"output={tmp_path}/out"])])
        == 64
    )
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
