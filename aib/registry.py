"""The models by name. One table; `create_model` puts the parts together."""

import difflib
import fnmatch
from collections.abc import Callable
from dataclasses import asdict, dataclass

from torch import nn

from aib.attention import SpatialAttention, check_attention
from aib.backbones import Parts, tiny, vgg16, vgg_cifar, wrn28_10, wrn50_2
from aib.backbones.parts import guided, init_weights
from aib.backbones.vgg import conv_bn_relu
from aib.baselines import AttentionBranch, PayAttention, ProgressiveAttention, gap_tail
from aib.bottleneck import AIB
from aib.classifier import Classifier, check_classes
from aib.errors import AibError
from aib.latent import LinearHead, VariationalHead
from aib.preprocessing import Preprocessing
from aib.profiles import Modulation, get_modulation, get_profile
from aib.quantize import AnchorQuantizer
from aib.types import ProfileName

BACKBONES: dict[tuple[str, int], Callable[..., Parts]] = {
    ("vgg", 32): vgg_cifar,
    ("vgg", 224): vgg16,
    ("wrn", 32): wrn28_10,
    ("wrn", 224): wrn50_2,
    ("tiny", 32): tiny,
}


@dataclass(frozen=True)
class Options:
    """Everything that decides a named model, the family's and the profile's defaults filled in.

    It is stored with the weights, so that a later change of a default leaves them readable.
    """

    num_classes: int
    image_size: int
    width: float
    dropout: float
    latent_dim: int
    num_anchors: int
    modulation: Modulation
    attention_depth: int
    attention_noise: float
    attention_guide: bool
    tap: int
    profile: ProfileName


def _aib(
    o: Options, parts: Parts, *, attention: bool = True, quantised: bool = False
) -> Classifier:
    """The paper's own forms, and DVIB, which is the same without attention."""
    return AIB(
        parts.stem,
        parts.tail,
        o.num_classes,
        attention=_spatial(o, parts, quantised) if attention else None,
        quantizer=AnchorQuantizer(o.num_anchors) if quantised else None,
        head=VariationalHead(
            parts.embedding_dim, o.latent_dim, parts.decoder(o.latent_dim, o.num_classes)
        ),
        modulation=o.modulation,
        profile=o.profile,
        min_size=parts.min_size,
    )


def _spatial(o: Options, parts: Parts, quantised: bool) -> SpatialAttention:
    """The family's attention, or a guided one, behind as many further convolutions as asked for."""
    profile = get_profile(o.profile)
    c = parts.feature_channels
    further = [conv_bn_relu(c, c) for _ in range(o.attention_depth)]
    make = parts.class_maps if o.attention_guide else parts.attention_trunk
    if profile.shallow_unquantised and not quantised and not o.attention_guide:
        make = parts.shallow_trunk or make
    if make is None:
        raise AibError(
            "attention_guide needs a backbone with class maps, as those for 32 x 32 have"
        )
    trunk = make(o.num_classes)
    if further:
        trunk = nn.Sequential(*further, trunk)
    if o.attention_guide:
        trunk = guided(trunk, o.num_classes)
    return SpatialAttention(trunk, profile.sigma_kernel, o.attention_noise)


def _plain(o: Options, parts: Parts, attention: AttentionBranch | None = None) -> Classifier:
    """The backbone with an FC to C. ABN is that with its branch on the features, f (1 + a)."""
    return AIB(
        parts.stem,
        parts.tail,
        o.num_classes,
        attention=attention,
        head=LinearHead(parts.embedding_dim, o.num_classes),
        modulation="residual",
        profile=o.profile,
        min_size=parts.min_size,
    )


def _gap(o: Options, parts: Parts) -> Classifier:
    tail, embedding_dim = gap_tail(o.width)
    head = LinearHead(embedding_dim, o.num_classes)
    return AIB(
        parts.stem,
        tail,
        o.num_classes,
        attention=None,
        head=head,
        profile=o.profile,
        min_size=4,
    )


def _abn(o: Options, parts: Parts) -> Classifier:
    assert parts.class_maps is not None  # WRN's at 32 x 32
    branch = guided(parts.class_maps(o.num_classes), o.num_classes)
    return _plain(o, parts, AttentionBranch(branch))


@dataclass(frozen=True)
class Entry:
    """One name: its backbone, how it is built, and what can be said of it without building it."""

    backbone: str
    build: Callable[[Options, Parts], Classifier]
    summary: str
    sizes: tuple[int, ...] = (32,)
    from_paper: bool = True


_DVIB = "variational bottleneck, no attention (Alemi et al. 2017)"
_AIB = "attention with an information bottleneck"
_QT = "the same with quantised attention"
_BOTH = (32, 224)

