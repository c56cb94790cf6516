"""An adapter of peft as a folder that other commands read: merged, exported again, and trained further."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file

from clozeline.configuration.config import load_config
from clozeline.model.checkpoints import read_checkpoint
from clozeline.tools.models import export_adapter, export_model
from clozeline.tools.models.import_adapter import main
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from clozeline.train.run import run
from clozeline.train.startup.open_run import open_run
from tests.distributed import RankPool
from tests.model.adapters.adapted_models import disturbed, peft
from tests.model.checkpoints.published import saved
from tests.pipeline.task_files import SPECIALS, WORDS, make_sets
from tests.train.masked_set import write_config

pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")  # peft
SIZES = {"hidden_size": 20, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base of transformers, what peft saved on it, and its import."""
    folder = tmp_path_factory.mktemp("imported")
    saved(folder / "base", "bert", vocab_size=len(SPECIALS) + len(WORDS), max_position_embeddings=64, pad_token_id=0,
          hidden_act="gelu", type_vocab_size=2, layer_norm_eps=1e-12, **SIZES)  # fmt: skip
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(folder / "base", num_labels=2)
    heads = ["classifier", "bert.pooler.dense"]
    config = peft().LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query", "value"], modules_to_save=heads)
    model = peft().get_peft_model(theirs, config)
    disturbed(torch.nn.ParameterList(p for name, p in model.named_parameters() if "lora_B" in name))
    model.save_pretrained(folder / "peft")
    torch.save(model, folder / "model.pt")
    assert main([str(folder / "peft"), str(folder / "base"), str(folder / "own")]) == 0
    return folder


def test_the_export_is_what_was_imported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export_adapter.main([str(folder / "own"), str(folder / "again")]) == 0
    assert "LORA" in capsys.readouterr().out
    before, after = (load_file(folder / name / "adapter_model.safetensors") for name in ("peft", "again"))
    assert before.keys() == after.keys()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    assert "id2label={0: 'LABEL_0', 1: 'LABEL_1'}" in (folder / "again" / "README.md").read_text()


def test_a_merge_gives_the_scores_of_peft(folder: Path) -> None:
    assert export_model.main([str(folder / "own"), str(folder / "merged")]) == 0
    merged = transformers.AutoModelForSequenceClassification.from_pretrained(folder / "merged")
    theirs = torch.load(folder / "model.pt", weights_only=False).eval()
    ids = torch.tensor([[2, 5, 6, 3]])
    with torch.no_grad():
        assert (merged.eval()(ids).logits - theirs(ids).logits).abs().max() <= 1e-5


def start(world: World, config: Path) -> int:
    return run(load_config(TrainConfig, config), joined=world)


def test_it_is_trained_further_and_resumed(folder: Path) -> None:
    sets, pool = make_sets(folder / "task", "executor.workers=1"), RankPool(1)
    keys: dict[str, Any] = {"model": {"init_from": str(folder / "own")}, "evaluate__max_rows": 0}
    for steps in (1, 2):  # the second start resumes
        config = write_config(folder / f"{steps}.yaml", sets / "train", folder / "run", **keys, steps=steps,
                              optimizer__learning_rate=1e-6, checkpoint__allow_changed=["schedule"])  # fmt: skip
        assert pool.run(start, config) == [0]
    pool.close()
    weights, before = dict(open_run(folder / "run").model.named_parameters()), read_checkpoint(folder / "own")
    for name, tensor in before.tensors.items():
        if name.startswith("heads."):  # another one here: its labels have names
            continue
        moved = (weights[name][: len(tensor)] - tensor).abs().max()
        assert (0 < moved <= 1e-4) if name.startswith("adapters.") else moved == 0, name


def test_refusals_leave_no_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder / "base"), str(folder / "base"), str(folder / "new")]) == 64
    assert "expected a folder that peft saved, with adapter_config.json" in capsys.readouterr().err
    assert not (folder / "new").exists()
    assert main([str(folder / "peft"), str(folder / "base"), str(folder / "own")]) == 64
    assert "expected a new or empty folder" in capsys.readouterr().err
