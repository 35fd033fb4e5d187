"""The images on which runs are compared, and the study of one run."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from aib.config.options import is_library_name
from aib.config.paper import has_papers_form
from aib.data import Batches, ImageSet, has_split, load
from aib.data.files import locate, root_folder
from aib.data.load import parse_name
from aib.data.specs import spec_of
from aib.data.split import sample_indices
from aib.errors import AibError
from aib.interpret.foreign import ForeignClassifier, count_classes
from aib.interpret.images import ImageMetrics
from aib.interpret.results import Study
from aib.interpret.studies import Plan, study
from aib.models.networks.by_name import build_network, classes_of, preprocessing_of
from aib.runs.run import Run
from aib.system.environment import environment, pick_device

MAX_FOREIGN = 2000  # images of a foreign set that has to be decoded from files


def feed_for(
    run: Run,
    data: ImageSet,
    *,
    images: int | None = None,
    batch_size: int = 256,
    workers: int = 0,
    seed: int = 0,
) -> Batches:
    """All images of the data, or a seeded sample of them, on the model's device."""
    if images is not None and images < 2:
        raise AibError(f"--images must be at least 2, not {images}")
    device = next(run.model.parameters()).device
    indices = sample_indices(len(data), images, seed)
    return Batches(data, batch_size, indices=indices, device=device, workers=workers)


def open_network(name: str, data: str, root: str | None, out: Path, device: str | None) -> Run:
    """A network as it is, by its name: of a library with its pretrained weights, or your own.

    It gets the data's normalisation where it has none of its own, and its results go to `out`.
    """
    network = build_network(name, pretrained=is_library_name(name))
    split = "test" if has_split(data, "test") else "train"
    images = load(data, split, root=root, holdout=0)
    policy = preprocessing_of(name, network) or images.preprocessing
    count = count_classes(network, torch.zeros(1, 3, policy.image_size, policy.image_size))
    names = classes_of(name, network, images.class_names)
    policy = replace(policy, class_names=names if len(names) == count else ())
    model = ForeignClassifier(network, count, policy)
    model.recipe = {"kind": "custom", "name": name}
    return Run(out, name, model.to(pick_device(device)).eval(), None)


def check_alike(feeds: list[Batches], runs: list[Run]) -> None:
    """Raise an error unless all runs see the same images with the same labels."""
    for feed, run in zip(feeds[1:], runs[1:], strict=True):
        first = feeds[0].data
        if feed.data.preprocessing.image_size != first.preprocessing.image_size:
            raise AibError(
                f"{runs[0].label} takes images of {first.preprocessing.image_size} pixels and "
                f"{run.label} of {feed.data.preprocessing.image_size}: compare them separately"
            )
        if not torch.equal(feed.data.labels, first.labels):
            raise AibError(f"{runs[0].label} and {run.label} do not know the same classes")


def foreign_images(name: str, root: str | None, seed: int = 0) -> Tensor | str:
    """Images to occlude with, uint8 [M,3,h,w]; or a message that they are missing."""
    kind, _, _ = parse_name(name)
    if kind not in ("folder", "shapes") and locate(spec_of(kind), root) is None:
        return (
            f"no {name} images under {root_folder(root)}, so there is no occlusion by foreign "
            f"images: get them with `aib data fetch {kind}` or name another set with --foreign"
        )
    data = load(name, "train" if kind == "folder" else "test", root=root, holdout=0)
    if data.images is None:
        data = data.subset(sample_indices(len(data), MAX_FOREIGN, seed)).in_memory()
    assert data.images is not None
    return data.images


def study_run(
    run: Run,
    feed: Batches,
    plan: Plan,
    data: str,
    *,
    notes: Sequence[str] = (),
    expensive: bool = True,
) -> tuple[Study, ImageMetrics]:
    """The study of one run on `data`, with what it takes to repeat it."""
    origin = {
        "run": run.source,
        "profile": run.model.profile,
        "papers_form": run.settings is not None and has_papers_form(run.settings.recipe()),
        "weights_sha256": run.checksum,
        "data": data,
        "environment": environment(),
    }
    return study(
        run.model,
        feed,
        plan,
        name=run.name,
        origin=origin,
        notes=tuple(notes),
        expensive=expensive,
    )
