"""Read the text, subject and date of an e-mail message."""

from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from email.policy import Compat32
from email.utils import parsedate_to_datetime
from html import escape
from typing import Any, Final, NamedTuple

from clozeline.pipeline.ingest.formats.charset import decode

_SHOWN_TYPES: Final = frozenset(
    {"text/plain", "text/html", "text/markdown", "text/x-patch", "text/x-diff"}
)
_HEADER_CHARACTERS: Final = 4096
_ERRORS: Final = (
    MessageError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    OverflowError,
    RecursionError,
)


class _ShortHeaders(Compat32):
    """Cuts headers to a maximum length: parsing their parameters takes quadratic time."""

    def header_source_parse(self, sourcelines: Any) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        return name, value[:_HEADER_CHARACTERS]


_POLICY: Final = _ShortHeaders()


class MessageText(NamedTuple):
    """The text and the headers of a message, as a mail client shows them."""

    text: str
    is_markup: bool
    flags: int
    subject: str
    date: int | None
    message_id: str


def parse_message(content: bytes) -> MessageText | str:
    """Return the text of a message, or the reason why it has none: `bad_message` or `charset`."""
    try:
        message = message_from_bytes(content, policy=_POLICY)
        parts = _find_texts(message)
        has_markup = any(part.get_content_subtype() == "html" for part in parts)
        texts = [_decode_part(part, has_markup=has_markup) for part in parts]
        subject = str(make_header(decode_header(message.get("Subject", ""))))
        message_id = " ".join(str(message.get("Message-ID", "")).split())
    except _ERRORS:
        return "bad_message"

    known = [text for text in texts if text is not None]
    if texts and not known:
        return "charset"
    flags = 0
    for _, more in known:
        flags |= more
    joined = "\n\n".join(text.replace("\r\n", "\n").strip("\r\n") for text, _ in known)
    return MessageText(joined, has_markup, flags, subject, _parse_message_date(message), message_id)


def _find_texts(part: Message) -> list[Message]:
    """Return the parts that a mail client shows.

    Of alternatives these are the plain-text parts, if they have words.
    """
    if part.get_content_disposition() == "attachment":
        return []
    if not part.is_multipart():
        return [part] if part.get_content_type() in _SHOWN_TYPES else []
    children: list[Any] = part.get_payload()  # type: ignore[assignment]
    parts = [leaf for child in children for leaf in _find_texts(child)]
    if part.get_content_type() != "multipart/alternative":
        return parts
    plain_texts = [leaf for leaf in parts if leaf.get_content_subtype() != "html"]
    has_words = any(str(leaf.get_payload()).strip() for leaf in plain_texts)
    return plain_texts if has_words else parts


def _decode_part(part: Message, *, has_markup: bool) -> tuple[str, int] | None:
    """Return the text and the flags of a part; next to HTML parts the text is escaped as HTML."""
    content: Any = part.get_payload(decode=True)
    decoded = decode(content or b"", part.get_content_charset())
    if decoded is None or not has_markup or part.get_content_subtype() == "html":
        return decoded
    return f"<pre>{escape(decoded[0])}</pre>", decoded[1]


def _parse_message_date(message: Message) -> int | None:
    try:
        return int(parsedate_to_datetime(str(message.get("Date", ""))).timestamp())
    except _ERRORS:
        return None
