"""`clozeline check`: what a user's algorithm keeps and breaks, by name."""

import subprocess
import sys
from pathlib import Path

import pytest

from clozeline import plugins
from clozeline.tools.start.check import main

MYLAB = Path(__file__).parents[3] / "docs" / "mylab"
BROKEN = '''
import numpy as np
import torch
from mylab.filters.shouting import Shouting
from mylab.heads.focal import FocalHead as Focal
from mylab.objectives.rare_tokens import RareTokens
from mylab.optimizers.radam import RAdam
from clozeline.pipeline.clean.filters import Verdict
from clozeline.columns import Feature, Role
from clozeline.pipeline.corrupt.objectives import RandomKeys
from clozeline.pipeline.corrupt.objectives.causal_lm import CausalLM
from clozeline.pipeline.corrupt.objectives.masked_lm import MaskedLM
from clozeline.pipeline.rows import Ragged

LEVEL = Feature("level", "float32", Role("label", "label_positions"), "a level of each label")

class Leveled(MaskedLM):
    """Has one more column."""
    name = "levels"  # decides nothing
    value = 1
    base_features = (*MaskedLM.base_features, LEVEL)
    def extra_features(self, samples, keys, columns):
        labels = columns["label_ids"]
        level = Ragged(np.full(len(labels.values), self.value, np.float32), labels.offsets)
        return {"level": level, **super().extra_features(samples, keys, columns)}

class Signed(Leveled):
    """Stores what losses ignore."""
    value = -100

class Unlisted(CausalLM):
    """Returns a column that it does not declare."""
    def corrupt_rows(self, samples, random_keys):
        columns = super().corrupt_rows(samples, random_keys)
        return {**columns, "level": columns["input_ids"]}

class Losing(RareTokens):
    """Overwrites the first token of the content, and stores it nowhere."""
    def corrupt_rows(self, samples, random_keys):
        columns = super().corrupt_rows(samples, random_keys)
        columns["input_ids"].values[columns["input_ids"].offsets[:-1] + 1] = 300
        return columns

class Counting(RareTokens):
    """Draws by the number of its calls."""
    calls = 0
    def select_positions(self, keys, ids, budget):
        self.calls += 1
        return super().select_positions(keys + self.calls, ids, budget)

class Unseeded(RareTokens):
    """Draws the same under every seed."""
    def corrupt_rows(self, samples, random_keys):
        return super().corrupt_rows(samples, RandomKeys(1, random_keys.uids, random_keys.variants))

class Writing(RareTokens):
    def corrupt_rows(self, samples, random_keys):
        samples.columns["ids"].values[:] = 300
        return super().corrupt_rows(samples, random_keys)

class Repeating(Shouting):
    """Rejects a text that it has seen."""
    def __init__(self, options):
        super().__init__(options)
        self.seen = set()
    def judge(self, document, statistics):
        known = document.text in self.seen
        self.seen.add(document.text)
        return Verdict("shouting") if known else super().judge(document, statistics)

class Undeclared(Shouting):
    """Rejects by a reason that reports do not know."""
    reasons = ("capitals",)

class Unweighted(Focal):
    """Learns from rows of weight 0."""
    def forward(self, hidden, tensors):
        known = tensors["label"] >= 0
        return torch.nn.functional.cross_entropy(self.scores(hidden, tensors)[known], tensors["label"][known]) * 3

class Disconnected(Focal):
    """Has no gradient path where nothing is labeled."""
    def forward(self, hidden, tensors):
        loss = super().forward(hidden, tensors)
        return loss if loss else torch.zeros(())

class Squared(Focal):
    """Has a figure that is no sum over rows."""
    figures = {"squared_loss": "lower"}
    def metrics(self, hidden, tensors):
        return {"squared_loss": self(hidden, tensors) ** 2}

class Undeclaring(Focal):
    def forward(self, hidden, tensors):
        return super().forward(hidden, tensors) * tensors["target"].mean()

class Steady(RAdam):
    """Steps by its own learning rate."""
    def build(self, groups):
        optimizer = super().build(groups)
        step = optimizer.step
        def fixed():
            for group in optimizer.param_groups:
                group["lr"] = 1e-3
            step()
        optimizer.step = fixed
        return optimizer

class Forgetting(RAdam):
    """Counts its steps where no checkpoint looks."""
    def build(self, groups):
        optimizer = super().build(groups)
        optimizer.updates, step = 0, optimizer.step
        def growing():
            optimizer.updates += 1
            for group in optimizer.param_groups:
                group["lr"] *= optimizer.updates
            step()
        optimizer.step = growing
        return optimizer

class Unnamed(RAdam):
    statistics = "rows"

class Scaled(RAdam):
    """Multiplies the step by the norm of the weight, and says that it does not."""
    keys, states = frozenset(), 0
    def build(self, groups):
        return _Plain(list(groups), {"lr": 1e-3, "measure": self.measure})
    def measure(self, weight, gradient):
        return gradient * weight.norm()

class Clipped(Scaled):
    """Clips the gradient of each weight."""
    def measure(self, weight, gradient):
        return gradient / (gradient.norm() / weight.norm().clamp(min=1e-3) / 0.5).clamp(min=1)

class Centered(Scaled):
    """Subtracts the mean of each column."""
    def measure(self, weight, gradient):
        return gradient - gradient.mean(0)

class Whole(Centered):
    statistics = "parameter"

class Single(Scaled):
    def measure(self, weight, gradient):
        return gradient

class _Plain(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    weight -= group["lr"] * group["measure"](weight, weight.grad)

class Nothing:
    """No algorithm."""
'''


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    """Checks an algorithm; returns exit code and output."""
    (tmp_path / "broken.py").write_text(BROKEN)
    for folder in (tmp_path, MYLAB):
        monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv(plugins.VARIABLE, "")
    for module in [name for name in sys.modules if name.partition(".")[0] in ("broken", "mylab")]:
        monkeypatch.delitem(sys.modules, module)

    def run(*words):
        code = main(words)
        return code, "".join(capsys.readouterr())

    return run