MODELS: dict[str, Entry] = {
    "vgg": Entry("vgg", _plain, "the plain network", _BOTH),
    "vgg_gap": Entry("vgg", _gap, "global average pooling (Zhou et al. 2016)"),
    "vgg_pan": Entry(
        "vgg",
        lambda o, _: ProgressiveAttention(o.num_classes, o.width, o.profile),
        "progressive attention (Seo et al. 2018)",
    ),
    "vgg_dvib": Entry("vgg", lambda o, p: _aib(o, p, attention=False), _DVIB, _BOTH),
    "vgg_att2": Entry(
        "vgg",
        lambda o, _: PayAttention(o.num_classes, 2, o.width, o.profile),
        "learn to pay attention, two levels (Jetley et al. 2018)",
    ),
    "vgg_att3": Entry(
        "vgg",
        lambda o, _: PayAttention(o.num_classes, 3, o.width, o.profile),
        "learn to pay attention, three levels (Jetley et al. 2018)",
    ),
    "vgg_aib": Entry("vgg", _aib, _AIB, _BOTH),
    "vgg_aib_qt": Entry("vgg", lambda o, p: _aib(o, p, quantised=True), _QT, _BOTH),
    "wrn": Entry("wrn", _plain, "the plain network", _BOTH),
    "wrn_abn": Entry("wrn", _abn, "attention branch network (Fukui et al. 2019)"),
    "wrn_aib": Entry("wrn", _aib, _AIB, _BOTH),
    "wrn_aib_qt": Entry("wrn", lambda o, p: _aib(o, p, quantised=True), _QT, _BOTH),
    # Not in the paper: small enough for two CPU cores, otherwise the same code.
    "tiny": Entry("tiny", _plain, "the plain network", from_paper=False),
    "tiny_dvib": Entry("tiny", lambda o, p: _aib(o, p, attention=False), _DVIB, from_paper=False),
    "tiny_aib": Entry("tiny", _aib, _AIB, from_paper=False),
    "tiny_aib_qt": Entry("tiny", lambda o, p: _aib(o, p, quantised=True), _QT, from_paper=False),
}


def list_models(filter: str = "", *, exclude: str = "", image_size: int | None = None) -> list[str]:
    """Names of the paper's models; with a wildcard such as "*aib*" or "tiny*", of all that match.

    `exclude` takes a wildcard away again; `image_size` keeps what exists at that size.
    """
    if filter:
        names = [name for name in MODELS if fnmatch.fnmatch(name, filter)]
    else:
        names = [name for name, entry in MODELS.items() if entry.from_paper]
    if image_size is not None:
        names = [name for name in names if image_size in MODELS[name].sizes]
    return [name for name in names if not (exclude and fnmatch.fnmatch(name, exclude))]


def create_model(
    name: str,
    num_classes: int = 10,
    image_size: int = 32,
    *,
    width: float = 1.0,
    dropout: float = 0.3,
    latent_dim: int | None = None,
    num_anchors: int | None = None,
    modulation: Modulation | None = None,
    attention_depth: int = 0,
    attention_noise: float = 0.0,
    attention_guide: bool = False,
    tap: int = 0,
    profile: ProfileName = "paper",
    preprocessing: Preprocessing | None = None,
) -> Classifier:
    """Make a model by name, with fresh weights.

    `image_size` picks the family, 32 or 224; either then takes other sizes as well. `width`
    scales stem, attention and tail. `dropout` is WRN's at 32. `latent_dim` (K), `num_anchors` (Q)
    and `modulation` default to the family's and the profile's. `attention_depth` puts convolutions
    in front of the paper's attention, `attention_noise` is added to sigma_a, `attention_guide`
    builds the map from one map a class, taught by a second head, `tap` moves the attention to a
    later block; these four are ours, not the paper's, and off unless said.
    """
    entry = _find(name)
    if image_size not in entry.sizes:
        sizes = " or ".join(map(str, entry.sizes))
        raise AibError(f"{name} exists for image_size {sizes}, not {image_size}")
    if not 0 < width <= 16:
        raise AibError(f"width must be above 0 and at most 16, not {width}")
    if not 0 <= dropout < 1:
        raise AibError(f"dropout must be at least 0 and below 1, not {dropout}")
    check_classes(num_classes)
    if (attention_depth or attention_noise or attention_guide or tap) and "_aib" not in name:
        raise AibError(
            "attention_depth, attention_noise, attention_guide and tap are for the aib models; "
            f"{name} is not one"
        )
    if not 0 <= attention_depth <= 16:
        raise AibError(f"attention_depth must be 0 to 16, not {attention_depth}")
    check_attention(attention_noise, attention_guide)
    parts = _backbone(entry.backbone, image_size, width, dropout, tap)
    options = Options(
        num_classes=num_classes,
        image_size=image_size,
        width=width,
        dropout=dropout,
        latent_dim=parts.latent_dim if latent_dim is None else latent_dim,
        num_anchors=parts.num_anchors if num_anchors is None else num_anchors,
        modulation=get_modulation(modulation, profile),
        attention_depth=attention_depth,
        attention_noise=attention_noise,
        attention_guide=attention_guide,
        tap=tap,
        profile=profile,
    )
    model = entry.build(options, parts)
    chosen = get_profile(profile)
    init_weights(model, chosen.initialisation.get(entry.backbone, "he"))
    model.kl_weight = chosen.kl_weight.get((entry.backbone, image_size), 1.0)
    model.preprocessing = preprocessing or Preprocessing(image_size=image_size)
    model.recipe = {"kind": "named", "name": name, **asdict(options)}
    return model


def _backbone(family: str, image_size: int, width: float, dropout: float, tap: int) -> Parts:
    make = BACKBONES[family, image_size]
    if make is vgg_cifar:
        if not 0 <= tap <= 2:
            raise AibError(f"tap must be 0, 1 or 2, not {tap}")
        return vgg_cifar(width, tap)
    if tap:
        raise AibError(f"only VGG at 32 x 32 has a tap to choose, not {family} at {image_size}")
    return make(width, dropout) if make is wrn28_10 else make(width)


def _find(name: str) -> Entry:
    if name not in MODELS:
        close = difflib.get_close_matches(name, MODELS, n=3) or list_models()
        raise AibError(f"no model {name!r}; did you mean {', '.join(close)}?")
    return MODELS[name]
