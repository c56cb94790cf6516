"""Workers that anything starts: shares, kills, and how they end."""

import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
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
from tests.pipeline.execution.toy_stage import run_toy, tree
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


def test_a_claim_of_another_machine_is_lost_when_it_is_no_longer_renewed(tmp_path, monkeypatch):
    """Unit 1 belongs to a machine that stops renewing after 400 s; the others are done."""
    path = published(step := Ordered(tmp_path))
    for unit in {*range(7)} - {1}:
        (tmp_path / f"{unit}.done").touch()
    claim = path.with_name("1.claim")
    claim.write_text(ELSEWHERE)
    clock = use_clock(monkeypatch, lambda now: now < 400 and os.utime(claim, (now, now)))
    external._wait(Assignment(step, "0123456", 1), path.parent, lambda: None)

    assert 400 + 180 <= clock.now <= 400 + 182
    assert claim.exists(), "no worker takes it before the next round"


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


@pytest.mark.usefixtures("default_signals")
def test_workers_of_a_killed_driver_end_or_go_on_with_the_next_one(tmp_path):
    """The first worker is in a unit of the killed driver, which would never end."""
    run_toy(tmp_path / "local")
    output = tmp_path / "out"
    driver = start(
        sys.executable, "-m", "tests.pipeline.execution.executors.external_workers", str(output)
    )
    worker = start_worker(output)
    marker = output / "dedup/running/square-000001"
    until(marker.exists)
    driver.kill()
    end(driver)
    code, said = end(start_worker(output, "wait_s=1"))

    assert code == 0
    assert "has died" in said

    marker.unlink()
    run_toy(output, name="external")

    assert end(worker)[0] == 0
    assert tree(output / "dedup") == tree(tmp_path / "local/dedup")


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


def test_three_workers_with_random_kills_give_the_bytes_of_a_local_run(tmp_path):
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
        killed = list(pool.map(kill_at_random, [elsewhere] * 3, range(3)))

    code, said = end(driver)

    assert code == 0, said
    assert said.count("clozeline work") == 1, "once per run, not per pass"
    assert end(local)[0] == 0
    assert sum(killed) >= 3
    for stage in all_stages():
        assert tree(here / "out" / stage) == tree(here / "local" / stage), stage


def read_command(program):
    """Return the documented command of a program that starts workers, and their number."""
    if program == "kubernetes":
        job = yaml.safe_load((ROOT / "configs/launch/job.yaml").read_text(encoding="utf-8"))
        (container,) = job["spec"]["template"]["spec"]["containers"]
        return container["command"], 1
    page = (ROOT / "docs/clusters.md").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in page if f"{program} -" in line and "clozeline work" in line]
    return ["bash", "-c", line], 4


@pytest.mark.parametrize("program", ["parallel", "xargs", "kubernetes"])
def test_a_command_of_the_page_starts_workers(tmp_path, program):
    if program == "parallel" and shutil.which(program) is None:
        pytest.skip(f"the program {program} is not installed")
    command, workers = read_command(program)
    words = [word.replace("/shared/web", str(tmp_path)) for word in command]
    scheduler = start(*words)
    run_toy(tmp_path, name="external")
    code, said = end(scheduler)

    assert code == 0, said
    assert said.count("has ended") == workers


def prepare(folder, patch):
    """For the contract of executors: a worker that is started before the run."""
    command = shlex.join([str(COMMANDS / "clozeline"), "work", str(folder / "there")])
    subprocess.run(
        ["sh", "-c", f"{command} >{shlex.quote(str(folder))}/log 2>&1 &"], env=VARIABLES, check=True
    )
    return {}
