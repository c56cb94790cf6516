"""Promises of the map of every model type, with transformers' own classes as the oracle."""

import pytest
import torch
import transformers

from clozeline.extensions.published.conversion.export import export_checkpoint
from clozeline.extensions.published.conversion.type_selection import load_map
from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.model.checkpoints.reading import read_checkpoint
from tests.contracts import cases_about
from tests.extensions.published import parity
from tests.extensions.published.peers import (
    CLASSES,
    MODEL_TYPES,
    TYPES,
    apart,
    classes_of,
    difference,
    export_to,
    filled,
    in_and_out,
    left_rows,
    loaded,
    options,
    peer_of,
    rows,
    same,
    saved,
    stored,
    type_of,
)
from tests.extensions.published.type_options import DEPENDS_ON_PADDING
from tests.matrices import mark_slow_but
from tests.temporary_module import temporary_module

CLOSE = 2e-5  # arithmetic in fp32: gemma3_text rounds by 1.3e-5
BARE = [name for name in TYPES if load_map(name).classes.body_class]
USUAL = [(case, number % 2) for number, case in enumerate(CLASSES)]


SEEDS = mark_slow_but(USUAL, [(case, seed) for seed in range(8) for case in CLASSES])


@pytest.mark.parametrize(
    ("case", "seed"), cases_about(MODEL_TYPES, SEEDS, lambda one: type_of(one[0]))
)
def test_in_and_out_again(case, seed, tmp_path):
    """Our logits, losses, gradients and continuations are theirs.

    What goes out again is what came in.
    """
    theirs = saved(tmp_path / "in", case, seed)
    checkpoint, _, again = in_and_out(tmp_path, theirs)

    assert {note.partition(":")[0] for note in checkpoint.notes} <= {
        "skipped, not a part of the model"
    }

    model = build_checkpoint(checkpoint)

    assert difference(model, theirs) < CLOSE
    assert parity.logits_apart(again, theirs, tuple(model.heads)) < CLOSE

    if model.config.architecture != "encoder":
        assert parity.generated_apart(model, theirs) == 0
    if [*model.heads] in (["masked_lm"], ["lm"]):
        assert max(parity.loss_and_gradients(model, theirs, peer_of(case).key_map)) < CLOSE


DATA2VEC = """
from dataclasses import replace

from clozeline.extensions.published.model_types.roberta import RobertaKeys

class Data2vecText(RobertaKeys):
    \"\"\"RoBERTa under another name.\"\"\"

    model_type = "data2vec-text"
    classes = replace(RobertaKeys.classes, prefix="Data2VecText")

    class Tensors(RobertaKeys.Tensors):
        base = "data2vec_text."
        modules = {
            ours: theirs.replace("roberta.", "data2vec_text.") for ours, theirs in RobertaKeys.Tensors.modules.items()
        }
"""


def test_a_new_file_is_a_new_type(tmp_path):
    """The tests of this file are functions of the type alone, which needs nothing beside its
    file."""
    with temporary_module(
        "clozeline.extensions.published.model_types", "data2vec_text", DATA2VEC, tmp_path
    ):
        for number, case in enumerate(classes_of("data2vec-text")):
            test_in_and_out_again(case, 1, tmp_path / str(number))
        test_a_body_comes_in_and_goes_out_again("data2vec-text", 1, tmp_path / "body")
    assert "data2vec-text" not in TYPES


@pytest.mark.parametrize("seed", mark_slow_but([1], range(8)))
@pytest.mark.parametrize("model_type", cases_about(MODEL_TYPES, BARE, type_of))
def test_a_body_comes_in_and_goes_out_again(model_type, seed, tmp_path):
    """The class without a head, with the pooler that some have."""
    settings = transformers.CONFIG_MAPPING[model_type](
        **options(model_type, seed), attn_implementation="eager"
    )
    theirs = filled(load_map(model_type).classes.body_class, settings)
    theirs.save_pretrained(tmp_path / "in")
    in_and_out(tmp_path, theirs, body_alone=True)


WITH_BODIES = [case for case in CLASSES if type_of(case) in BARE]
BODIES = mark_slow_but(WITH_BODIES[::2], WITH_BODIES)


@pytest.mark.parametrize("case", cases_about(MODEL_TYPES, BODIES, type_of))
def test_the_body_alone(case, tmp_path):
    """Hidden states of the class without a head.

    The poolers that some classes add are the only parameters missing.
    """
    theirs = saved(tmp_path / "in", case)
    checkpoint = read_checkpoint(tmp_path / "in")
    export = export_checkpoint(checkpoint, body_alone=True)
    model, report = loaded(
        export_to(tmp_path / "out", export), export.loader, **export.loader_options
    )

    assert (type(model).__name__, report) == (load_map(type_of(case)).classes.body_class, {})

    tensors = read_checkpoint(tmp_path / "out").tensors

    if checkpoint.config.architecture != "encoder_decoder":
        assert same(
            tensors,
            {name: tensor for name, tensor in checkpoint.tensors.items() if name in tensors},
        )

    ours, their, _ = rows(theirs)
    family = build_checkpoint(checkpoint).family
    valid = their["attention_mask"].bool()

    with torch.no_grad():
        if checkpoint.config.architecture == "encoder_decoder":
            source = family.tokens(ours["input_ids"])
            hidden = family.encoder(source, ours["position_ids"], None, valid[:, None, None])
        else:
            hidden = family(ours)

        states = model(
            **{name: rows for name, rows in their.items() if "decoder" not in name}
        ).last_hidden_state

    assert apart(hidden, states, valid) < CLOSE


INDEPENDENT = [name for name in TYPES if name not in DEPENDS_ON_PADDING]


@pytest.mark.parametrize("seed", mark_slow_but([0], [0, 1]))
@pytest.mark.parametrize("case", cases_about(MODEL_TYPES, INDEPENDENT, type_of))
def test_rows_padded_on_the_left(case, seed, tmp_path):
    """Their class reads rows that are padded on the left as it reads them alone; so do we."""
    theirs = saved(tmp_path, case, seed)
    model = build_checkpoint(read_checkpoint(tmp_path))
    ours, their, valid = left_rows(theirs)

    with torch.no_grad():
        (logits,) = model.logits(ours).values()
        expected = theirs(**their).logits

        assert apart(logits, expected, valid) < CLOSE, "is it one that DEPENDS_ON_PADDING?"

        (blind,) = model.logits(
            {name: value for name, value in ours.items() if name != "left_padding"}
        ).values()

        assert apart(blind, expected, valid) > 10 * CLOSE


@pytest.mark.parametrize("model_type", ["bert", "gpt2", "t5", "pegasus"])
def test_half_precision_stays(model_type, tmp_path):
    saved(tmp_path / "first", model_type).to(torch.bfloat16).save_pretrained(tmp_path / "in")
    export = export_checkpoint(read_checkpoint(tmp_path / "in"))
    assert export.config["dtype"] == "bfloat16"
    assert same(export.tensors, stored(tmp_path / "in"))
