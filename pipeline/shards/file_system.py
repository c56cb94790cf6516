"""Open file systems of fsspec, with checks that fsspec lacks.

Neither its HTTP nor its S3 file system compares the range of an answer with the requested one, and
errors may lack the words of the server.
"""

import contextlib
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

from clozeline.configuration.redaction import leaves
from clozeline.errors import ConfigurationError, StorageError

WEB: Final = ("http", "https")
_S3_SCHEMES: Final = ("s3", "s3a")
_RANGE_HEADER: Final = re.compile(r"bytes[= ](\d+)-(\d+)")
_XML_MESSAGE: Final = re.compile(r"<(?:Code|Message)>([^<]*)<")
# Bytes of an error page that are read, and characters of it that a message shows.
_MOST_PAGE_BYTES = 1 << 16
_MOST_SHOWN_CHARACTERS = 300


class ObjectMissingError(StorageError):
    """The object does not exist."""


class ObjectRefusedError(StorageError):
    """The store refuses a request, for example for lack of rights."""


class ObjectTooShortError(StorageError):
    """An object ends before the requested range."""


class AnswerError(Exception):
    """An answer with an error status, or status 0 for a wrong range.

    `seconds` must pass before the next request.
    """

    def __init__(self, status: int = 0, words: str = "", seconds: float = 0.0) -> None:
        super().__init__(words)
        self.status = status
        self.words = words
        self.seconds = seconds


def open_file_system(url: str, options: Mapping[str, Any]) -> Any:
    """Return fsspec's file system of a URL.

    Raises:
        ConfigurationError: the scheme, an option, or its package is unknown.
    """
    import fsspec  # imported here, because the packages of stores are slow to import

    scheme = url.partition(":")[0].lower()
    given, options = options, dict(options)

    try:
        system = fsspec.get_filesystem_class(scheme)
        if scheme in WEB:
            # read stored bytes, even if a server says that they are compressed
            client = {
                "auto_decompress": False,
                "headers": {"Accept-Encoding": "identity"},
                "trust_env": True,
            }
            client |= {"middlewares": (_check_answer,), **options.get("client_kwargs", {})}
            options |= {"encoded": True, "client_kwargs": client}
        elif scheme in _S3_SCHEMES:  # only `RemoteStore` retries
            options["config_kwargs"] = {
                "retries": {"total_max_attempts": 1},
                **options.get("config_kwargs", {}),
            }
            options["session"] = _open_checked_session(options.get("profile"))
        opened = system(
            **{**system._get_kwargs_from_urls(url), **options, "skip_instance_cache": True}
        )
    except Exception as error:  # a missing package, or its errors for credentials and options
        raise option_error(url, given, error) or ConfigurationError(
            f"{url}: cannot open this type of store: {error}"
        ) from error

    if scheme in _S3_SCHEMES:
        opened.retries = 1
    return opened


async def _check_answer(request: Any, handler: Any) -> Any:
    """Return the answer of a web server after checking it (a middleware of aiohttp)."""
    answer = await handler(request)

    try:
        if answer.status >= 400:
            page = (await answer.content.read(_MOST_PAGE_BYTES)).decode(errors="replace")
            words = " ".join((": ".join(_XML_MESSAGE.findall(page)) or page).split())
            words = answer.reason or "" if "html" in answer.content_type else words
            words = f"status {answer.status}: {words[:_MOST_SHOWN_CHARACTERS]}".rstrip(": ")
            raise AnswerError(answer.status, words, _seconds(answer.headers))
        _check_range(request.headers.get("Range", ""), answer.status, answer.headers)
    except BaseException:
        answer.close()
        raise

    return answer


