"""Early exit against loops over complete forward passes, scripted rules, and the ends of the
thresholds."""

import math

import pytest
import torch
from torch.distributions import Categorical
from torch.nn import functional as F

from clozeline.extensions.compression.early_exit import EarlyExit, Entropy, Patience
from tests.extensions.compression.test_layer_inputs import MODELS
from tests.model.small_models import batch_for, built
from tests.refusals import refused

CLASSES = 3
LAYERS = 5
HEADS = {"classification": {"classes": CLASSES, "hidden": "tanh"}, "regression": {}}
SIZES = {"layers": LAYERS, "dim": 15, "attention_heads": 3, "heads": HEADS}


def wrapped(name="encoder", head="classification", exits="joint"):
    """A model with off-ramps whose random scores are spread, in fp64."""
    family = name if name in ("decoder", "mobilebert") else "encoder"
    sizes = SIZES | (
        {} if family == "encoder" and name != "local" else {"dim": 24, "attention_heads": 4}
    )
    model = built(
        family, **sizes | MODELS[name] | {"heads": {head: HEADS[head] | {"exits": exits}}}
    )
    draw = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draw), alpha=0.25)

    return EarlyExit(model, head).double().eval()


def batch(rows=9):
    draw = torch.Generator().manual_seed(2)
    tensors = batch_for(
        "encoder", lengths=[*torch.randint(1, 12, (rows - 1,), generator=draw).tolist(), 11]
    )
    tensors["label"] = torch.randint(CLASSES, (rows,), generator=draw)
    tensors["target"] = torch.randn(rows, generator=draw)
    tensors["label"][1] = -100
    tensors["row_weight"][2] = 0
    return tensors


def all_scores(early, tensors):
    """The scores of every classifier [L, B, ...] for all rows: complete forward passes, written
    out."""
    stack = getattr(early.model.family, "stack", None)
    last = early.model.heads[early.head]
    found = []

    for head, state in zip(
        [*last.off_ramps, last], early.model.family.layer_states(tensors)[1:], strict=True
    ):
        found.append(
            head.scores(state if stack is None or head is last else stack.norm(state), tensors)
        )

    return torch.stack(found)


def expected_depth(rule, scores):
    """The depth of one row from the scores [L, classes] or [L] of its classifiers, by a plain
    loop."""
    count = 0

    for depth in range(1, len(scores) + 1):
        now = scores[depth - 1].tolist()

        if isinstance(rule, Entropy):
            if Categorical(logits=scores[depth - 1]).entropy() < rule.threshold:
                return depth
            continue

        if depth > 1:
            last = scores[depth - 2].tolist()
            if rule.tolerance is not None:
                same = abs(now - last) < rule.tolerance
            else:
                same = now.index(max(now)) == last.index(max(last))
            count = count + 1 if same else 0

        if count >= rule.agreements:
            return depth

    return len(scores)


RULES = [Entropy(0.5), Entropy(0.9), Entropy(1.05), Patience(1), Patience(2), Patience(3)]


@pytest.mark.parametrize(
    ("name", "head"), [*((name, "classification") for name in MODELS), ("encoder", "regression")]
)
def test_scores_and_depths_are_those_of_a_loop_over_complete_passes(name, head):
    early = wrapped(name, head)
    tensors = batch()
    scores = all_scores(early, tensors)
    gap = (scores[1:] - scores[:-1]).abs().median().item() * 1.001
    rules = (
        [Patience(1, tolerance=gap), Patience(2, tolerance=gap)] if head == "regression" else RULES
    )
    seen = set()

    for rule in rules:
        exits = early(tensors, rule)
        depths = [expected_depth(rule, scores[:, row]) for row in range(len(exits.depths))]
        assert exits.depths.tolist() == depths
        expected = torch.stack([scores[depth - 1, row] for row, depth in enumerate(depths)])
        torch.testing.assert_close(exits.scores, expected, rtol=1e-10, atol=1e-10)
        seen |= set(depths)

    assert len(seen) >= 3, "rows leave at several depths"


