"""Speed on this machine, relative to a baseline in the same run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aib.commands.arguments import parse_samples, print_json
from aib.config.options import Propose
from aib.config.validation import Cache, Count, Positive, Precision, check
from aib.system.progress import progress_bar

if TYPE_CHECKING:
    import torch

    from aib.bench.throughput import Workload


@dataclass(frozen=True)
class Model:
    """Options of `train` and `infer`."""

    model: str = "vgg_aib_qt"
    """Model name."""
    width: float = 1.0
    """Scales the model's channels."""
    image_size: int = 32
    """Size of the random images."""
    propose: Propose | None = None
    """Masked models: where the map comes from, separate or twice."""
    batch_size: int | None = None
    """Our batch size (default: 512 on a GPU, 64 on a CPU)."""
    precision: Precision | None = None
    """Our precision (default: bf16 on a GPU, fp32 on a CPU)."""
    compile: bool | None = None
    """Use torch.compile (default: on a GPU); False also leaves it out of the latency."""
    device: str | None = None
    """cpu or cuda (default: cuda if available)."""
    json: bool = False
    """Print JSON."""

    def workload(self, device: "torch.device", graphs: bool | None = None) -> "Workload":
        """The values given, and the device's defaults: everything on for a GPU. On a CPU compiling
        takes longer than it saves."""
        from aib.bench.throughput import Workload

        gpu = device.type == "cuda"
        batch_size = (512 if gpu else 64) if self.batch_size is None else self.batch_size
        check("batch_size", batch_size, Count)
        return Workload(
            self.model,
            self.width,
            self.image_size,
            device,
            batch_size,
            self.precision or ("bf16" if gpu else "fp32"),
            channels_last=gpu,
            compile=gpu if self.compile is None else self.compile,
            # The loss scale of fp16 cannot be captured.
            graphs=gpu and self.precision != "fp16" if graphs is None else graphs,
            propose=self.propose,
        )


DEFAULTS = Model()


def train(
    common: Model = DEFAULTS,
    graphs: bool | None = None,
    steps: int | None = None,
    workers: int = 2,
    against: str | None = None,
) -> None:
    """Training with augmentation: a plain PyTorch loop against ours, in one run.

    Example: aib bench train --model tiny_aib_qt

    Example: aib bench train --model vgg_aib_masked --propose twice --against vgg_aib_qt

    Args:
        graphs: capture the step as a CUDA graph (default: on a GPU, except with fp16).
        steps: steps per epoch (default: 100 on a GPU, 5 on a CPU); four epochs are run.
        workers: workers of the plain loop's DataLoader.
        against: another model that is trained in the same way, to compare with.
    """
    from aib.bench.throughput import bench_train
    from aib.system.environment import pick_device

    device = pick_device(common.device)
    if steps is None:
        steps = 100 if device.type == "cuda" else 5
    check("steps", steps, Count)
    work = common.workload(device, graphs)
    result = bench_train(work, steps=steps, workers=workers, against=against)
    print_result(result, common.json)


def infer(
    common: Model = DEFAULTS, samples: str = "4x12", seconds: float = 3.0, no_latency: bool = False
) -> None:
    """Evaluation with S x M samples: fp32 and eager against ours, in one run. On a CPU also the
    latency of one deterministic pass: eager, compiled, ONNX.

    Example: aib bench infer --model tiny_aib_qt --samples 4x12

    Args:
        samples: attention x latent samples.
        seconds: duration of each measurement.
        no_latency: on a CPU, skip the latency of a single image and of a small batch.
    """
    from aib.bench.latency import BATCHES, bench_latency
    from aib.bench.throughput import bench_infer
    from aib.system.environment import pick_device

    device = pick_device(common.device)
    check("seconds", seconds, Positive)
    work = common.workload(device)
    result = bench_infer(work, samples=parse_samples(samples), seconds=seconds)
    if not no_latency and device.type == "cpu":
        with progress_bar(1 + len(BATCHES)) as tick:
            result["latency"] = bench_latency(
                work.make_model(),
                seconds=seconds,
                compile=common.compile is not False,  # None does not switch it off
                tick=tick,
            )
    print_result(result, common.json)


def data(
    data: str = "shapes",
    root: str | None = None,
    model: str = "vgg_aib_masked",
    width: float = 1.0,
    cache: Cache = "auto",
    batch_size: int | None = None,
    workers: int = 2,
    seconds: float = 5.0,
    device: str | None = None,
    json: bool = False,
) -> None:
    """Batches of augmented images: ours on the device against a plain torch DataLoader. For large
    images: training steps with our loader against the same steps on data already on the device.

    Example: aib bench data --data cifar10 --root downloads

    Example: aib bench data --data cub200 --root downloads --workers 16

    Args:
        data: data set.
        root: folder of its official files.
        model: large images: the model whose steps are measured.
        width: large images: scales the model's channels.
        cache: large images: where the decoded copy is kept.
        batch_size: images per batch (default: 256; 64 large ones).
        workers: workers of the DataLoader; for large images of the loader that decodes on access.
        seconds: duration of each measurement.
        device: cpu or cuda (default: cuda if available).
        json: print JSON.
    """
    from aib.bench.data import bench_data, bench_photos
    from aib.data.load import load
    from aib.system.environment import pick_device

    check("seconds", seconds, Positive)
    if batch_size is not None:
        check("batch_size", batch_size, Count)
    images = load(data, "train", root=root, holdout=0)
    target = str(pick_device(device))
    common: dict[str, Any] = {"workers": workers, "seconds": seconds, "device": target}
    if images.files is None:
        result = bench_data(images, batch_size=batch_size or 256, **common)
    else:
        how: dict[str, Any] = {"model": model, "width": width, "cache": cache}
        result = bench_photos(images, batch_size=batch_size or 64, **how, **common)
    print_result(result, json)


def print_result(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(result)
        return
    latency = result.pop("latency", None)
    environment = result.pop("environment", {})
    for key, value in (result | environment).items():
        text = f"{value:,.3g}" if isinstance(value, float) and value < 100 else value
        print(f"{key.replace('_', ' '):<28} {text}")
    if latency is not None:
        print_latency(latency)


def print_latency(latency: dict[str, Any]) -> None:
    print(f"one deterministic pass, threads: {latency['threads']}")
    print(f"{'batch':>7}  {'':<20} {'median':>12} {'90%':>12}  eager / this")
    for row in latency["rows"]:
        print(
            f"{row['batch']:>7}  {row['way']:<20} {row['median_ms']:>9.2f} ms "
            f"{row['p90_ms']:>9.2f} ms  {row['ratio']:.2f}"
        )
    for note in latency["notes"]:
        print(note)


COMMAND: dict[str, Callable[..., Any]] = {"train": train, "infer": infer, "data": data}
