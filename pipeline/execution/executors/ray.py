"""Run tasks on a Ray cluster. Needs the extra `ray`.

A process of the cluster imports the stages once and runs one task after another, of any pass.
"""

import os
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any, Final

from pydantic import Field

from clozeline import plugins
from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError, StorageError
from clozeline.pipeline import all_stages, stage_module
from clozeline.pipeline.execution.executors import (
    Assignment,
    Executor,
    memory_of_cores,
    run_on_node,
)
from clozeline.process import SAFE_PATH

_POLL_S: Final = 0.2
_LISTENER_S: Final = 5.0


def _require_listener(address: str) -> None:
    """Raise StorageError if nothing listens at the address; Ray would try for minutes.

    Words such as `auto` are not addresses.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_LISTENER_S).close()
    except OSError as error:
        raise StorageError(
            f"executor ray: nothing answers at {address} ({error.strerror or error}); start the "
            "cluster, or set executor.options.address=HOST:PORT to the address that `ray start "
            "--head` printed, then run the same command again"
        ) from error


def start_worker() -> None:
    """Import what tasks need, before Ray prepends the driver's folder to the module path."""
    plugins.put_current_folder_last()
    for stage in all_stages():
        import_module(stage_module(stage))


def _run_task(assignment: Assignment, rank: int) -> None:
    plugins.put_current_folder_last()
    run_on_node(assignment, rank)


class Ray(Executor):
    """Runs the tasks of a round on a Ray cluster, whose session keeps their logs."""

    has_tasks = True

    @config_class
    class Options:
        address: str | None = None
        """address of the cluster, such as `auto`; null: `RAY_ADDRESS`, or else this machine
        alone"""
        cpus_per_task: Annotated[float, Field(gt=0)] = 1.0
        """cores that a task reserves"""
        mem_per_cpu_gb: Annotated[float, Field(gt=0)] = 2.0
        """memory of each core in GB; a task that fits no node waits forever"""

    _options: Options

    def memory_of_worker(self, units: int) -> tuple[float, str]:
        """Return the memory of the cores that a task reserves."""
        return memory_of_cores(self._options.cpus_per_task, self._options.mem_per_cpu_gb)

    def run(
        self, assignment: Assignment, tick: Callable[[], None], report: Callable[[str], None]
    ) -> Mapping[int, str]:
        _require_listener(self._options.address or os.environ.get("RAY_ADDRESS", ""))

        try:
            import ray
        except ImportError as error:
            raise ConfigurationError(
                "executor.name ray: install the extra first: pip install 'clozeline[ray]'"
            ) from error

        try:
            if not ray.is_initialized():
                variables = {
                    plugins.VARIABLE: os.environ.get(plugins.VARIABLE, ""),
                    SAFE_PATH: "1",
                }
                environment = {
                    "env_vars": variables,
                    "worker_process_setup_hook": f"{__name__}.{start_worker.__name__}",
                }
                ray.init(
                    address=self._options.address,
                    include_dashboard=False,
                    log_to_driver=False,
                    runtime_env=environment,
                )
            self._run(ray, assignment, tick)
        except (ConnectionError, ray.exceptions.RayError) as error:
            raise StorageError(f"executor ray: the cluster cannot be used: {error}") from error

        tick()
        why = "its Ray task ended before this unit was done: `ray logs cluster` lists the logs"
        return dict.fromkeys(range(assignment.tasks), why)

    def _run(self, ray: Any, assignment: Assignment, tick: Callable[[], None]) -> None:
        """Run each task once; Ray gives it to a process that has done others, if one is idle."""
        cores = self._options.cpus_per_task
        memory = int(self._options.mem_per_cpu_gb * 2**30)
        task = ray.remote(_run_task).options(
            num_cpus=cores, memory=int(cores * memory), max_retries=0
        )

        # without them, Ray ends this process after a while, and does not say why
        here = ray.get_runtime_context()
        daemons = [here.gcs_address] + [
            f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}"
            for node in ray.nodes()
            if node["NodeID"] == here.get_node_id()
        ]
        looked = time.monotonic()

        shared = ray.put(assignment)
        waiting = deque(range(assignment.tasks))
        calls: list[Any] = []

        try:
            while waiting or calls:
                while waiting and len(calls) < (self._config.workers or assignment.tasks):
                    calls.append(task.remote(shared, waiting.popleft()))
                done, calls = ray.wait(calls, timeout=_POLL_S)
                for call in done:
                    # a failure that could not be recorded: the driver meets the same error
                    with suppress(ray.exceptions.RayTaskError, ray.exceptions.WorkerCrashedError):
                        ray.get(call)

                tick()
                if time.monotonic() - looked > _LISTENER_S:
                    looked = time.monotonic()
                    for address in daemons:
                        _require_listener(address)
        except StorageError:  # no daemon is left that could end tasks
            raise
        except BaseException:  # such as Ctrl-C: no task may continue without its driver
            for call in calls:
                ray.cancel(call, force=True)
            raise
