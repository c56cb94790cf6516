"""Adapters that peft saved, on our models: the scores of peft, and an export gives the same
tensors."""

import dataclasses
import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from clozeline.errors import ConfigurationError, WeightsError
from clozeline.extensions.published.conversion.adapter_export import export_adapter
from clozeline.extensions.published.conversion.adapter_import import import_adapter
from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.model.checkpoints.reading import read_checkpoint
from tests.extensions.published import peers as published
from tests.extensions.published.conversion.test_adapter_export import ROUNDING, their_scores
from tests.extensions.published.conversion.test_task_heads import saved, task_rows
from tests.model.adapters.adapted_models import disturbed, peft, scores
from tests.refusals import refused

# peft
pytestmark = pytest.mark.filterwarnings(
    "ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"
)
GPT2 = {"target_modules": ["c_attn", "c_fc"], "fan_in_fan_out": True}
LINEAR = {
    "bert": ["query", "value"],
    "llama": ["q_proj", "v_proj", "down_proj"],
    "t5": ["q", "v"],
}


def trained(folder, case, kind, config):
    """A base in a folder, and a peft model on it, whose adapter has been disturbed, saved in
    another folder."""
    headed = kind not in ("lm", "masked_lm")
    theirs = (
        saved(folder / "base", case, kind) if headed else published.saved(folder / "base", case)
    )
    model = peft().get_peft_model(theirs, config)
    fresh = [p for name, p in model.named_parameters() if "lora_B" in name]
    fresh += [
        p
        for name, p in model.named_parameters()
        if "modules_to_save" in name or "prompt_encoder" in name
    ]

    disturbed(torch.nn.ParameterList(fresh))
    model.save_pretrained(folder / "adapter")
    return model.eval()


def export_again(checkpoint):
    """The tensors and the configuration of an export of an imported adapter."""
    model = build_checkpoint(checkpoint)
    tensors = {
        name: tensor
        for name, tensor in checkpoint.tensors.items()
        if not name.startswith("adapters.")
    }

    base = dataclasses.replace(
        checkpoint, config=dataclasses.replace(checkpoint.config, adapter=None), tensors=tensors
    )
    (adapter,) = model.adapters.values()
    return export_adapter(base, adapter, checkpoint.trained)


def imported(folder, theirs, kind):
    """The checkpoint with the adapter, whose scores are those of peft."""
    ours, their, valid = (
        published.rows(theirs) if kind in ("lm", "masked_lm") else task_rows(theirs, kind)
    )
    checkpoint = import_adapter(folder / "adapter", read_checkpoint(folder / "base"))
    model = build_checkpoint(checkpoint)
    found = scores(model, ours)
    expected = their_scores(theirs, their, valid, found.shape)
    at = valid if found.ndim == 3 else ...

    assert (found - expected)[at].abs().max() <= ROUNDING

    model.adapters.use(None)

    assert (scores(model, ours) - expected)[at].abs().max() > 1e-3

    return checkpoint


def check(folder, theirs, kind, *, same=True):
    """Import an adapter and export it again: the same scores and the same tensors."""
    checkpoint = imported(folder, theirs, kind)
    before = load_file(folder / "adapter/adapter_model.safetensors")
    export = export_again(checkpoint)
    if same:
        assert before.keys() == export.tensors.keys()
        assert all(torch.equal(tensor, export.tensors[name]) for name, tensor in before.items())

    return export


@pytest.mark.parametrize(
    ("case", "keys"),
    [
        ("bert", {"target_modules": ["query", "value"]}),
        ("gpt2", GPT2),
        (
            "gpt2",
            GPT2
            | {"rank_pattern": {"c_attn": 5, r"h\.0\.mlp\.c_fc": 3}, "alpha_pattern": {"c_fc": 7}},
        ),
        (
            "llama",
            {"target_modules": LINEAR["llama"], "use_rslora": True, "rank_pattern": {"q_proj": 3}},
        ),
        ("t5", {"target_modules": ["q", "v"], "layers_to_transform": [0]}),
        ("modernbert", {"target_modules": ["Wqkv", "Wi"]}),
        ("phi3", {"target_modules": ["qkv_proj", "gate_up_proj"]}),
    ],
)
def test_lora_of_peft(tmp_path, case, keys):
    kind = "masked_lm" if case in ("bert", "modernbert") else "lm"
    export = check(
        tmp_path,
        trained(
            tmp_path,
            case,
            kind,
            peft().LoraConfig(r=2, lora_alpha=5, **keys),
        ),
        kind,
    )

    assert export.config["use_rslora"] == keys.get("use_rslora", False)

    again = json.loads((tmp_path / "adapter/adapter_config.json").read_text())

    assert (export.config["r"], export.config["lora_alpha"]) == (again["r"], again["lora_alpha"])


