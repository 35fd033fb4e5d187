"""A new head for trained layers, trained alone on embeddings that are computed once.

While the other layers do not change, an image has the same embedding in every epoch: one pass over
the images is enough, without noise and augmentation.
"""

import time

import torch
from lightning.fabric import Fabric
from torch import Tensor

from aib.config.settings import Settings
from aib.config.validation import ProfileName
from aib.data import Batches, ImageSet
from aib.data.batches import default_batch
from aib.errors import AibError
from aib.models.classifier import Classifier, model_name
from aib.models.latent import LinearHead, VariationalHead
from aib.models.loss import aib_loss
from aib.models.modes import autocast, seeded_evaluation
from aib.models.types import Output
from aib.training.progress import Reporter
from aib.training.step import seed_step

# On photographs of eight birds, batches of 32, mirrored copies and more epochs were no better.
RATE = 5e-3  # of AdamW, with a cosine; one step per epoch, on all images
DECAY = 0.01
Head = LinearHead | VariationalHead


def train_head(
    model: Classifier, data: ImageSet, s: Settings, fabric: Fabric, report: Reporter
) -> dict[str, float]:
    """Train the model's head for `s.head_epochs` epochs; return the first row of metrics.

    The first process trains, the others take its weights.
    """
    began, head = time.monotonic(), getattr(model, "head", None)
    if not isinstance(head, Head):
        raise AibError(f"the head of {model_name(model)} cannot be trained alone: --head-epochs 0")
    model.to(fabric.device)
    row: dict[str, float] = {"step": 0, "epoch": 0}
    if fabric.is_global_zero:
        embeddings, labels = embed(model, head, data, s, fabric, report)
        error = fit_head(head, embeddings, labels, s, model.profile)
        report.message(f"head: {error:.2f}% error on {len(labels):,} training images")
        row |= {"error": error}
    head.load_state_dict(fabric.broadcast(head.state_dict()))
    return row | {"seconds": time.monotonic() - began}


def embed(
    model: Classifier, head: Head, data: ImageSet, s: Settings, fabric: Fabric, report: Reporter
) -> tuple[Tensor, Tensor]:
    """What the head receives of each image, [N,d], in deterministic passes; and the labels [N]."""
    size = default_batch(fabric.device, data.preprocessing.image_size, samples=1)
    batches = Batches(data, size, device=fabric.device, workers=s.workers)
    received: list[Tensor] = []
    labels: list[Tensor] = []
    hook = head.register_forward_pre_hook(lambda _, inputs: received.append(inputs[0]))
    with (
        hook,
        seeded_evaluation(model),
        autocast(fabric.device, s.precision),
        report.task("embedding", len(data)) as tick,
    ):
        for x, y in batches.epoch(0):
            model(x, deterministic=True)
            labels.append(y)
            tick("embedding", len(y))
    return torch.cat(received).float(), torch.cat(labels)


def fit_head(
    head: Head, embeddings: Tensor, labels: Tensor, s: Settings, profile: ProfileName
) -> float:
    """Train the head on all embeddings at once; return the training error in percent."""
    optimizer = torch.optim.AdamW(head.parameters(), RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, s.head_epochs)
    head.train()
    wrong = labels
    for epoch in range(s.head_epochs):
        seed_step(s.seed, epoch, part=-1, rank=0)
        latent, logits = head(embeddings, (1, 1), False, None)
        out = Output(logits, latent=latent)
        aib_loss(out, labels, s.beta, profile=profile).total.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        wrong = out.logits.argmax(-1) != labels
    return 100 * wrong.float().mean().item()
