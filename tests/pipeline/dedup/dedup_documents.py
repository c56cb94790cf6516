"""Documents for the tests of dedup."""

from __future__ import annotations

import hashlib
from typing import Any

from pipeline.documents.document import Document


def document(number: int, text: str, **fields: Any) -> Document:
    """A document whose uid is a hash of its number."""
    uid = hashlib.blake2b(str(number).encode(), digest_size=16).digest()
    return Document(uid=uid, text=text, source="test/a", offset=number, n_chars=len(text), **fields)
