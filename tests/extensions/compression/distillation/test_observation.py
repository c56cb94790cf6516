"""What a forward pass computes, against transformers' own outputs of hidden states and
attentions."""

import pytest
import torch
from torch import nn

from clozeline.extensions.compression.distillation.observation import observe
from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.model.checkpoints.reading import read_checkpoint
from clozeline.model.loss import weigh_rows_equally
from tests.extensions.compression.distillation.pairs import VOCABULARY, batch, model
from tests.extensions.published.peers import saved

EVERYTHING = {
    f"{kind}_{layer}" for kind in ("state", "attention", "visible", "queries") for layer in range(4)
}


def test_states_and_attention_are_those_of_transformers(tmp_path):
    """Row by row without padding.

    The softmax of our scores is what transformers calls attentions.
    """
    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": 15,
        "num_hidden_layers": 3,
        "num_attention_heads": 3,
    }

    published = saved(tmp_path, "bert", **sizes)
    ours = build_checkpoint(read_checkpoint(tmp_path)).eval()
    tensors = batch()
    with torch.no_grad(), observe(ours, EVERYTHING | {"logits_masked_lm"}) as seen:
        ours(tensors)

    assert seen.keys() == EVERYTHING - {
        f"{kind}_0" for kind in ("attention", "visible", "queries")
    } | {"logits_masked_lm"}

    for row, length in enumerate((7, 4, 9)):
        with torch.no_grad():
            theirs = published(
                tensors["input_ids"][row : row + 1, :length],
                output_hidden_states=True,
                output_attentions=True,
            )

        for layer, state in enumerate(theirs.hidden_states):
            assert torch.allclose(seen[f"state_{layer}"][row, :length], state[0], atol=2e-5)
        for layer, weights in enumerate(theirs.attentions, start=1):
            scores = seen[f"attention_{layer}"][row, :, :length]

            assert torch.allclose(scores[..., :length].softmax(-1), weights[0], atol=1e-5)
            assert not scores[..., length:].any(), "hidden keys are zero, not minus infinity"
            assert (
                seen[f"visible_{layer}"]
                .expand(4, -1, 11, -1)[row, 0, :length]
                .sum(-1)
                .eq(length)
                .all()
            )

        labels = (tensors["label_index"] // 11 == row) & (tensors["label_index"] % 11 < length)
        expected = theirs.logits[0, tensors["label_index"][labels] % 11]

        assert torch.allclose(seen["logits_masked_lm"][labels], expected, atol=1e-4)


@pytest.mark.parametrize(
    "changes", [{}, {"share": {"groups": 1}}, {"norm_place": "post", "final_norm": False}]
)
def test_nothing_stays_behind_and_nothing_changes(changes):
    one = model(**changes)
    tensors = batch()
    before = {
        name: (set(vars(module)), len(module._forward_hooks))
        for name, module in one.named_modules()
    }
    alone = one(tensors)["masked_lm"].total
    with observe(one, EVERYTHING | {"logits_masked_lm"}) as seen:
        observed = one(tensors)["masked_lm"].total

    assert torch.equal(alone, observed)
    assert before == {
        name: (set(vars(module)), len(module._forward_hooks))
        for name, module in one.named_modules()
    }
    assert torch.equal(seen["state_3"], one.family(tensors))

    with pytest.raises(ZeroDivisionError), observe(one, EVERYTHING):
        raise ZeroDivisionError

    assert before == {
        name: (set(vars(module)), len(module._forward_hooks))
        for name, module in one.named_modules()
    }


def test_weights_are_those_of_the_loss_of_the_head():
    """Weighted by label, by row, and with weights of the objective: the sum of weight x nll is the
    head's loss."""
    tensors = {**batch(), "label_weight": torch.arange(8) / 4.0}
    for normalize, given in (("label", batch()), ("row", batch()), ("label", tensors)):
        one = model(heads={"masked_lm": {"weight": 1.0, "normalize": normalize}})
        head = one.heads["masked_lm"]
        with torch.no_grad(), observe(one, {"logits_masked_lm"}) as seen:
            expected = one(given)["masked_lm"].total
        weights = head.labels(given)[1]
        losses = nn.functional.cross_entropy(
            seen["logits_masked_lm"], given["label_ids"].clamp(min=0), reduction="none"
        )

        assert float((weights * losses).sum()) == pytest.approx(float(expected), rel=1e-5)

    assert torch.equal(head.labels(batch())[1] > 0, torch.tensor([1, 0, 1, 1, 1, 1, 0, 0]) > 0)
    assert weigh_rows_equally(batch(), "masked_lm")["label_weight"][2] == 0.5


def test_a_row_counts_where_it_has_a_label_and_a_weight():
    """A row of filler with a label counts as little as a weighted row without one.

    A weight is no share.
    """
    head = model(heads={"masked_lm": 1.0, "classification": {"classes": 2}}).heads["classification"]
    tensors = {
        **batch(),
        "label": torch.tensor([1, -100, 0, 1]),
        "row_weight": torch.tensor([1.0, 1.0, 0.5, 0.0]),
    }

    weights = head.labels(tensors)[1]

    assert (weights.tolist(), weights.dtype) == ([1.0, 0.0, 1.0, 0.0], torch.float32)


def test_a_window_and_documents_hide_the_same_keys_from_bounds_as_from_a_mask(monkeypatch):
    """Layer 2 sees two tokens on each side.

    Rows of documents of 5, 4 and 2 tokens, and of 3 and 4.
    """
    one = model(dim=12, position={"kind": "rope"}, local={"window": 2, "global_every": 2}).eval()
    documents = torch.tensor([[0] * 5 + [1] * 4 + [2] * 2, [0] * 3 + [1] * 4 + [1] * 4])
    tensors = {**batch((11, 7), filler=0), "document_ids": documents}
    tensors["cu_seqlens"] = torch.tensor([0, 5, 9, 11, 14, 18, 22], dtype=torch.int32)
    tensors["max_seqlen"] = torch.tensor(5)
    found = []

    for bounds in (False, True):
        if bounds:
            monkeypatch.setattr(
                "clozeline.model.layers.stack.reads_documents", lambda *_, **__: True
            )

        with torch.no_grad(), observe(one, {"visible_1", "visible_2"}) as seen:
            one(tensors)
        found.append(seen)

    place = torch.arange(11)
    near = (place[:, None] - place[None]).abs() <= 2

    for row, length in enumerate((11, 7)):
        together = documents[row, :, None] == documents[row][None]
        for layer, expected in (("visible_1", together), ("visible_2", together & near)):
            for seen in found:
                assert torch.equal(
                    seen[layer].expand(2, -1, 11, 11)[row, 0, :length, :length],
                    expected[:length, :length],
                )
