"""What a start says of the export of a run is what `export-model` writes, and a class of
transformers reads it."""

import json

import pytest
import torch
import transformers
import yaml

from clozeline.configuration.config import load_config
from clozeline.extensions.published.commands.export_model import main as export_model
from clozeline.extensions.published.conversion.export import split_models
from clozeline.extensions.published.export_plan import exported_form, plan_of_new_model
from clozeline.model.build import Model
from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.startup.announcements import new_model
from clozeline.train.startup.checks import check_start
from tests.recipes import RECIPES
from tests.test_tiny_recipes import OWN, SETS, write_texts
from tests.train.runs import start

CHARACTERS = 300_000
FEW = [
    *("steps=2", "schedule.warmup=1", "precision=fp32", "evaluate={every: 2, max_rows: 16}"),
    *(
        "checkpoint={every: 2, keep_best: false}",
        "data.global_batch=16",
        "data.micro_batch=16",
        "data.lanes=16",
    ),
]

RECURRENT = ("elmo", "ulmfit")


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets")
    write_texts(folder / "texts.jsonl", CHARACTERS)
    recipe = RECIPES / "demo/pipeline.yaml"
    entries = [*yaml.safe_load(recipe.read_text())["corrupt"], *map(yaml.safe_load, OWN.values())]
    words = ["clean.filters=[]", "heldout.fraction=0.2", f"corrupt={json.dumps(entries)}"]
    source = f"input={folder}/texts.jsonl"
    output = f"output={folder}/out"

    assert run_pipeline(["--config", str(recipe), source, output, *words]) == 0

    return folder / "out/corrupt"


def apart(ours: Model, folder, architecture):
    """The largest difference of the scores of a row, by the run's weights and by the class that
    reads the export."""
    theirs = getattr(transformers, architecture).from_pretrained(folder, dtype=torch.float32).eval()
    ids = torch.tensor([[7, 9, 30, 11, 8, 40]])
    places = torch.arange(6)[None]
    batch = {"input_ids": ids, "position_ids": places, "lengths": torch.tensor([6])}
    more = {}
    if theirs.config.is_encoder_decoder:
        batch |= {"decoder_input_ids": ids, "decoder_position_ids": places}
        more = {"decoder_input_ids": ids}

    if ours.config.languages:
        batch |= {"languages": torch.zeros_like(ids)}
    with torch.no_grad():
        found = next(iter(ours.logits(batch).values()))
        expected = next(
            value for key, value in theirs(input_ids=ids, **more).items() if key.endswith("logits")
        )

    return (found - expected.view_as(found)).abs().max().item()


@pytest.mark.slow
@pytest.mark.parametrize("variant", [None, "tiny"])
@pytest.mark.parametrize("recipe", SETS)
def test_what_a_start_says_is_written_and_read(recipe, variant, shards, tmp_path, one_rank):
    run = tmp_path / "run"
    config = RECIPES / recipe / "train.yaml"
    manifest = shards / SETS[recipe] / "train/manifest.json"
    words = [
        f"data.shards={manifest}",
        f"output={run}",
        *FEW,
        *([f"variant={variant}"] if variant else []),
    ]

    words += ["distil=null"] if recipe in ("distilbert", "minilm", "tinybert") else []

    if variant is None:  # of the full size, two narrow layers
        model = load_config(TrainConfig, config, words).model
        words += [f"model.layers={min(2, model.layers)}"]
        words += [] if recipe in RECURRENT else ["model.ffn_dim=64"]

    words += ["model.heads={masked_lm: 1.0}"] if recipe == "mobilebert" else []
    checked = check_start(load_config(TrainConfig, config, words), 1)
    plans = plan_of_new_model(new_model(checked.config, checked.datasets)).models

    assert one_rank.run(start, config, words) == [(0, "")]

    code = export_model([str(run), f"{tmp_path}/out"])

    assert (code == 0) == all(plan.architecture for plan in plans)

    if code:
        assert all("model." in plan.refusal for plan in plans if not plan.architecture)
        return

    parts = split_models(exported_form(TrainedModel.open(run)))

    for plan in plans:
        folder = tmp_path / "out" / plan.part
        assert json.loads((folder / "config.json").read_text())["architectures"] == [
            plan.architecture
        ]
        assert apart(build_checkpoint(parts[plan.part]), folder, plan.architecture) < 1e-3
