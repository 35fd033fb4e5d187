"""The models by name: a table of backbones, a table of models, and `create_model`.

docs/networks.md shows how to add one. A builder makes the model from its backbone's `Parts`.
"""

import fnmatch
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from torch import nn

from aib.config.options import OPTION_NEEDS, ModelOptions
from aib.config.profiles import get_modulation, get_profile
from aib.config.validation import reject_unknown
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError
from aib.models.attention import SpatialAttention
from aib.models.backbones.lite import lite
from aib.models.backbones.parts import Parts, init_weights
from aib.models.backbones.propose import CopyProposal, FeatureProposal, FirstPass, ProposalNet
from aib.models.backbones.vgg import tiny, vgg16, vgg_cifar
from aib.models.backbones.wrn import wrn28_10, wrn50_2
from aib.models.baselines.evaluator import build_evaluator
from aib.models.baselines.levels import PayAttention, ProgressiveAttention
from aib.models.baselines.plain import build_abn, build_gap, build_plain
from aib.models.bottleneck import AIB
from aib.models.classifier import Classifier, check_classes
from aib.models.latent import VariationalHead
from aib.models.masked import Masked
from aib.models.quantize import AnchorQuantizer

BACKBONES: dict[tuple[str, int], Callable[[ModelOptions], Parts]] = {
    ("vgg", 32): vgg_cifar,
    ("vgg", 224): vgg16,
    ("wrn", 32): wrn28_10,
    ("wrn", 224): wrn50_2,
    ("tiny", 32): tiny,
    ("lite0", 224): partial(lite, name="lite0"),
    ("lite2", 224): partial(lite, name="lite2"),
}

Builder = Callable[[int, ModelOptions, Parts], Classifier]  # number of classes, options, backbone


def build_aib(
    num_classes: int,
    options: ModelOptions,
    parts: Parts,
    *,
    attention: bool = True,
    quantised: bool = False,
) -> Classifier:
    """Builder: the paper's `-aib`; its `-aib-qt` is quantised, its DVIB has no attention."""
    profile = get_profile(options.profile)
    trunk = parts.attention_trunk
    if profile.shallow_unquantised and not quantised:
        trunk = parts.shallow_trunk or trunk
    spatial = SpatialAttention(trunk(num_classes), profile.sigma_kernel) if attention else None
    return AIB(
        parts.stem,
        parts.tail,
        parts.head(num_classes, options),
        num_classes,
        attention=spatial,
        quantizer=AnchorQuantizer(options.num_anchors or 0) if quantised else None,
        modulation=options.modulation,
        profile=options.profile,
        min_size=parts.min_size,
    )


def build_masked(num_classes: int, options: ModelOptions, parts: Parts) -> Classifier:
    """Builder: pixels outside the map are replaced by noise before the backbone sees them."""
    body, defaults = nn.Sequential(parts.stem, parts.tail), parts.masked
    trunk: nn.Module
    first_pass = None
    if options.map_stride != 8 and options.propose != "copy":
        raise AibError('map_stride is for propose="copy": leave it out')
    if options.propose == "twice":
        trunk = FeatureProposal(defaults.channels or parts.feature_channels, defaults.hidden)
        first_pass = FirstPass(body, defaults.layer, part="" if defaults.layer else "0")
    elif options.propose == "copy":
        if parts.stages is None:
            raise AibError("this backbone has no stages to copy: choose another propose")
        trunk = CopyProposal(parts.stages.make(), parts.stages.channels, options.map_stride)
    else:
        trunk = ProposalNet(defaults.halvings, defaults.proposal_width, defaults.strided)
    return Masked(
        body,
        parts.head(num_classes, options),
        SpatialAttention(trunk, None),
        num_classes,
        first_pass=first_pass,
        noise_std=options.noise_std or 1.0,
        profile=options.profile,
        min_size=max(parts.min_size, 8),
    )


