"""What rows hold is a fact of their set."""

from clozeline.extension_list import HIDE
from clozeline.pipeline.set_kinds import kind_of
from clozeline.pipeline.shards import open_shards
from tests.golden_files import DATA
from tests.refusals import refused


def test_an_old_set_says_what_its_rows_hold(monkeypatch):
    stored = open_shards(DATA / "format_0.1/tasks/tasks/golden/dev").manifest.objective
    kind = kind_of(stored)

    assert (kind.head, kind.labels, kind.blanks) == ("classification", ("hill", "tree"), "stripped")
    assert kind_of(stored.model_copy(update={"name": "masked_lm"})) is None
    assert kind_of(None) is None

    monkeypatch.setenv(HIDE, "tasks")

    with refused("extension that is hidden or not installed"):
        kind_of(stored)
