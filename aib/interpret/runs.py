"""The images on which runs are compared, and the study of one run."""

import os
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from aib.config.paper import has_papers_form, paper_scores
from aib.data import Batches, load
from aib.data.files import locate, root_folder
from aib.data.load import parse_name
from aib.data.specs import spec_of
from aib.data.split import sample_indices
from aib.errors import AibError
from aib.evaluation.matching import prepare_images
from aib.interpret.results import Study
from aib.interpret.studies import Plan, study
from aib.runs.run import Run
from aib.system.environment import environment
from aib.system.progress import Tick, silent

BATCH = 256  # images per batch
CPU_PIXELS = 2**17  # per batch on a CPU, where larger ones are slower and the bar stands still
GPU_WORKERS = 8  # processes that decode images, where a GPU waits for them
MAX_FOREIGN = 2000  # images of a foreign set that has to be decoded from files


def feeds_for(
    runs: Sequence[Run],
    name: str | None = None,
    split: str | None = None,
    root: str | None = None,
    images: int | None = None,
    batch_size: int | None = None,
    workers: int | None = 0,
    seed: int = 0,
    teacher: str | None = None,
    tick: Tick = silent,
) -> list[Batches]:
    """All images of the data, or a seeded sample of them, for each run the same ones.

    Where they have no labels, or others than those of the `teacher`, it gives them.
    """
    if images is not None and images < 2:
        raise AibError(f"--images must be at least 2, not {images}")
    feeds: list[Batches] = []
    s = runs[0].settings  # its teacher gives images labels that have none
    for run in runs:
        device = next(run.model.parameters()).device
        found = run.images(name, split, root, like=runs[0])
        own = s is not None and s.distill == 1 and s.data == name
        if teacher or own or not found.labelled:
            from aib.training.train import open_teacher  # seconds, for Fabric

            guide = open_teacher(s, found, teacher)
            if guide is not None:
                found = guide.relabel(found.subset(sample_indices(len(found), images, seed)))
                if not found.labelled:
                    found, _ = guide.to(device).label(found, workers or 0, tick)
        _, data = prepare_images(run.model, found)
        first = feeds[0].data if feeds else data
        if data.preprocessing.image_size != first.preprocessing.image_size:
            raise AibError(
                f"{runs[0].label} and {run.label} take images of other sizes: compare them "
                "separately"
            )
        if not torch.equal(data.labels, first.labels):
            raise AibError(f"{runs[0].label} and {run.label} do not know the same classes")
        few = 1 + CPU_PIXELS // data.preprocessing.image_size**2
        size, hands = BATCH, min(GPU_WORKERS, os.cpu_count() or 1)
        if device.type == "cpu":
            size, hands = min(few, BATCH), 2
        size = size if batch_size is None else batch_size
        hands = hands if workers is None else workers
        indices = sample_indices(len(data), images, seed)
        feeds.append(Batches(data, size, indices=indices, device=device, workers=hands))
    return feeds


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
    notes: Sequence[str] = (),
    *,
    expensive: bool = True,
) -> Study:
    """The study of one run on `data`, with what it takes to repeat it."""
    found = study(run.model, feed, plan, name=run.name, expensive=expensive)
    scores = {}
    if run.settings is not None and has_papers_form(run.settings.recipe()):
        scores = paper_scores(run.name, data.partition(":")[0])
    return replace(
        found,
        run=run.source,
        profile=run.model.profile,
        paper={name: score for name, score in scores.items() if name in plan.modifications},
        weights_sha256=run.checksum,
        data=data,
        notes=(*notes, *found.notes),
        environment=environment(),
    )
