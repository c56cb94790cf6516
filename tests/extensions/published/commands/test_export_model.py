"""export-model plans, writes and verifies: what is planned is what is there, and an export is
complete or absent."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from clozeline import HOME
from clozeline.configuration.overrides import parse_yaml
from clozeline.extensions.inference.commands.fill_mask import main as fill_mask
from clozeline.extensions.published import writing
from clozeline.extensions.published.commands.export_model import main as export_model
from clozeline.extensions.published.conversion.export import model_without_weights
from clozeline.extensions.published.export_plan import exported_form, plan_export
from clozeline.pipeline.row_form import RowForm
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.data.sets.text_form import text_form
from tests.train.written_runs import BERT, write_run


def files_of(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def plan_of(capsys, *words):
    capsys.readouterr()
    code = export_model([*map(str, words), "dry_run=true"])
    return code, capsys.readouterr().out


@pytest.mark.parametrize("words", [(), ("parts=encoder", "pooling=mean")])
def test_a_dry_run_names_the_class_that_is_written(bert, tmp_path, capsys, words):
    code, plan = plan_of(capsys, bert, tmp_path / "out", *words)

    assert code == 0
    assert not (tmp_path / "out").exists()
    assert export_model([str(bert), f"{tmp_path}/out", *words]) == 0

    [architecture] = json.loads((tmp_path / "out/config.json").read_text())["architectures"]

    assert plan == f"export     as {architecture} of transformers\n"


def test_a_plan_without_a_class_says_what_would_have_one(shard_sets, tmp_path, capsys):
    run = tmp_path / "run"
    write_run(run, shard_sets, [3], 1, **BERT | {"model__position": {"kind": "rope"}})
    code, plan = plan_of(capsys, run, tmp_path / "out")

    assert code == 64

    refusal = plan.splitlines()[0].removeprefix("export     not possible: ")

    assert "model." in refusal
    assert export_model([str(run), f"{tmp_path}/out"]) == 64
    assert refusal in capsys.readouterr().err


@pytest.mark.parametrize("exists", [False, True])
def test_other_scores_are_told_and_leave_nothing(bert, tmp_path, capsys, monkeypatch, exists):
    """Weights that were written wrongly load without a word."""
    write = writing.write_tensors

    def write_changed(path, tensors):
        write(path, {name: tensor * 1.5 for name, tensor in tensors.items()})

    monkeypatch.setattr(writing, "write_tensors", write_changed)
    output = tmp_path / "out"
    if exists:
        output.mkdir()

    assert export_model([str(bert), str(output)]) == 64

    told = capsys.readouterr().err

    assert "other scores" in told
    assert "nothing was written" in told
    assert [path for path in tmp_path.rglob("*") if path != output] == []
    assert output.exists() == exists


KILLED = """
import os, signal, sys
from clozeline.extensions.published import writing
from clozeline.extensions.published.commands.export_model import main
writing.write_tensors = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
main(sys.argv[1:])
"""


def test_a_killed_export_is_not_there_and_the_next_one_is_complete(bert, tmp_path):
    output = tmp_path / "out"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", KILLED, str(bert), str(output)]

    assert (
        subprocess.run(command, env=environment, check=False, capture_output=True).returncode
        == -signal.SIGKILL
    )
    assert not output.exists()
    assert export_model([str(bert), str(output)]) == 0
    assert (output / "config.json").is_file()
    assert list(tmp_path.iterdir()) == [output]


def test_an_empty_folder_gets_the_files_themselves(bert, tmp_path):
    """It may be a mounted disk, which cannot be renamed."""
    (tmp_path / "out").mkdir()
    number = (tmp_path / "out").stat().st_ino
    assert export_model([str(bert), f"{tmp_path}/out"]) == 0
    assert (tmp_path / "out").stat().st_ino == number
    assert not [name for name in files_of(tmp_path / "out") if Path(name).parts[0].startswith(".")]
    assert fill_mask([f"{tmp_path}/out", "the ___ of"]) == 0


def test_rows_with_the_frame_of_an_objective_are_no_task(encoder):
    """permuted_lm has an option `frame`, too: its texts are not cut where a task cuts them."""
    first = encoder[1].recorded[0]
    xlnet = RowForm(between=(2,), tail=(2, 1))
    permuted = replace(first, objective=first.objective.model_copy(update={"frame": xlnet}))
    form = text_form(encoder[1].checkpoint.config, [permuted])

    assert form.frame == ((), (2,), (2, 1))
    assert not form.cuts_texts


def test_a_model_is_exported_from_an_opened_run_as_planned_without_its_weights(bert):
    """A plan needs names and shapes alone."""
    trained = TrainedModel.open(bert)
    checkpoint = exported_form(trained)
    bare = model_without_weights(checkpoint.config, checkpoint.vocab_size, checkpoint.token_ids)
    facts = {"tokenizer": trained.tokenizer_folder, "recorded": trained.recorded}
    assert plan_export(bare, **facts) == plan_export(checkpoint, **facts)


@pytest.mark.parametrize("word", ["license=MIT License", "language=english"])
def test_a_card_takes_ids(bert, tmp_path, capsys, word):
    assert export_model([str(bert), f"{tmp_path}/out", word]) == 64
    assert f"{word.partition('=')[0]}: expected a" in capsys.readouterr().err


@pytest.mark.parametrize("label", ["span_corruption", "bart"])
def test_a_published_encoder_decoder_reads_a_prompt_as_its_run(shard_sets, tmp_path, label):
    run = tmp_path / "run"
    keys = parse_yaml((HOME / "configs/models/t5.yaml").read_text())
    del keys["sizes"], keys["init"]
    write_run(run, shard_sets, [3], 1, label, **{f"model__{key}": keys[key] for key in keys})

    assert export_model([str(run), f"{tmp_path}/out"]) == 0

    forms = [TrainedModel.open(path).objectives[0].frame for path in (run, tmp_path / "out")]
    before, after = ((form.head, form.tail, form.decoder_start) for form in forms)

    assert before == after
