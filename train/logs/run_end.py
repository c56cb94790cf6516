"""Record how a run ended: events, the final status, closing lines and report.html."""

from clozeline.errors import STOPPED
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.distributed.reporting import Reporting
from clozeline.train.engine import Engine
from clozeline.train.logs.display import Display
from clozeline.train.logs.journal import Journal
from clozeline.train.logs.json_lines import unreadable_lines
from clozeline.train.logs.recorder import memory_by_rank
from clozeline.train.logs.report import closing_lines, write_report
from clozeline.train.optim.early_stopping import should_stop


def record_end(
    engine: Engine, state: TrainState, complete: bool, asked: str | None, journal: Journal, display: Display
) -> int:
    """Write the last records of a run and return its exit code: 0 if it is complete, else 75.

    `asked` is the signal or reason of a stop request on this rank.
    """
    config, best = engine.config, state.best
    early = best if should_stop(config.early_stop, best) else None
    code = 0 if complete else STOPPED
    reason = None if complete else asked or "asked on another rank"
    # events and status
    memory = memory_by_rank(engine)
    journal.event("memory", step=state.step, ranks=memory)
    if early is not None:
        fields = {"metric": early.metric, "best": early.value, "best_step": early.step}
        journal.event("early_stop", step=state.step, evaluations=early.evaluations, **fields)
    journal.event("done" if complete else "stop", step=state.step, reason=reason, exit_code=code)
    journal.status("done" if complete else "stopped", step=state.step, exit_code=code)
    # closing lines and report.html
    if engine.world.rank == 0:
        reports = Reporting()
        with reports("closing lines"):
            for line in closing_lines(config, state, reason):
                display.say(line)
        with reports("report.html"):
            display.say(f"report {write_report(config)}")
            metrics = config.output / "metrics.jsonl"
            if damaged := unreadable_lines(metrics):  # a start reads only its end
                display.say(f"{metrics}: {damaged} lines cannot be read, torn or damaged; the report lacks them")
    return code