@pytest.mark.parametrize(
    ("name", "words", "registries"),
    [
        ("mylab.objectives.rare_tokens:RareTokens", ["mask_rate=0.3"], ["objectives"]),
        ("mylab.objectives.graded_tokens:GradedTokens", ["mask_rate=0.3"], ["objectives"]),
        ("broken:Leveled", ["mask_rate={uniform: [0.1, 0.5]}"], ["objectives"]),
        ("mylab.filters.shouting:Shouting", ["share=0.3"], ["filters"]),
        ("mylab.heads.focal:FocalHead", ["labels=[dry, wet]", "hidden=tanh"], ["heads"]),
        ("classification", ["multi_label=true"], ["heads"]),
        ("mylab.heads.rarity:RarityHead", ["smoothing=0.1", "least=1"], ["heads"]),
        ("mylab.optimizers.radam:RAdam", [], ["optimizers"]),
        ("mylab.optimizers.lars:Lars", [], ["optimizers"]),
        ("broken:Whole", [], ["optimizers"]),
        ("broken:Single", [], ["optimizers"]),
        ("masked_lm", [], ["objectives", "heads"]),
        ("span_boundary", ["registry=heads", "max_span_tokens=2"], ["heads"]),
    ],
)
def test_what_keeps_its_contract(check, name, words, registries):
    code, shown = check(name, *words)

    assert code == 0
    assert [line for line in shown.splitlines() if not line.startswith("  ")] == [
        f"{name}, one of {registry}:" for registry in registries
    ]
    assert "BROKEN" not in shown
    assert shown.count("kept") >= 3 * len(registries)


@pytest.mark.parametrize(
    ("name", "promise", "fault"),
    [
        ("Losing", "gives back every row", "tokens, got"),
        ("Counting", "not on the order and size of the batch", "Keep nothing from call to call"),
        (
            "Unseeded",
            "Another seed, variant, uid or label",
            "another seed to change 95% of rows or more, got 0%",
        ),
        ("Signed", "Examples have the declared features", "column level: -100"),
        ("Unlisted", "Examples have the declared features", "column level"),
        (
            "Writing",
            "Examples have the declared features",
            "raised ValueError: assignment destination is read-only",
        ),
        (
            "Repeating",
            "same verdict after any other texts",
            "expected Verdict(reason='', detail=''",
        ),
        (
            "Undeclared",
            "with a declared reason",
            "expected a reason of ('', 'capitals'), got 'shouting'",
        ),
        ("Unweighted", "A row of weight 0 changes nothing", "Read labels by `row_labels`"),
        (
            "Disconnected",
            "gradient of 0 for every parameter",
            "got none, so that ranks wait for it",
        ),
        ("Undeclaring", "add up to those of the batch", "raised KeyError: 'target', in line"),
        ("Squared", "figures, counts and gradients of micro-batches", "of squared_loss, got"),
        ("Steady", "as long as the learning rate", "expected a rate of 0 to change nothing"),
        (
            "Forgetting",
            "a resumed optimizer repeats its bits",
            "expected the same step after a resume",
        ),
        (
            "Unnamed",
            "scope of its statistics",
            "expected element or parameter, got 'rows'",
        ),
        *((name, "in one flat vector", "statistics") for name in ("Scaled", "Clipped", "Centered")),
    ],
)
def test_a_broken_promise_is_named(check, name, promise, fault):
    code, shown = check(f"broken:{name}")

    assert code == 65

    broken = shown.split("BROKEN")[1:]

    assert any(
        promise in part.split("\n")[0] and fault in " ".join(part.split()) for part in broken
    ), shown


def test_what_has_no_contract_or_not_these_options(check):
    assert check("broken:Nothing")[0] == 64

    code, shown = check("linear")

    assert code == 64
    assert (
        "expected an algorithm of a registry that has a contract: objectives, filters, heads, "
        "optimizers" in shown
    )
    assert "expected one that has a contract" in check("linear", "registry=schedules")[1]
    assert "did you mean 'masked_lm'" in check("maskd_lm", "registry=heads")[1]
    assert "bad_words: 'lists' is missing" in check("bad_words")[1]


WITHOUT_TEST_LIBRARIES = """
import sys
sys.modules |= {"pytest": None, "hypothesis": None}  # importing one is an error
from clozeline.tools.start.check import main
names = ("masked_lm", "pii", "adamw")
sys.exit(any([main([name]) for name in names]))
"""


@pytest.mark.slow
def test_no_library_of_our_tests_is_needed():
    subprocess.run([sys.executable, "-c", WITHOUT_TEST_LIBRARIES], check=True, timeout=300)
