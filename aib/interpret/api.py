"""Explain images, and measure how far maps can be trusted: also maps of other methods."""

from aib.data import Batches
from aib.data.objects import boxes_to_objects
from aib.evaluation.intervals import Estimate
from aib.figures.overlay import overlay
from aib.interpret.images import ImageMetrics
from aib.interpret.maps import explain, explain_batch, make_maps, own_maps
from aib.interpret.measures.localisation import (
    Localisation,
    energy_inside,
    mask_auroc,
    pointing,
    resize_maps,
)
from aib.interpret.measures.mask import mask_use
from aib.interpret.measures.randomisation import randomise_layers
from aib.interpret.measures.stability import InterpretabilityScore
from aib.interpret.measures.swaps import map_encoding, map_reliance
from aib.interpret.metrics.controls import centre_gaussian, random_map
from aib.interpret.metrics.faithfulness import deletion_insertion, road
from aib.interpret.metrics.perturb import Modification, modifications
from aib.interpret.metrics.probe import probe
from aib.interpret.metrics.swap import swap_maps
from aib.interpret.metrics.wsol import WSOL
from aib.interpret.posthoc import gradcam, integrated_gradients
from aib.interpret.results import Study
from aib.interpret.studies import Plan, study
from aib.interpret.tables import all_tables
from aib.interpret.verdict import Verdict, judge

__all__ = [
    "WSOL", "Batches", "Estimate", "ImageMetrics", "InterpretabilityScore", "Localisation",
    "Modification", "Plan", "Study", "Verdict", "all_tables", "boxes_to_objects",
    "centre_gaussian", "deletion_insertion", "energy_inside", "explain", "explain_batch",
    "gradcam", "integrated_gradients", "judge", "make_maps", "map_encoding", "map_reliance",
    "mask_auroc", "mask_use", "modifications", "overlay", "own_maps", "pointing",
    "probe", "random_map", "randomise_layers", "resize_maps", "road", "study",
    "swap_maps",
]  # fmt: skip
