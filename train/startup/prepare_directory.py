"""Change the run directory for the first time, once every check of a start has passed."""

from collections.abc import Callable

from clozeline.configuration.config import flatten, to_plain
from clozeline.configuration.redaction import redact
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.data.sets.datasets import Datasets
from clozeline.train.logs.journal import Journal
from clozeline.train.logs.json_lines import last_lines
from clozeline.train.logs.status import read_status
from clozeline.train.startup.run_directory import write_description, writing
from clozeline.train.startup.start_or_resume import StartingPoint


def prepare_directory(
    point: StartingPoint, state: TrainState, datasets: Datasets, journal: Journal, announce: Callable[..., None]
) -> None:
    """Write config.yaml, cut off metrics after the checkpoint, and announce what is missing or was interrupted."""
    # read what the last start left, before anything is written
    config = point.config
    before = read_status(config.output)
    evaluated = before.heldout if before is not None and state.step else {}
    next(last_lines(config.output / "metrics.jsonl"), None)  # refuses a line of a newer version
    first = {} if point.trunk else {"metrics.jsonl": config.log.every, "events.jsonl": 1}  # the steps may be a trunk's
    files = {name: config.output / name for name, step in first.items() if state.step >= step}
    missing = [name for name, path in files.items() if not path.is_file() or not path.stat().st_size]
    # write the configuration, start the journal and the tracker
    problem = write_description(config, datasets.phases)
    with writing(config.output):
        dropped = journal.begin(state.step, point.name)
    journal.track(flatten(redact(to_plain(config))))
    heldout = {"heldout": evaluated} if evaluated else {}
    known = {"steps": config.steps, "samples": state.samples, "rollbacks": state.rollbacks}
    journal.status("running", **known, watchdog_s=config.watchdog_s, **heldout)
    # announce what a person should know
    if before is not None and before.state == "running":
        announce("lost", process=before.process, step=before.step)
    for file in missing:
        announce("records_lost", file=file, steps=state.step)
    if problem:
        announce("tokenizer_refused", reason=problem)
    if dropped:
        announce("metrics_dropped", lines=dropped)
    for name in sorted(set(evaluated).difference(datasets.heldout)):
        announce("heldout_gone", name=name)
