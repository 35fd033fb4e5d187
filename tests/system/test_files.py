"""Paths in what leaves the machine."""

import pytest

from aib.system.files import without_folders


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("folder:/home/me/photos:test=0.2 val own", "folder:photos:test=0.2 val own"),
        ("aib train --data folder:/a/b --out=/c/d/e", "aib train --data folder:b --out=e"),
        ("aib report '/a/b/c'", "aib report 'c'"),
        ("folder:/home/my name/photos", "folder:photos"),
        ("https://huggingface.co/me/mine", "https://huggingface.co/me/mine"),
        ("runs/a and/or b", "runs/a and/or b"),
    ],
)
def test_absolute_paths_are_cut(text, expected):
    assert without_folders({text: [text, 1, None]}) == {expected: [expected, 1, None]}
