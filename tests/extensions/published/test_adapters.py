"""Adapters of runs as peft loads them, and merges them into models that we read."""

import json
import re
import textwrap

import pytest
import torch

from clozeline.extensions.published.commands.export_adapter import main as export_adapter
from clozeline.extensions.published.commands.import_model import main as import_model
from clozeline.model.checkpoints.reading import read_checkpoint
from clozeline.pipeline.shards import open_shards
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.configuration.model_source import with_source
from tests.distributed import RankPool
from tests.extensions.published.peers import saved
from tests.extensions.tasks.task_runs import start
from tests.model.adapters.adapted_models import peft
from tests.pipeline.task_files import SPECIALS, WORDS, make_sets
from tests.refusals import refused
from tests.tools.small_run import compute_row_scores
from tests.train.masked_set import write_config
from tests.train.written_runs import BERT

# peft
pytestmark = pytest.mark.filterwarnings(
    "ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"
)
SIZES = {
    "hidden_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
PADDED = len(SPECIALS) + len(WORDS)


ADAPTERS = {"lora": {"name": "lora", "rank": 2}, "bottleneck": {"name": "bottleneck", "width": 3}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A base of transformers, a run without an adapter, and one for each adapter beside the
    base."""
    folder = tmp_path_factory.mktemp("adapters")
    sets = make_sets(folder / "task", "executor.workers=1")
    saved(
        folder / "base",
        "bert",
        vocab_size=PADDED,
        max_position_embeddings=64,
        hidden_act="gelu",
        type_vocab_size=2,
        layer_norm_eps=1e-12,
        pad_token_id=0,
        **SIZES,
    )

    (folder / "base/vocab.txt").write_bytes((folder / "task/words/vocab.txt").read_bytes())
    shared = {
        **BERT,
        "model__heads": {"classification": {"hidden": "tanh"}},
        "model__position": {"maximum": 64},
        "model__dim": 20,
        "model__attention_heads": 2,
        "model__ffn_dim": 32,
        "model__layers": 2,
        "optimizer__learning_rate": 0.05,
        "steps": 3,
        "evaluate__max_rows": 0,
    }

    pool = RankPool(1)

    for name in ("plain", *ADAPTERS):
        beside = {} if name == "plain" else {"model__adapter": ADAPTERS[name]}
        more = {"model__init_from": f"{folder}/base", **beside}
        config = write_config(
            folder / f"{name}.yaml", sets / "train", folder / name, **shared, **more
        )
        assert pool.run(start, config) == [0]

    pool.close()
    return folder


def own_scores(run_folder, shards):
    """The ids of the held-out rows, and the scores that the run gives to each."""
    trained = TrainedModel.open(run_folder)
    ids = [row["input_ids"].tolist() for row in open_shards(shards)]
    return ids, torch.stack([compute_row_scores(trained, row, "classification") for row in ids])


@pytest.mark.slow
def test_scores_are_those_of_the_run_as_the_card_says(folder, capsys):
    """The lines of README.md, with the folders in their places, and what they load."""
    assert export_adapter([f"{folder}/lora", f"{folder}/peft"]) == 0

    said = capsys.readouterr().out

    assert f"base model: {folder}/base, loaded by AutoModelForSequenceClassification" in said

    code = re.findall(r"```python\n(.*?)```", (folder / "peft/README.md").read_text(), re.DOTALL)[0]
    code = code.replace("path/to/the/base", f"{folder}/base").replace(
        "path/to/this/folder", f"{folder}/peft"
    )
    peft()
    names = {}
    exec(code, names)
    model = names["model"]
    missing = model.load_adapter(folder / "peft", adapter_name="default").missing_keys

    assert not [name for name in missing if "lora_" in name or "modules_to_save" in name]
    assert model.config.id2label == {0: "0", 1: "1"}

    ids, scores = own_scores(folder / "lora", folder / "task/out/tasks/sst2/dev")

    with torch.no_grad():
        found = torch.stack([model.eval()(torch.tensor([row])).logits[0] for row in ids])
        with model.disable_adapter():
            alone = torch.stack([model(torch.tensor([row])).logits[0] for row in ids])

    assert (found - scores).abs().max() <= 1e-5
    assert (alone - scores).abs().max() > 1e-2


def test_the_files_are_the_same_again_and_lists_are_sorted(folder):
    for name in ("once", "twice"):
        assert (
            export_adapter([f"{folder}/lora", str(folder / name / "own"), "--base", "some/base"])
            == 0
        )

    for path in (folder / "once/own").iterdir():
        assert path.read_bytes() == (folder / "twice/own" / path.name).read_bytes(), path.name
    config = json.loads((folder / "once/own/adapter_config.json").read_text())

    assert config["base_model_name_or_path"] == "some/base"
    assert config["target_modules"] == sorted(config["target_modules"])
    assert config["modules_to_save"] == ["bert.pooler.dense", "classifier"]


def test_refusals_say_why_before_anything_is_written(folder, capsys):
    new = folder / "refused"

    assert export_adapter([f"{folder}/plain", str(new)]) == 64
    assert "export the model with clozeline export-model" in capsys.readouterr().err
    assert export_adapter([f"{folder}/bottleneck", str(new)]) == 64
    assert "adapter bottleneck: peft cannot store it" in capsys.readouterr().err
    assert export_adapter([f"{folder}/lora", f"{folder}/base"]) == 64
    assert "expected a new or empty folder" in capsys.readouterr().err
    assert not new.exists()


def test_the_lines_of_the_refusal_merge_an_adapter(folder, capsys):
    saved = folder / "saved"
    assert export_adapter([f"{folder}/lora", str(saved), "--base", f"{folder}/base"]) == 0
    with refused(r"adapter_config.json: LORA"):
        with_source({"init_from": str(saved)})
    capsys.readouterr()
    assert import_model([str(saved), f"{folder}/none"]) == 64

    peft()
    exec(textwrap.dedent(capsys.readouterr().err.partition("\n")[2]))
    ids, scores = own_scores(folder / "lora", folder / "task/out/tasks/sst2/dev")
    merged = TrainedModel.open(folder / "saved-merged")
    found = compute_row_scores(merged, ids[0], "classification")
    assert (found - scores[0]).abs().max() <= 1e-5


@pytest.mark.parametrize(
    ("keys", "way_out"),
    [
        ({"num_virtual_tokens": 3, "peft_type": "PREFIX_TUNING"}, "train model.adapter"),
        ({"auto_mapping": {"base_model_class": "BertModel"}}, "transformers.BertModel"),
        ({"task_type": "CAUSAL_LM", "base_model_name_or_path": "gpt2"}, r"CausalLM.*\('gpt2'\)"),
    ],
)
def test_an_adapter_is_no_model(tmp_path, keys, way_out):
    (tmp_path / "adapter_config.json").write_text(json.dumps(keys))
    (tmp_path / "config.json").write_text("{}")
    with refused(f"(?s)adapter_config.json: .*{way_out}"):
        read_checkpoint(tmp_path)
