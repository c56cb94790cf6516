"""Whole runs on ranks that have started already, and what they wrote."""

from clozeline.configuration.config import load_config
from clozeline.errors import ClozelineError
from clozeline.train.checkpoint.stored_checkpoint import StoredCheckpoint
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.logs.json_lines import read_lines, step_records
from clozeline.train.run import run_training


def start(world, config, overrides=()):
    """Return the exit code of a run, and its error."""
    try:
        return run_training(load_config(TrainConfig, config, list(overrides)), joined=world), ""
    except ClozelineError as error:
        return error.exit_code, str(error)


def complete(one_rank, config, overrides=()):
    """Train to the end in a process that has started already."""
    assert one_rank.run(start, config, overrides) == [(0, "")]


def steps(output):
    """The records of its steps."""
    return step_records(read_lines(output / "metrics.jsonl"))


def evaluations(output, name="heldout"):
    """The results of its evaluations on a held-out set."""
    return [
        record["heldout"][name]
        for record in read_lines(output / "metrics.jsonl")
        if "heldout" in record
    ]


def logged(output):
    """Every bit of its losses and gradient norms."""
    return [
        (
            one["step"],
            one["loss"].hex(),
            one["gradient_norm"].hex(),
        )
        for one in steps(output)
    ]


def events(output, kind):
    return [event for event in read_lines(output / "events.jsonl") if event["event"] == kind]


def saved(output, step=None):
    return StoredCheckpoint.find(output, step).read_weights()


def contents(folder):
    """The bytes of each file, but for the lock, which says who holds it."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }
