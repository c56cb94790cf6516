"""Which head a class of transformers has: each head declares its class, and reads the labels of
config.json."""

from contextlib import nullcontext
from dataclasses import replace

import pytest

from clozeline.extension_list import HIDE
from clozeline.extensions.published.conversion.export import export_checkpoint
from clozeline.extensions.published.conversion.task_heads import TaskHeadNames, endings, read_head
from clozeline.extensions.published.verification import load_and_compare
from clozeline.model.registries import HEADS
from tests.extensions.published.conversion.test_export import checkpoint_of
from tests.extensions.published.peers import export_to
from tests.model.small_models import built
from tests.refusals import refused
from tests.temporary_module import temporary_module

PLAIN = TaskHeadNames("classifier")


def labels(count):
    return {"id2label": {str(number): f"class {number}" for number in range(count)}}


@pytest.mark.parametrize(
    ("ending", "plain", "expected"),
    [
        ("ForSequenceClassification", {}, ("classification", 2, False)),
        (
            "ForSequenceClassification",
            {**labels(1), "problem_type": "regression"},
            ("regression", 1, False),
        ),
        (
            "ForSequenceClassification",
            {**labels(1), "problem_type": "single_label_classification"},
            ("classification", 1, False),
        ),
        ("ForMultipleChoice", {"id2label": {"7": "not numbered"}}, ("multiple_choice", 0, False)),
    ],
)
def test_the_head_follows_from_the_class_and_its_labels(ending, plain, expected):
    name, keys = read_head(ending, PLAIN, plain, 0.1)
    options = HEADS.load_class(name).Options(**keys)
    assert (name, options.class_count, keys.get("multi_label", False)) == expected
    assert endings()[name] == ending


@pytest.mark.parametrize(
    ("ending", "plain", "message"),
    [
        (
            "ForSequenceClassification",
            {**labels(3), "problem_type": "regression"},
            "regression of 3 numbers",
        ),
        ("ForQuestionAnswering", labels(3), "expected 2 labels"),
        ("ForTokenClassification", {"id2label": {"1": "a", "2": "b"}}, "id2label: expected names"),
    ],
)
def test_labels_that_no_head_has_are_refused(ending, plain, message):
    with refused(message):
        read_head(ending, PLAIN, plain, 0.1)


def test_a_hidden_extension_with_the_head_is_named(monkeypatch):
    monkeypatch.setenv(HIDE, "tasks")
    endings.cache_clear()

    try:
        for read in (
            lambda: read_head("ForTokenClassification", PLAIN, labels(5), 0.1),
            lambda: HEADS.load_class("tagging"),
        ):
            with refused("CLOZELINE_HIDE hides"):
                read()
    finally:
        endings.cache_clear()


OWN = """
    from clozeline.configuration.config import config_class
    from clozeline.{module} import {base} as Base

    class {name}Head(Base):
        @config_class
        class Options(Base.Options):
            z: float = 0.1

        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.z = self.options.z

        def forward(self, hidden, tensors):
            return super().forward(hidden, tensors) * (1 + self.z)
"""
SCALED = """
        def logits(self, hidden):
            return super().logits(hidden) * self.z
"""
ACTIVATED = """
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.act = self.norm
"""
MASKED = ("model.heads.masked_lm", "MaskedLMHead", {})
CLASSES = (
    "extensions.tasks.heads.classification",
    "ClassificationHead",
    {"hidden": "tanh", "classes": 3},
)


@pytest.mark.parametrize(
    ("base", "changes", "expected"),
    [
        (MASKED, "", "ForMaskedLM, scores"),
        (CLASSES, "", "ForSequenceClassification, scores"),
        (MASKED, SCALED, "model.heads: .* own"),
        (MASKED, ACTIVATED, "other scores"),
    ],
)
def test_a_head_with_another_loss_is_exported_as_the_head_that_it_extends(
    tmp_path, base, changes, expected
):
    """One with other scores is refused."""
    module, kind, keys = base
    source = OWN.format(module=module, base=kind, name="Own") + changes

    with temporary_module(HEADS.package, "own", source, tmp_path):
        model = built("encoder", heads={"own": {"weight": 1.0, "z": 0.5, **keys}}, eps=1e-12)
        checkpoint = checkpoint_of(model, model_type="bert")
        with refused(expected) if changes else nullcontext():
            export = export_checkpoint(checkpoint)
            folder = export_to(tmp_path / "out", export)
            assert expected in load_and_compare(folder, folder, replace(export, model=checkpoint))