@pytest.mark.parametrize("name", MODELS)
def test_the_ends_of_the_thresholds(name):
    early = wrapped(name).float()
    tensors = batch()
    full = early.model.logits(tensors)["classification"]

    for rule in (Entropy(0.0), Patience(LAYERS), Patience(LAYERS + 4)):
        exits = early(tensors, rule)
        assert exits.depths.tolist() == [LAYERS] * 9
        assert torch.equal(exits.scores, full), "bit-identical"

    for rule in (Entropy(math.log(CLASSES) + 1e-6), Entropy(math.inf), Patience(0)):
        assert early(tensors, rule).depths.tolist() == [1] * 9


def test_flops_are_the_sum_over_the_layers_that_read_the_row():
    early = wrapped()
    tensors = batch()
    exits = early(tensors, Entropy(0.9))
    dim = 15
    inner = early.model.config.ffn_dim
    costs = zip(
        tensors["lengths"].tolist(), exits.depths.tolist(), exits.flops.tolist(), strict=True
    )
    for length, depth, flops in costs:
        layer = length * (2 * (4 * dim * dim + 2 * dim * inner) + 4 * dim * length)
        assert flops == depth * (layer + 2 * (dim * dim + dim * CLASSES))

    off_ramps = early(tensors, Entropy(0.0)).flops - exits.dense

    assert off_ramps.tolist() == [2 * (LAYERS - 1) * (dim * dim + dim * CLASSES)] * 9


@pytest.mark.parametrize("name", ["encoder", "narrow"])
def test_losses_are_those_of_each_classifier_written_out(name):
    early = wrapped(name)
    tensors = batch()
    scores = all_scores(early, tensors)
    labels = torch.where(tensors["row_weight"] == 0, -100, tensors["label"])
    each = [
        F.cross_entropy(one.float(), labels, reduction="sum", ignore_index=-100) for one in scores
    ]
    second = wrapped(name, exits="after").model
    stage_two, joint = (model(tensors)["classification"] for model in (second, early.model))

    assert stage_two.total.item() == pytest.approx(sum(each[:-1]).item(), rel=1e-5)

    weighted = sum(depth * loss for depth, loss in enumerate(each, start=1)) / (1 + 2 + 3 + 4 + 5)

    assert joint.total.item() == pytest.approx(weighted.item(), rel=1e-5)

    body = early.model.family.tokens.weight
    learned, expected = (
        torch.autograd.grad(total, body, retain_graph=True)[0] for total in (joint.total, weighted)
    )

    torch.testing.assert_close(learned, expected, rtol=1e-4, atol=1e-6)
    assert stage_two.count == joint.count == int((labels != -100).sum()) == 7

    figures = {
        f"exit_{depth}": pytest.approx(loss.item(), rel=1e-5)
        for depth, loss in enumerate(each, start=1)
    }
    correct = int((scores[-1].argmax(-1) == labels).sum())

    assert {name: figure.item() for name, figure in joint.metrics.items()} == {
        "accuracy": correct,
        **figures,
    }

    for loss, model in ((stage_two, second), (joint, early.model)):
        loss.total.backward()
        learning = [
            name for name, parameter in model.named_parameters() if parameter.grad is not None
        ]

        assert learning == [
            name for name, _ in model.named_parameters() if "off_ramps" in name or loss is joint
        ]


def test_refusals():
    heads = {name: head | {"exits": "joint"} for name, head in HEADS.items()}
    model = built("encoder", **SIZES | {"heads": heads | {"masked_lm": 1.0}})

    for name in ("tagging", "masked_lm"):
        with refused(rf"has no head {name} with a classifier after .*exits"):
            EarlyExit(model, name)

    with refused("exits: expected one stack of equal attention layers"):
        built("xlnet", heads={"classification": {"classes": 2, "exits": "joint"}})

    early = EarlyExit(model, "classification")
    with refused(r"call eval\(\)"):
        early(batch(), Entropy(0.5))
    number = EarlyExit(model, "regression").eval()
    for exits, rule, words in (
        (
            early.eval(),
            Patience(2, tolerance=0.1),
            "tolerance: set it for regression, and only then; got 0.1 for classif",
        ),
        (number, Patience(2), "got None for regression"),
        (number, Entropy(0.5), "entropy needs scores of classes, got regression: use Patience"),
    ):
        with refused(words):
            exits(batch(), rule)

    for wrong in (lambda: Entropy(math.nan), lambda: Patience(-1)):
        with refused(r"expected 0"):
            wrong()
