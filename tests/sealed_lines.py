"""Lines of `metrics.jsonl` and `events.jsonl` as a run writes them."""

from __future__ import annotations

import json
from typing import Any

from clozeline.sealed_json import seal


def sealed(**record: Any) -> str:
    """Return a record as a line with its checksum, without its end."""
    return json.dumps(seal(record))
