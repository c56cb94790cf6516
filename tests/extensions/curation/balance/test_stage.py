"""The stage as a whole: what it refuses."""

import pytest

from clozeline.configuration.config import validate
from clozeline.errors import IntegrityError
from clozeline.pipeline.execution.stages import check_recipe
from clozeline.pipeline.execution.unit_record import Output, UnitRecord
from clozeline.pipeline.recipe import Recipe
from tests.extensions.curation.balance.balanced import (
    SOURCES,
    recipe,
    run_balanced,
    write_languages,
)
from tests.refusals import refused
from tests.shard_sets import change_manifest


def test_a_token_set_that_changed_is_not_counted(tmp_path):
    write_languages(tmp_path)
    output = Output(tmp_path / "encode")
    content = (tmp_path / "encode/manifest.json").read_bytes()
    with output.file("manifest.json") as path:
        path.write_bytes(content)
    UnitRecord("manifest", "000000", {}, {}, "ok", {}, output.files).save(output.folder)
    run_balanced(tmp_path, {}, "balance")
    change_manifest(
        tmp_path / "encode", lambda manifest: manifest.update(config={"of": "another run"})
    )

    with pytest.raises(
        IntegrityError, match=r"manifest\.json: .*has changed since 'encode' wrote it"
    ):
        run_balanced(tmp_path, {}, "balance")


def test_mistakes_of_the_key_are_named(tmp_path):
    for wrong, said in (
        ({"alpha": 1.5}, "alpha"),
        ({"max_copies": 256}, "max_copies"),
        ({"sources": {"a": 0}}, "a"),
        ({"sources": {"a": 40, "b": 60}}, "these are shares.*got the sum 100"),
        ({"sources": {"a": 0.7, "b": 0.31}}, "these are shares.*got the sum 1.01"),
    ):
        with refused(said):
            recipe(tmp_path, wrong)

    unknown = sourced(tmp_path, {"sources": {"bookz": 0.2}})

    with refused(r"no input has the source 'bookz'; the inputs have books, web"):
        check_recipe(unknown)

    with refused("all sources named, the sum must be 1, got 0.9"):
        check_recipe(sourced(tmp_path, {"sources": {"books": 0.2, "web": 0.7}}))

    check_recipe(sourced(tmp_path, {"sources": {"books": 0.2}}))
    check_recipe(sourced(tmp_path, {"sources": {"books": 0.1, "web": 0.9}}))
    # exported documents keep labels that only their rows tell
    check_recipe(sourced(tmp_path, {"sources": {"bookz": 0.2}}, exported=True))


def sourced(out, balance, **options):
    inputs = [{"path": name, "source": name, **options} for name in SOURCES]
    stages = {"clean": {}, "train_tokenizer": {}, "encode": {}, "balance": balance}
    return validate(
        Recipe, {"corpus": "toy", "output": str(out), "input": inputs, **stages}, "recipe"
    )
