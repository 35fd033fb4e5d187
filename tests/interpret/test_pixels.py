"""Images for the modifications: from files too, with a sentence for one that breaks later."""

import pytest
import torch

from aib.data import load
from aib.errors import AibError
from aib.interpret.pixels import Feed
from tests.data import official


@pytest.mark.parametrize("workers", [0, 1])
def test_a_file_that_breaks_later_is_named_in_one_sentence(tmp_path, workers):
    official.write_folder(tmp_path, side=80)
    data = load(f"folder:{tmp_path}:image_size=80", "train", holdout=0)
    feed = Feed(data, torch.arange(len(data)), batch_size=3, workers=workers)
    assert sum(len(batch.index) for batch in feed) == len(data)
    (tmp_path / "class_1/2.png").write_bytes(b"no image any more")
    with pytest.raises(AibError, match="2.png is not an image") as caught:
        list(feed)
    assert "\n" not in str(caught.value)
