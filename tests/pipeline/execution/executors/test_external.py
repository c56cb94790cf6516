"""Workers that anything starts: shares, kills, and how they end."""

import json
import os
import random
import re
import shlex
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
import yaml

from clozeline import output_lock
from clozeline.errors import StorageError
from clozeline.files import HOST
from clozeline.pipeline import all_stages
from clozeline.pipeline.execution.executors import Assignment, external, publish_work
from tests.clozeline.test_output_lock import THERE, Clock
from tests.distributed import ROOT
from tests.pipeline.execution.executors.external_workers import (
    COMMANDS,
    VARIABLES,
    end,
    start,
    start_worker,
    until,
)
from tests.pipeline.execution.noting_steps import Endless, Noting
from tests.pipeline.execution.toy_stage import tree
from tests.pipeline.miniature import RECIPE, write_corpus, write_recipe

SHORT = RECIPE[: RECIPE.index("  - {name: span_corruption")]
DEAD = json.dumps({"host": HOST, "pid": 1, "start": -1e6})


@dataclass
class Shared(Noting):
    """A step whose units 2 and 4 others have claimed, and do before unit 6 ends.

    The work is withdrawn after the last unit.
    """

    @property
    def logs(self):
        return self.folder / "out/clean/logs/main"

    def __call__(self, unit):
        super().__call__(unit)
        for each in "24" if unit == "6" else "":
            (self.folder / f"{each}.done").touch()
        if len(list(self.folder.glob("*.done"))) == 7:
            shutil.rmtree(self.folder / "out/.work")


def published(step):
    """Work of seven units, as a driver publishes it."""
    path = step.folder / "out/.work/round/tasks.pickle"
    path.parent.mkdir(parents=True)
    publish_work(path, Assignment(step, "0123456", 1))
    return path


def test_a_worker_runs_what_nobody_else_has(tmp_path):
    path = published(Shared(tmp_path))
    assert all(output_lock.Holder(path.with_name(f"{unit}.claim")).create() for unit in "24")
    external._run_units(path)
    assert {path.stem for path in tmp_path.glob("*.started")} == {*"01356"}


def test_a_machine_that_sees_the_output_elsewhere_is_told(tmp_path):
    published(Shared(tmp_path))
    shutil.copytree(tmp_path / "out", tmp_path / "mount")
    with pytest.raises(StorageError, match="mount it at the same path"):
        external._run_units(tmp_path / "mount/.work/round/tasks.pickle")


def test_a_claim_of_another_machine_is_lost_when_it_is_no_longer_renewed(tmp_path, monkeypatch):
    """Unit 1 belongs to a machine that stops renewing after 400 s; the others are done."""
    path = published(step := Noting(tmp_path))
    for unit in {*range(7)} - {1}:
        (tmp_path / f"{unit}.done").touch()
    claim = path.with_name("1.claim")
    claim.write_text(json.dumps(THERE))
    clock = Clock(lambda now: now < 400 and os.utime(claim, (now, now)))
    for module in (external, output_lock):
        monkeypatch.setattr(module, "time", clock)
    external._wait(Assignment(step, "0123456", 1), path.parent, lambda **_: None)

    assert 400 + 180 <= clock.now <= 400 + 182
    assert claim.exists(), "no worker takes it before the next round"


@dataclass
class Kept(Endless):
    @property
    def logs(self):
        return self.folder / "out/clean/logs/main"


def test_a_worker_that_begins_again_gives_its_unit_back(tmp_path):
    """As it does when it cannot read for a moment who the driver is."""
    work = published(Kept(tmp_path))
    work.parent.rename(work.parents[1] / f"{os.getpid()}-a")
    holder = output_lock.Holder(tmp_path / "out/.holder")
    holder.create()
    driver = holder.path.read_text()
    worker = start_worker(tmp_path / "out")
    until(lambda: [*tmp_path.glob("*.pid")])
    holder.path.write_text("")
    until(lambda: not [*tmp_path.glob("out/.work/*/*.claim")])
    holder.path.write_text(driver)
    until(lambda: [*tmp_path.glob("out/.work/*/*.claim")])
    worker.terminate()

    assert end(worker)[0] == 75


