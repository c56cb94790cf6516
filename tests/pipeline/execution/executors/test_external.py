"""Workers that anything starts: shares, kills, and how they end."""

import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

from clozeline.errors import PartialFailureError, StorageError
from clozeline.files import read_json
from clozeline.pipeline import all_stages
from clozeline.pipeline.execution import output_lock
from clozeline.pipeline.execution.executors import Assignment, external, publish_work
from tests.distributed import ROOT
from tests.pipeline.execution.executors.external_workers import (
    COMMANDS,
    VARIABLES,
    end,
    execute,
    restart_workers,
    results,
    start,
    start_driver,
    start_worker,
    until,
)
from tests.pipeline.execution.noting_steps import Noting
from tests.pipeline.miniature import RECIPE, write_corpus, write_recipe

SHORT = RECIPE[: RECIPE.index("  - {name: span_corruption")]


class Ordered(Noting):
    """A step that notes the order of its units, and withdraws the work after the last one."""

    @property
    def logs(self):
        return self.folder / "out/clean/logs/main"

    def __call__(self, unit):
        with (self.folder / "order").open("a") as file:
            file.write(f"{unit} ")
        super().__call__(unit)
        if len(list(self.folder.glob("*.done"))) == 7:
            shutil.rmtree(self.folder / "out/.work")


class Accompanied(Ordered):
    """Another worker is done with unit 4 when this one runs unit 6."""

    def __call__(self, unit):
        if unit == "6":
            (self.folder / "4.done").touch()
        super().__call__(unit)


class Interrupted(Ordered):
    def __call__(self, unit):
        raise KeyboardInterrupt


def published(folder, step):
    """Work of seven units, as a driver publishes it."""
    (folder / "out/.work/round").mkdir(parents=True)
    path = folder / "out/.work/round/tasks.pickle"
    publish_work(path, Assignment(step, "0123456", 1))
    return path


@pytest.fixture
def in_order(monkeypatch):
    """Workers take the units in order."""
    monkeypatch.setattr("random.sample", lambda units, count: list(units))


def test_a_worker_runs_each_unit_once_in_an_order_of_its_own(tmp_path):
    external._run_units(published(tmp_path, Ordered(tmp_path)))
    assert sorted((tmp_path / "order").read_text().split()) == list("0123456")


@pytest.mark.usefixtures("in_order")
def test_units_that_are_done_or_claimed_are_left_alone(tmp_path):
    path = published(tmp_path, Accompanied(tmp_path))
    (tmp_path / "2.done").touch()
    claim = output_lock.Holder(path.with_name("4.claim"))

    assert claim.create()
    assert not output_lock.Holder(claim.path).create()

    external._run_units(path)

    assert (tmp_path / "order").read_text() == "0 1 3 5 6 "


