"""Adapters as peft loads them beside models of transformers: the same scores, nothing missing, the
same bytes."""

import dataclasses
import json
import warnings

import pytest
import torch
from safetensors.torch import save_file

from clozeline.extensions.published.conversion.adapter_export import export_adapter
from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.model.checkpoints.reading import read_checkpoint
from tests.extensions.published import peers as published
from tests.extensions.published.conversion.test_task_heads import saved, task_rows
from tests.model.adapters.adapted_models import disturbed, peft, scores
from tests.refusals import refused

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"
    )  # peft reads it
]
ROUNDING = 1e-5
TASK = {"regression": "classification"}
"""Classes with a head of another name."""


def headed(folder, case, kind):
    """A model of transformers in a folder, and ours with the same weights but for the head, which
    is another."""
    number = {"id2label": {0: "score"}, "label2id": {"score": 0}} if kind == "regression" else {}
    theirs = (
        published.saved(folder, case)
        if kind in ("lm", "masked_lm")
        else saved(folder, case, TASK.get(kind, kind), **number)
    )

    model = build_checkpoint(read_checkpoint(folder))
    if kind == "lm":
        return theirs, model, []
    # no table tied to one
    trained = [name for name, _ in model.named_parameters() if name.startswith("heads.")]
    disturbed(torch.nn.ParameterList(model.get_parameter(name) for name in trained), seed=2)
    return theirs, model, trained


def checkpoint_with(folder, model):
    """The checkpoint of a folder with the weights of a model."""
    weights = {
        name: tensor.detach()
        for name, tensor in model.named_parameters()
        if not name.startswith("adapters.")
    }

    return dataclasses.replace(read_checkpoint(folder), tensors=weights)


def write(folder, export):
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps(export.config))
    save_file(
        {name: tensor.contiguous() for name, tensor in export.tensors.items()},
        folder / "adapter_model.safetensors",
    )
    return folder


def loaded(folder, theirs):
    """The model with the adapter, after a load that names no missing and no unexpected tensor."""
    library = peft()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing.*")
        model = library.PeftModel.from_pretrained(theirs, folder)

    again = model.load_adapter(folder, adapter_name="default")
    missing = [
        name
        for name in again.missing_keys
        if "lora_" in name or "modules_to_save" in name or "prompt" in name
    ]
    # peft loads it apart
    unexpected = [name for name in again.unexpected_keys if name != "prompt_embeddings"]

    assert (missing, unexpected) == ([], [])

    return model.eval()


def their_scores(model, their, valid, shape):
    with torch.no_grad():
        output = model(**their)
    ends = [output[name] for name in ("start_logits", "end_logits") if name in output]
    found = torch.stack(ends, dim=-1) if ends else output.logits
    if found.ndim == 3 and found.shape[1] > shape[1]:
        found = found[:, found.shape[1] - shape[1] :]  # those of a prompt come first
    return found.squeeze(-1) if len(shape) == 1 else found


def compared(folder, case, kind, /, name, change=None, **keys):
    """Differences of our scores with an adapter: from those of peft, and from ours without the
    adapter.

    The first is relative to the largest score above 1: MobileBERT's, which has no norms with
    statistics, are large.
    """
    theirs, model, trained = headed(folder / "base", case, kind)
    ours, their, valid = (
        published.rows(theirs)
        if kind in ("lm", "masked_lm")
        else task_rows(theirs, TASK.get(kind, kind))
    )

    alone = scores(model, ours)
    model.adapters.add("own", {"name": name, **keys})
    model.adapters.use("own")
    disturbed(model.adapters)
    if change is not None:
        change(model.adapters)
    export = export_adapter(checkpoint_with(folder / "base", model), model.adapters["own"], trained)
    found = scores(model, ours)
    expected = their_scores(
        loaded(write(folder / "adapter", export), theirs), their, valid, found.shape
    )
    at = valid if found.ndim == 3 else ...
    wrong = (found - expected)[at].abs().max() / expected[at].abs().max().clamp(min=1.0)
    return wrong, (found - alone)[at].abs().max(), export


LORA = {"rank": 3, "alpha": 5.0, "targets": ["query", "value", "up"]}


CASES = [
    *((case, "classification", "lora", LORA) for case in ("mobilebert", "modernbert")),
    ("bert", "regression", "lora", LORA),
    ("gpt_neox", "lm", "lora", LORA),
    ("gpt2", "lm", "prefix", {"length": 4}),
    ("llama", "lm", "prefix", {"length": 4, "hidden": 7}),
    ("t5", "lm", "prompt", {"length": 4}),
    ("bert", "tagging", "prompt", {"length": 4}),
]


@pytest.mark.parametrize(("case", "kind", "name", "keys"), CASES)
def test_an_adapter_gives_the_same_scores(tmp_path, case, kind, name, keys):
    wrong, moved, _ = compared(tmp_path, case, kind, name, **keys)
    assert wrong <= ROUNDING
    assert moved > 1e-2


@pytest.mark.parametrize("rank_stabilized", [False, True])
def test_the_scale_of_joined_maps_is_that_of_each(tmp_path, rank_stabilized):
    """GPT-2 has queries and values in one map, whose rank is then the sum, and `up` in one of its
    own."""
    keys = {
        "rank": 2,
        "alpha": 3.0,
        "targets": ["query", "value", "up"],
        "rank_stabilized": rank_stabilized,
    }

    wrong, moved, export = compared(tmp_path, "gpt2", "lm", "lora", **keys)

    assert wrong <= ROUNDING
    assert moved > 1e-2

    joined = [name for name in export.config["target_modules"] if name.endswith("c_attn")]

    assert export.config["rank_pattern"] == dict.fromkeys(joined, 4)
    assert export.tensors[f"base_model.model.{joined[0]}.lora_B.weight"].shape[1] == 4


@pytest.mark.parametrize(
    ("case", "kind", "name", "keys", "message"),
    [
        ("bert", "classification", "bottleneck", {"width": 3}, "peft cannot store it"),
        ("bert", "classification", "bitfit", {}, "export_model merges bitfit into"),
        ("bert", "classification", "prefix", {}, "expected a decoder of type gpt2 or llama"),
        (
            "gpt2",
            "tagging",
            "prefix",
            {},
            "expected a head of the task_type CAUSAL_LM or SEQ_CLS, got tagging",
        ),
        ("bert", "classification", "prompt", {}, "heads of rows would also read"),
        ("xlnet", "classification", "lora", {}, "in a model of type xlnet, .* is not a linear map"),
    ],
)
def test_what_peft_would_compute_otherwise_is_refused(tmp_path, case, kind, name, keys, message):
    _, model, trained = headed(tmp_path / "base", case, kind)
    model.adapters.add("own", {"name": name, **keys})
    with refused(message):
        export_adapter(checkpoint_with(tmp_path / "base", model), model.adapters["own"], trained)


def test_other_trained_parameters_are_refused(tmp_path):
    _, model, trained = headed(tmp_path / "base", "bert", "classification")
    model.adapters.add("own", "lora")

    with refused(r"family.tokens.weight were trained with it"):
        export_adapter(
            checkpoint_with(tmp_path / "base", model),
            model.adapters["own"],
            [*trained, "family.tokens.weight"],
        )


def test_a_head_of_tokens_goes_with_its_second_names(tmp_path):
    """The new head of a masked LM: its bias has two names, and its projection is the table."""
    wrong, _, export = compared(tmp_path, "bert", "masked_lm", "lora")
    assert wrong <= ROUNDING
    assert export.config["modules_to_save"] == ["cls"]
    assert "base_model.model.cls.predictions.decoder.weight" in export.tensors
