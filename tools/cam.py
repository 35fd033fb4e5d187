"""What class activation maps of VGG-16 gain by the choices of the published ones:
`python -m tools.cam OUT.json --root DATA --init PATH`.

The published figures are of github.com/clovaai/wsolevaluation. Its network has one more convolution
than ours and can have a finer grid, its maps are those of the true class and keep negative values,
and it counts the component that fits best. Each is measured on whole birds, with the recipe of the
preset `cub200_full` and one seed; the mask of a masked model comes last. The runs go to --runs,
where finished ones are used again.
"""

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from aib.config.options import ModelOptions
from aib.config.presets import PRESETS
from aib.config.settings import Settings
from aib.data import Batches
from aib.data.split import sample_indices
from aib.evaluation.error import read_evaluations
from aib.interpret import WSOL, own_maps
from aib.models.backbones import Parts, vgg16
from aib.models.backbones.parts import Embed
from aib.models.baselines.plain import build_plain
from aib.models.bottleneck import AIB
from aib.models.classifier import Classifier
from aib.models.modes import evaluating
from aib.models.registry import BACKBONES, MODELS, Entry
from aib.models.weights import EVALUATION
from aib.runs.files import train_seconds
from aib.runs.run import open_run
from aib.system.environment import environment, pick_device
from aib.system.files import without_folders, write_json
from aib.training.progress import make_reporter
from aib.training.train import train
from tools.results.command import portable

PLAIN, MASKED = PRESETS["cub200_full"].settings, PRESETS["cub200_full_masked"].settings


def network(options: ModelOptions, fine: bool = False, deeper: bool = False) -> Parts:
    """VGG-16 with average pooling; fine: without its last pool; deeper: one more convolution."""
    parts = vgg16(options)
    c, stem, tail = parts.feature_channels, parts.stem, nn.Sequential(Embed())
    assert isinstance(stem, nn.Sequential)
    if fine:
        last = max(i for i, layer in enumerate(stem) if isinstance(layer, nn.MaxPool2d))
        stem[last] = nn.Identity()  # the other layers keep the names that --init knows
    if deeper:
        tail = nn.Sequential(nn.Conv2d(c, 2 * c, 3, padding=1), nn.ReLU(), Embed())
    return replace(parts, tail=tail, embedding_dim=2 * c if deeper else c)


NETWORKS: dict[str, Callable[[ModelOptions], Parts]] = {
    "vgg_pooled": network,
    "vgg_deeper": partial(network, deeper=True),
    "vgg_fine": partial(network, fine=True),
    "vgg_fine_deeper": partial(network, fine=True, deeper=True),
}


def register() -> None:
    """Let `aib.create_model` know the networks."""
    for name, parts in NETWORKS.items():
        BACKBONES[name, 224] = parts
        MODELS[name] = Entry(name, build_plain, "VGG-16 with average pooling", (224,), False)


def class_activation_maps(model: AIB, x: Tensor, labels: Tensor | None = None) -> Tensor:
    """Maps [B,h,w] of the classes `labels` (the predicted ones by default), negative values too."""
    assert isinstance(model.tail, nn.Sequential)
    with evaluating(model), torch.no_grad():
        f = model.tail[:-1](model.stem(x))
    f.requires_grad_()
    with evaluating(model), torch.enable_grad():
        logits = model.head(model.tail[-1](f), (1, 1), True, None)[1][0, 0]
        chosen = logits.argmax(dim=1) if labels is None else labels
        [gradient] = torch.autograd.grad(logits.gather(1, chosen[:, None]).sum(), f)
    return (gradient * f.detach()).sum(dim=1)


def maps_of(
    model: Classifier, x: Tensor, labels: Tensor
) -> Iterator[tuple[tuple[str, str], Tensor]]:
    """Every form of the model's maps, by the class and by the values that they hold."""
    if not isinstance(model, AIB):
        yield ("predicted", "the mask"), own_maps(model, x)
        return
    for target, chosen in (("predicted", None), ("true", labels)):
        found = class_activation_maps(model, x, chosen)
        yield (target, "all"), found
        yield (target, "positive"), found.clamp_min(0)


def measure(model: Classifier, feed: Batches) -> list[dict[str, Any]]:
    """MaxBoxAccV2 of each form: of the largest component, and of the one that fits best."""
    metrics: dict[tuple[str, str], WSOL] = {}
    for batch in feed:
        assert batch.objects is not None
        x = model.preprocessing.normalise(batch.images)
        for form, maps in maps_of(model, x, batch.labels):
            metric = metrics.setdefault(form, WSOL(masks=False).to(feed.device))
            metric.update(maps, batch.objects, batch.boxes)
    rows = []
    for (target, values), metric in metrics.items():
        found = {name: float(value) for name, value in metric.compute().items()}
        boxes = {name: v for name, v in found.items() if not name.startswith("max_box_acc_at")}
        rows.append({"class": target, "values": values, **boxes})
    return rows


def run_and_measure(settings: Settings, folder: Path, images: int | None) -> dict[str, Any]:
    """Train unless the folder holds a finished run, then measure on test images."""
    if not (folder / EVALUATION).is_file():
        train(settings, folder, report=make_reporter())
    run = open_run(folder)
    data = run.images(split="test", root=settings.root)
    chosen = sample_indices(len(data), images, seed=0)
    feed = Batches(data, 64, indices=chosen, device=pick_device(None), workers=2)
    print(f"measuring {settings.model} on {len(chosen)} images")
    [evaluation] = read_evaluations(folder / EVALUATION).values()
    recipe = settings.recipe()
    return {
        "model": settings.model,
        "error": evaluation.top1_error,
        "minutes": train_seconds(folder) / 60,
        "recipe": recipe | {"init": without_folders(recipe["init"])},
        "images": len(chosen),
        "maps": measure(run.model, feed),
    }


def main(argv: list[str] | None = None) -> None:
    """Entry point of `python -m tools.cam`."""
    parser = argparse.ArgumentParser(prog="python -m tools.cam", description=__doc__)
    parser.add_argument("out", type=Path, help="the JSON file to write")
    parser.add_argument("--init", required=True, help="vgg16:PATH, as for `aib train`")
    parser.add_argument("--root", help="folder of CUB-200-2011's official files")
    parser.add_argument("--runs", type=Path, default=Path("runs/cam"), help="folder of the runs")
    parser.add_argument("--images", type=int, help="measure on so many test images")
    parser.add_argument("--epochs", type=int, default=PLAIN.epochs, help="of each training")
    parser.add_argument("--only", nargs="+", help="these models, for trainings side by side")
    parser.add_argument("--note", default="", help="what a reader of the numbers should know")
    words = sys.argv[1:] if argv is None else argv
    options = parser.parse_args(words)
    register()
    common = {"init": options.init, "root": options.root, "epochs": options.epochs}
    recipes = {name: PLAIN.updated(model=name, pool_size=None, **common) for name in NETWORKS}
    recipes["vgg_aib_masked"] = MASKED.updated(**common)
    rows = [
        run_and_measure(settings, options.runs / name, options.images)
        for name, settings in recipes.items()
        if not options.only or name in options.only
    ]
    command = shlex.join(["python", "-m", "tools.cam", *words])
    facts = portable(environment() | {"command": command})
    write_json(options.out, {"note": options.note, "boxes": rows, "environment": facts}, indent=1)


if __name__ == "__main__":
    main()
