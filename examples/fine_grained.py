"""Fine-grained classification: a masked model beside a plain network, from the same VGG-16.

    python examples/fine_grained.py --weights vgg16-397923af.pth --root data --out runs/pets

`--weights` are torchvision's VGG-16, trained on ImageNet (docs/data.md says where the images come
from). Both networks are trained with the same settings and saved in `--out`; `maps/` shows what the
masked one saw of some test images. It needs a GPU. The same with checkpoints, a log and a report:
`aib train pets_masked --init vgg16:PATH`. To try it on a CPU:

    python examples/fine_grained.py --data shapes:count=64 --width 0.125 --epochs 1 --out try
"""

import argparse
from pathlib import Path

import torch

import aib
from aib.data import load

NAMES = ("vgg", "vgg_aib_masked")


def main() -> None:
    parser = argparse.ArgumentParser(description="A masked model beside a plain network.")
    parser.add_argument("--out", type=Path, required=True, help="folder for both models")
    parser.add_argument("--weights", type=Path, help="of VGG-16; random ones if not given")
    parser.add_argument("--data", default="pets", help="data set: pets, cub200, folder:PATH, ...")
    parser.add_argument("--root", help="folder of its official files")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--width", type=float, default=1.0, help="share of the channels")
    parser.add_argument("--workers", type=int, default=4, help="processes that decode images")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    settings = aib.Settings(
        epochs=options.epochs,
        batch_size=64,
        lr=0.03,
        lr_backbone=0.003 if options.weights else None,  # of what was loaded
        schedule="cosine",
        warmup=min(1.5, options.epochs / 2),
        weight_decay=1e-4,
        label_smoothing=0.1,
        clip=5.0,
        precision="bf16" if device == "cuda" else "fp32",
        workers=options.workers,
    )
    train, test = (load(options.data, s, root=options.root, holdout=0) for s in ("train", "test"))
    for name in NAMES:
        torch.manual_seed(0)
        model = aib.create_model(
            name,
            train.num_classes,
            image_size=train.preprocessing.image_size,
            width=options.width,
            head_norm=True,
            pool_size=1 if train.preprocessing.image_size == 224 else None,
            preprocessing=train.preprocessing,
        )
        if options.weights:
            print(aib.load_backbone(model, options.weights))
        model = aib.fit(model.to(device), train, settings).model
        found = aib.evaluate(model, test, batch_size=64, workers=options.workers)
        low, high = found.top1_interval
        print(f"{name}: error {found.top1_error:.2f}% ({low:.2f} to {high:.2f})")
        model.save_pretrained(options.out / name)
    print(f"the masked one opens {found.area:.0%} of an image")
    for index in torch.linspace(0, len(test) - 1, 4).long().tolist():
        picture = test.pixels(index).permute(1, 2, 0).numpy()
        seen = aib.explain(model, picture)
        print(f"{test.class_names[test.labels[index]]}: {seen.names()[0]}, {seen.certainty()}")
        seen.save(options.out / "maps", [f"test{index}"])


if __name__ == "__main__":
    main()
