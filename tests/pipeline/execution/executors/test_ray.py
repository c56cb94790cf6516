"""Tasks on a Ray cluster of this machine."""

import importlib.util
import json
import subprocess
import sys

import psutil
import pytest

from clozeline import plugins
from clozeline.errors import PartialFailureError, StorageError
from clozeline.run_status import read_status
from tests.distributed import free_port
from tests.pipeline.execution.executors.external_workers import until
from tests.pipeline.execution.toy_stage import ToyStage, run_toy, tree


def execute(output, fault=""):
    run_toy(output, fault, "ray", tasks=2, workers=1, mem_per_cpu_gb=0.25)
    return tree(output / "dedup")


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nothing_listens_is_named_at_once(tmp_path, scheme):
    address = f"{scheme}127.0.0.1:{free_port()}"
    with pytest.raises(StorageError, match=f"nothing answers at {address} .Connection refused"):
        run_toy(tmp_path, name="ray", address=address)


NEEDS_RAY = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="the extra `ray` is not installed"
)


@pytest.mark.slow
@NEEDS_RAY
def test_a_cluster_that_dies_ends_the_run_with_a_message(tmp_path):
    row = json.dumps({"text": "Text. " * 30}) + "\n"
    (tmp_path / "in.jsonl").write_text(row * 200_000)
    words = ["input=in.jsonl", "output=out", "clean.language=null", "clean.filters=[]"]
    words += ["plan.unit_bytes=262144", "executor.name=ray", "executor.tasks=2"]
    command = [sys.executable, "-m", "clozeline", "clean", *words]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as run:
        until(lambda: (at := read_status(tmp_path / "out")) and at.fields.get("units_done"))
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
        there = execute(tmp_path / "ray")
        with pytest.raises(PartialFailureError, match="its Ray task ended before this unit"):
            execute(tmp_path / "killed", "die always")
        squares = list((tmp_path / "killed/dedup/tmp").glob("*.txt"))
        assert len(squares) == 5, "the other units are there"
    finally:
        ray.shutdown()

    run_toy(tmp_path / "local")

    assert there == tree(tmp_path / "local/dedup")


def prepare(folder, patch):
    """For the contract of executors: a cluster of this machine is started by a test of `make
    test-all`, above."""
    pytest.skip("the test of a cluster above has this contract")
