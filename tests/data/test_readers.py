"""The official formats are read as published: pixels, labels, splits, class names."""

import pickle

import numpy as np
import pytest
import torch

from aib.data import load
from aib.data.safe_pickle import load_arrays
from aib.errors import AibError
from tests.data import official


def test_cifar10_binary_gives_the_pixels_and_labels_that_were_written(tmp_path):
    images, labels = official.write_cifar10(tmp_path)
    train = load("cifar10:partial", "train", root=tmp_path, holdout=0)
    assert np.array_equal(train.images, images)
    assert train.labels.tolist() == labels.tolist()
    assert train.class_names[0] == "airplane" and train.class_names[9] == "truck"
    assert len(load("cifar10:partial", "test", root=tmp_path)) == 20


def test_pickled_cifar10_equals_the_binary_form(tmp_path):
    official.write_cifar10(tmp_path / "a")
    official.write_cifar10_pickles(tmp_path / "b")
    binary, pickled = (
        load("cifar10:partial", "train", root=tmp_path / r, holdout=0) for r in ("a", "b")
    )
    assert torch.equal(binary.images, pickled.images)
    assert torch.equal(binary.labels, pickled.labels)


def test_a_pickle_that_wants_to_run_code_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return (print, ("owned",))

    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        (folder / name).write_bytes(pickle.dumps({b"data": Evil(), b"labels": [0]}))
    with pytest.raises(AibError, match=r"builtins\.print"):
        load("cifar10", "test", root=tmp_path)


def test_a_python_2_pickle_with_the_old_name_of_numpy_is_read(tmp_path):
    array = np.arange(6, dtype=np.uint8)
    data = pickle.dumps({b"data": array}, protocol=4)
    old = data.replace(b"\x16numpy._core.multiarray", b"\x15numpy.core.multiarray")
    assert old != data
    # The frame's length is one less now.
    length = int.from_bytes(old[3:11], "little") - 1
    (tmp_path / "old").write_bytes(old[:3] + length.to_bytes(8, "little") + old[11:])
    assert load_arrays(tmp_path / "old")["data"].tolist() == array.tolist()


def test_a_file_as_python_2_wrote_it_is_read(tmp_path):
    """By hand, opcode by opcode as in the official files: byte strings, protocol 2."""
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
def test_integer_arrays_are_read_in_any_order(tmp_path, order, code):
    array = np.arange(6).astype(order + code).reshape(2, 3)
    content = {"rows": array, "columns": np.asfortranarray(array)}
    (tmp_path / "file").write_bytes(pickle.dumps(content, protocol=4))
    read = load_arrays(tmp_path / "file")
    assert all(read[name].tolist() == array.tolist() for name in content)
    assert all(read[name].dtype == array.dtype for name in content)


@pytest.mark.parametrize("dtype", ["f4", "O", "S2", "U2", "M8[s]", "i4,i4", "V3", "?"])
def test_arrays_of_other_types_are_refused(tmp_path, dtype):
    (tmp_path / "file").write_bytes(pickle.dumps({"data": np.zeros(2, dtype)}, protocol=4))
    with pytest.raises(AibError, match="not of integers"):
        load_arrays(tmp_path / "file")


