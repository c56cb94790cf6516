"""Labels that a head has no score for are refused before the first step, for heads of one's own as
for Clozeline's."""

import numpy as np
import pytest
import torch

from clozeline.columns import Role
from clozeline.configuration.config import load_config
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.shards import ColumnSpec, open_shards
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.sets.model_fit import refuse_further_classes
from clozeline.train.startup.fill_in import check_start
from tests.refusals import refused
from tests.shard_sets import IDS, fixed, objective, rows, write_set
from tests.temporary_module import temporary_module
from tests.train.masked_set import write_config
from tests.train.synthetic import tiny

HEADS = "clozeline.model.heads"
OF_ROWS = """
    from clozeline.extensions.tasks.heads.classification import ClassificationHead


    class MoodHead(ClassificationHead):
        target = "mood"
"""
OF_POSITIONS = """
    from torch import nn

    from clozeline.model.heads._head import LabelHead


    class MoodHead(LabelHead):
        target = "mood"

        def __init__(self, config, tokens, vocab_size):
            super().__init__(config)
            self.map = nn.Linear(config.dim, 3)

        def logits(self, hidden):
            return self.map(hidden)
"""
NO_CLASSES = (
    OF_POSITIONS
    + """
        def label_limit(self, width):
            return None
"""
)
ONE_SCORE = OF_POSITIONS.replace("config.dim, 3", "config.dim, 1")


def labeled_set(folder, below):
    """A set whose rows have a label of the head mood."""
    role = Role("row", head="mood", below=below)
    column = ColumnSpec("label", "uint8", "list", "a mood", role)
    content = rows(range(1, 17))
    values = [np.array([uid % below], np.uint8) for uid in range(16)]
    labeled = RowBatch(
        fixed(np.arange(1, 17)), {**content.columns, "label": Ragged.from_lists(values, np.uint8)}
    )
    facts = {**objective("encoder"), "heads": ["mood"]}
    return write_set(folder, [labeled], columns=(IDS, column), objective=facts).path


def check(tmp_path, manifest, head, **changes):
    changes = {"model__heads": {"mood": head}, "evaluate__max_rows": 0, **changes}
    return check_start(
        load_config(TrainConfig, write_config(tmp_path / "t.yaml", manifest, tmp_path, **changes)),
        1,
        torch.device("cpu"),
    )


def test_labels_of_rows(tmp_path):
    manifest = labeled_set(tmp_path / "train", below=4)

    with temporary_module(HEADS, "mood", OF_ROWS, tmp_path / "modules"):
        with refused(r"heads\.mood .*3 classes.*column label .*below 4"):
            check(tmp_path, manifest, {"classes": 3})

        check(tmp_path, manifest, {"classes": 4})
        check(tmp_path, manifest, {"classes": 5})
        check(tmp_path, labeled_set(tmp_path / "two", below=2), {"classes": 2})


def test_held_out_labels_count_too(tmp_path):
    manifest = labeled_set(tmp_path / "train", below=3)
    heldout = str(labeled_set(tmp_path / "heldout", below=4))
    wrong = refused(r"the held-out set .*below 4")
    with temporary_module(HEADS, "mood", OF_ROWS, tmp_path / "modules"), wrong:
        check(tmp_path, manifest, {"classes": 3}, evaluate={}, data__heldout=heldout)


@pytest.mark.parametrize(
    ("source", "fits"), [(OF_POSITIONS, False), (NO_CLASSES, True), (ONE_SCORE, True)]
)
def test_a_head_that_declares_nothing_is_asked_for_its_scores(tmp_path, source, fits):
    """A head of several scores has as many classes, unless it says that its labels are none."""
    manifest = labeled_set(tmp_path / "train", below=4)

    with temporary_module(HEADS, "mood", source, tmp_path / "modules"):
        model = tiny(model__heads={"mood": 1.0}).model
        sets = [("the set", open_shards(manifest).manifest)]

        if fits:
            refuse_further_classes(sets, model)
        else:
            with refused("3 classes"):
                refuse_further_classes(sets, model)
