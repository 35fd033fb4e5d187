"""How far can a map be trusted? Scores, localisation and faithfulness, for maps from anywhere."""

from aib.interpret.bootstrap import ratio_interval
from aib.interpret.comparison import Comparison, compare
from aib.interpret.controls import centre_gaussian, random_map
from aib.interpret.explanation import Explained, explain_image
from aib.interpret.faithfulness import Curves, deletion_insertion
from aib.interpret.information import (
    anchor_counts,
    anchor_perplexity,
    energy_passed,
    index_entropy,
    nats_to_bits,
    perplexity,
)
from aib.interpret.localise import (
    Localisation,
    boxes_to_masks,
    energy_inside,
    mask_auroc,
    pointing,
    resize_maps,
)
from aib.interpret.overlay import overlay
from aib.interpret.perturb import (
    PAPER_MODIFICATIONS,
    Modification,
    block_mask,
    frequency_split,
    keep_frequencies,
    modifications,
    occlude_color,
    occlude_foreign,
)
from aib.interpret.pixels import Feed
from aib.interpret.posthoc import gradcam, integrated_gradients, occlusion, saliency
from aib.interpret.reliance import (
    Drop,
    Reliance,
    from_another,
    map_reliance,
    shuffled,
    spatial_mean,
)
from aib.interpret.sanity import LayerChange, randomise_layers
from aib.interpret.score import PRIMARY_TAU, TAUS, InterpretabilityScore
from aib.interpret.study import Plan, Study, study
from aib.interpret.subject import look, make_maps, own_maps
from aib.interpret.survey import Survey, survey

__all__ = [
    "PAPER_MODIFICATIONS",
    "PRIMARY_TAU",
    "TAUS",
    "Comparison",
    "Curves",
    "Drop",
    "Explained",
    "Feed",
    "InterpretabilityScore",
    "LayerChange",
    "Localisation",
    "Modification",
    "Plan",
    "Reliance",
    "Study",
    "Survey",
    "anchor_counts",
    "anchor_perplexity",
    "block_mask",
    "boxes_to_masks",
    "centre_gaussian",
    "compare",
    "deletion_insertion",
    "energy_inside",
    "energy_passed",
    "explain_image",
    "frequency_split",
    "from_another",
    "gradcam",
    "index_entropy",
    "integrated_gradients",
    "keep_frequencies",
    "look",
    "make_maps",
    "map_reliance",
    "mask_auroc",
    "modifications",
    "nats_to_bits",
    "occlude_color",
    "occlude_foreign",
    "occlusion",
    "overlay",
    "own_maps",
    "perplexity",
    "pointing",
    "random_map",
    "randomise_layers",
    "ratio_interval",
    "resize_maps",
    "saliency",
    "shuffled",
    "spatial_mean",
    "study",
    "survey",
]