DEEP = b")" + b"\x85" * 1_000_000  # a tuple in a tuple in a tuple ...


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x04}" + DEEP + b"Ns.",  # as a key: to hash it overflows the stack
        b"\x80\x04(" + DEEP + b"Nd.",
        b"\x80\x04\x8f(" + DEEP + b"\x90.",
        b"\x80\x04(" + DEEP + b"\x91.",
        b"\x80\x04}r\x00\x00\x00\x04N.",  # remember it as number 67,108,864
    ],
)
def test_pickles_that_crash_or_fill_the_memory_are_refused(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(AibError, match="file"):
        load_arrays(tmp_path / "file")


def test_labels_that_multiply_are_refused(tmp_path):
    """Ten lists, each of a hundred times the one before: a few bytes, and 10^20 labels."""
    official.write_cifar10_pickles(tmp_path)
    path = tmp_path / "cifar-10-batches-py" / "test_batch"
    labels = [0]
    for _ in range(10):
        labels = [labels] * 100
    content = {b"data": np.zeros((1, 3072), np.uint8), b"labels": labels}
    path.write_bytes(pickle.dumps(content, protocol=4))
    with pytest.raises(AibError, match="plain list of labels"):
        load("cifar10:partial", "test", root=tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x80\x04\x95", b"not a pickle", pickle.dumps([1])])
def test_damaged_pickles_are_refused_in_one_sentence(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(AibError, match="file"):
        load_arrays(tmp_path / "file")


def test_cifar100_has_fine_and_coarse_labels(tmp_path):
    images, fine, coarse = official.write_cifar100(tmp_path)
    by_fine = load("cifar100:partial", "test", root=tmp_path)
    by_coarse = load("cifar100:partial,labels=coarse", "test", root=tmp_path)
    assert np.array_equal(by_fine.images, images)
    assert by_fine.labels.tolist() == fine.tolist() and by_fine.num_classes == 100
    assert by_coarse.labels.tolist() == coarse.tolist() and by_coarse.num_classes == 20
    with pytest.raises(AibError, match="fine"):
        load("cifar100:partial,labels=middle", "test", root=tmp_path)


@pytest.mark.parametrize("split", ["train", "test", "extra"])
def test_svhn_calls_the_digit_zero_0_and_must_not_be_mirrored(tmp_path, split):
    images, labels = official.write_svhn(tmp_path)
    digits = load("svhn:partial", split, root=tmp_path, holdout=0)
    assert np.array_equal(digits.images, images)
    assert digits.labels.tolist() == (labels % 10).tolist()
    assert not digits.mirror


def test_stl10_is_upright_with_its_own_classes(tmp_path):
    images, labels = official.write_stl10(tmp_path)
    raw = load("stl10:partial", "test", root=tmp_path)
    assert np.array_equal(raw.images, images)
    assert raw.labels.tolist() == (labels - 1).tolist()
    assert raw.class_names[7] == "monkey"


def test_stl10_matched_to_cifar10_by_name_drops_the_monkeys(tmp_path):
    official.write_stl10(tmp_path)
    raw = load("stl10:partial", "test", root=tmp_path)
    matched = load("stl10:partial,classes=cifar10,image_size=32", "test", root=tmp_path)
    names = [raw.class_names[i] for i in raw.labels if raw.class_names[i] != "monkey"]
    expected = ["automobile" if name == "car" else name for name in names]
    assert [matched.class_names[i] for i in matched.labels] == expected
    assert "frog" in matched.class_names and matched.images.shape[1:] == (3, 32, 32)


def test_cub_has_its_splits_classes_and_boxes(tmp_path):
    official.write_cub(tmp_path)
    test = load("cub200:partial", "test", root=tmp_path)
    assert len(test) == 4 and test.class_names == ("Bird_0", "Bird_1", "Bird_2")
    assert test.boxes[0].tolist() == [10.0, 5.0, 30.0, 20.0]
    mask = test.mask(0)  # [224,224]
    red = test.pixels(0)[0] > 127
    assert (mask == red).float().mean() > 0.99


def test_cub_cropped_shows_the_box_alone(tmp_path):
    official.write_cub(tmp_path)
    cropped = load("cub200:partial,crop", "train", root=tmp_path, holdout=0)
    assert cropped.boxes is None
    assert (cropped.pixels(0)[0] == 255).all() and (cropped.pixels(0)[2] == 0).all()


def test_the_root_may_be_the_set_s_own_folder(tmp_path):
    official.write_cifar10(tmp_path)
    inner = load("cifar10:partial", "test", root=tmp_path / "cifar-10-batches-bin")
    assert len(inner) == 20


def test_svhn_files_may_lie_loose_in_the_root(tmp_path):
    official.write_svhn(tmp_path)
    assert len(load("svhn:partial", "test", root=tmp_path / "svhn")) == 40


def test_another_model_s_preprocessing_resizes_images_and_masks():
    shapes = load("shapes:count=10", "test")
    from aib.preprocessing import Preprocessing

    larger = shapes.prepared_for(Preprocessing(64, "squash", (0.1, 0.2, 0.3), (0.5, 0.5, 0.5)))
    assert larger.images.shape == (10, 3, 64, 64) and larger.masks.shape == (10, 64, 64)
    assert larger.preprocessing.mean == (0.1, 0.2, 0.3)
    assert larger.class_names == shapes.class_names
    assert torch.allclose(larger.masks.float().mean(), shapes.masks.float().mean(), atol=1e-3)
