"""The score of a run that is trained on texts: the loss that its training measured, and its
perplexity."""

import json
import math
import shutil

import pytest

from clozeline.extensions.evaluation.commands.evaluate import main as evaluate
from tests.shard_sets import change_manifest
from tests.train.masked_set import write_config, write_masked_sets
from tests.train.objective_sets import write_objective_sets
from tests.train.runs import complete, evaluations, start


def test_a_run_on_texts_has_the_loss_of_its_training(one_rank, tmp_path, capsys):
    """45 rows in batches of 8, with and without a limit.

    A task's options are refused, and a moved set is named.
    """
    shards = write_masked_sets(tmp_path / "sets")

    by_row = "model.heads={masked_lm: {normalize: row}}"
    part = ["evaluate.max_rows=9", "model.heads={masked_lm: 2.0}"]
    for name, limit in (("row", [by_row]), ("all", []), ("part", part)):
        config = write_config(tmp_path / f"{name}.yaml", shards, tmp_path / name, steps=2)

        assert one_rank.run(start, config, ["evaluate.every=2", *limit])[0][0] == 0

        (measured,) = evaluations(tmp_path / name)
        capsys.readouterr()

        assert evaluate([str(tmp_path / name), "--json"]) == 0

        found = json.loads(capsys.readouterr().out)["sets"]["heldout"]

        assert found["loss"] == pytest.approx(measured["loss"], abs=2e-6)
        assert found["labels"] == {"masked_lm": measured["labels"]}
        assert found["unit"] == measured["unit"] == ("rows" if name == "row" else "labels")
        assert ("perplexity" in found) == (name != "row"), "a mean over rows has none"
        assert name == "row" or found["perplexity"] == pytest.approx(
            math.exp(found["losses"]["masked_lm"])
        )

    assert evaluate([f"{tmp_path}/all", "split=test"]) == 64
    assert "is trained on texts" in capsys.readouterr().err

    (tmp_path / "sets").rename(tmp_path / "moved")

    assert evaluate([f"{tmp_path}/all"]) != 0
    assert "data.shards=MANIFEST" in capsys.readouterr().err

    moved = [
        f"data.{key}={tmp_path / 'moved' / part}"
        for key, part in (("shards", "train"), ("heldout", "heldout"))
    ]

    assert evaluate([f"{tmp_path}/all", *moved]) == 0
    assert "perplexity" in capsys.readouterr().out


def test_other_held_out_sets(one_rank, tmp_path, capsys):
    """A note names other rows; rows of other languages are refused."""
    options = {"languages": True, "grouping": "document"}
    shards = write_objective_sets(tmp_path / "sets", "masked_lm", **options)
    model = {"model__languages": 2, "model__position": {"maximum": 64}}
    config = write_config(tmp_path / "train.yaml", shards, tmp_path / "run", **model)
    complete(one_rank, config, ["steps=2"])
    other = shutil.copytree(shards.parent, tmp_path / "other")
    capsys.readouterr()

    assert evaluate([f"{tmp_path}/run", f"data.heldout={other}"]) == 0
    assert "note: the held-out sets" in capsys.readouterr().err

    change_manifest(other, lambda manifest: manifest.update(languages=["cs", "de"]))

    assert evaluate([f"{tmp_path}/run", f"data.heldout={other}"]) == 64
    assert "language 0 is 'cs'" in capsys.readouterr().err
