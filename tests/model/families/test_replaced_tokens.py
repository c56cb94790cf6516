"""A generator and a discriminator against transformers' two models, with tokens drawn by a loop."""

import re

import pytest
import torch
import transformers
from pydantic import ValidationError
from torch.nn import functional as F

from clozeline.model.compilation.host_shapes import add_host_shapes
from clozeline.model.configuration.position import PositionConfig
from tests.model.closeness import assert_gradients_close, gradients
from tests.model.heads.head_peers import BERT
from tests.model.small_models import VOCABULARY, batch_for, built, changed, rows_of, small_config

SMALL = {
    "norm_place": "post",
    "final_norm": False,
    "emb_norm": True,
    "type_vocab_size": 2,
    "generator": {"layers": 1, "dim": 18, "attention_heads": 3, "ffn_dim": 20},
    "heads": {"masked_lm": 1.0, "token": 50.0},
}

PLACES, LENGTHS = 20, [11, 1, 6]
RENAMES = [(pattern, name.replace("bert.", "electra.")) for pattern, name in BERT if pattern.startswith("family")]
RENAMES += [
    *[(pattern, name) for pattern, name in BERT if pattern.startswith(("attention", "feed_forward"))],
    (r"family\.stack\.embeddings\.project", "electra.embeddings_project"),
    (r"heads\.masked_lm\.transform", "generator_predictions.dense"),
    (r"heads\.masked_lm\.norm", "generator_predictions.LayerNorm"),
    (r"heads\.masked_lm\.projection", "generator_lm_head"),
    (r"heads\.token\.dense", "discriminator_predictions.dense"),
    (r"heads\.token\.classifier", "discriminator_predictions.dense_prediction"),
]
DISENTANGLED = {"embedding_sharing": "disentangled"}


def network_for(seed=3, **changes):
    """A model with random numbers in every parameter, since zeros and ones hide mistakes."""
    changes = {"emb_dim": 12, "eps": 1e-12, "position": PositionConfig(maximum=PLACES)} | changes
    network = built("replaced_tokens", **changes).eval()
    draw = torch.Generator().manual_seed(seed)
    for parameter in network.parameters():
        noise = torch.randn(parameter.shape, generator=draw)
        parameter.data = noise * parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 1 + noise * 0.2
    return network


def peer(network, kind, prefix):
    """A model of transformers with the weights of one side, and its parameters in our names."""
    sizes = network.family.sizes("masked_lm" if prefix == "family.generator" else "token")
    settings = transformers.ElectraConfig(
        vocab_size=VOCABULARY, embedding_size=sizes.embedding_width, hidden_size=sizes.dim,
        num_hidden_layers=sizes.layers, num_attention_heads=sizes.attention_heads, intermediate_size=sizes.ffn_dim,
        max_position_embeddings=PLACES, pad_token_id=0, attn_implementation="eager",
    )  # fmt: skip
    theirs, names = kind(settings).to(network.family.tokens.weight.dtype).eval(), {}
    parameters, first = dict(theirs.named_parameters()), {id(one): name for name, one in network.named_parameters()}
    for name, parameter in network.named_parameters(remove_duplicate=False):
        renamed = name.replace(prefix, "family.stack") if name.startswith(prefix) else name
        for pattern, replacement in RENAMES:
            renamed = re.sub(pattern, replacement, renamed)
        other = name.startswith(("family.stack", "family.generator")) and not name.startswith(prefix)
        if renamed in parameters and not other:
            parameters[renamed].data = parameter.data.clone()
            names[renamed] = first[id(parameter)]
    assert sorted(names) == sorted(parameters)
    return theirs, {names[renamed]: parameter for renamed, parameter in parameters.items()}


def drawn_by_a_loop(scores, words):
    """The first id whose sum of probabilities is above the fraction, for each label."""
    ids = []
    for row, word in zip(scores.float().softmax(-1), words.tolist(), strict=True):
        sums, cut = row.cumsum(0), (word >> 8) / 2**24
        ids.append(next(number for number, total in enumerate(sums) if total > cut * sums[-1]))
    return torch.tensor(ids)


