import torch

from aib.interpret.metrics.seeded import Stream, integers, random_words


def test_numbers_depend_on_seed_stream_and_index_alone():
    index = torch.arange(100)
    whole = random_words(7, Stream.OCCLUSION, index, 5)
    parts = [random_words(7, Stream.OCCLUSION, part, 5) for part in index.split(33)]
    assert torch.equal(whole, torch.cat(parts))
    assert torch.equal(whole[:, :2], random_words(7, Stream.OCCLUSION, index, 2))
    assert not torch.equal(whole, random_words(8, Stream.OCCLUSION, index, 5))
    assert not torch.equal(whole, random_words(7 + 2**32, Stream.OCCLUSION, index, 5))
    assert not torch.equal(whole, random_words(7, Stream.SHUFFLE, index, 5))


def test_numbers_do_not_change_between_versions():
    # Blocks of an old report have to be found again: these are what the hash gave when written.
    assert random_words(0, Stream.OCCLUSION, torch.arange(2), 2).tolist() == [
        [3703876647, 2201563654],
        [992238560, 395188954],
    ]


def test_integers_are_uniform_and_below_their_limit():
    drawn = integers(0, Stream.OCCLUSION, torch.arange(40_000), (10, 29))
    for column, limit in zip(drawn.T, (10, 29), strict=True):
        counts = column.bincount(minlength=limit)
        assert len(counts) == limit
        expected = 40_000 / limit
        # Chi-squared with limit - 1 degrees of freedom: mean limit - 1, variance twice that.
        chi2 = float(((counts - expected) ** 2 / expected).sum())
        assert abs(chi2 - (limit - 1)) < 4 * (2 * (limit - 1)) ** 0.5
