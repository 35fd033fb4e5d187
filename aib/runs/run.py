"""Runs and saved models, opened: model, settings and images; models of package and Hub."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from aib.config.settings import Settings
from aib.data import ImageSet, has_split, load, same_images
from aib.data.load import parse_name
from aib.errors import AibError, AibWarning
from aib.evaluation.error import Evaluation, read_evaluations
from aib.models.classifier import Classifier, model_name, needs_backbone
from aib.models.fold import fold_batch_norm
from aib.models.weights import CONFIG, EVALUATION, RECORDS, WEIGHTS, read_config, weights_sha256
from aib.runs.download import PREFIX, fetch_model, is_address, parse_address
from aib.runs.files import measured_split, read_held_out, read_settings
from aib.runs.pretrained import find_model, from_pretrained, packaged_models
from aib.system.environment import pick_device
from aib.system.files import sha256

HUB = Path("hub")  # in the current folder: where commands write about models of the Hub


@dataclass(frozen=True)
class Run:
    """A finished run or a saved model, loaded."""

    folder: Path
    label: str  # unique among the runs that were opened together
    model: Classifier
    settings: Settings | None  # None for a saved model that is not a run
    repo: str | None = None  # owner/name on the Hub; then `folder` is in the cache

    @property
    def source(self) -> str:
        """What opens it again: its folder, or its address on the Hub with the commit."""
        return str(self.folder) if self.repo is None else f"{PREFIX}{self.repo}@{self.folder.name}"

    @property
    def output(self) -> Path:
        """Folder for what commands write: its own, or one in the current folder for a model of the
        package or, per commit, of the Hub."""
        if self.folder in packaged_models().values():
            return Path(self.folder.name)
        return self.folder if self.repo is None else HUB / self.repo / self.folder.name

    def evaluations(self) -> dict[str, Evaluation]:
        """Evaluations of these weights by name, for foreign models also those made here."""
        evaluations = read_evaluations(self.folder / EVALUATION)
        if self.output != self.folder:
            evaluations |= read_evaluations(self.output / EVALUATION)
        return {name: e for name, e in evaluations.items() if e.is_of(self.checksum)}

    @property
    def name(self) -> str:
        return model_name(self.model)

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of the weights, read once: they may be large."""
        path = self.folder / WEIGHTS
        return sha256(path) if path.is_file() else weights_sha256(self.model)

    @cached_property
    def held_out(self) -> list[str | int] | None:
        """The keys of the images that the run held out of its training images."""
        return read_held_out(self.folder)

    def images(
        self,
        data: str | None = None,
        split: str | None = None,
        root: str | None = None,
        like: "Run | None" = None,
    ) -> ImageSet:
        """The run's own data set or the one named, prepared for the model; labels as in the data.

        The default split is test. A folder without test images gives the held-out images of its
        own run, also where it was moved, and all images to any other run.

        `like` is the run whose seed and folders apply, so that compared runs see the same images.
        """
        owner = like or self
        settings = owner.settings
        name = data or (settings.data if settings else None)
        if name is None:
            raise AibError(f"{self.source} is a saved model, not a run: name its data with --data")
        kind, path, _ = parse_name(name)
        if kind == "folder" and not path.is_dir():
            raise AibError(f"{path} is no folder here: name the images with --data folder:PATH")
        if settings is None or not owner.was_trained_on(name):
            asked, split = split, split or ("test" if has_split(name, "test") else "train")
            unseen = asked == "train" or (split != "train" and has_split(name, split))
            if like is not None and not unseen and self.was_trained_on(name):
                raise AibError(
                    f"{self.label} was trained on images of {name}: name it before {like.label}, "
                    "so that both see those that it held out"
                )
            options: dict[str, Any] = {"root": root, "holdout": 0.1 if split == "val" else 0}
        else:
            split = split or measured_split(name)
            if split == "val" and like is not None:
                self.check_same_holdout(like)
            options = {"root": root or settings.root, "seed": settings.seed, "holdout": 0}
            options["held_out"] = owner.held_out
        images = load(name, split, preprocessing=self.model.preprocessing, **options)
        if images.skipped:
            warnings.warn(images.describe_skipped(), AibWarning, stacklevel=2)
        return images

    def was_trained_on(self, name: str) -> bool:
        """Whether the name means the run's own data, also a folder that was moved."""
        if self.settings is None:
            return False
        kind, path, _ = parse_name(name)
        own = parse_name(self.settings.data)[0]
        if kind == own == "folder" and self.held_out is not None:
            here = sum((path / str(key)).is_file() for key in self.held_out)
            return 2 * here >= len(self.held_out)  # that some lack is an error of loading them
        return same_images(name, self.settings.data)

    def check_same_holdout(self, other: "Run") -> None:
        """Images held out of one run may be training images of another."""
        if self.settings is None or other.settings is None:
            return
        # The seed also makes the training images of shapes.
        both = (self.settings, other.settings)
        seeds = {s.seed for s in both if s.data.startswith("shapes")}
        if self.held_out != other.held_out or len(seeds) > 1:
            raise AibError(
                f"{self.label} and {other.label} held out different images: compare them on test "
                "images"
            )


def open_run(
    folder: Path, device: str | None = None, backbone: str | None = None, *, fold: bool = False
) -> Run:
    """Load one run or saved model."""
    [run] = open_runs((folder,), device, backbone, fold=fold)
    return run


def open_runs(
    folders: tuple[Path, ...],
    device: str | None = None,
    backbone: str | None = None,
    *,
    fold: bool = False,
) -> list[Run]:
    """Load runs, saved or packaged models, each with a unique label; `hf:owner/name` is downloaded.

    `backbone` names the function that makes the network of those that need one. With `fold` the
    models can only be run, which takes less time (`fold_batch_norm`).
    """
    repos = [parse_address(one)[0] if is_address(one) else None for one in folders]
    local = [fetch_model(f, extras=RECORDS) if is_address(f) else find_model(f) for f in folders]
    if len({folder.resolve() for folder in local}) < len(local):
        raise AibError("the same run is named twice")
    names = [Path(repo or one.resolve()).name for one, repo in zip(local, repos, strict=True)]
    target, runs = pick_device(device), []
    configs = [read_config(folder / CONFIG) for folder in local]
    needed = [needs_backbone(config["model"]) for config in configs]
    if backbone is not None and not any(needed):
        raise AibError(f"no model here needs --backbone {backbone}: leave it out")
    for i, (folder, config) in enumerate(zip(local, configs, strict=True)):
        own = backbone if needed[i] else None
        model = from_pretrained(folder, backbone=own).to(target)
        settings = read_settings(folder) if "settings" in config else None
        if target.type in ("cpu", "cuda") and model.recipe["kind"] == "named":
            # Saves copies between layers: on a CPU a seventh of the time of VGG-16.
            model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if fold:
            fold_batch_norm(model)
        label = names[i] if names.count(names[i]) == 1 else str(folders[i])
        runs.append(Run(folder, label, model, settings, repos[i]))
    return runs