def test_losses_and_gradients_are_those_of_two_models():
    network, tensors = network_for().double(), batch_for("replaced_tokens", lengths=LENGTHS)
    tensors["label_index"] = torch.tensor([1, 3, 4, 9, 11, 22, 26, 27])
    tensors["sample_words"] = torch.randint(1 << 32, (8,), generator=torch.Generator().manual_seed(1))
    index, ids = tensors["label_index"], tensors["input_ids"]
    valid = torch.arange(11) < tensors["lengths"][:, None]
    generator, of_generator = peer(network, transformers.ElectraForMaskedLM, "family.generator")
    scores = generator(input_ids=ids, attention_mask=valid.long()).logits.flatten(0, 1)[index]
    drawn = drawn_by_a_loop(scores.detach(), tensors["sample_words"])
    tensors["label_ids"] = torch.where(torch.arange(8) % 3 == 0, drawn, (drawn + 5) % VOCABULARY)
    losses = network(tensors)
    expected = F.cross_entropy(scores, tensors["label_ids"], reduction="sum")
    assert losses["masked_lm"].total.item() == pytest.approx(expected.item(), rel=1e-5)
    replaced = torch.zeros(33, dtype=torch.long).index_fill(0, index[torch.arange(8) % 3 != 0], 1).view(3, 11)
    seen = ids.flatten().index_copy(0, index, drawn).view(3, 11)
    judge, of_judge = peer(network, transformers.ElectraForPreTraining, "family.stack")
    answer = judge(input_ids=seen, attention_mask=valid.long(), labels=replaced)
    count = int(valid.sum())
    assert losses["token"].count == count
    assert losses["token"].total.item() == pytest.approx(answer.loss.item() * count, rel=1e-5)
    right = ((answer.logits > 0).long() == replaced)[valid].sum()
    assert {name: int(total) for name, total in losses["token"].figures.items()} == {"accuracy": right, "replaced": 5}
    (losses["masked_lm"].total + 50 * losses["token"].total).backward()
    (expected + 50 * count * answer.loss).backward()
    names = [name for name, _ in network.named_parameters()]
    both = {name: sum(side[name].grad for side in (of_generator, of_judge) if name in side) for name in names}
    assert_gradients_close(gradients(network), both)
    shared = {"family.tokens.weight", "family.stack.position.table.weight", "family.stack.embeddings.types.weight"}
    shared |= {f"family.stack.embeddings.norm.{kind}" for kind in ("weight", "bias")}
    assert of_generator.keys() & of_judge.keys() == shared


@pytest.mark.parametrize("changes", [{}, DISENTANGLED], ids=["all", "disentangled"])
def test_the_discriminator_gives_the_generator_no_gradient(changes):
    network, tensors = network_for(**changes), batch_for("replaced_tokens")
    network(tensors)["token"].total.backward()
    judged = {name for name, parameter in network.named_parameters() if parameter.grad is not None}
    assert not any(name.startswith(("family.generator", "heads.masked_lm")) for name in judged)
    assert ("family.tokens.weight" in judged) == (not changes)
    assert ("family.difference.weight" in judged) == bool(changes)
    network.zero_grad()
    network(tensors)["masked_lm"].total.backward()
    assert network.family.tokens.weight.grad.any()
    generated = {name for name, parameter in network.named_parameters() if parameter.grad is not None}
    assert judged | generated == {name for name, _ in network.named_parameters()}
    if changes:
        assert judged.isdisjoint(generated)


def test_a_disentangled_table_begins_as_the_generator_s():
    network = built("replaced_tokens", **DISENTANGLED).eval().double()
    tensors = batch_for("replaced_tokens")
    assert not network.family.difference.weight.any()
    with torch.no_grad():
        before = network.family(tensors)
        network.family.difference.weight += 0.5
        network.family.tokens.weight -= 0.5
        assert torch.allclose(network.family(tensors), before, atol=1e-10)


def test_draws_and_sums_do_not_depend_on_micro_batches():
    network, tensors = network_for(), batch_for("replaced_tokens", lengths=[11, 8, 11, 3, 9, 6])
    tensors["row_weight"][4] = 0
    seen = network.family.views(tensors, network.heads)["token"].tensors["input_ids"]
    whole = network(tensors)
    for size in (1, 2, 3):
        parts = [rows_of(tensors, slice(first, first + size)) for first in range(0, 6, size)]
        drawn = [network.family.views(part, network.heads)["token"].tensors["input_ids"] for part in parts]
        assert torch.equal(torch.cat(drawn), seen)
        for name, loss in whole.items():
            losses = [network(part)[name] for part in parts]
            assert sum(one.count for one in losses) == loss.count
            assert sum(one.total.item() for one in losses) == pytest.approx(loss.total.item(), rel=1e-5)
            for figure, total in loss.figures.items():
                assert sum(one.figures[figure] for one in losses) == total


