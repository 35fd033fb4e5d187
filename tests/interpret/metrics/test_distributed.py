"""Two processes, each with a part of the images, must report what one process would."""

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from aib.interpret import WSOL, InterpretabilityScore, Localisation

COUNTS = (7, 4)  # images of each process: unequal on purpose


def images(rank: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(rank)
    maps, noise = torch.rand(2, COUNTS[rank], 4, 4, generator=generator)
    before, after = torch.randint(2, (2, COUNTS[rank]), generator=generator)
    objects = torch.rand(COUNTS[rank], 8, 8, generator=generator) < 0.3
    objects[0] = True  # undefined
    return maps, maps + 0.4 * noise, before, after, objects


def figures(metric) -> dict[str, float]:
    return {name: float(value) for name, value in metric.compute().items()}


def fed(ranks) -> tuple[InterpretabilityScore, Localisation, WSOL]:
    score, localisation = InterpretabilityScore(resamples=20), Localisation(resamples=20)
    thresholded = WSOL(resamples=20)
    for rank in ranks:
        maps, modified, before, after, objects = images(rank)
        score.update(maps, modified, before, after)
        localisation.update(maps, objects)
        thresholded.update(maps, objects)
    return score, localisation, thresholded


def process(rank: int, file: str, queue) -> None:
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    together = [figures(metric) for metric in fed([rank])]
    # The second process has no images at all.
    alone = [figures(metric) for metric in fed([0] if rank == 0 else [])]
    queue.put((together, alone))
    queue.close()
    queue.join_thread()
    dist.barrier()
    dist.destroy_process_group()


def test_processes_share_what_they_saw(tmp_path):
    context = mp.get_context("spawn")
    queue = context.Queue()
    workers = [
        context.Process(target=process, args=(rank, str(tmp_path / "meet"), queue))
        for rank in range(2)
    ]
    for worker in workers:
        worker.start()
    answers = [queue.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    expected = [figures(metric) for metric in fed([0, 1])]
    first = [figures(metric) for metric in fed([0])]
    for together, alone in answers:
        for got, wanted in zip([*together, *alone], [*expected, *first], strict=True):
            torch.testing.assert_close(got, wanted, equal_nan=True)
