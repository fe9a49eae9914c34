"""Fetching a checkpoint's files from the Hub, through its own client and into its cache."""

from __future__ import annotations

import errno
import http.client
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from huggingface_hub import (
    constants,
    get_hf_file_metadata,
    hf_hub_download,
    hf_hub_url,
    try_to_load_from_cache,
)
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from laya.errors import CheckpointError, CheckpointNotFoundError, HubError, OptionError

_MORE_TRIES = 4
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_WRITING = {errno.EACCES, errno.EPERM, errno.EROFS}


@dataclass(frozen=True)
class Snapshot:
    """Files of one commit, in the client's cache."""

    root: Path
    """The checkpoint's directory: the commit's, with the subfolder."""
    commit: str


def fetch_snapshot(
    repo: str, subfolder: str, names: tuple[str, ...], *, token: str | bool | None, revision: str | None
) -> Snapshot:
    """Return a directory that holds the named files, all of one commit; only missing ones are fetched.

    Where the Hub is out of reach, what the cache holds completely is used as it is. Raises
    CheckpointNotFoundError for what the Hub doesn't have, HubError for all else that keeps a file away.
    """
    request = _Request.parse(repo, subfolder, names, token, revision)
    # Looked up first: the client moves the branch's entry in the cache as soon as it sees a newer commit.
    cached = request.cached_snapshot()
    try:
        if cached is None:
            request.reach_hub()
        return request.download()
    except _DownloadFailed as failure:
        if cached is not None and _is_outage(failure.cause):
            return cached
        raise _explain(request, failure) from failure.cause


class _DownloadFailed(Exception):
    """Carry what the client raised, with the file that it was about."""

    def __init__(self, file: str, cause: Exception) -> None:
        super().__init__(file)
        self.file = file
        self.cause = cause


@dataclass(frozen=True)
class _Request:
    repo: str
    names: tuple[str, ...]
    """Within the repository, subfolder included."""
    subfolder: str
    token: str | bool | None
    revision: str

    @classmethod
    def parse(
        cls,
        repo: str,
        subfolder: str,
        names: tuple[str, ...],
        token: str | bool | None,
        revision: str | None,
    ) -> _Request:
        if token is not None and not isinstance(token, (str, bool)):
            raise OptionError(f"token must be a string, not {type(token).__name__}", option="token")
        if revision is not None and not _is_revision(revision):
            message = "revision must name a branch, a tag or a commit; leave it out for the default branch"
            raise OptionError(message, option="revision")
        if not _is_hub_id(repo):
            message = f"{repo!r} is no existing directory and no Hub id ('owner/name'); check the spelling"
            raise CheckpointNotFoundError(message, model_id=repo)
        return cls(
            repo=repo,
            names=tuple(str(PurePosixPath(subfolder, name)) for name in names),
            subfolder=subfolder,
            # A token read from a file ends in a line break, which no header may hold.
            token=(token.strip() or None) if isinstance(token, str) else token,
            revision=constants.DEFAULT_REVISION if revision is None else revision,
        )

    def reach_hub(self) -> None:
        """Fail at once where the Hub can't be reached: the client would try for half a minute."""
        missing = next((name for name in self.names if self._cached(name) is None), self.names[0])
        url = hf_hub_url(self.repo, missing, revision=self.revision)
        try:
            get_hf_file_metadata(url, token=self.token)
        except HfHubHTTPError:
            pass  # it answered: whatever is wrong, the client tells it more precisely
        except Exception as error:
            raise _DownloadFailed(missing, error) from error

    def download(self) -> Snapshot:
        """Fetch the first file by the revision's name, the others from the commit that this gave."""
        first = self._download(self.names[0], self.revision)
        snapshot = self._snapshot_of(first, self.names[0])
        for name in self.names[1:]:
            self._download(name, snapshot.commit)
        return snapshot

    def cached_snapshot(self) -> Snapshot | None:
        """Return what the cache holds under this revision, if it is complete."""
        files = [file for file in map(self._cached, self.names) if file is not None]
        return self._snapshot_of(files[0], self.names[0]) if len(files) == len(self.names) else None

    def _cached(self, name: str) -> str | None:
        file = try_to_load_from_cache(self.repo, name, revision=self.revision)
        return file if isinstance(file, str) else None

    def _download(self, name: str, revision: str) -> str:
        more_tries = _MORE_TRIES
        while True:
            try:
                return hf_hub_download(self.repo, name, revision=revision, token=self.token)
            except Exception as error:  # the client's transports (HTTP, Xet) each raise their own kinds
                # Clients of 0.x give up at a cut transfer and keep what came: their next call asks for the rest.
                if not more_tries or not _any(tuple(_causes(error)), http.client.IncompleteRead):
                    raise _DownloadFailed(name, error) from error
            more_tries -= 1

    def _snapshot_of(self, file: str, name: str) -> Snapshot:
        """Read the commit off a cached file's place: `snapshots/<commit>/<name>`."""
        directory = Path(file).parents[len(PurePosixPath(name).parts) - 1]
        return Snapshot(root=directory / self.subfolder, commit=directory.name)


