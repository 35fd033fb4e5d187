"""The known data sets: classes, split sizes, channel statistics, official files."""

import csv
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from aib.config.validation import reject_unknown
from aib.errors import AibError

_CIFAR100 = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus
    butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab
    crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard
    lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom
    oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
    possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake
    spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
    train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""

# Channel mean and standard deviation of ImageNet, on which backbones for photographs were trained.
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Archive:
    """One official download: a tar file of a folder, or a single file."""

    url: str
    md5: str  # as published
    part: str = ""  # the sub-folder or file of the set that it holds; by default the whole set

    @property
    def file_name(self) -> str:
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Spec:
    """A known data set. `classes` is empty if the files of the set name them."""

    name: str
    title: str
    num_classes: int
    sizes: dict[str, int]  # images in each official split
    classes: tuple[str, ...] = ()
    image_size: int = 224
    # Channel mean and standard deviation of the training split on a 0-1 scale, as commonly
    # published; for photographs ImageNet's.
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    folders: tuple[str, ...] = ()  # possible folders under a root, the preferred one first
    archives: tuple[Archive, ...] = ()
    mirror: bool = True  # a mirrored image keeps its class
    pad: int | None = None  # as of ImageSet


_TORONTO = "https://www.cs.toronto.edu/~kriz/"
_STANFORD = "http://ai.stanford.edu/~acoates/stl10/"
_CALTECH = "https://data.caltech.edu/records/"
_PETS = "https://www.robots.ox.ac.uk/~vgg/data/pets/data/"
_DIGITS = "http://ufldl.stanford.edu/housenumbers/"

SHAPES = Spec(
    "shapes",
    "cluttered shapes with masks",
    num_classes=10,
    classes=tuple("disc ring square triangle plus star crescent corner bowtie pill".split()),
    image_size=32,
    sizes={"train": 20_000, "test": 4_000},
    mean=(0.5, 0.5, 0.5),
    std=(0.214, 0.214, 0.214),
    # No crops: positions are random already, and a crop could remove the shape.
    pad=0,
)
SHAPES_SPURIOUS = replace(
    SHAPES,
    name="shapes_spurious",
    title="cluttered shapes; in training the background gives the class away",
)

CIFAR10 = Spec(
    "cifar10",
    "CIFAR-10",
    num_classes=10,
    classes=tuple("airplane automobile bird cat deer dog frog horse ship truck".split()),
    image_size=32,
    sizes={"train": 50_000, "test": 10_000},
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
    folders=("cifar-10-batches-bin",),
    archives=(Archive(_TORONTO + "cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),),
)

CIFAR100 = Spec(
    "cifar100",
    "CIFAR-100",
    num_classes=100,
    classes=tuple(_CIFAR100.split()),
    image_size=32,
    sizes={"train": 50_000, "test": 10_000},
    mean=(0.5071, 0.4865, 0.4409),
    std=(0.2673, 0.2564, 0.2762),
    folders=("cifar-100-binary",),
    archives=(Archive(_TORONTO + "cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),),
)

SVHN = Spec(
    "svhn",
    "SVHN, cropped digits",
    num_classes=10,
    classes=tuple("0123456789"),
    image_size=32,
    sizes={"train": 73_257, "test": 26_032},
    mean=(0.4377, 0.4438, 0.4728),
    std=(0.1980, 0.2010, 0.1970),
    folders=("svhn",),
    archives=(
        Archive(_DIGITS + "train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373", "train_32x32.mat"),
        Archive(_DIGITS + "test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3", "test_32x32.mat"),
    ),
    mirror=False,  # a mirrored 2 is not a digit
)

STL10 = Spec(
    "stl10",
    "STL-10, labelled part",
    num_classes=10,
    classes=tuple("airplane bird car cat deer dog horse monkey ship truck".split()),
    image_size=96,
    sizes={"train": 5_000, "test": 8_000},
    mean=(0.4467, 0.4398, 0.4066),
    std=(0.2603, 0.2566, 0.2713),
    folders=("stl10_binary",),
    archives=(Archive(_STANFORD + "stl10_binary.tar.gz", "91f7769df0f17e558f3565bffb0c7dfb"),),
)

CUB200 = Spec(
    "cub200",
    "CUB-200-2011, birds",
    num_classes=200,
    sizes={"train": 5_994, "test": 5_794},
    folders=("CUB_200_2011",),
    archives=(
        Archive(
            _CALTECH + "65de6-vp158/files/CUB_200_2011.tgz", "97eceeb196236b17998738112f37df78"
        ),
        Archive(
            _CALTECH + "w9d68-gec53/files/segmentations.tgz",
            "4d47ba1228eae64f2fa547c47bc65255",
            part="segmentations",
        ),
    ),
)

PETS = Spec(
    "pets",
    "Oxford-IIIT Pet, cats and dogs",
    num_classes=37,
    sizes={"train": 3_680, "test": 3_669},
    folders=("oxford-iiit-pet",),
    archives=(
        Archive(_PETS + "images.tar.gz", "5c4f3ee8e5d25df40f4fd59a7f44e54c", part="images"),
        Archive(
            _PETS + "annotations.tar.gz", "95a8c909bbe2e81eed6a22bccdf3f68f", part="annotations"
        ),
    ),
)

_ALL = (SHAPES, SHAPES_SPURIOUS, CIFAR10, CIFAR100, SVHN, STL10, CUB200, PETS)
SPECS = {spec.name: spec for spec in _ALL}


def spec_of(name: str) -> Spec:
    """The spec of a data set; an error names the closest ones."""
    names = [*SPECS, "folder:PATH"]
    if name not in names and Path(name).is_dir():
        raise AibError(f"there is no data set '{name}'; the images in that folder: folder:{name}")
    reject_unknown([name], names, "there is no data set", "aib data list")
    return SPECS[name]


@cache
def imagenet_classes() -> dict[str, str]:
    """Name of each class by its WordNet number, such as n01440764, in the order of the indices."""
    path = Path(__file__).with_name("imagenet_classes.csv")
    with path.open(encoding="utf-8", newline="") as file:
        return {row["wordnet"]: row["name"] for row in csv.DictReader(file)}


def class_names(count: int) -> tuple[str, ...]:
    """The names of ImageNet's classes for as many classes, else numbers."""
    names = tuple(imagenet_classes().values())
    return names if count == len(names) else tuple(map(str, range(count)))
