"""Run tasks as actors of a Ray cluster, by datatrove's executor. Needs the extra `ray`."""

from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError, StorageError
from clozeline.pipeline.execution.executors import Deal, logs_apart
from clozeline.pipeline.recipe import ExecutorConfig


class Ray:
    """The tasks of a round run as the cluster has room for them; their logs are in `OUT/<stage>/logs/<pass>/`."""

    final = False

    @config_class
    class Options:
        address: str | None = None
        """address of the cluster, such as `auto`; null: `RAY_ADDRESS`, or else this machine alone"""
        cpus_per_task: Annotated[float, Field(gt=0)] = 1.0
        """cores that a task reserves"""
        mem_per_cpu_gb: Annotated[float, Field(gt=0)] = 2.0
        """memory of each core in GB; a task that no node can hold waits for ever"""

    def __init__(self, options: Options, config: ExecutorConfig) -> None:
        self._options, self._config = options, config

    def run(self, deal: Deal, tick: Callable[[], None]) -> Mapping[int, str]:
        logs_apart()
        try:
            import ray
        except ImportError as error:
            raise ConfigurationError(
                "executor.name ray: install the extra first: pip install 'clozeline[ray]'"
            ) from error
        from datatrove.executor import RayPipelineExecutor

        folder = deal.step.logs.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        executor = RayPipelineExecutor(
            [deal], tasks=deal.tasks, workers=self._config.workers or -1, cpus_per_task=self._options.cpus_per_task,
            mem_per_cpu_gb=self._options.mem_per_cpu_gb, logging_dir=str(folder), skip_completed=False,
        )  # fmt: skip
        try:
            if not ray.is_initialized():
                ray.init(address=self._options.address, include_dashboard=False, log_to_driver=False)
            executor.run()
        except (ConnectionError, ray.exceptions.RayError) as error:
            raise StorageError(f"executor ray: the cluster cannot be used: {error}") from error
        tick()
        why = f"its Ray task ended before this unit was done; logs: {folder / 'logs'}"
        return dict.fromkeys(range(deal.tasks), why)
