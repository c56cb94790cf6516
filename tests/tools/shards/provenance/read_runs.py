"""A run that has read a set."""

import yaml

from tests.sealed_lines import sealed
from tests.train.synthetic import plain_config


def run_directory(tmp_path, manifest, seen, **changes):
    """A run over a set with seed 3 that has read some samples, and was killed while it wrote the
    next line."""
    run = tmp_path / "run"
    run.mkdir()
    config = plain_config(data__shards=str(manifest), output=str(run), data__seed=3, **changes)
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    lines = [sealed(step=step, samples=8 * step) for step in range(1, seen // 8 + 1)]
    (run / "metrics.jsonl").write_text("\n".join([*lines, '{"step":']))
    return run