def test_an_interrupted_worker_frees_its_unit(tmp_path):
    path = published(tmp_path, Interrupted(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        external._run_units(path)

    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_machine_that_sees_the_output_elsewhere_is_told(tmp_path):
    published(tmp_path, Ordered(tmp_path))
    shutil.copytree(tmp_path / "out", tmp_path / "mount")
    with pytest.raises(StorageError, match="mount it at the same path"):
        external._run_units(tmp_path / "mount/.work/round/tasks.pickle")

    assert not (tmp_path / "order").exists()


class Clock:
    """A clock that only sleeping moves; `then` runs after each sleep."""

    def __init__(self, then):
        self.now = 0.0
        self.then = then

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        assert self.now < 10_000
        self.then(self.now)


def test_a_claim_of_another_machine_is_lost_when_it_is_no_longer_renewed(tmp_path, monkeypatch):
    """Unit 1 belongs to a machine that stops renewing after 400 s; the others are done."""
    step = Ordered(tmp_path)
    path = published(tmp_path, step)
    for unit in (0, *range(2, 7)):
        step(unit) if unit < 6 else (tmp_path / "6.done").touch()
    claim = path.with_name("1.claim")
    claim.write_text('{"host": "elsewhere", "pid": 1, "start": 1.0}')

    def renew(now):
        if now < 400:
            claim.write_text(claim.read_text())

    clock = Clock(renew)
    monkeypatch.setattr(external, "time", clock)
    monkeypatch.setattr(output_lock, "time", clock)
    external._wait(Assignment(step, "0123456", 1), path.parent, lambda: None)

    assert 400 + 180 <= clock.now <= 400 + 182
    assert claim.exists(), "no worker takes it before the next round"


def test_a_claim_of_a_dead_process_of_this_machine_is_lost_at_once(tmp_path, monkeypatch):
    step = Ordered(tmp_path)
    path = published(tmp_path, step)
    code = (
        "import sys, pathlib; from clozeline.pipeline.execution.output_lock import Holder\n"
        "[Holder(pathlib.Path(sys.argv[1]) / f'{unit}.claim').create() for unit in range(7)]"
    )
    subprocess.run([sys.executable, "-c", code, str(path.parent)], check=True)
    monkeypatch.setattr(external, "time", clock := Clock(lambda now: None))
    external._wait(Assignment(step, "0123456", 1), path.parent, lambda: None)

    assert clock.now < 2


@pytest.mark.parametrize(("name", "is_taken"), [("7-a", True), ("77-a", False), ("8-a", False)])
def test_work_of_another_driver_than_the_present_one_is_not_taken(
    tmp_path, monkeypatch, name, is_taken
):
    """A driver that was killed leaves its work, and the next one may run another recipe."""

    def stop(now):
        raise KeyboardInterrupt

    taken = []
    path = tmp_path / "out/.work" / name / "tasks.pickle"
    path.parent.mkdir(parents=True)
    path.touch()
    (tmp_path / "out/.holder").write_text('{"pid": 7}')
    monkeypatch.setattr(external, "_watch", lambda *_: None)
    monkeypatch.setattr(external, "_run_units", lambda path, *_: taken.append(path))
    monkeypatch.setattr(external, "time", Clock(stop))
    with pytest.raises(KeyboardInterrupt):
        external._work(external.WorkOptions(output=tmp_path / "out"))

    assert taken == [path] * is_taken


class Restarted(Exception):
    pass


def watch(output, monkeypatch, then=lambda now: None):
    """Watch the driver of an output, without waiting; return what becomes of the worker, and
    when."""

    def restart(folder):
        raise Restarted

    def leave(code):
        raise SystemExit(code)

    clock = Clock(then)
    monkeypatch.setattr(external, "time", clock)
    monkeypatch.setattr(output_lock, "time", clock)
    monkeypatch.setattr(external, "restart_program", restart)
    monkeypatch.setattr("os._exit", leave)
    driver = read_json(output / ".holder")
    try:
        external._watch(output, driver, 600, output)
    except (Restarted, SystemExit) as end:
        return getattr(end, "code", "restarted"), clock.now


def test_a_worker_stays_as_long_as_its_driver_however_long_that_is(tmp_path, monkeypatch):
    holder = output_lock.Holder(tmp_path / ".holder")
    holder.create()

    def renew(now):
        if now % 20 == 0:
            os.utime(holder.path, (now, now))
        if now == 5000:
            holder.path.unlink()

    assert watch(tmp_path, monkeypatch, renew) == ("restarted", 5000)


def test_a_worker_waits_for_the_restart_of_a_driver_that_died_elsewhere(tmp_path, monkeypatch):
    elsewhere = '{"host": "elsewhere", "pid": 1, "start": 1.0}'
    (tmp_path / ".holder").write_text(elsewhere)

    def restart(now):
        if now == 300:
            (tmp_path / ".holder").write_text(elsewhere.replace("1.0", "2.0"))

    assert watch(tmp_path, monkeypatch, restart) == ("restarted", 300)

    code, now = watch(tmp_path, monkeypatch)

    assert code == 74, "nothing was published"
    assert 780 <= now <= 782


def test_a_worker_without_a_driver_ends_at_once_only_if_a_run_has_ended(tmp_path, monkeypatch):
    code, now = watch(tmp_path, monkeypatch)

    assert code == 74
    assert 600 <= now <= 601

    (tmp_path / ".work").mkdir()
    code, now = watch(tmp_path, monkeypatch)

    assert code == 0
    assert now < 5


@pytest.mark.parametrize("word", ["task=1/3", "workers=0"])
def test_wrong_words_are_refused(tmp_path, word, capsys):
    assert external.main([str(tmp_path), word]) == 64
    assert word.partition("=")[0] in capsys.readouterr().err


def test_a_unit_whose_worker_dies_runs_again_and_fails_after_its_retries(tmp_path):
    execute(tmp_path / "local", name="local")
    with ThreadPoolExecutor() as pool:
        killed = pool.submit(restart_workers, tmp_path / "once")
        execute(tmp_path / "once", "die once")

        assert killed.result() == 1
        assert results(tmp_path / "once") == results(tmp_path / "local")

        killed = pool.submit(restart_workers, tmp_path / "always")
        with pytest.raises(PartialFailureError) as caught:
            execute(tmp_path / "always", "die always")

        assert killed.result() == 2
        assert caught.value.exit_code == 69

    assert len(list((tmp_path / "always/dedup/tmp").glob("*.txt"))) == 5, "the others are there"


def is_in_endless_unit(output):
    return lambda: (output / "dedup/running/square-000001").exists()


@pytest.mark.usefixtures("default_signals")
def test_workers_end_with_a_stopped_driver_also_in_a_unit(tmp_path):
    driver = start_driver(tmp_path, "endless")
    worker = start_worker(tmp_path)
    until(is_in_endless_unit(tmp_path))
    driver.send_signal(signal.SIGTERM)

    assert end(driver)[0] == 75

    code, said = end(worker)

    assert code == 0
    assert "has ended" in said


@pytest.mark.usefixtures("default_signals")
def test_workers_of_a_killed_driver_end_or_go_on_with_the_next_one(tmp_path):
    """The first worker is in a unit of the killed driver, which would never end."""
    execute(tmp_path / "local", name="local")
    output = tmp_path / "out"
    driver = start_driver(output, "endless")
    worker = start_worker(output)
    until(is_in_endless_unit(output))
    driver.kill()
    end(driver)
    code, said = end(start_worker(output, "wait_s=1"))

    assert code == 0
    assert "has died" in said

    (output / "dedup/running/square-000001").unlink()
    execute(output)

    assert end(worker)[0] == 0
    assert results(output) == results(tmp_path / "local")


def test_a_worker_without_a_pipeline_says_so(tmp_path):
    code, said = end(start_worker(tmp_path / "nothing", "wait_s=0"))

    assert code == 74
    assert "executor.name=external" in said


def arguments(folder):
    return [
        "--config",
        str(write_recipe(folder, SHORT)),
        f"input={write_corpus(folder / 'in', 25)}",
    ]


def kill_at_random(output, seed):
    """Start four workers one after another, and kill three at a random time.

    They live longer and longer, however slow this machine is.
    """
    draw = random.Random(seed)
    killed = 0

    for lifetime in (1, 2, 4, None):
        worker = start_worker(output)
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


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3))])
def test_three_workers_with_random_kills_give_the_bytes_of_a_local_run(tmp_path, seed):
    command = [str(COMMANDS / "clozeline"), "pipeline", *arguments(tmp_path)]
    output = tmp_path / "out"
    local = start(*command, f"output={tmp_path / 'local'}")
    driver = start(*command, f"output={output}", "executor.name=external", "executor.retries=1000")
    with ThreadPoolExecutor() as pool:
        killed = list(pool.map(kill_at_random, [output] * 3, range(3 * seed, 3 * seed + 3)))

    code, said = end(driver)

    assert code == 0, said
    assert said.count("clozeline work") == 1, "once per run, not per pass"
    assert end(local)[0] == 0
    assert sum(killed) >= 3
    for stage in all_stages():
        assert results(output, stage) == results(tmp_path / "local", stage), stage

    code, said = end(start_worker(output))

    assert code == 0
    assert "has ended" in said


