"""Tasks on a Ray cluster of this machine."""

import importlib.util
import json
import subprocess
import sys
import time

import psutil
import pytest

from clozeline import plugins
from clozeline.errors import PartialFailureError, StorageError
from clozeline.pipeline.execution.progress import Progress
from clozeline.pipeline.execution.stage_run import StageRun
from clozeline.pipeline.execution.unit_record import KnownRecords
from clozeline.pipeline.recipe import ExecutorConfig, Recipe
from clozeline.run_status import read_status
from tests.distributed import free_port
from tests.pipeline.execution.toy_stage import ToyStage, tree


def execute(output, name, fault="", **options):
    executor = ExecutorConfig(name=name, tasks=2, workers=1, options=options)
    toy = ToyStage(Recipe(corpus="toy", output=output, executor=executor), fault)
    StageRun(toy, KnownRecords()).execute(Progress())
    return {
        name: content
        for name, content in tree(output / "dedup").items()
        if not name.startswith("logs/")
    }


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nothing_listens_is_named_at_once(tmp_path, scheme):
    address = f"{scheme}127.0.0.1:{free_port()}"
    with pytest.raises(StorageError, match=f"nothing answers at {address} .Connection refused"):
        execute(tmp_path, "ray", address=address)


NEEDS_RAY = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="the extra `ray` is not installed"
)


@pytest.mark.slow
@NEEDS_RAY
def test_a_cluster_that_dies_ends_the_run_with_a_message(tmp_path):
    lines = [json.dumps({"text": f"Text {number}. " * 30}) for number in range(200_000)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    words = ["input=in.jsonl", "output=out", "clean.language=null", "clean.filters=[]"]
    size = ["plan.unit_bytes=262144", "executor.name=ray", "executor.tasks=2"]
    command = [sys.executable, "-m", "clozeline", "clean", *words, *size]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as run:
        while not (found := read_status(tmp_path / "out")) or not found.fields.get("units_done"):
            assert run.poll() is None
            time.sleep(0.05)
        for process in psutil.Process(run.pid).children(recursive=True):
            if process.name() == "raylet":
                process.kill()
        _, said = run.communicate()

    assert run.returncode == StorageError.exit_code
    assert "executor ray: nothing answers at" in said
    assert read_status(tmp_path / "out").state == "failed"


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of Ray's own files and processes
@NEEDS_RAY
def test_a_cluster_gives_the_bytes_of_local_processes(tmp_path, monkeypatch):
    import ray

    # workers import the stage of the test only if it is named
    monkeypatch.setenv(plugins.VARIABLE, plugins.name_of(ToyStage))

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)

    try:
        there = execute(tmp_path / "ray", "ray", mem_per_cpu_gb=0.25)
        with pytest.raises(
            PartialFailureError, match="its Ray task ended before this unit was done"
        ):
            execute(tmp_path / "killed", "ray", fault="die always", mem_per_cpu_gb=0.25)
        assert len(list((tmp_path / "killed/dedup/tmp").glob("*.txt"))) == 5, (
            "the other units are there"
        )
    finally:
        ray.shutdown()

    assert there == execute(tmp_path / "local", "local")


def prepare(folder, patch):
    """For the contract of executors: a cluster of this machine is started by a test of `make
    test-all`, above."""
    pytest.skip("the test of a cluster above has this contract")
