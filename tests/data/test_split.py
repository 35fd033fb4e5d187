"""The held-out part: seeded, stratified, disjoint, and never from the test set."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aib.data import load
from aib.data.split import sample_indices, stratified_split
from aib.errors import AibError

NAMES = tuple("abcdefghij")


@settings(max_examples=50, deadline=None)
@given(
    counts=st.lists(st.integers(2, 40), min_size=1, max_size=10),
    holdout=st.floats(0.01, 0.9),
    seed=st.integers(0, 100),
)
def test_every_class_is_on_both_sides_in_its_share(counts, holdout, seed):
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    kept, held_out = stratified_split(labels, holdout, seed, NAMES)
    assert sorted(torch.cat([kept, held_out]).tolist()) == list(range(len(labels)))
    for label, count in enumerate(counts):
        out = int((labels[held_out] == label).sum())
        nearest = min(max(holdout * count, 1), count - 1)
        assert 1 <= out < count and abs(out - nearest) <= 0.5


def test_the_seed_decides_and_nothing_else():
    labels = torch.arange(100) % 10
    torch.manual_seed(9)
    first = stratified_split(labels, 0.2, 3, NAMES)[1]
    generator = torch.Generator().manual_seed(3)  # as it was: older runs depend on their split
    chosen = [10 * torch.randperm(10, generator=generator)[:2] + label for label in range(10)]
    assert torch.equal(first, torch.cat(chosen).sort().values)
    assert not torch.equal(first, stratified_split(labels, 0.2, 4, NAMES)[1])


def test_a_sample_is_sorted_without_repeats_and_seeded():
    chosen = sample_indices(1000, 50, 7)
    assert torch.equal(chosen, sample_indices(1000, 50, 7)) and (chosen.diff() > 0).all()
    assert not torch.equal(chosen, sample_indices(1000, 50, 8))
    assert sample_indices(5, None, 0).tolist() == sample_indices(5, 9, 0).tolist() == [*range(5)]


def test_train_and_val_share_no_image_and_make_up_the_whole():
    whole = load("shapes:count=200", "train", holdout=0)
    train, val = (load("shapes:count=200", s, holdout=0.25) for s in ("train", "val"))
    assert len(train) == 150 and len(val) == 50
    pictures = {image.numpy().tobytes() for image in whole.images}
    parts = [{image.numpy().tobytes() for image in s.images} for s in (train, val)]
    assert parts[0] | parts[1] == pictures and not parts[0] & parts[1]
    assert torch.bincount(val.labels).tolist() == [5] * 10
    named = load("shapes:count=100,holdout=0.3", "val", count=200, holdout=0.5)  # the name counts
    assert len(named) == 30


@pytest.mark.parametrize(
    ("split", "holdout"), [("train", -0.1), ("train", 1.0), ("train", 2.0), ("val", 0)]
)
def test_impossible_shares_are_refused(split, holdout):
    with pytest.raises(AibError, match="holdout"):
        load("shapes:count=100", split, holdout=holdout)
