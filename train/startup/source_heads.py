"""Leave out heads of a published model that no training set serves, such as BERT's next-sentence head for masked LM."""

from dataclasses import replace

from clozeline.train.configuration.config import TrainConfig
from clozeline.train.configuration.model_source import with_source
from clozeline.train.data.stream.phases import open_phases


def leave_out_heads(config: TrainConfig) -> tuple[TrainConfig, tuple[str, ...]]:
    """Return the configuration with the heads of the model in `init_from` that its sets train, and the other heads.

    Nothing is left out of a run, or if the configuration has another head that no set trains: that is a mistake, which
    opening the sets reports.
    """
    model, source = config.model, config.model.init_from
    if source is None or len(model.heads) < 2 or (source.expanduser() / "config.yaml").is_file():
        return config, ()
    objectives = [
        of.manifest.objective for phase in open_phases(config.data, check_files=False) for of in phase.sources
    ]
    served = {head for objective in objectives if objective is not None for head in objective.heads}
    unserved = tuple(sorted(name for name, target in model.targets.items() if target not in served))
    if not unserved or len(unserved) == len(model.heads):
        return config, ()
    theirs = with_source({"init_from": str(source)}).get("heads", {})
    if not set(unserved) <= theirs.keys():
        return config, ()
    kept = {name: head for name, head in model.heads.items() if name not in unserved}
    return replace(config, model=replace(model, heads=kept)), unserved
