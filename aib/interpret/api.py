"""Explain images, and measure how far maps can be trusted: also maps of other methods."""

from aib.data import Batches
from aib.figures.overlay import overlay
from aib.interpret.comparison import Comparison, compare
from aib.interpret.maps import explain, explain_batch, make_maps, own_maps
from aib.interpret.metrics.bootstrap import Estimate, ratio_interval
from aib.interpret.metrics.controls import centre_gaussian, random_map
from aib.interpret.metrics.encoding import Encoding, map_encoding
from aib.interpret.metrics.evaluator import EvaluatorResults, Judge, KeptCurve
from aib.interpret.metrics.faithfulness import Curves, deletion_insertion
from aib.interpret.metrics.information import (
    anchor_counts,
    anchor_perplexity,
    energy_passed,
    index_entropy,
    nats_to_bits,
    perplexity,
)
from aib.interpret.metrics.localise import (
    Localisation,
    boxes_to_masks,
    energy_inside,
    mask_auroc,
    pointing,
    resize_maps,
)
from aib.interpret.metrics.mask_use import MaskUse, mask_use
from aib.interpret.metrics.perturb import (
    PAPER_MODIFICATIONS,
    Modification,
    block_mask,
    frequency_split,
    keep_frequencies,
    modifications,
    occlude_color,
    occlude_foreign,
)
from aib.interpret.metrics.probe import jittered_gaussian, probe
from aib.interpret.metrics.reliance import Drop, Reliance, map_reliance
from aib.interpret.metrics.road import RoadCurves, impute_linear, road
from aib.interpret.metrics.sanity import LayerChange, randomise_layers
from aib.interpret.metrics.score import PRIMARY_TAU, TAUS, InterpretabilityScore
from aib.interpret.metrics.swap import (
    Decisions,
    Partners,
    draw_partners,
    shuffled,
    spatial_mean,
    swap_maps,
)
from aib.interpret.metrics.wsol import WSOL, Thresholds
from aib.interpret.per_image import ImageMetrics, measure_images
from aib.interpret.posthoc import gradcam, integrated_gradients, occlusion, saliency
from aib.interpret.results import Study
from aib.interpret.studies import Plan, study
from aib.interpret.verdict import Verdict, judge

__all__ = [
    "PAPER_MODIFICATIONS",
    "PRIMARY_TAU",
    "TAUS",
    "WSOL",
    "Batches",
    "Comparison",
    "Curves",
    "Decisions",
    "Drop",
    "Encoding",
    "Estimate",
    "EvaluatorResults",
    "ImageMetrics",
    "InterpretabilityScore",
    "Judge",
    "KeptCurve",
    "LayerChange",
    "Localisation",
    "MaskUse",
    "Modification",
    "Partners",
    "Plan",
    "Reliance",
    "RoadCurves",
    "Study",
    "Thresholds",
    "Verdict",
    "anchor_counts",
    "anchor_perplexity",
    "block_mask",
    "boxes_to_masks",
    "centre_gaussian",
    "compare",
    "deletion_insertion",
    "draw_partners",
    "energy_inside",
    "energy_passed",
    "explain",
    "explain_batch",
    "frequency_split",
    "gradcam",
    "impute_linear",
    "index_entropy",
    "integrated_gradients",
    "jittered_gaussian",
    "judge",
    "keep_frequencies",
    "make_maps",
    "map_encoding",
    "map_reliance",
    "mask_auroc",
    "mask_use",
    "measure_images",
    "modifications",
    "nats_to_bits",
    "occlude_color",
    "occlude_foreign",
    "occlusion",
    "overlay",
    "own_maps",
    "perplexity",
    "pointing",
    "probe",
    "random_map",
    "randomise_layers",
    "ratio_interval",
    "resize_maps",
    "road",
    "saliency",
    "shuffled",
    "spatial_mean",
    "study",
    "swap_maps",
]