@pytest.mark.parametrize(
    ("driver", "is_published", "code", "said"),
    [
        (DEAD, True, 0, "its process has died"),
        (DEAD, False, 74, "its process has died"),
        ("", True, 0, "the pipeline has ended"),
        ("", False, 74, "no pipeline has started"),
    ],
)
def test_a_worker_ends_without_a_driver(tmp_path, driver, is_published, code, said):
    """It takes no work of another driver than the present one."""
    if driver:
        (tmp_path / ".holder").write_text(driver)
    if is_published:
        (tmp_path / ".work/77-a").mkdir(parents=True)
        (tmp_path / ".work/77-a/tasks.pickle").touch(mode=0o600)
    ended = end(start_worker(tmp_path, "wait_s=1"))

    assert (ended[0], said in ended[1]) == (code, True)


def kill_at_random(folder, seed):
    """Start four workers one after another in a folder, and kill three at a random time.

    They live longer and longer, however slow this machine is.
    """
    draw = random.Random(seed)
    killed = 0

    for lifetime in (1, 2, 4, None):
        worker = start_worker("../../here/out", folder=folder)
        try:
            assert worker.wait(lifetime and draw.uniform(0.5, 1.5) * lifetime) == 0
        except subprocess.TimeoutExpired:
            worker.kill()
            killed += 1
        else:
            break  # the run has ended
        finally:
            end(worker)

    return killed


def test_workers_and_a_driver_that_are_killed_give_the_bytes_of_a_local_run(tmp_path):
    """Also with a module in the folder of the pipeline, and a relative output: a worker may be
    started in any folder."""
    here = tmp_path / "here"
    elsewhere = tmp_path / "there/deep"
    elsewhere.mkdir(parents=True)
    shutil.copytree(ROOT / "docs/mylab/mylab", here / "mylab")
    command = [str(COMMANDS / "clozeline"), "pipeline"]
    command += ["--config", str(write_recipe(tmp_path, SHORT))]
    command += [f"input={write_corpus(tmp_path / 'in', 25)}"]
    command += ["clean.filters=[{name: mylab.filters.shouting:Shouting, share: 0.3}]"]
    workers = ["executor.name=external", "executor.retries=1000"]
    local = start(*command, "output=local", folder=here)
    driver = start(*command, "output=out", *workers, folder=here)
    with ThreadPoolExecutor() as pool:
        killed = pool.map(kill_at_random, [elsewhere] * 3, range(3))
        until(lambda: any((here / "out/dedup/records").glob("*/*.running")))
        driver.kill()
        end(driver)
        driver = start(*command, "output=out", *workers, folder=here)

    code, said = end(driver)

    assert code == 0, said
    assert said.count("clozeline work") == 1, "once per run, not per pass"
    assert end(local)[0] == 0
    assert sum(killed) >= 3
    for stage in all_stages():
        assert tree(here / "out" / stage) == tree(here / "local" / stage), stage


def prepare(folder, patch):
    """For the contract of executors: workers that the commands of the page and of a job start
    before the run."""
    job = yaml.safe_load((ROOT / "configs/launch/job.yaml").read_text())
    (container,) = job["spec"]["template"]["spec"]["containers"]
    page = (ROOT / "docs/clusters.md").read_text()
    lines = re.findall(r"^(?:parallel|seq) .*clozeline work .*$", page, re.MULTILINE)
    for line in (*lines, shlex.join(container["command"])):
        command = line.replace("/shared/web", shlex.quote(str(folder / "there")))
        quiet = f"({command}) >{shlex.quote(str(folder))}/log 2>&1 &"
        subprocess.run(["sh", "-c", quiet], env=VARIABLES, check=True)
    return {}
