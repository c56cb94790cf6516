"""What a reader of datatrove yields is read once, stored, and the same in every later run."""

import json

import pytest

from clozeline import plugins
from clozeline.errors import ClozelineError, ConfigurationError
from clozeline.pipeline.execution.arguments import describe_algorithms
from clozeline.pipeline.execution.plan import load_plan
from clozeline.pipeline.execution.progress import Progress
from clozeline.pipeline.execution.runner import run_recipe
from tests.pipeline.clean.cleaning import recipe_for, run_clean
from tests.refusals import refused

MODULE = "tests.extensions.datatrove.changing_reader"


@pytest.fixture
def entry(tmp_path, monkeypatch):
    """`entry(tasks, **options)`: an input with a reader of five files."""
    monkeypatch.setenv(plugins.VARIABLE, f"{MODULE},datatrove.pipeline.readers")
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(5):
        row = {
            "text": f"Text {number}.",
            "metadata": {"url": f"http://e.org/{number}", "n": number},
        }
        (folder / f"{number}.json").write_text(json.dumps(row))

    def entry(tasks=2, **options):
        return {
            "reader": "datatrove",
            "block": f"{MODULE}:ChangingReader",
            "options": {"folder": str(folder), **options},
            "tasks": tasks,
            "source": "web",
        }

    return entry


def texts(found):
    return sorted(document.text for document in found.documents)


FIVE = [f"Text {number}." for number in range(5)]


def test_documents_arrive_with_ids_and_metadata(tmp_path, entry):
    found = run_clean(entry(), tmp_path / "out")
    first = min(found.documents, key=lambda document: document.text)

    assert texts(found) == FIVE
    assert (first.url, first.record_id, first.extra["n"]) == ("http://e.org/0", "0.json", 0)
    assert first.source_group == "web"
    assert len(found.records) == 2, "a unit for each task"


def test_a_reader_that_changed_is_not_read_again_unless_asked(tmp_path, entry):
    run_clean(entry(), tmp_path / "out")
    (tmp_path / "data/5.json").write_text('{"text": "A new text."}')

    # another filter, the same documents
    run_clean(entry(), tmp_path / "out", {"language": None, "filters": ["dehyphenate"]})
    assert texts(run_clean(entry(), tmp_path / "out")) == FIVE
    assert len(list((tmp_path / "data").glob("read-*"))) == 2

    run_recipe(recipe_for(entry(), tmp_path / "out"), None, Progress(), [], force="read")
    assert texts(run_clean(entry(), tmp_path / "out")) == ["A new text.", *FIVE]


def test_other_arguments_and_other_numbers_of_tasks_are_other_units(tmp_path, entry):
    run_clean(entry(), tmp_path / "out")
    assert texts(run_clean(entry(mark="!"), tmp_path / "out"))[0] == "Text 0.!"
    found = run_clean(entry(tasks=3), tmp_path / "out")
    assert texts(found) == FIVE
    assert len(found.records) == 3
    assert len(list((tmp_path / "out/read/documents").iterdir())) == 3, "others are removed"

    # two readers of one class are two inputs
    found = run_clean([entry(tasks=1), entry(tasks=1, mark="!")], tmp_path / "out")
    assert len({document.uid for document in found.documents}) == 10


def test_another_version_of_the_package_is_another_key(monkeypatch, entry):
    block = plugins.import_class("datatrove.pipeline.readers:JsonlReader")
    before = describe_algorithms([block])
    monkeypatch.setattr(plugins, "version", lambda package: f"{package} of tomorrow")
    assert describe_algorithms([block]) != before


def test_html_is_extracted(tmp_path, entry):
    page = "<html><body><main><p>A paragraph of text.</p></main></body></html>"
    (tmp_path / "data/0.json").write_text(json.dumps({"text": page}))
    found = run_clean({**entry(), "html": True}, tmp_path / "out")
    assert "A paragraph of text." in texts(found)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"options": {"folder": "nowhere"}}, "No such file"),
        ({"block": f"{MODULE}:Missing"}, "Missing"),
        ({"block": None}, "block"),
        ({"reader": "jsonl"}, "expected the key `path`"),
        ({"path": "here"}, "expected no `path`"),
        ({"tasks": 0}, "tasks"),
    ],
)
def test_mistakes_are_named(changes, said, tmp_path, entry):
    with pytest.raises(ClozelineError, match=said) as error:
        run_clean({**entry(), **changes}, tmp_path / "out")
    assert error.value.exit_code == ConfigurationError.exit_code


def test_the_plan_of_a_run_that_has_read_nothing_says_so(tmp_path, entry):
    with refused("nothing has been read yet"):
        load_plan(recipe_for(entry(), tmp_path / "out"))