def _open_checked_session(profile: str | None) -> object:
    """Return a session of S3 that checks the range of each answer."""
    from aiobotocore.session import AioSession

    def ask(params: Mapping[str, Any], context: dict[str, Any], **_: Any) -> None:
        context["asked"] = params["headers"].get("Range", "")

    def check(http_response: Any, context: Mapping[str, Any], **_: Any) -> None:
        _check_range(context["asked"], http_response.status_code, http_response.headers)

    def check_list(parsed: Mapping[str, Any], **_: Any) -> None:
        if parsed.keys() == {"ResponseMetadata"}:  # it would be a list without names
            raise AnswerError(0, "got an empty answer to a request for a list")

    session = AioSession(profile=profile)
    session.register("before-call.s3.GetObject", ask)
    session.register("after-call.s3.GetObject", check)
    session.register("after-call.s3.ListObjectsV2", check_list)
    return session


def _check_range(asked: str, status: int, headers: Mapping[str, str]) -> None:
    """Raise AnswerError unless an answer starts at the requested byte and ends no later."""
    if not (wanted := _RANGE_HEADER.match(asked)) or status not in (200, 206):
        return
    said = (
        headers.get("Content-Range", "")
        if status == 206
        else f"bytes 0-{headers.get('Content-Length', '')}"
    )

    sent = _RANGE_HEADER.match(said)
    if sent and sent[1] == wanted[1] and int(sent[2]) <= int(wanted[2]) + (status == 200):
        return

    got = said or "an answer that does not say its range"

    if status == 200:
        got = (
            "the entire file (status 200): the server ignores ranges; download the file, or copy "
            "it to another server"
        )

    raise AnswerError(0, f"asked for {asked}, got {got}")


def answer_of(error: BaseException) -> AnswerError:
    """Return the answer of the store behind an error; without words if there was none."""
    cause: BaseException | None = error

    while cause is not None:
        if isinstance(cause, AnswerError):
            return cause
        response = getattr(cause, "response", None)
        if isinstance(response, dict) and "ResponseMetadata" in response:  # of botocore
            said = response.get("Error", {})
            answer = response["ResponseMetadata"]
            words = ": ".join(filter(None, (said.get("Code"), said.get("Message"))))
            return AnswerError(
                answer.get("HTTPStatusCode", 0), words, _seconds(answer.get("HTTPHeaders", {}))
            )
        cause = cause.__cause__ or cause.__context__

    return AnswerError()


def option_error(
    url: str, options: Mapping[str, Any], error: BaseException
) -> ConfigurationError | None:
    """Return an error that names the options that a store's package refuses; None: it has none."""
    if not options or type(error) not in (TypeError, ValueError, AttributeError):
        return None
    words = str(error)
    keys = {
        ".".join(path): f"'{path[-1]}'" in words or repr(value) in words
        for path, value in leaves(options)
    }
    named = [key for key, is_named in keys.items() if is_named] or [*keys]
    return ConfigurationError(
        f"{url}: store.fsspec.{', '.join(named)}: expected options of its file system, got: "
        f"{words}; correct or remove them"
    )


def final_error(url: str, error: Exception, status: int, words: str) -> StorageError | None:
    """Return the error if repeating the request is pointless, else None."""
    if isinstance(error, TimeoutError):
        return None
    if status == 416:
        return ObjectTooShortError(f"{url}: the object ends before the range: {words}")
    if status in (404, 410) or (
        isinstance(error, FileNotFoundError) and isinstance(error.__cause__, KeyError | None)
    ):
        return ObjectMissingError(f"{url}: no such object")

    if isinstance(error, PermissionError) or (
        400 <= status < 500 and status not in (408, 425, 429)
    ):
        return ObjectRefusedError(f"{url}: the store refuses: {words}")

    return None


def _seconds(headers: Mapping[str, str]) -> float:
    """Return the seconds of the header Retry-After, a number or a date; 0 without it."""
    text = headers.get("Retry-After", headers.get("retry-after", "")).strip()
    if text.isdecimal():
        return float(text)
    with contextlib.suppress(ValueError, TypeError):
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    return 0.0
