"""Models of the Hugging Face Hub by address: `hf:owner/name`, or `hf:owner/name@REVISION`.

Only the files that are asked for are downloaded, all of one commit; nothing in them is executed.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from aib.errors import AibError, first_line
from aib.models.weights import CONFIG, WEIGHTS

PREFIX = "hf:"
# By the name of the error's class or base class, so that huggingface_hub is imported only for use.
# The first that fits counts: the later ones are base classes of earlier ones.
ERRORS = {
    "RevisionNotFoundError": "{repo} has no revision '{revision}' on the Hub",
    "RepositoryNotFoundError": "the Hub has no model {repo}, or it is private: check the name, or "
    "log in with `hf auth login`",
    "LocalEntryNotFoundError": "{repo} could not be downloaded: the Hub cannot be reached or was "
    "not asked, and the model is not in the local cache",
    "EntryNotFoundError": "{repo} on the Hub is not an aib model: it needs "
    f"{CONFIG} and {WEIGHTS}",
    "Exception": "the Hub could not be used for {repo}: {reason}",  # the network, the Hub, the disk
}


def is_address(source: str | Path) -> bool:
    """Whether this names a model of the Hub."""
    return str(source).startswith(PREFIX)


def parse_address(address: str | Path) -> tuple[str, str | None]:
    """`hf:owner/name@REVISION` to (owner/name, REVISION); the prefix and the revision may lack."""
    repo, _, revision = str(address).removeprefix(PREFIX).partition("@")
    return repo, revision or None


def fetch_model(address: str | Path, extras: Sequence[str] = ()) -> Path:
    """Download config, weights and those of the `extras` that the repository has.

    Returns the folder in the local cache, which is named by its commit.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError

    repo, revision = parse_address(address)
    with readable_errors(repo, revision):
        folder = Path(hf_hub_download(repo, CONFIG, revision=revision)).parent
        # Of the same commit, also if the branch moves meanwhile.
        hf_hub_download(repo, WEIGHTS, revision=folder.name)
        for name in extras:
            with suppress(EntryNotFoundError):
                hf_hub_download(repo, name, revision=folder.name)
    return folder


@contextmanager
def readable_errors(repo: str, revision: str | None = None) -> Iterator[None]:
    """Turn what the Hub, the network or the cache raise into one sentence."""
    try:
        yield
    except Exception as error:
        kinds = {kind.__name__ for kind in type(error).__mro__}
        text = next(text for kind, text in ERRORS.items() if kind in kinds)
        facts = {"repo": repo, "revision": revision, "reason": first_line(error)}
        raise AibError(text.format(**facts)) from error
