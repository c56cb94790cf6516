"""Workers that anything starts: shares, kills, and how they end."""

import os
import random
import re
import shlex
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
import yaml

from clozeline.errors import StorageError
from clozeline.files import read_json
from clozeline.pipeline import all_stages
from clozeline.pipeline.execution import output_lock
from clozeline.pipeline.execution.executors import Assignment, external, publish_work
from tests.distributed import ROOT
from tests.pipeline.execution.clock import Clock
from tests.pipeline.execution.executors.external_workers import (
    COMMANDS,
    VARIABLES,
    end,
    start,
    start_worker,
    until,
)
from tests.pipeline.execution.noting_steps import Noting
from tests.pipeline.execution.toy_stage import tree
from tests.pipeline.miniature import RECIPE, write_corpus, write_recipe

SHORT = RECIPE[: RECIPE.index("  - {name: span_corruption")]
ELSEWHERE = '{"host": "elsewhere", "pid": 1, "start": 1.0}'


@dataclass
class Ordered(Noting):
    """A step that notes the order of its units, and withdraws the work after the last one.

    Other workers have done `others` before unit 6.
    """

    others: str = ""

    @property
    def logs(self):
        return self.folder / "out/clean/logs/main"

    def __call__(self, unit):
        with (self.folder / "order").open("a") as file:
            file.write(f"{unit} ")
        for each in self.others if unit == "6" else "":
            (self.folder / f"{each}.done").touch()
        super().__call__(unit)
        if len(list(self.folder.glob("*.done"))) == 7:
            shutil.rmtree(self.folder / "out/.work")


@pytest.fixture(autouse=True)
def limited():
    """No driver waits for a worker forever."""

    def stop(*_):
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(300)
    yield
    signal.alarm(0)


class Interrupted(Ordered):
    def __call__(self, unit):
        raise KeyboardInterrupt


def published(step):
    """Work of seven units, as a driver publishes it."""
    path = step.folder / "out/.work/round/tasks.pickle"
    path.parent.mkdir(parents=True)
    publish_work(path, Assignment(step, "0123456", 1))
    return path


@pytest.mark.parametrize("others", ["", "24"])
def test_a_worker_runs_what_nobody_else_has(tmp_path, monkeypatch, others):
    monkeypatch.setattr("random.sample", lambda units, count: list(units))
    path = published(Ordered(tmp_path, others=others))
    assert all(output_lock.Holder(path.with_name(f"{unit}.claim")).create() for unit in others)
    external._run_units(path)
    assert (tmp_path / "order").read_text().split() == sorted({*"0123456"} - {*others})


def test_an_interrupted_worker_frees_its_unit(tmp_path):
    path = published(Interrupted(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        external._run_units(path)

    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_machine_that_sees_the_output_elsewhere_is_told(tmp_path):
    published(Ordered(tmp_path))
    shutil.copytree(tmp_path / "out", tmp_path / "mount")
    with pytest.raises(StorageError, match="mount it at the same path"):
        external._run_units(tmp_path / "mount/.work/round/tasks.pickle")


def use_clock(monkeypatch, then):
    clock = Clock(then)
    for module in (external, output_lock):
        monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.mark.parametrize(("name", "is_taken"), [("7-a", True), ("77-a", False)])
def test_work_of_another_driver_than_the_present_one_is_not_taken(
    tmp_path, monkeypatch, name, is_taken
):
    """A driver that was killed leaves its work, and the next one may run another recipe."""

    def stop(now):
        raise KeyboardInterrupt

    taken = []
    path = tmp_path / ".work" / name / "tasks.pickle"
    path.parent.mkdir(parents=True)
    path.touch()
    (tmp_path / ".holder").write_text('{"pid": 7}')
    monkeypatch.setattr(external, "_watch", lambda *_: None)
    monkeypatch.setattr(external, "_run_units", lambda path, *_: taken.append(path))
    use_clock(monkeypatch, stop)
    with pytest.raises(KeyboardInterrupt):
        external._work(external.WorkOptions(output=tmp_path))

    assert taken == [path] * is_taken


def renew(holder, now):
    if now % 20 == 0:
        os.utime(holder, (now, now))
    if now == 5000:
        holder.unlink()


def restart(holder, now):
    if now == 300:
        holder.write_text(ELSEWHERE.replace("1.0", "2.0"))


@pytest.mark.parametrize(
    ("driver", "is_published", "then", "code", "seconds"),
    [
        (ELSEWHERE, True, renew, "restarted", 5000),
        (ELSEWHERE, True, restart, "restarted", 300),
        (ELSEWHERE, False, lambda *_: None, 74, 180 + 600),
        ("", False, lambda *_: None, 74, 600),
        ("", True, lambda *_: None, 0, 2),
    ],
)
def test_a_worker_stays_as_long_as_its_driver_and_waits_for_the_next_one(
    tmp_path, monkeypatch, driver, is_published, then, code, seconds
):
    def leave(code):
        raise SystemExit(code)

    holder = tmp_path / ".holder"
    if driver:
        holder.write_text(driver)
    if is_published:
        (tmp_path / ".work").mkdir()
    clock = use_clock(monkeypatch, lambda now: then(holder, now))
    monkeypatch.setattr(external, "restart_program", lambda folder: leave("restarted"))
    monkeypatch.setattr("os._exit", leave)
    with pytest.raises(SystemExit) as ended:
        external._watch(tmp_path, read_json(holder), 600, tmp_path)

    assert ended.value.code == code
    assert seconds <= clock.now <= seconds + 2


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
        until((here / "out/dedup/running").exists)
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
    job = yaml.safe_load((ROOT / "configs/launch/job.yaml").read_text(encoding="utf-8"))
    (container,) = job["spec"]["template"]["spec"]["containers"]
    page = (ROOT / "docs/clusters.md").read_text(encoding="utf-8")
    lines = re.findall(r"^(?:parallel|seq) .*clozeline work .*$", page, re.MULTILINE)
    for line in (*lines, shlex.join(container["command"])):
        command = line.replace("/shared/web", shlex.quote(str(folder / "there")))
        quiet = f"({command}) >{shlex.quote(str(folder))}/log 2>&1 &"
        subprocess.run(["sh", "-c", quiet], env=VARIABLES, check=True)
    return {}