def _is_hub_id(repo: str) -> bool:
    """Ask the client, which checks the id before it makes a URL of it."""
    try:
        hf_hub_url(repo, "")
    except HFValidationError:
        return False
    return repo.isascii()  # clients of 0.x let letters of every script pass


def _is_revision(value: object) -> bool:
    """Refuse what git refuses anyway: in the cache it would be a path that leads elsewhere."""
    return isinstance(value, str) and bool(value.strip()) and ".." not in value and not os.path.isabs(value)


def _explain(request: _Request, failure: _DownloadFailed) -> CheckpointError:
    """Say which file of which repository is missing, why, and what to do about it."""
    causes = tuple(_causes(failure.cause))
    status = next((code for code in map(_status, causes) if code is not None), None)
    where = f"Hub repository {request.repo!r}, revision {request.revision!r}: cannot get {failure.file!r}: "
    if missing := _missing(request, causes, status):
        return CheckpointNotFoundError(where + missing, model_id=request.repo, path=failure.file)
    return HubError(
        where + (_refusal(request, causes, status) or _local_obstacle(causes) or _outage(request, causes)),
        model_id=request.repo,
        path=failure.file,
        status=status,
        retryable=_is_outage(failure.cause),
    )


def _missing(request: _Request, causes: tuple[BaseException, ...], status: int | None) -> str | None:
    page = f"{constants.ENDPOINT}/{request.repo}"
    if _any(causes, RevisionNotFoundError):
        return f"the repository has no such branch, tag or commit; choose one of {page}/tree/main"
    if any(_is_missing_entry(cause) for cause in causes):
        return f"the repository has no such file; check its name and the subfolder at {page}"
    if status == 404 and not _any(causes, GatedRepoError):
        return (
            f"there is no such repository at {constants.ENDPOINT}, nor a local directory of this name; "
            "check the spelling (a private repository also needs a token: token=... or HF_TOKEN)"
        )
    return None


def _refusal(request: _Request, causes: tuple[BaseException, ...], status: int | None) -> str | None:
    if status in (401, 403) or _any(causes, RepositoryNotFoundError):
        return (
            f"access refused (HTTP {status}): it is private, gated or doesn't exist; check its name, "
            f"ask for access at {constants.ENDPOINT}/{request.repo}, then give a token that may read it "
            "(token=..., the variable HF_TOKEN, or `hf auth login`)"
        )
    return None


def _local_obstacle(causes: tuple[BaseException, ...]) -> str | None:
    cache = repr(str(constants.HF_HUB_CACHE))
    if problem := _os_problem(causes, _NO_ROOM):
        return f"no room in the cache {cache} ({problem}); free some space, or point HF_HOME to a larger disk"
    # A firewall refuses connections with the same numbers, but names no file.
    if problem := _os_problem([c for c in causes if getattr(c, "filename", None)], _NO_WRITING):
        return f"the cache {cache} can't be written ({problem}); make it writable, or point HF_HOME elsewhere"
    if _any(causes, OfflineModeIsEnabled):
        return (
            f"it isn't in the cache {cache}, and offline mode is on; unset HF_HUB_OFFLINE, "
            "fill the cache beforehand, or give a local directory or 'laya-mini', which comes with the package"
        )
    return None


def _outage(request: _Request, causes: tuple[BaseException, ...]) -> str:
    return (
        f"{constants.ENDPOINT} failed or can't be reached ({_summary(causes, request.token)}), and the cache "
        f"{str(constants.HF_HUB_CACHE)!r} doesn't hold it; check network and HF_ENDPOINT, then try again, "
        "or take 'laya-mini', which comes with the package"
    )


def _is_outage(error: Exception) -> bool:
    """Tell a Hub out of reach from one that answered no, and from trouble on this machine."""
    causes = tuple(_causes(error))
    answered = any((code := _status(cause)) is not None and code < 500 for cause in causes)
    return not answered and _local_obstacle(causes) is None


def _any(causes: tuple[BaseException, ...], kind: type[BaseException]) -> bool:
    return any(isinstance(cause, kind) for cause in causes)


def _is_missing_entry(error: BaseException) -> bool:
    return isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError)


def _os_problem(causes: Iterable[BaseException], numbers: set[int]) -> str | None:
    """Name the first of these operating system errors among the causes."""
    for cause in causes:
        if isinstance(cause, OSError) and cause.errno in numbers:
            return os.strerror(cause.errno)
    return None


def _status(error: BaseException) -> int | None:
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Walk from an error to its origin."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def _summary(causes: tuple[BaseException, ...], token: str | bool | None) -> str:
    """Give the origin in one line, without the token that a transport may quote."""
    origin = next((c for c in causes if not isinstance(c, LocalEntryNotFoundError)), causes[0])
    text = " ".join(str(origin).split())
    if isinstance(token, str):
        text = text.replace(token, "***")
    return f"{type(origin).__name__}: {text[:200]}" if text else type(origin).__name__