@dataclass(frozen=True)
class Entry:
    """A named model: its backbone, its builder, and what `aib models` shows of it."""

    backbone: str
    build: Builder
    summary: str
    sizes: tuple[int, ...] = (32,)
    from_paper: bool = True


_ATT = "learn to pay attention (Jetley et al. 2018), "
_DVIB = "variational bottleneck, no attention (Alemi et al. 2017)"
_AIB = "attention with an information bottleneck"
_QT = "the same with quantised attention"
_MASKED = "classifies only the pixels that its map opens"
_EVALUATOR = "trained on random masks, to judge maps (Jethani et al. 2021)"
_BOTH = (32, 224)
_LITE = "EfficientNet-Lite (Liu 2020), for photographs"

MODELS: dict[str, Entry] = {
    "vgg": Entry("vgg", build_plain, "the plain network", _BOTH),
    "vgg_gap": Entry("vgg", build_gap, "global average pooling (Zhou et al. 2016)"),
    "vgg_pan": Entry("vgg", ProgressiveAttention, "progressive attention (Seo et al. 2018)"),
    "vgg_dvib": Entry("vgg", partial(build_aib, attention=False), _DVIB, _BOTH),
    "vgg_att2": Entry("vgg", partial(PayAttention, levels=2), _ATT + "two levels"),
    "vgg_att3": Entry("vgg", PayAttention, _ATT + "three levels"),
    "vgg_aib": Entry("vgg", build_aib, _AIB, _BOTH),
    "vgg_aib_qt": Entry("vgg", partial(build_aib, quantised=True), _QT, _BOTH),
    "wrn": Entry("wrn", build_plain, "the plain network", _BOTH),
    "wrn_abn": Entry("wrn", build_abn, "attention branch network (Fukui et al. 2019)"),
    "wrn_aib": Entry("wrn", build_aib, _AIB, _BOTH),
    "wrn_aib_qt": Entry("wrn", partial(build_aib, quantised=True), _QT, _BOTH),
    # Not in the paper: the masked form, and networks small enough for two CPU cores.
    "vgg_aib_masked": Entry("vgg", build_masked, _MASKED, _BOTH, from_paper=False),
    "wrn_aib_masked": Entry("wrn", build_masked, _MASKED, _BOTH, from_paper=False),
    "tiny_aib_masked": Entry("tiny", build_masked, _MASKED, from_paper=False),
    "vgg_evaluator": Entry("vgg", build_evaluator, _EVALUATOR, _BOTH, from_paper=False),
    "wrn_evaluator": Entry("wrn", build_evaluator, _EVALUATOR, _BOTH, from_paper=False),
    "tiny_evaluator": Entry("tiny", build_evaluator, _EVALUATOR, from_paper=False),
    **{
        name: Entry(backbone, build, summary, (224,), from_paper=False)
        for backbone in ("lite0", "lite2")
        for name, build, summary in (
            (backbone, build_plain, _LITE),
            (f"{backbone}_masked", build_masked, _MASKED),
            (f"{backbone}_evaluator", build_evaluator, _EVALUATOR),
        )
    },
    "tiny": Entry("tiny", build_plain, "the plain network", from_paper=False),
    "tiny_dvib": Entry("tiny", partial(build_aib, attention=False), _DVIB, from_paper=False),
    "tiny_aib": Entry("tiny", build_aib, _AIB, from_paper=False),
    "tiny_aib_qt": Entry("tiny", partial(build_aib, quantised=True), _QT, from_paper=False),
}


def list_models(filter: str = "", *, exclude: str = "", image_size: int | None = None) -> list[str]:
    """Names of the paper's models; with a wildcard such as `*aib*`, of all that match."""
    return [
        name
        for name, entry in MODELS.items()
        if (fnmatch.fnmatch(name, filter) if filter else entry.from_paper)
        and image_size in (None, *entry.sizes)
        and not fnmatch.fnmatch(name, exclude)
    ]


def evaluator_name(name: str) -> str:
    """The evaluator with the same backbone as this model."""
    return f"{find_entry(name).backbone}_evaluator"


