"""Models of the Hugging Face Hub by address: `hf:owner/name`, or `hf:owner/name@REVISION`.

Only the files that are asked for are downloaded, all of one commit; nothing in them is executed.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import (
    EntryNotFoundError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from aib.errors import AibError, AibWarning, first_line
from aib.models.weights import CONFIG, WEIGHTS

PREFIX = "hf:"


def is_address(source: str | Path) -> bool:
    """Whether this names a model of the Hub."""
    return str(source).startswith(PREFIX)


def parse_address(address: str | Path) -> tuple[str, str | None]:
    """`hf:owner/name@REVISION` to (owner/name, REVISION); the prefix and the revision may lack."""
    repo, at, revision = str(address).removeprefix(PREFIX).partition("@")
    if at and not revision:
        raise AibError(f"{address}: name a branch, a tag or a commit after @, or leave it out")
    return repo, revision or None


def fetch_model(
    address: str | Path,
    revision: str | None = None,
    *,
    extras: Sequence[str] = (),
    local_files_only: bool = False,
) -> Path:
    """Download config, weights and those of the `extras` that the repository has.

    Returns the folder in the local cache, which is named by its commit.
    """
    repo, named = parse_address(address)
    revision, unreached = revision or named, []
    with readable_errors(repo, revision):
        config = hf_hub_download(repo, CONFIG, revision=revision, local_files_only=local_files_only)
        folder = Path(config).parent
        for name in (WEIGHTS, *extras):
            try:
                # Of the same commit, also if the branch moves meanwhile.
                hf_hub_download(repo, name, revision=folder.name, local_files_only=local_files_only)
            except EntryNotFoundError as error:
                if name == WEIGHTS:
                    raise
                known = try_to_load_from_cache(repo, name, revision=folder.name)
                if isinstance(error, LocalEntryNotFoundError) and known is None:
                    unreached.append(name)
    if unreached:
        warnings.warn(
            f"the Hub cannot be reached, and {', '.join(unreached)} of {repo} may be missing: its "
            "results or verdict are not shown",
            AibWarning,
            stacklevel=2,
        )
    return folder


@contextmanager
def readable_errors(repo: str, revision: str | None = None) -> Iterator[None]:
    """Turn what the Hub, the network or the cache raise into one sentence."""
    try:
        yield
    except AibError:
        raise
    except HFValidationError as error:
        raise AibError(f"{repo!r} is no name of a model on the Hub, as in owner/name") from error
    except RevisionNotFoundError as error:
        raise AibError(f"{repo} has no revision {revision!r} on the Hub") from error
    except RepositoryNotFoundError as error:
        raise AibError(
            f"the Hub has no model {repo}, or it is private: check the name, or log in with "
            "`hf auth login`"
        ) from error
    except LocalEntryNotFoundError as error:
        raise AibError(
            f"{repo} could not be downloaded: the Hub cannot be reached or was not asked, and the "
            "model is not in the local cache"
        ) from error
    except EntryNotFoundError as error:
        raise AibError(
            f"{repo} on the Hub is not an aib model: it needs {CONFIG} and {WEIGHTS}"
        ) from error
    except Exception as error:  # of the network, the Hub or the disk
        raise AibError(f"the Hub could not be used for {repo}: {first_line(error)}") from error
