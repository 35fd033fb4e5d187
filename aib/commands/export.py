"""`aib export`: write a trained model to one file that runs without aib."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro

from aib.commands.arguments import one_run, print_json


def export_(
    folder: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[RUN]")] = None,
    /,
    run: Path | None = None,
    out: Path | None = None,
    backbone: str | None = None,
    json: bool = False,
) -> None:
    """Write a model as ONNX: pixels in 0..1 to logits, attention map and sigma, without noise, for
    any batch size. The file holds class names and preprocessing.

    The file is compared with PyTorch before it is written, and the largest difference is printed.

    Example: aib export runs/cifar10

    Args:
        folder: the same as --run.
        run: folder of a run or saved model, hf:owner/name[@REVISION], or packaged model.
        out: file to write (default: model.onnx in the run's folder).
        backbone: my_module:build, for runs of a network of your own; never imported unasked.
        json: print JSON.
    """
    from aib.export import export
    from aib.runs.pretrained import find_model
    from aib.runs.run import open_run

    opened = open_run(find_model(one_run(folder, run)), "cpu", backbone)
    data = opened.settings.data if opened.settings else None
    target = out or opened.output / "model.onnx"
    exported = export(opened.model, target, data=data, checksum=opened.checksum)
    checked = exported.check
    if json:
        print_json(asdict(exported) | {"path": str(exported.path)})
        return
    print(f"{exported.path}: {exported.metadata['model']}, {exported.bytes / 1e6:.2f} MB")
    print(f"  largest difference from PyTorch on {checked.images} images:")
    for name, difference in checked.differences.items():
        print(f"    {name:<16} {difference:.1e}")
    times = f"{checked.milliseconds:.1f} ms, in PyTorch {checked.pytorch_milliseconds:.1f} ms"
    print(f"  one image on this CPU: {times}")
    if checked.other_level:
        print(f"  {checked.other_level} positions midway between two levels took the other one")


COMMAND = export_
