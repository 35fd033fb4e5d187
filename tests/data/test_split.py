"""The held-out part: seeded, stratified, disjoint, and never from the test set."""

import json

import pytest
import torch
from hypothesis import given, settings, strategies as st

from aib.data import load
from aib.data.split import sample_indices, stratified_split
from aib.errors import AibError
from tests.data import official

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


@pytest.mark.parametrize("kind", ["folder", "in memory", "known"])
def test_a_recorded_part_is_found_again_whatever_the_seed_and_the_share(tmp_path, kind):
    photos = official.write_folder(tmp_path / "photos", per_class=6)
    name = {
        "folder": f"folder:{photos}",
        "in memory": f"folder:{photos}:image_size=16",
        "known": "shapes:count=100",
    }[kind]
    keys = json.loads(json.dumps(load(name, "val", holdout=0.3, seed=5).keys))  # as in a run
    seed = 5 if kind == "known" else 6  # which also makes the shapes
    options = {"holdout": 0.5, "seed": seed, "held_out": keys}
    train, val = (load(name, s, **options) for s in ("train", "val"))
    assert list(val.keys) == keys
    whole = load(name, "train", holdout=0, seed=seed)
    assert {*train.keys, *val.keys} == {*whole.keys} and not {*train.keys} & {*val.keys}
    first = whole.keys.index(keys[0])
    assert torch.equal(val.pixels(0), whole.pixels(first)) and val.labels[0] == whole.labels[first]


def test_a_recorded_image_that_is_missing_is_named(tmp_path):
    photos = official.write_folder(tmp_path, per_class=6)
    keys = load(f"folder:{photos}", "val", holdout=0.3).keys
    (photos / keys[2]).unlink()
    for split in ("train", "val"):
        with pytest.raises(AibError, match=f"lacks 1 of the 6 held-out images, such as {keys[2]}"):
            load(f"folder:{photos}", split, held_out=keys)


@pytest.mark.parametrize(("split", "holdout"), [("train", -0.1), ("train", 1.0), ("val", 0)])
def test_impossible_shares_are_refused(split, holdout):
    with pytest.raises(AibError, match="holdout"):
        load("shapes:count=100", split, holdout=holdout)
