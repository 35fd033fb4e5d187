"""Plausible mistakes, and the tests that must notice each of them.

`tests/test_mutants.py` puts each mistake into a copy of the package and runs its tests there. When
a module moves or a line changes, this table has to follow: `old` must occur exactly once.
"""

from typing import NamedTuple


class Mutant(NamedTuple):
    module: str  # under aib/
    old: str
    new: str
    tests: str  # a file under tests/, and which of its tests (seconds at most)

    def __str__(self) -> str:
        return f"{self.module}: {self.old} -> {self.new}"


TABLE = [
    # gaussian, quantiser, loss
    ("gaussian.py", "- sigma.log()).sum(-1)", "- sigma).sum(-1)", "test_gaussian.py -k adds_over"),
    ("gaussian.py", "(2 * log_deviation).exp()", "log_deviation.exp()", "test_gaussian.py"),
    ("gaussian.py", "return mu + sigma * noise", "return mu + noise", "test_gaussian.py -k draw"),
    ("gaussian.py", "SIGMA_SHIFT) + SIGMA_FLOOR", "SIGMA_SHIFT)", "test_gaussian.py -k just_above"),
    ("quantize.py", "+ ordered[:-1]) / 2", "+ ordered[1:]) / 2", "test_quantize.py -k nearest"),
    ("quantize.py", "a.to(midpoints.dtype), midpoints", "a.to(midpoints.dtype), midpoints, right=True",
     "test_quantize.py -k tie"),
    ("quantize.py", "nearest.detach() + (a - a.detach())", "nearest + (a - a.detach())",
     "test_quantize.py -k straight"),
    ("quantize.py", "F.mse_loss(nearest, a.detach())", "F.mse_loss(nearest, a)",
     "test_quantize.py -k moves_only"),
    ("quantize.py", "F.mse_loss(a, nearest.detach())", "F.l1_loss(a, nearest.detach())",
     "test_quantize.py -k squared"),
    ("quantize.py", ".sum().exp()", ".sum()", "test_quantize.py -k perplexity"),
    ("quantize.py", "if self.training:", "if True:", "test_quantize.py -k evaluation"),
    ("loss.py", "kl_to_standard_normal if profile.exact_kl else kl_released", "kl_to_standard_normal",
     "test_loss.py -k kl_is_summed"),
    ("loss.py", "out.latent.sigma).mean()", "out.latent.sigma)[0].mean()", "test_loss.py -k kl_is_summed"),
    ("loss.py", "lambda_c * commitment", "lambda_q * commitment", "test_loss.py -k total"),
    ("loss.py", 'out.average("logits"), y', 'out.average("probabilities"), y', "test_loss.py -k released"),
    ("loss.py", "y.expand(samples.shape[:-1]).flatten()", "y.repeat_interleave(len(samples) * samples.shape[1])",
     "test_loss.py -k nll_is"),
    # attention, latent, the whole
    ("attention.py", "(a if how", "(1 - a if how", "test_forward.py -k tail_sees"),
    ("attention.py", "else 1 + a)", "else a)", "test_forward.py -k tail_sees"),
    ("attention.py", "sigma = sigma + self.noise", "sigma = sigma * self.noise", "test_models.py -k noise"),
    ("attention.py", "to_logits(maps).mean((2, 3))", "to_logits(maps).amax((2, 3))", "test_models.py -k guided"),
    ("latent.py", "z = mu.unsqueeze(1)", "z = (mu + sigma).unsqueeze(1)", "test_forward.py -k deterministic"),
    ("latent.py", "eps)  # [S,M,B,K]", "eps[:, :1])", "test_forward.py -k 'shape_of or noise'"),
    ("latent.py", "nn.Linear(latent_dim, latent_dim), nn.ReLU(), nn", "nn.Linear(latent_dim, latent_dim), nn",
     "test_models.py"),
    ("bottleneck.py", "a = mu.unsqueeze(0)", "a = (mu + (0 if sigma is None else sigma)).unsqueeze(0)",
     "test_forward.py -k deterministic"),
    ("bottleneck.py", "modulate(f, attention.a_q,", "modulate(f, attention.a,", "test_forward.py -k tail_sees"),
    ("bottleneck.py", "self.quantizer.rank(indices)", "indices", "test_explain.py"),
    ("types.py", ".logsumexp(0) - math.log(samples.shape[0])", ".mean(0)", "test_forward.py -k mean_probability"),
    # backbones
    ("backbones/vgg.py", "nn.Conv2d(c, c, 1), nn.ReLU(), Embed()", "nn.Conv2d(c, c, 1), Embed()", "test_models.py"),
    ("backbones/wrn.py", "self.shortcut(active)", "self.shortcut(x)", "test_models.py"),
    ("backbones/wrn.py", "F.relu(self.body(x) + self.shortcut(x))", "F.relu(self.body(x)) + self.shortcut(x)", "test_models.py"),
    ("backbones/vgg.py", "mean + bias", "mean", "test_models.py -k bias_before"),
    ("backbones/parts.py", "nn.BatchNorm2d(num_classes), nn.ReLU()", "nn.BatchNorm2d(num_classes)", "test_models.py -k guided"),
    ("backbones/parts.py", 'mode="fan_in"', 'mode="fan_out"', "test_models.py"),
    # training and evaluation
    ("evaluate.py", "out.latent.sigma).mean(0)", "out.latent.sigma)[0]", "train/test_evaluate.py -k by_hand"),
    ("evaluate.py", "self.kl += kl.sum()", "self.kl += kl.mean() * 7", "train/test_evaluate.py -k by_hand"),
    ("evaluate.py", "tally.add(out.average(average), y)", "tally.add(out.logits, y)", "train/test_evaluate.py -k averag"),
    ("evaluate.py", "n_bins=15", "n_bins=10", "train/test_evaluate.py -k by_hand"),
    ("evaluate.py", "zz / (4 * count * count)", "zz / (4 * count)", "train/test_evaluate.py -k wilson"),
    ("ema.py", "1 - self.decay", "self.decay", "train/test_optim.py -k average"),
    ("ema.py", "mine[name].copy_(theirs[name])", "pass", "train/test_optim.py -k average"),
    ("optim.py", 'if name == "weights" else 0.0', 'if name != "anchors" else 0.0', "train/test_optim.py -k decay"),
    ("optim.py", "isinstance(module, AnchorQuantizer)", "False", "train/test_optim.py -k decay"),
    ("optim.py", "nesterov = s.momentum > 0", "nesterov = False", "train/test_optim.py"),
    ("optim.py", "0.5 * (1 + math.cos", "(1 + math.cos", "train/test_optim.py -k cosine"),
    ("optim.py", "s.beta * step / rising", "s.beta * (step / rising) ** 2", "train/test_optim.py -k beta"),
    # interpret
    ("interpret/similarity.py", "first - first.mean(dim=1, keepdim=True)", "first", "interpret/test_similarity.py"),
    ("interpret/similarity.py", "below + at_most + 1", "2 * below + 2", "interpret/test_similarity.py -k 'auroc or ranks'"),
    ("interpret/similarity.py", "both.to(value.dtype)", "torch.zeros_like(value)", "interpret/test_score.py -k constant"),
    ("interpret/score.py", "(raw >= tau), consistent)", "(raw >= tau), every)", "interpret/test_score.py -k consistent"),
    ("interpret/score.py", "100 * defined * (centred >= tau)", "100 * defined * (raw >= tau)", "interpret/test_score.py"),
    ("interpret/score.py", "after.flat.sum()", "before.flat.sum()", "interpret/test_score.py"),
    ("interpret/localise.py", "maps == maps.amax", "maps >= 0.99 * maps.amax", "interpret/test_localise.py"),
    ("interpret/localise.py", ".clamp_min(0)", ".abs()", "interpret/test_localise.py -k energy"),
    ("interpret/localise.py", "torch.arange(size[1], device=boxes.device) + 0.5", "torch.arange(size[1], device=boxes.device)",
     "interpret/test_localise.py -k boxes"),
    ("interpret/localise.py", "values.sum(dim=0) / defined.sum(dim=0)", "values.mean(dim=0)", "interpret/test_localise.py -k counted"),
    ("interpret/faithfulness.py", "min(x.shape[2:]) / 8", "min(x.shape[2:]) / 16", "interpret/test_faithfulness.py -k baselines"),
    ("interpret/faithfulness.py", "descending=True, stable=True", "descending=False, stable=True", "interpret/test_faithfulness.py"),
    ("interpret/faithfulness.py", "torch.where(taken, empty, x)", "torch.where(taken, x, empty)", "interpret/test_faithfulness.py -k additive"),
    ("interpret/reliance.py", "order.roll(1)", "order", "interpret/test_reliance.py -k own_map"),
    ("interpret/reliance.py", "(b + c) - (b - c) ** 2 / n", "(b + c) / 2", "interpret/test_reliance.py -k interval_holds"),
    ("interpret/reliance.py", "drop.low >= harm", "drop.drop >= harm", "interpret/test_reliance.py -k verdict"),
    ("interpret/reliance.py", "(own & ~right).sum(), (right & ~own).sum()", "(~right).sum(), (right & ~own).sum()", "interpret/test_reliance.py"),
    ("interpret/information.py", "nats / math.log(2)", "nats * math.log(2)", "interpret/test_information.py"),
    ("interpret/information.py", "factor.float().square()", "factor.float()", "interpret/test_information.py -k energy"),
    ("interpret/information.py", ".reshape(-1, num_anchors).sum(dim=0)", "[0]", "interpret/test_information.py -k together"),
    ("interpret/perturb.py", "< radius**2", "<= radius**2", "interpret/test_perturb.py -k 'wave or disc'"),
    ("interpret/perturb.py", "low if kind ==", "high if kind ==", "interpret/test_perturb.py"),
    ("interpret/perturb.py", "(height - p + 1, width - p + 1)", "(height - p, width - p)", "interpret/test_perturb.py -k every_place"),
    ("interpret/posthoc.py", "maps.detach()[:, 0]", "-maps.detach()[:, 0]", "interpret/test_posthoc.py -k gradcam"),
    ("interpret/bootstrap.py", "(1 - confidence) / 2", "1 - confidence", "interpret/test_similarity.py -k interval"),
    # data, preprocessing, export
    ("data/augment.py", "last - (last - index.abs()).abs()", "index.clamp(0, last)", "data/test_batches.py -k batched_crop"),
    ("data/augment.py", "uniform[:, 2:3] < 0.5", "uniform[:, 2:3] < 1", "data/test_batches.py -k batched_crop"),
    ("data/augment.py", "(u * size).long() - side // 2", "(u * (size - side)).long()", "data/test_batches.py -k blanks"),
    ("data/augment.py", "SeedSequence([seed, epoch])", "SeedSequence([seed + epoch])", "data/test_batches.py -k seed"),
    ("data/augment.py", "(2 * u_ratio - 1)", "u_ratio", "data/test_batches.py"),
    ("data/augment.py", "MIN_AREA + (1 - MIN_AREA) * u_area", "u_area", "data"),
    ("preprocessing.py", "- mean) / std", "/ std - mean)", "test_preprocessing.py"),
    ("export/one_pass.py", "a.unsqueeze(-1) > self.midpoints", "a.unsqueeze(-1) >= self.midpoints", "export/test_check.py -k fixed_levels"),
    ("export/one_pass.py", "out.attention.a_q[0]", "out.attention.mu", "export/test_export.py -k one_pass"),
    ("export/one_pass.py", "(pixels - self.mean) / self.std", "pixels - self.mean", "export/test_export.py -k one_pass"),
    ("export/check.py", "not difference <= self.limits[name]", "difference > self.limits[name]", "export/test_check.py"),
]

MUTANTS = [Mutant(*row) for row in TABLE]
