"""Published scores: the tables are whole, and a run's score stands in the column of its task."""

import pytest

from clozeline import HOME
from clozeline.errors import ConfigurationError
from clozeline.extensions.studies.published_scores import (
    load_published,
    published_rows,
    read_own_scores,
)
from clozeline.extensions.tasks.readers.glue import GLUE_TASKS
from tests.extensions.tasks.test_finetuning_scores import write

NAMES = sorted(path.stem for path in (HOME / "configs" / "published").glob("*.yaml"))


@pytest.mark.parametrize("name", NAMES)
def test_a_table_has_tasks_and_metrics_of_ours(name):
    table = load_published(name)
    for column in table.columns.values():
        assert (HOME / "configs" / "recipes" / "tasks" / f"{column.task}.yaml").is_file()
        if column.task in GLUE_TASKS:
            assert column.metric in GLUE_TASKS[column.task].metrics

    assert all(0 <= score <= 100 for row in table.models.values() for score in row.values())


def test_a_run_has_the_cell_of_its_task(tmp_path):
    write(tmp_path, 3, [0, 1, 0, 0], task="sst2")
    scored = read_own_scores(tmp_path / "seed-3", 3)
    rows = published_rows(load_published("glue"), [("mine", scored), ("none", None)])
    columns = list(load_published("glue").columns)

    assert rows[-2][1:] == ["75.0" if column == "SST-2" else "-" for column in columns]
    assert rows[-1][1:] == ["-"] * len(columns)
    assert dict(zip(columns, rows[-3][1:], strict=True))["CoLA"] == "60.5"
    assert read_own_scores(tmp_path / "seed-4", 4) is None
    assert read_own_scores(tmp_path / "else" / "run", 0) is None


def test_an_unknown_table_is_refused_with_the_known_ones():
    with pytest.raises(ConfigurationError, match="electra, glue, roberta, swag"):
        load_published("glu")
