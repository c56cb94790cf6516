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

MODULE = "tests.pipeline.execution.changing_reader"


@pytest.fixture(autouse=True)
def allowed(monkeypatch):
    monkeypatch.setenv(plugins.VARIABLE, f"{MODULE},datatrove.pipeline.readers")


def entry(folder, tasks=2, **options):
    given = {"folder": str(folder), **options}
    return {
        "reader": "datatrove",
        "block": f"{MODULE}:ChangingReader",
        "options": given,
        "tasks": tasks,
        "source": "web",
    }


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(5):
        row = {
            "text": f"Text {number}.",
            "metadata": {"url": f"https://e.org/{number}", "n": number},
        }
        (folder / f"{number}.json").write_text(json.dumps(row))
    return folder


def texts(found):
    return sorted(document.text for document in found.documents)


def test_documents_arrive_with_ids_and_metadata(tmp_path, folder):
    found = run_clean(entry(folder), tmp_path / "out")
    assert texts(found) == [f"Text {number}." for number in range(5)]
    first = min(found.documents, key=lambda document: document.text)
    assert (first.url, first.record_id, first.extra["n"]) == ("https://e.org/0", "0.json", 0)
    assert first.source_group == "web"
    assert len(found.records) == 2, "a unit for each task"


def test_a_reader_that_changed_is_not_read_again_unless_asked(tmp_path, folder):
    before = run_clean(entry(folder), tmp_path / "out")
    calls = len(list(folder.glob("read-*")))
    (folder / "5.json").write_text('{"text": "A new text."}')

    # another filter, the same documents
    clean = {"language": None, "filters": ["dehyphenate"]}
    run_clean(entry(folder), tmp_path / "out", clean)
    assert len(list(folder.glob("read-*"))) == calls
    assert texts(run_clean(entry(folder), tmp_path / "out")) == texts(before)

    recipe = recipe_for(entry(folder), tmp_path / "out")
    run_recipe(recipe, None, Progress(), [], force="read")
    assert "A new text." in texts(run_clean(entry(folder), tmp_path / "out"))


def test_other_arguments_and_other_numbers_of_tasks_are_other_units(tmp_path, folder):
    run_clean(entry(folder), tmp_path / "out")
    assert texts(run_clean(entry(folder, mark="!"), tmp_path / "out"))[0] == "Text 0.!"
    found = run_clean(entry(folder, tasks=3), tmp_path / "out")
    assert texts(found) == [f"Text {number}." for number in range(5)]
    assert len(found.records) == 3
    assert len(list((tmp_path / "out/read/documents").iterdir())) == 3, "others are removed"


def test_two_readers_of_one_class_are_two_inputs(tmp_path, folder):
    found = run_clean([entry(folder, tasks=1), entry(folder, tasks=1, mark="!")], tmp_path / "out")
    assert len(found.documents) == 10
    assert len({document.uid for document in found.documents}) == 10


def test_another_version_of_the_package_is_another_key(monkeypatch):
    block = "datatrove.pipeline.readers:JsonlReader"
    before = describe_algorithms([plugins.import_class(block)])
    monkeypatch.setattr(plugins, "version", lambda package: f"{package} of tomorrow")
    after = describe_algorithms([plugins.import_class(block)])
    assert before["custom"].keys() == after["custom"].keys()
    assert before != after


def test_html_is_extracted(tmp_path, folder):
    for file in folder.iterdir():
        page = "<html><body><main><p>A paragraph of text.</p></main></body></html>"
        file.write_text(json.dumps({"text": page}))
    found = run_clean({**entry(folder), "html": True}, tmp_path / "out")
    assert set(texts(found)) == {"A paragraph of text."}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"options": {"folder": "nowhere"}}, "No such file"),
        ({"options": {}}, "folder"),
        ({"block": f"{MODULE}:Missing"}, "has no 'Missing'"),
        ({"block": None}, "expected one of the keys `path` and `block`"),
        ({"reader": "jsonl"}, "belong together"),
        ({"path": "here"}, "expected one of the keys"),
        ({"tasks": 0}, "tasks"),
    ],
)
def test_mistakes_are_named(changes, said, tmp_path, folder):
    with pytest.raises(ClozelineError) as error:
        run_clean({**entry(folder), **changes}, tmp_path / "out")
    assert error.value.exit_code == ConfigurationError.exit_code
    assert said in str(error.value)


def test_the_plan_of_a_run_that_has_read_nothing_says_so(tmp_path, folder):
    with pytest.raises(ConfigurationError, match="nothing has been read yet"):
        load_plan(recipe_for(entry(folder), tmp_path / "out"))
