"""Adapters of runs as peft loads them, and those of peft as other commands read them."""

import json
import re
import shutil

import pytest
import torch
import transformers
from safetensors.torch import load_file

from clozeline.extensions.published.commands.export_adapter import main as export_adapter
from clozeline.extensions.published.commands.export_model import main as export_model
from clozeline.extensions.published.commands.import_adapter import main as import_adapter
from clozeline.model.checkpoints.reading import read_checkpoint
from clozeline.pipeline.shards import open_shards
from clozeline.train.checkpoint.trained_model import TrainedModel
from tests.distributed import RankPool
from tests.extensions.published.peers import saved
from tests.extensions.tasks.task_runs import start
from tests.model.adapters.adapted_models import disturbed, peft
from tests.pipeline.task_files import SPECIALS, WORDS, make_sets
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
    assert (
        "holds no adapter: export the model with clozeline export-model" in capsys.readouterr().err
    )
    assert export_adapter([f"{folder}/bottleneck", str(new)]) == 64
    assert "adapter bottleneck: peft cannot store it" in capsys.readouterr().err
    assert export_adapter([f"{folder}/lora", f"{folder}/base"]) == 64
    assert "expected a new or empty folder" in capsys.readouterr().err
    assert not new.exists()


@pytest.fixture(scope="module")
def published(folder, tmp_path_factory):
    """A base of transformers, what peft saved on it, and its import."""
    published = tmp_path_factory.mktemp("imported")
    shutil.copytree(folder / "base", published / "base")
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(
        published / "base", num_labels=2
    )
    heads = ["classifier", "bert.pooler.dense"]
    config = peft().LoraConfig(
        task_type="SEQ_CLS", r=2, target_modules=["query", "value"], modules_to_save=heads
    )
    model = peft().get_peft_model(theirs, config)
    disturbed(torch.nn.ParameterList(p for name, p in model.named_parameters() if "lora_B" in name))
    model.save_pretrained(published / "peft")
    torch.save(model, published / "model.pt")

    assert import_adapter([str(published / name) for name in ("peft", "base", "own")]) == 0

    return published


def test_the_export_is_what_was_imported(published, capsys):
    assert (published / "own/tokenizer/vocabulary.json").is_file()
    assert export_adapter([f"{published}/own", f"{published}/again", "base=org/base"]) == 0
    assert "LORA" in capsys.readouterr().out

    before, after = (
        load_file(published / name / "adapter_model.safetensors") for name in ("peft", "again")
    )

    assert before.keys() == after.keys()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())

    card = (published / "again/README.md").read_text()

    assert "only with one model, org/base." in " ".join(card.split())
    assert "id2label={0: 'LABEL_0', 1: 'LABEL_1'}" in card


def test_a_merge_gives_the_scores_of_peft(published):
    assert export_model([f"{published}/own", f"{published}/merged"]) == 0

    merged = transformers.AutoModelForSequenceClassification.from_pretrained(published / "merged")
    theirs = torch.load(published / "model.pt", weights_only=False).eval()
    ids = torch.tensor([[2, 5, 6, 3]])
    with torch.no_grad():
        assert (merged.eval()(ids).logits - theirs(ids).logits).abs().max() <= 1e-5


def test_it_is_trained_further_and_resumed(folder, published):
    sets = folder / "task/out/tasks/sst2"
    pool = RankPool(1)
    keys = {"model": {"init_from": f"{published}/own"}, "evaluate__max_rows": 0}

    for steps in (1, 2):  # the second start resumes
        config = write_config(
            published / f"{steps}.yaml",
            sets / "train",
            published / "run",
            **keys,
            steps=steps,
            optimizer__learning_rate=1e-6,
            checkpoint__allow_changed=["schedule"],
        )

        assert pool.run(start, config) == [0]

    pool.close()
    weights = dict(TrainedModel.open(published / "run").model.named_parameters())
    before = read_checkpoint(published / "own")
    for name, tensor in before.tensors.items():
        if name.startswith("heads."):  # another one here: its labels have names
            continue
        moved = (weights[name][: len(tensor)] - tensor).abs().max()
        assert (0 < moved <= 1e-4) if name.startswith("adapters.") else moved == 0, name