@pytest.mark.parametrize(("case", "projected"), [("gpt2", False), ("llama", True)])
def test_a_prefix_of_peft(tmp_path, case, projected):
    keys = {"encoder_hidden_size": 6, "prefix_projection": True} if projected else {}
    config = peft().PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3, **keys)
    check(tmp_path, trained(tmp_path, case, "lm", config), "lm")


@pytest.mark.parametrize(("case", "task"), [("gpt2", "CAUSAL_LM"), ("t5", "SEQ_2_SEQ_LM")])
def test_a_prompt_of_peft(tmp_path, case, task):
    """In an encoder-decoder peft stores a second prompt, for a decoder that does not read it."""
    config = peft().PromptTuningConfig(task_type=task, num_virtual_tokens=3)
    check(tmp_path, trained(tmp_path, case, "lm", config), "lm", same=case == "gpt2")


@pytest.mark.parametrize(
    ("case", "task", "kind"),
    [
        ("distilbert", "SEQ_CLS", "classification"),
        ("gpt2", "SEQ_CLS", "classification"),
        ("bert", "TOKEN_CLS", "tagging"),
        ("bert", "QUESTION_ANS", "span"),
    ],
)
@pytest.mark.parametrize("bare", [False, True])
def test_the_trained_head_goes_with_it(tmp_path, case, task, kind, bare):
    names = {"distilbert": ["q_lin"], "gpt2": ["c_attn"], "bert": ["query"]}[case]
    heads = {"distilbert": ["pre_classifier", "classifier"], "gpt2": ["score"]}.get(
        case, ["classifier"]
    )
    heads = ["qa_outputs"] if kind == "span" else heads
    config = peft().LoraConfig(
        task_type=task,
        r=2,
        target_modules=names,
        modules_to_save=[*heads],
        fan_in_fan_out=case == "gpt2",
    )

    theirs = trained(tmp_path, case, kind, config)

    if bare:
        name = published.peer_of(case).name
        published.edit_config(tmp_path / "base", architectures=[name], id2label=None, label2id=None)
        tensors = load_file(tmp_path / "base/model.safetensors")
        tensors = {
            name: tensor for name, tensor in tensors.items() if not name.startswith(tuple(heads))
        }
        save_file(tensors, tmp_path / "base/model.safetensors", {"format": "pt"})

    assert check(tmp_path, theirs, kind).config["modules_to_save"] == sorted(heads)

    if not bare or kind == "span":
        return
    # names of the classes, which the base lacks, come back from our own export
    checkpoint = import_adapter(tmp_path / "adapter", read_checkpoint(tmp_path / "base"))
    ((name, head),) = checkpoint.config.heads.items()
    labels = tuple(f"class {number}" for number in range(head.classes))
    config = dataclasses.replace(
        checkpoint.config, heads={name: dataclasses.replace(head, labels=labels)}
    )
    export = export_again(dataclasses.replace(checkpoint, config=config))
    save_file(export.tensors, tmp_path / "adapter/adapter_model.safetensors", export.metadata)
    again = import_adapter(tmp_path / "adapter", read_checkpoint(tmp_path / "base"))

    assert (checkpoint.config.heads[name].labels, again.config.heads[name].labels) == ((), labels)
    assert again.notes == ()


@pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`:UserWarning")
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("heads", [(), ("lm_head",)])
def test_a_trained_table_is_refused_and_that_of_the_base_is_read(tmp_path, tied, heads):
    """Also where the folder holds a tied projection with the same values."""
    names = ["embed_tokens", *heads]
    config = peft().LoraConfig(
        task_type="CAUSAL_LM", r=2, target_modules=["q_proj"], modules_to_save=names
    )
    theirs = published.saved(tmp_path / "base", "qwen3", tie_word_embeddings=tied)
    model = peft().get_peft_model(theirs, config)
    disturbed(torch.nn.ParameterList(p for name, p in model.named_parameters() if "lora_B" in name))
    model.save_pretrained(tmp_path / "adapter")
    imported(tmp_path, model.eval(), "lm")
    path = tmp_path / "adapter/adapter_model.safetensors"
    tables = {name: 1.5 * tensor for name, tensor in load_file(path).items() if "lora" not in name}
    save_file(load_file(path) | tables, path)

    with pytest.raises(
        WeightsError, match=r"(embed_tokens|lm_head).weight was trained with the adapter"
    ):
        import_adapter(tmp_path / "adapter", read_checkpoint(tmp_path / "base"))


@pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`:UserWarning")
def test_a_trained_head_on_the_table_of_the_base_is_read(tmp_path):
    """The folder holds its bias twice, and the table that its projection is tied to."""
    theirs = published.saved(tmp_path / "base", "bert", tie_word_embeddings=True)
    config = peft().LoraConfig(r=2, target_modules=["query"], modules_to_save=["predictions"])
    model = peft().get_peft_model(theirs, config)
    own = [
        p
        for name, p in model.named_parameters()
        if p.requires_grad and "decoder.weight" not in name
    ]

    disturbed(torch.nn.ParameterList(own))
    model.save_pretrained(tmp_path / "adapter")
    imported(tmp_path, model.eval(), "masked_lm")


