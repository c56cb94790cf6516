"""Lines of `metrics.jsonl` and `events.jsonl` as a run writes them."""

import json

from clozeline.sealed_json import seal


def sealed(**record):
    """Return a record as a line with its checksum, without its end."""
    return json.dumps(seal(record))
