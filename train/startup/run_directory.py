"""Lock, check and describe the folder of a run.

Nothing in it changes before every check of a start has passed.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from clozeline.configuration.config import flatten, to_data, yaml_text
from clozeline.configuration.redaction import redact
from clozeline.errors import ConfigurationError
from clozeline.files import (
    LOCK,
    LOCK_FILES,
    is_temporary,
    read_json,
    replacing,
    require_empty,
    sweep,
    writing,
)
from clozeline.model.checkpoints.published_forms import list_sources
from clozeline.output_lock import hold_output
from clozeline.run_status import METRICS, read_status
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.checkpoint.stored_checkpoint import INDEX, steps_in
from clozeline.train.configuration.config import with_absolute_paths
from clozeline.train.data.sets.recorded_sets import SETS_FILE, TOKENIZER_FOLDER, record_sets
from clozeline.train.logs.journal import Journal
from clozeline.train.logs.json_lines import last_lines
from clozeline.train.startup.fill_in import Start
from clozeline.train.startup.start_or_resume import StartingPoint

_FILES_OF_START: Final = {
    "checkpoints",
    "config.yaml",
    "events.jsonl",
    "metrics.jsonl",
    "status.json",
}.union({METRICS, "tensorboard", SETS_FILE, TOKENIZER_FOLDER}, LOCK_FILES)
"""Files that a start writes before its first step."""


def lock_run(output: Path, resume: str) -> AbstractContextManager[None]:
    """Return a block that creates the run directory, and holds it.

    Raises:
        ConfigurationError: another process holds it, or the folder is refused; a refused folder
            is not created.
    """
    refuse_output(output, resume)
    return hold_output(output)


def refuse_output(output: Path, resume: str) -> None:
    """Refuse a folder that this start must not use."""
    # list the folder
    with writing(output):
        paths = output.iterdir() if output.is_dir() else ()
        names = {path.name for path in paths if not is_temporary(path)}

        checkpoints = steps_in(output / "checkpoints")
        metrics = output / "metrics.jsonl"
        trained = bool(checkpoints) or (metrics.exists() and metrics.stat().st_size > 0)
        if LOCK in names and not trained and names <= _FILES_OF_START:
            names = set()
        is_run = "checksum" in (read_json(output / SETS_FILE) or {}) or any(
            (path / INDEX).is_file() for path in checkpoints
        )

        if not is_run and (names or not output.is_dir()):
            require_empty(output)  # files of somebody else

    # what `resume` demands
    if resume == "must" and not checkpoints:
        raise ConfigurationError(
            f"resume=must: {output / 'checkpoints'} has no valid checkpoint: choose another "
            "output, or start with resume=auto"
        )

    if resume == "never" and names:
        raise ConfigurationError(
            f"resume=never: {output} is not empty, it has {', '.join(sorted(names)[:4])}: choose "
            "another output, or resume with resume=auto"
        )


def prepare_directory(
    point: StartingPoint,
    state: TrainState,
    journal: Journal,
    announce: Callable[..., None],
) -> None:
    """Write config.yaml, remove metrics after the checkpoint, and announce what has changed."""
    # read the files of the last start, before anything is written
    config = point.config
    last_status = read_status(config.output)
    evaluated = last_status.heldout if last_status is not None and state.step else {}
    # also refuses a line of a newer version
    metrics = config.output / "metrics.jsonl"
    last = next((line.record for line in last_lines(metrics) if line.record), {})

    # write the configuration, start the journal and the tracker
    problem = write_description(point.start, state.tokenizer)
    with writing(config.output):
        journal.begin(state.step, point.name, evaluated=state.heldout_loss is not None)
    journal.track(flatten(redact(to_data(config))))
    heldout = {"heldout": evaluated} if evaluated else {}
    progress = {"steps": config.steps, "samples": state.samples, "rollbacks": state.rollbacks}
    journal.status("running", **progress, **heldout)

    # announce what was lost, and data that changed since the checkpoint
    if last_status is not None and last_status.state == "running":
        announce("lost", process=last_status.process, step=last_status.step)
    steps = last.get("step") or (last_status is not None and last_status.step)
    if steps and point.saved is None:
        announce("nothing_saved", steps=steps)
    recorded = last.get("step", 0)
    if recorded + config.log.every <= state.step and point.trunk is None:
        announce("records_lost", first=recorded + 1, last=state.step)
    if problem:
        announce("tokenizer_refused", reason=problem)
    saved_stream = {} if point.saved is None else point.saved.stream
    if saved_stream and saved_stream["data"] != state.stream["data"]:
        announce("new_phase", step=state.step, samples=state.samples, data=state.dataset)
    if point.has_other_heldout:
        announce("new_heldout", step=state.step)


def write_description(start: Start, fingerprint: str) -> str:
    """Write config.yaml, and the training sets with their tokenizer of this `fingerprint`.

    Above the configuration, it says what each filled key follows from. Temporary files of earlier
    starts are removed.

    Returns:
        why the run has no copy of its tokenizer; empty if it has one.
    """
    config = start.config
    output = config.output
    with writing(output):
        with replacing(output / "config.yaml") as temporary:
            lines = [f"# {key} follows from {source}\n" for key, source in start.sources.items()]
            text = yaml_text(to_data(with_absolute_paths(config)))
            temporary.write_text("".join([*lines, text]), "utf-8")
        problem = record_sets(output, config.data, start.datasets.phases, fingerprint)
        if (source := config.model.init_from) is not None:
            for form in list_sources():
                form.keep_origin(source.expanduser(), output)
        sweep(output)
    return problem