def test_modules_in_the_folder_of_the_pipeline_work_in_workers_elsewhere(tmp_path):
    """Also a relative output: a worker may be started in any folder."""
    (tmp_path / "there/deep").mkdir(parents=True)
    shutil.copytree(ROOT / "docs/mylab/mylab", tmp_path / "here/mylab")
    filters = "clean.filters=[{name: mylab.filters.shouting:Shouting, share: 0.3}]"
    words = ["clean", f"input={write_corpus(tmp_path / 'in', 9)}", "clean.language=null", filters]
    command = [str(COMMANDS / "clozeline"), *words]
    local = start(*command, "output=local", folder=tmp_path / "here")
    driver = start(*command, "output=out", "executor.name=external", folder=tmp_path / "here")
    worker = start_worker("../../here/out", folder=tmp_path / "there/deep")

    assert [end(process)[0] for process in (local, driver, worker)] == [0, 0, 0]
    assert results(tmp_path / "here/out", "clean") == results(tmp_path / "here/local", "clean")


# Schedulers
# --------------------------------------------------------------------------------------------------


def run_with(tmp_path, *command):
    """Run the toy stage, whose workers a documented command starts."""
    output = tmp_path / "out"
    words = [word.replace("/shared/web", str(output)) for word in command]
    scheduler = start(*words)
    execute(output)
    said = end(scheduler)
    execute(tmp_path / "local", name="local")

    assert said[0] == 0, said
    assert results(output) == results(tmp_path / "local")
    return said[1]


@pytest.mark.parametrize("program", ["parallel", "xargs"])
def test_a_command_of_the_page_starts_four_workers(tmp_path, program):
    if shutil.which(program) is None:
        pytest.skip(f"the program {program} is not installed")
    page = (ROOT / "docs/clusters.md").read_text(encoding="utf-8")
    (command,) = [
        line for line in page.splitlines() if f"{program} -" in line and "clozeline work" in line
    ]
    assert run_with(tmp_path, "bash", "-c", command).count("has ended") == 4


def test_the_job_of_kubernetes_starts_a_worker(tmp_path):
    job = yaml.safe_load((ROOT / "configs/launch/job.yaml").read_text(encoding="utf-8"))
    (container,) = job["spec"]["template"]["spec"]["containers"]

    assert "has ended" in run_with(tmp_path, *container["command"])


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubernetes_knows_each_key_of_its_job():
    """`kubectl` drops keys that its types do not have."""
    file = ROOT / "configs/launch/job.yaml"
    words = ["kubectl", "label", "--local", "-f", str(file), "a=b", "-o", "yaml"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    known = yaml.safe_load(done.stdout)

    assert known["metadata"].pop("labels") == {"a": "b"}
    assert known == yaml.safe_load(file.read_text(encoding="utf-8"))


def prepare(folder, patch):
    """For the contract of executors: a worker that is started before the run."""
    command = shlex.join([str(COMMANDS / "clozeline"), "work", str(folder / "there")])
    subprocess.run(
        ["sh", "-c", f"{command} >{shlex.quote(str(folder))}/log 2>&1 &"], env=VARIABLES, check=True
    )
    return {}
