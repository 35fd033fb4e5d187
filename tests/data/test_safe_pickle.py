"""Pickled CIFAR files are read without running code, and without crashing."""

import pickle

import numpy as np
import pytest

from aib.data import load
from aib.data.safe_pickle import load_arrays
from aib.errors import AibError
from tests.data import official


def test_code_in_a_pickle_is_not_run(tmp_path):
    class Code:
        def __reduce__(self):
            return (print, ("run",))

    (tmp_path / "file").write_bytes(pickle.dumps({b"data": Code(), b"labels": [0]}))
    with pytest.raises(AibError, match=r"builtins\.print"):
        load_arrays(tmp_path / "file")


def test_a_file_as_python_2_wrote_it_is_read(tmp_path):
    """Written by hand with the opcodes of the official files: byte strings, protocol 2."""
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K\x02K\x03\x86"  # version and shape
        b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89U\x06\x00\x01\x02\x03\x04\xfftb"
    )
    labels = b"](K\x06K\x09e"
    (tmp_path / "old").write_bytes(b"\x80\x02}(U\x04data" + array + b"U\x06labels" + labels + b"u.")
    content = load_arrays(tmp_path / "old")
    assert content["data"].tolist() == [[0, 1, 2], [3, 4, 255]] and content["labels"] == [6, 9]


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("code", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_integer_arrays_of_any_byte_order(tmp_path, order, code):
    array = np.arange(6).astype(order + code).reshape(2, 3)
    content = {"rows": array, "columns": np.asfortranarray(array)}
    (tmp_path / "file").write_bytes(pickle.dumps(content, protocol=4))
    read = load_arrays(tmp_path / "file")
    assert all(read[name].tolist() == array.tolist() for name in content)
    assert all(read[name].dtype == array.dtype for name in content)


@pytest.mark.parametrize("dtype", ["f4", "O", "S2", "U2", "M8[s]", "i4,i4", "V3", "?"])
def test_arrays_of_other_types_are_an_error(tmp_path, dtype):
    (tmp_path / "file").write_bytes(pickle.dumps({"data": np.zeros(2, dtype)}, protocol=4))
    with pytest.raises(AibError, match="not of integers"):
        load_arrays(tmp_path / "file")


DEEP = b")" + b"\x85" * 300_000  # a tuple in a tuple in a tuple ...


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x04}" + DEEP + b"Ns.",  # as a key: hashing it overflows the stack
        b"\x80\x04(" + DEEP + b"Nd.",
        b"\x80\x04\x8f(" + DEEP + b"\x90.",
        b"\x80\x04(" + DEEP + b"\x91.",
        b"\x80\x04}r\x00\x00\x00\x04N.",  # stored as memo 67,108,864
    ],
)
def test_pickles_that_would_crash_or_fill_the_memory(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(AibError, match="file"):
        load_arrays(tmp_path / "file")


def test_nested_labels_are_an_error(tmp_path):
    """Ten lists, each of a hundred times the one before: a few bytes, and 10^20 labels."""
    official.write_cifar10(tmp_path, pickled=True)
    path = tmp_path / "cifar-10-batches-py" / "test_batch"
    labels = [0]
    for _ in range(10):
        labels = [labels] * 100
    content = {b"data": np.zeros((1, 3072), np.uint8), b"labels": labels}
    path.write_bytes(pickle.dumps(content, protocol=4))
    with pytest.raises(AibError, match="plain list of labels"):
        load("cifar10:partial", "test", root=tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x80\x04\x95", b"not a pickle", pickle.dumps([1])])
def test_damaged_pickles_are_an_error(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(AibError, match="file"):
        load_arrays(tmp_path / "file")
