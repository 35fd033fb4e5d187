"""Plausible mistakes in the method and in the verdict, and the tests that must notice each of them.

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


# fmt: off
TABLE = [
    # gaussian, quantiser, loss
    ("gaussian.py", "- sigma.log()).sum(-1)", "- sigma).sum(-1)", "test_gaussian.py -k adds_over"),
    ("gaussian.py", "(2 * log_std).exp()", "log_std.exp()", "test_gaussian.py"),
    ("gaussian.py", "return mu + sigma * noise", "return mu + noise", "test_gaussian.py -k sample"),
    ("gaussian.py", "SIGMA_SHIFT) + SIGMA_FLOOR", "SIGMA_SHIFT)", "test_gaussian.py -k softplus"),
    ("quantize.py", "+ ordered[:-1]) / 2", "+ ordered[1:]) / 2", "test_quantize.py -k nearest"),
    ("quantize.py", "a.to(midpoints.dtype), midpoints",
     "a.to(midpoints.dtype), midpoints, right=True", "test_quantize.py -k tie"),
    ("quantize.py", "nearest.detach() + (a - a.detach())", "nearest + (a - a.detach())",
     "test_quantize.py -k straight"),
    ("quantize.py", "F.mse_loss(nearest, a.detach())", "F.mse_loss(nearest, a)",
     "test_quantize.py -k moves_only"),
    ("quantize.py", "F.mse_loss(a, nearest.detach())", "F.l1_loss(a, nearest.detach())",
     "test_quantize.py -k squared"),
    ("quantize.py", ".sum().exp()", ".sum()", "test_quantize.py -k perplexity"),
    ("quantize.py", "if self.training:", "if True:", "test_quantize.py -k evaluation"),
    ("loss.py", "kl_to_standard_normal if profile.exact_kl else kl_released",
     "kl_to_standard_normal", "test_loss.py -k kl_is_summed"),
    ("loss.py", "out.latent.sigma).mean()", "out.latent.sigma)[0].mean()",
     "test_loss.py -k kl_is_summed"),
    ("loss.py", "lambda_c * commitment", "lambda_q * commitment", "test_loss.py -k total"),
    ("loss.py", 'out.average("logits"), y', 'out.average("probabilities"), y',
     "test_loss.py -k released"),
    ("loss.py", "y.expand(*samples.shape[:2], *y.shape).flatten(0, 2)",
     "y.repeat_interleave(len(samples) * samples.shape[1], 0)", "test_loss.py -k nll_is"),
    # attention, latent, the whole
    ("attention.py", "(a if how", "(1 - a if how", "test_forward.py -k tail_sees"),
    ("attention.py", "else 1 + a)", "else a)", "test_forward.py -k tail_sees"),
    ("attention.py", "to_logits(maps).mean((2, 3))", "to_logits(maps).amax((2, 3))",
     "test_attention.py -k guided"),
    ("latent.py", "z = mu.unsqueeze(1)", "z = (mu + sigma).unsqueeze(1)",
     "test_forward.py -k deterministic"),
    ("latent.py", "eps)  # [S,M,B,K]", "eps[:, :1])", "test_forward.py -k 'shape_of or noise'"),
    ("latent.py", "nn.Linear(latent_dim, latent_dim), nn.ReLU(), nn",
     "nn.Linear(latent_dim, latent_dim), nn", "backbones/test_layers.py"),
    ("attention.py", "a = mu.unsqueeze(0)",
     "a = (mu + (0 if sigma is None else sigma)).unsqueeze(0)", "test_forward.py -k deterministic"),
    ("bottleneck.py", "modulate(f, attention.a_q,", "modulate(f, attention.a,",
     "test_forward.py -k tail_sees"),
    ("bottleneck.py", "self.quantizer.rank(indices)", "indices", "explanation/test_explain.py"),
    ("types.py", ".logsumexp(0) - math.log(samples.shape[0])", ".mean(0)",
     "test_forward.py -k mean_probability"),
    # backbones
    ("backbones/vgg.py", "nn.Conv2d(c, c, 1), nn.ReLU(), Embed()", "nn.Conv2d(c, c, 1), Embed()",
     "backbones/test_layers.py"),
    ("backbones/wrn.py", "self.shortcut(active)", "self.shortcut(x)", "backbones/test_layers.py"),
    ("backbones/wrn.py", "F.relu(self.body(x) + self.shortcut(x))",
     "F.relu(self.body(x)) + self.shortcut(x)", "backbones/test_backbones.py"),
    ("backbones/vgg.py", "mean + bias", "mean", "backbones/test_backbones.py -k bias_before"),
    ("backbones/parts.py", "nn.BatchNorm2d(num_classes), nn.ReLU()", "nn.BatchNorm2d(num_classes)",
     "test_attention.py -k guided"),
    ("backbones/parts.py", '"fan_in" if how == "he"', '"fan_out" if how == "he"',
     "backbones/test_backbones.py"),
    # evaluation
    ("evaluation.py", "out.latent.sigma).mean(0)", "out.latent.sigma)[0]",
     "test_evaluation.py -k kl_is_averaged"),
    ("evaluation.py", "values.double().sum()", "values.double().mean() * 7",
     "test_evaluation.py -k by_hand"),
    ("evaluation.py", "metrics.add(out.average(average), y", "metrics.add(out.logits, y",
     "test_evaluation.py -k averag"),
    ("evaluation.py", "BINS = 15", "BINS = 10", "test_evaluation.py -k calibration"),
    ("evaluation.py", "zz / (4 * count * count)", "zz / (4 * count)",
     "test_evaluation.py -k wilson"),
    # interpret
    ("interpret/metrics/similarity.py", "first - first.mean(dim=1, keepdim=True)", "first",
     "interpret/metrics/test_similarity.py"),
    ("interpret/metrics/similarity.py", "below + at_most + 1", "2 * below + 2",
     "interpret/metrics/test_similarity.py -k 'auroc or ranks'"),
    ("interpret/metrics/similarity.py", "both.to(value.dtype)", "torch.zeros_like(value)",
     "interpret/metrics/test_score.py -k constant"),
    ("interpret/metrics/score.py", "(raw >= least), consistent)", "(raw >= least), every)",
     "interpret/metrics/test_score.py -k consistent"),
    ("interpret/metrics/score.py", "100 * defined * (centred >= least)",
     "100 * defined * (raw >= least)",
     "interpret/metrics/test_score.py -k dark_place"),
    ("interpret/metrics/score.py", "(contrast_modified.float()", "(contrast.float()",
     "interpret/metrics/test_score.py"),
    ("interpret/metrics/swap.py", "place + 1 + step[0]", "place + step[0]",
     "interpret/metrics/test_swap.py -k evenly"),
    ("interpret/metrics/swap.py", "start + size + step[2]", "start + step[2]",
     "interpret/metrics/test_swap.py -k evenly"),
    ("interpret/metrics/reliance.py", "(b + c) - (b - c) ** 2 / n", "(b + c) / 2",
     "interpret/metrics/test_reliance.py -k interval_holds"),
    ("interpret/verdict.py", "drop.low >= harm", "drop.drop >= harm",
     "interpret/test_verdict.py -k reason"),
    ("interpret/verdict.py", "same.high >= other.low", "False",
     "interpret/test_verdict.py -k overlapping"),
    ("interpret/metrics/reliance.py", "int((own & ~replaced).sum())", "int((~replaced).sum())",
     "interpret/metrics/test_encoding.py -k counting"),
    ("gaussian.py", "nats / math.log(2)", "nats * math.log(2)",
     "interpret/metrics/test_information.py"),
    # preprocessing, export
    ("preprocessing.py", "(scaled - mean) / std", "scaled / std - mean", "test_preprocessing.py"),
    ("export/one_pass.py", "a.unsqueeze(-1) > self.midpoints", "a.unsqueeze(-1) >= self.midpoints",
     "export/test_check.py -k fixed_levels"),
    ("export/one_pass.py", "out.attention.a_q[0]", "out.attention.mu",
     "export/test_export.py -k one_pass"),
    ("export/one_pass.py", "normalise(pixels, self.mean, self.std)", "pixels - self.mean",
     "export/test_export.py -k one_pass"),
    ("export/check.py", "not difference <= self.limits[name]", "difference > self.limits[name]",
     "export/test_check.py"),
]
# fmt: on

MUTANTS = [Mutant(*row) for row in TABLE]
