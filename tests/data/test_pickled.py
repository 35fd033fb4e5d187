"""Pickled CIFAR files are read without running code, and without crashing."""

import pickle

import numpy as np
import pytest

from aib.data import load
from aib.errors import AibError
from tests.data import official

ROW = np.arange(3072).astype(np.uint8)[None]
DEEP = b")" + b"\x85" * 300_000  # a tuple in a tuple in a tuple ...


def write(root, content: bytes) -> None:
    official.write_cifar10(root, pickled=True)
    (root / "cifar-10-batches-py/test_batch").write_bytes(content)


def test_a_file_as_python_2_wrote_it_is_read(tmp_path):
    """Written by hand with the opcodes of the official files: byte strings, protocol 2."""
    size, pixels = (3072).to_bytes(4, "little"), ROW.tobytes()
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K\x01M\x00\x0c\x86"  # version and shape
        b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89T" + size + pixels + b"tb"
    )
    names = b"U\x0bbatch_labelU\x05batchU\x06labels](K\x06eU\x09filenames](U\x05a.pnge"
    write(tmp_path, b"\x80\x02}(U\x04data" + array + names + b"u.")
    data = load("cifar10:partial", "test", root=tmp_path)
    assert data.labels.tolist() == [6]
    assert data.images.flatten().tolist() == ROW[0].tolist()


class Code:
    def __reduce__(self):
        return (print, ("code was run",))


@pytest.mark.parametrize("labels", [[3], [3, Code()]])
def test_code_in_a_pickle_is_not_run(tmp_path, capsys, labels):
    write(tmp_path, pickle.dumps({b"more": Code(), b"data": ROW, b"labels": labels}, protocol=4))
    assert load("cifar10:partial", "test", root=tmp_path).labels.tolist() == [3]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps({b"data": ROW, b"labels": [1, 2]}, protocol=4),
        pickle.dumps({b"data": ROW, b"labels": [1.5]}, protocol=4),
        pickle.dumps({b"data": ROW.astype(np.int32), b"labels": [1]}, protocol=4),
        pickle.dumps({b"data": np.asfortranarray(ROW.repeat(2, 0)), b"labels": [1, 2]}, protocol=4),
        pickle.dumps({b"data": ROW, b"labels": [[[1] * 9] * 9] * 9}, protocol=4),
        b"\x80\x04}" + DEEP + b"Ns.",  # as a key: hashing it would overflow the stack
        b"\x80\x04}r\x00\x00\x00\x04N.",  # stored as memo 67,108,864
    ],
)
def test_other_and_damaged_pickles_are_an_error(tmp_path, content):
    write(tmp_path, content)
    with pytest.raises(AibError, match="test_batch"):
        load("cifar10:partial", "test", root=tmp_path)