def test_only_labeled_places_are_replaced_by_tokens_of_the_vocabulary():
    network, tensors = network_for(vocab_multiple=64), batch_for("replaced_tokens")
    for words in (0, (1 << 32) - 1):
        tensors["sample_words"] = torch.full_like(tensors["sample_words"], words)
        seen = network.family.views(tensors, network.heads)["token"].tensors["input_ids"]
        assert seen.max() < VOCABULARY
        kept = torch.ones(seen.numel(), dtype=torch.bool).index_fill(0, tensors["label_index"], 0).view_as(seen)
        assert torch.equal(seen[kept], tensors["input_ids"][kept])
    with torch.no_grad():
        network.heads["masked_lm"].projection.bias[0] = torch.nan
    assert network.family.views(tensors, network.heads)["token"].tensors["input_ids"].max() < VOCABULARY


@pytest.mark.parametrize(("word", "token"), [(0x55555000, 4), (0x55556000, 9)], ids=["below a third", "above"])
def test_more_than_sixteen_bits_of_a_word_decide(word, token):
    """Two tokens, of which the first has a third of the probability."""
    network, tensors = network_for(), batch_for("replaced_tokens")
    head = network.heads["masked_lm"]
    with torch.no_grad():
        head.norm.weight.zero_()
        head.norm.bias.zero_()
        head.projection.bias.fill_(-1e4)[[4, 9]] = torch.tensor([1.0, 2.0]).log()
    tensors["sample_words"] = torch.full_like(tensors["sample_words"], word)
    seen = network.family.views(tensors, network.heads)["token"].tensors["input_ids"]
    assert set(seen.flatten()[tensors["label_index"]].tolist()) == {token}


def test_scores_without_draws_are_those_of_the_row_itself():
    network, tensors = network_for(), batch_for("replaced_tokens")
    scores = network.logits({name: value for name, value in tensors.items() if name != "sample_words"})
    with torch.no_grad():
        assert torch.equal(scores["token"], network.heads["token"].logits(network.family(tensors)))
    other = network.logits(changed(tensors, "input_ids", 0, 5))
    assert not torch.equal(other["masked_lm"], scores["masked_lm"])


@pytest.mark.parametrize("changes", [{}, DISENTANGLED], ids=["all", "disentangled"])
def test_without_labels_every_parameter_has_a_gradient_of_zero(changes):
    network = network_for(**changes)
    losses = network(batch_for("replaced_tokens", labels=False))
    sum(loss.total for loss in losses.values()).backward()
    assert [(loss.total.item(), loss.count) for loss in losses.values()] == [(0.0, 0)] * 2
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert not parameter.grad.any(), name


def test_no_forward_reads_a_value():
    network, tensors = network_for(), add_host_shapes(batch_for("replaced_tokens"), PLACES)
    losses = network.to("meta")({name: value.to("meta") for name, value in tensors.items()})
    assert {loss.total.device.type for loss in losses.values()} == {"meta"}


def test_operations_are_those_of_both_stacks():
    network = network_for()
    alone = [built("encoder", **sizes) for sizes in (
        {"emb_dim": 12}, {"emb_dim": 12, "layers": 1, "dim": 18, "attention_heads": 3, "ffn_dim": 20},
    )]  # fmt: skip
    assert network.family.flops(11, 0) == sum(one.family.flops(11, 0) for one in alone)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": {"masked_lm": 1.0}}, "at least one head that reads the discriminator"),
        ({"heads": {"token": 1.0, "corrective": 1.0}}, "expected masked_lm"),
        ({"generator": {"layers": 1, "dim": 18, "attention_heads": 4, "ffn_dim": 9}}, "4 heads do not divide"),
        ({"heads": {"masked_lm": 1.0, "corrective": 1.0}} | DISENTANGLED, "embedding_sharing: disentangled keeps"),
    ],
)
def test_contradictions_are_named(changes, message):
    with pytest.raises(ValidationError) as caught:
        small_config("replaced_tokens", **changes)
    assert message in str(caught.value)
