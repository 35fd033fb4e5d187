"""Explain images, and measure how far maps can be trusted: also maps of other methods."""

from aib.data import Batches
from aib.data.objects import boxes_to_objects
from aib.evaluation.intervals import Estimate
from aib.figures.overlay import overlay
from aib.interpret.maps import explain, explain_batch, own_maps
from aib.interpret.measures.localisation import Localisation
from aib.interpret.measures.randomisation import randomise_layers
from aib.interpret.measures.stability import compare_maps, stability
from aib.interpret.metrics.controls import centre_gaussian, random_map
from aib.interpret.metrics.faithfulness import deletion_insertion, road
from aib.interpret.metrics.perturb import Modification, modifications
from aib.interpret.metrics.pointing import energy_inside, mask_auroc, pointing
from aib.interpret.metrics.probe import probe
from aib.interpret.posthoc import gradcam
from aib.interpret.results import Study
from aib.interpret.studies import Plan, study
from aib.interpret.tables import all_tables
from aib.interpret.verdict import Verdict, judge

__all__ = [
    "Batches", "Estimate", "Localisation", "Modification", "Plan", "Study", "Verdict", "all_tables",
    "boxes_to_objects", "centre_gaussian", "compare_maps", "deletion_insertion", "energy_inside",
    "explain", "explain_batch", "gradcam", "judge", "mask_auroc", "modifications", "overlay",
    "own_maps", "pointing", "probe", "random_map", "randomise_layers", "road", "stability", "study",
]  # fmt: skip