@pytest.mark.parametrize(
    ("case", "kind", "task"),
    [("llama", "classification", "SEQ_CLS"), ("bert", "span", "QUESTION_ANS")],
)
def test_a_prompt_whose_states_the_head_reads_is_refused(tmp_path, case, kind, task):
    trained(tmp_path, case, kind, peft().PromptTuningConfig(task_type=task, num_virtual_tokens=3))
    with refused(f"heads of rows would also read.*; got {task}"):
        import_adapter(tmp_path / "adapter", read_checkpoint(tmp_path / "base"))


@pytest.fixture
def stored(tmp_path):
    """A folder of peft that a test damages, and its base."""
    trained(
        tmp_path, "bert", "masked_lm", peft().LoraConfig(r=2, target_modules=["query", "value"])
    )
    return tmp_path / "adapter", read_checkpoint(tmp_path / "base")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"peft_type": "LOHA"}, "expected LORA, PREFIX_TUNING, PROMPT_TUNING; merge .* got 'LOHA'"),
        ({"bias": "all"}, "bias: 'all' also changes the base"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights: 'pissa' also changes the base"),
        (
            {"alora_invocation_tokens": [3]},
            "alora_invocation_tokens: .* changes what the adapter computes",
        ),
        (
            {"task_type": "SEQ_CLS"},
            "needs its tensor classifier.weight: name it in modules_to_save",
        ),
    ],
)
def test_what_ours_cannot_compute_is_refused(stored, changes, message):
    folder, base = stored
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises((ConfigurationError, WeightsError), match=message):
        import_adapter(folder, base)


@pytest.mark.parametrize("more", [[], ["c_attn"]])
def test_an_adapter_of_a_table_is_refused(tmp_path, more):
    theirs = published.saved(tmp_path / "base", "gpt2")
    config = peft().LoraConfig(r=2, target_modules=["wte", *more], fan_in_fan_out=True)
    peft().get_peft_model(theirs, config).save_pretrained(tmp_path / "adapter")

    with refused(r"wte.lora_embedding_A: adapts a table"):
        import_adapter(tmp_path / "adapter", read_checkpoint(tmp_path / "base"))


def test_a_head_of_another_shape_is_refused(tmp_path):
    config = peft().LoraConfig(
        task_type="SEQ_CLS", r=2, target_modules=["q_lin"], modules_to_save=["classifier"]
    )
    trained(tmp_path, "distilbert", "classification", config)
    path = tmp_path / "adapter/adapter_model.safetensors"
    tensors = load_file(path)
    (name,) = (
        name for name in tensors if name.endswith("classifier.weight") and "pre_" not in name
    )
    save_file(tensors | {name: tensors[name][:, :-1].contiguous()}, path)

    with pytest.raises(
        WeightsError, match=r"another shape than config\.json implies: .*classifier"
    ):
        import_adapter(tmp_path / "adapter", read_checkpoint(tmp_path / "base"))


def test_damaged_tensors_are_refused(stored):
    folder, base = stored
    path = folder / "adapter_model.safetensors"
    before = load_file(path)
    first = next(name for name in before if "lora_B" in name)
    other = {
        "lora_B.weight is missing": {
            name: tensor for name, tensor in before.items() if name != first
        },
        "no head has 1 of its tensors: encoder.more": before
        | {"base_model.model.encoder.more": torch.ones(2)},
        "is not a linear map of the body": {
            n.replace("query", "querry"): tensor for n, tensor in before.items()
        },
        "outputs and .* in this base, which lora_A .* and lora_B .3, 2. do not fit": before
        | {first: torch.ones(3, 2)},
        "are nan or infinite": before | {first: before[first] * float("nan")},
    }
    for message, tensors in other.items():
        save_file(tensors, path)
        with pytest.raises((ConfigurationError, WeightsError), match=message):
            import_adapter(folder, base)

    path.rename(folder / "adapter_model.bin")

    with pytest.raises(
        WeightsError, match=r"adapter_model.bin is pickled, and is never loaded: .*save_pretrained"
    ):
        import_adapter(folder, base)

    (folder / "adapter_config.json").unlink()
    with refused("expected a folder that peft saved"):
        import_adapter(folder, base)
