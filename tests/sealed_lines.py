"""Lines of `metrics.jsonl` and `events.jsonl` as a run writes them."""

import json

from clozeline.checksummed_json import add_checksum


def sealed(**record):
    """Return a record as a line with its checksum, without its end."""
    return json.dumps(add_checksum(record))