def masked_name(name: str) -> str:
    """The masked model with the same backbone as this model."""
    backbone = find_entry(name).backbone
    return next(n for n, e in MODELS.items() if e.backbone == backbone and e.build is build_masked)


def family(name: str, image_size: int) -> int:
    """The `image_size` of `create_model` for images of this size: 224 from 112 on, if it exists."""
    sizes = find_entry(name).sizes
    return max(sizes) if image_size >= 112 else min(sizes)


def create_model(
    name: str,
    num_classes: int = 10,
    image_size: int = 32,
    *,
    options: ModelOptions | None = None,
    preprocessing: Preprocessing | None = None,
    **changes: Any,
) -> Classifier:
    """Make a model by name, with fresh weights; options are those of `ModelOptions`.

    `image_size` picks the family, 32 or 224; either then takes other sizes as well.
    """
    requested = (options or ModelOptions()).updated(**changes)
    entry = find_entry(name)
    if image_size not in entry.sizes:
        sizes = " or ".join(map(str, entry.sizes))
        raise AibError(f"{name} exists for image_size {sizes}, not {image_size}")
    check_classes(num_classes)
    make_parts = BACKBONES[entry.backbone, image_size]
    if requested.pool_size and make_parts is not vgg16:
        raise AibError(f"{name} at {image_size} x {image_size} has no pool_size; VGG at 224 has")
    parts = make_parts(requested)
    chosen = _with_defaults(requested, entry, parts)
    model = entry.build(num_classes, chosen, parts)
    unused = _unused_options(name, model, requested)
    init_weights(model, get_profile(requested.profile).initialisation.get(entry.backbone, "he"))
    model.preprocessing = preprocessing or Preprocessing(image_size=image_size)
    if preprocessing is None and parts.statistics:
        mean, std = parts.statistics
        model.preprocessing = replace(model.preprocessing, mean=(mean,) * 3, std=(std,) * 3)
    # Every default is written out, so that a later change of one leaves saved models as they are.
    size = {"num_classes": num_classes, "image_size": image_size}
    model.recipe = {"kind": "named", "name": name, **size, **asdict(chosen), **unused}
    return model


def _with_defaults(options: ModelOptions, entry: Entry, parts: Parts) -> ModelOptions:
    """The options with the family's or the profile's value in place of None."""
    masked = entry.build in (build_masked, build_evaluator)
    bottleneck = parts.masked.bottleneck or not masked
    return replace(
        options,
        latent_dim=options.latent_dim or (parts.latent_dim if bottleneck else None),
        head_norm=options.head_norm or (masked and parts.masked.head_norm and not bottleneck),
        num_anchors=options.num_anchors or parts.num_anchors,
        modulation=get_modulation(options.modulation, options.profile),
        propose=options.propose or parts.masked.propose,
        noise_std=options.noise_std or parts.masked.noise_std,
    )


def _unused_options(name: str, model: Classifier, requested: ModelOptions) -> dict[str, Any]:
    """The defaults of the options that the model has no use for; giving one is an error."""
    kinds = {type(layer) for layer in model.modules()}
    there = {
        "dropout": nn.Dropout in kinds,
        "latent": VariationalHead in kinds,
        "anchors": AnchorQuantizer in kinds,
        "aib attention": SpatialAttention in kinds and not model.takes_mask,
        "mask": model.takes_mask and model.takes_map,
        "pixel noise": model.takes_mask,
    }
    unused = {n: getattr(ModelOptions(), n) for n, need in OPTION_NEEDS.items() if not there[need]}
    for option in requested.changed():
        if option in unused:
            raise AibError(f"{name} has no {OPTION_NEEDS[option]}: {option} changes nothing")
    return unused


def find_entry(name: str) -> Entry:
    """The entry of a model; a name that does not exist is an error."""
    reject_unknown([name], MODELS, "no model", "aib models '*'")
    return MODELS[name]
