"""A run removes and replaces its own files alone."""

import os
import re
import shlex
import signal
import subprocess
from dataclasses import dataclass

import pytest

from clozeline.checksummed_json import write_canonical
from clozeline.errors import PartialFailureError
from clozeline.pipeline.execution.plan import PLAN_FORMAT
from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import UnitRecord, holds_records
from clozeline.pipeline.shards import open_shards
from tests.pipeline.execution import toy_stage
from tests.pipeline.execution.toy_stage import Square, ToyStage, run_toy
from tests.pipeline.miniature import text, write_recipe

RECIPE = """
corpus: tiny
input: in.txt
clean: {language: null, filters: []}
dedup: {}
train_tokenizer: {name: byte_bpe, size: 440}
encode: {sentences: regex}
heldout: {fraction: 0}
group: {}
corrupt: [{name: masked_lm, max_length: 64}]
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """`run(*words)`: exit code and messages of a run in a folder of the user."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text(text(3, 90))
    words = ["--config", str(write_recipe(tmp_path, RECIPE))]

    def run(*more):
        code = main([*words, *more])
        said = capsys.readouterr()
        return code, " ".join((said.out + said.err).split())

    return run


@pytest.mark.parametrize(
    "mine",
    [
        *("clean/src/a.py", "dedup/.git/HEAD", "encode/records/a/b.json", "group/a.tmp"),
        *("train_tokenizer/config.yaml", "corrupt/running/a", "clean/plan.json", "status.json"),
    ],
)
@pytest.mark.parametrize("option", [[], ["--plan"]], ids=["run", "plan"])
def test_a_folder_of_the_user_is_refused(run, tmp_path, mine, option):
    path = tmp_path / mine
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    before = sorted(tmp_path.rglob("*"))
    code, said = run("output=.", *option)

    assert code == 64
    assert mine.partition("/")[2] in said
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("keep", [True, False])
def test_files_of_the_user_stay_in_a_stage_and_are_named_once(tmp_path, capfd, keep):
    """Next to what is removed: outputs, intermediate files, records."""
    run_toy(tmp_path, keep=keep)
    mine = ["a.md", "sums/b.tmp", "tmp/c", "records/d.md", "records/square/e", "logs/f", "g/h"]
    for name in mine:
        path = tmp_path / "dedup" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("1\n")
    capfd.readouterr()
    run_toy(tmp_path, keep=keep, version=2)
    said = capfd.readouterr().err

    assert said.count("a.md") == 1
    assert all((tmp_path / "dedup" / name).read_text() == "1\n" for name in mine)


@dataclass(frozen=True)
class Dying(Square):
    """Publishes a file that no other version has; version 1 dies then."""

    def run(self, inputs, output):
        with output.file(f"sums/of-{self.version}-{self.number}") as path:
            path.write_text("")
        if self.version == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().run(inputs, output)


class DyingStage(ToyStage):
    def passes(self):
        squares, sums = super().passes()
        units = {name: Dying(unit.number, unit.version) for name, unit in squares.units.items()}
        return [Pass("square", units), sums]


def test_files_of_a_killed_unit_are_known_although_it_has_no_record(tmp_path, monkeypatch):
    monkeypatch.setattr(toy_stage, "ToyStage", DyingStage)
    with pytest.raises(PartialFailureError):
        run_toy(tmp_path)

    assert (tmp_path / "dedup/sums/of-1-0").exists()

    run_toy(tmp_path, version=2)

    assert {path.name[:4] for path in (tmp_path / "dedup/sums").glob("of-*")} == {"of-2"}


@pytest.mark.parametrize("status", ["ok", "failed"])
def test_a_pass_that_is_gone_leaves_once(tmp_path, status):
    run_toy(tmp_path)
    UnitRecord("old", "a", {}, status=status).save(tmp_path / "dedup")

    assert [run_toy(tmp_path).skipped for _ in range(2)] == [False, True]


def test_a_published_set_that_the_recipe_no_longer_names_stays(run, tmp_path):
    """Until the user types the command of the message; then its records go, too."""

    def sets():
        return {
            path: path.read_bytes() for path in tmp_path.glob("out/group/packed-62*/train/*.arrow")
        }

    assert run("output=out")[0] == 0
    first = sets()
    assert first

    longer = ("output=out", "corrupt.0.max_length=90")
    code, said = run(*longer, "--plan")

    assert code == 0
    assert "rm -r " in said
    assert "published sets are written again" in said
    assert run(*longer)[0] == 0
    assert sets() == first
    assert "max_length: 90" in (tmp_path / "out/clean/config.yaml").read_text(), "of the last run"

    command = shlex.split("rm -r " + said.partition("rm -r ")[2])[:3]
    subprocess.run(command, check=True)

    assert not sets()
    assert run(*longer)[0] == 0
    assert not [*tmp_path.glob("out/group/records/*/packed-62*")]
    assert "rm -r " not in run(*longer, "--plan")[1]
    assert run("output=out")[0] == 0
    assert sets() == first


def test_a_vocabulary_that_may_change_is_told_before_and_can_be_kept(run, tmp_path):
    """By typing the command of the message."""

    def vocabulary():
        return (tmp_path / "out/train_tokenizer/tokenizer/tokenizer.json").read_bytes()

    def tokenizer_of_sets():
        return open_shards(tmp_path / "out/encode").manifest.tokenizer

    assert run("output=out")[0] == 0
    before, first = vocabulary(), tokenizer_of_sets()
    assert "the vocabulary may change" not in run("output=out", "--plan")[1]

    (tmp_path / "in.txt").write_text(text(5, 120).replace("e", "zq"))
    code, said = run("output=out", "--plan")
    assert code == 0

    copy, words = re.search(r"(cp -r \S+ KEPT), and add (\S+ \S+) to the command", said).groups()
    subprocess.run(shlex.split(copy), check=True)
    assert run("output=out", *words.split())[0] == 0
    assert tokenizer_of_sets().fingerprint == first.fingerprint

    assert run("output=out")[0] == 0
    assert vocabulary() != before


def test_a_plan_of_any_version_says_that_a_run_has_written(tmp_path):
    """A start that is killed behind the plan leaves nothing else."""
    path = tmp_path / "plan.json"
    path.write_text("{}")
    assert not holds_records(tmp_path)
    for version in (1, PLAN_FORMAT, PLAN_FORMAT + 1):
        path.write_bytes(write_canonical({"format": version}))
        assert holds_records(tmp_path)
