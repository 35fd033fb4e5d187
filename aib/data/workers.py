"""Decoding in worker processes: a generator of batches, and errors that arrive as they were."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, default_collate

from aib.errors import AibError

MAX_WORKERS = 256  # each is a process; a slip of the finger should not start a million


def check_workers(workers: int) -> int:
    """Refuse a number of processes that no machine wants."""
    if not 0 <= workers <= MAX_WORKERS:
        raise AibError(f"workers must lie between 0 and {MAX_WORKERS}, not {workers}")
    return workers


def decoded(items: Dataset, workers: int, **how: Any) -> Iterator[Any]:
    """Batches of `items`, made in worker processes. An AibError there is raised here, unchanged."""
    loader = DataLoader(
        _HandedOver(items),
        num_workers=check_workers(workers),
        # Its own generator: else the loader draws a number from the global one, and the model's
        # noise would depend on how often an epoch was resumed.
        generator=torch.Generator(),
        collate_fn=_collate,
        **how,
    )
    for batch in loader:
        if isinstance(batch, AibError):
            raise batch
        yield batch


class _HandedOver(Dataset):
    """Errors are handed over, not raised: torch would wrap the sentence in a worker's traceback."""

    def __init__(self, items: Any) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, position: int) -> Any:
        try:
            return self.items[position]
        except AibError as error:
            return error


def _collate(items: list[Any]) -> Any:
    for item in items:
        if isinstance(item, AibError):
            return item
    return default_collate(items)
