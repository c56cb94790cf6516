"""A head of labeled data in another extension: one file in `heads`, one in `tasks/rows`."""

from clozeline import registry
from clozeline.extension_list import Extension, list_extensions
from clozeline.extensions.tasks.readers import TaskMetadata
from clozeline.extensions.tasks.rows import rows_of
from clozeline.extensions.tasks.task_heads import task_head_of
from tests.model.small_models import small_config

FILES = {
    "heads/rank.py": """
from clozeline.extensions.tasks.heads.regression import RegressionHead, RegressionTaskHead

class RankHead(RegressionHead):
    target = "rank"

class RankTaskHead(RegressionTaskHead):
    of_head = "rank"
""",
    "tasks/rows/rank.py": """
from clozeline.extensions.tasks.rows.regression import NumberRows

class RankRows(NumberRows):
    for_head = "rank"
""",
}


def test_nothing_else_names_a_head(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / "ranklab" / name).parent.mkdir(parents=True)
        (tmp_path / "ranklab" / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    ours = (*list_extensions(), Extension("ranklab", "ranklab", tmp_path / "ranklab", "", {}))
    monkeypatch.setattr(registry, "list_extensions", lambda: ours)
    facts = TaskMetadata(name="t", head="rank", metrics=("spearman",), high=5.0)
    model = small_config("encoder", heads={"rank": {"output": "sigmoid"}})
    answers = task_head_of(facts)

    assert rows_of("rank", "encoder").switches_words
    assert model.targets == {"rank": "rank"}
    assert answers.configure(model, "rank", "a set").range == (0.0, 5.0)
    assert answers.fields() == {"score": float}
