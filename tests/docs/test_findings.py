"""What docs/findings.md and the README say of maps is what was found."""

from statistics import mean

from aib.configs.preset import spread
from aib.paper import paper_score
from tests.docs.kept import against_random, areas, cost, errors_by_name, kept, maps_of

OWN = "localisation_own_all_images"


def columns(maps: dict) -> list[float]:
    """The figures of a map in the tables on CIFAR-10, after the error."""
    insertion, deletion = areas(maps, "insertion"), areas(maps, "deletion")
    return [
        maps["information"]["contrast"],
        insertion["own"],
        insertion["centre"],
        deletion["own"],
        deletion["random"],
        cost(maps),
    ]


def test_maps_on_cifar10(findings):
    maps = maps_of("cifar10_vgg.json", "vgg_aib_qt_0")
    change = abs(cost(maps))
    assert maps["reliance"]["verdict"] == "decorative" and f"by {change:.2f} points" in findings
    assert f"less the lowest, is {maps['information']['contrast']:.2f}." in findings
    raw, centred = (
        [figures[f"{kind}_0.9"] for figures in maps["stability"].values()]
        for kind in ("score", "centred")
    )
    assert f"score {min(raw):.0f} to {max(raw):.0f}% by the paper's measure" in findings
    assert f"{min(centred):.0f} to {max(centred):.0f}% with each map's mean removed" in findings
    insertion = areas(maps, "insertion")
    assert f"insertion reaches {insertion['own']:.2f}; random order {insertion['random']:.2f}," in (
        findings
    )
    assert f"centre outwards {insertion['centre']:.2f}" in findings
    unquantised = maps_of("cifar10_vgg.json", "vgg_aib_0")
    assert unquantised["reliance"]["verdict"] == "decorative"
    flat = f"as flat (contrast {unquantised['information']['contrast']:.2f})"
    assert f"is as decorative ({abs(cost(unquantised)):.2f} points) and {flat}" in findings
    assert f"an insertion of {areas(unquantised, 'insertion')['own']:.2f}." in findings


def test_the_deeper_map(findings):
    maps = maps_of("cifar10_small.json", "cifar10_small_depth3")
    deletion, insertion = areas(maps, "deletion"), areas(maps, "insertion")
    assert deletion["own"] > deletion["random"] and 0 < insertion["own"] - insertion["random"] < 0.1
    worse = f"is {deletion['own']:.2f}, worse than random ({deletion['random']:.2f})"
    hardly = f"insertion {insertion['own']:.2f}, hardly better ({insertion['random']:.2f})"
    assert f"deletion in its order {worse}, and {hardly}" in findings


def test_price_noise_and_guide_on_cifar10(findings, readme):
    words = {
        "deeper_cutout_16": "deeper alone",
        "price_and_noise_0.05": "price and noise 0.05",
        "price_and_noise_0.1": "price and noise 0.1",
        "guided_price_and_noise_0.05": "guide, price and noise 0.05",
    }
    errors = errors_by_name("cifar10_maps.json")
    for run, name in words.items():
        maps = maps_of("cifar10_maps.json", run)
        cells = " | ".join(f"{figure:.2f}" for figure in (errors[run], *columns(maps)))
        assert f"| {name} | {cells} | {maps['reliance']['verdict']} |" in findings
    alone, half, whole, guided = (errors[run] for run in words)
    assert f"looked at, for {whole - alone:.1f} points of error." in findings
    assert f"Half of each costs {half - alone:.1f} points, and there the map is *used*" in findings
    assert guided <= alone and "images we looked at, at no cost in error" in findings
    faint = maps_of("cifar10_maps.json", "deeper_with_a_price")
    passed = 100 * faint["information"]["energy_passed"]
    assert f"map faint: {passed:.1f}% of the energy passes" in findings
    assert faint["reliance"]["verdict"] == "used"
    assert f"It is *used* ({cost(faint):.2f} points)." in findings
    curves = maps_of("cifar10_maps.json", "guided_price_and_noise_0.05")["faithfulness"]
    assert curves["own"]["insertion_low"] < curves["centre"]["insertion"]
    assert curves["own"]["insertion_high"] > curves["centre"]["insertion"]
    assert curves["own"]["deletion_high"] > curves["random"]["deletion_low"]  # they overlap
    assert "at no cost in error; whether the decision needs it is undecided." in readme


def test_them_in_full_training(findings):
    errors = errors_by_name("cifar10_vgg.json")
    usual = [error for name, error in errors.items() if name.startswith("vgg_aib_qt_")]
    assert f"an error of {errors['price_and_noise_0.05']:.2f}%; the paper's form has " in findings
    assert f"form has {min(usual):.2f} to {max(usual):.2f}%" in findings
    priced, plain = (
        maps_of("cifar10_vgg.json", name) for name in ("price_and_noise_0.05", "vgg_aib_qt_0")
    )
    energy, contrast = (priced["information"][name] for name in ("energy_passed", "contrast"))
    assert f"({100 * energy:.0f}% of the energy passes, contrast {contrast:.2f})" in findings
    for modification, words in (
        ("color-16", "moves less (mean centred cosine {:.2f}, against {:.2f})"),
        ("cifar100-16", "of another image as much ({:.2f}, against {:.2f})"),
    ):
        pair = [maps["stability"][modification]["centred_mean"] for maps in (priced, plain)]
        assert words.format(*pair) in findings
    assert priced["reliance"]["verdict"] == "decorative"


def test_the_maps_of_wrn(findings):
    names = ("wrn_aib_qt_0", "batch_256_dropout_0.3", "wrn_abn_0")
    ours, earlier, abn = (maps_of("cifar10_wrn.json", name) for name in names)
    verdicts = [maps["reliance"]["verdict"] for maps in (ours, earlier, abn)]
    assert verdicts == ["used", "used", "decorative"]
    drops = [cost(maps) for maps in (ours, earlier, abn)]
    assert f"accuracy falls by {drops[0]:.1f} points. To the eye" in findings
    assert f"it is used as well ({drops[1]:.1f} points)" in findings
    assert f"another image's map costs {drops[2]:.2f} points." in findings
    found = {source: f"{area:.2f}" for source, area in areas(ours, "insertion").items()}
    assert (
        f"Insertion is {found['own']} in its order, {found['random']} in random order" in findings
    )
    assert f"{found['centre']} from the centre outwards and {found['gradcam']} with" in findings
    deletion = areas(ours, "deletion")
    assert deletion["own"] > deletion["random"]
    assert f"than random {against_random(ours, 'deletion')}" in findings
    assert f"with an insertion of {areas(earlier, 'insertion')['own']:.2f}." in findings
    curves = abn["faithfulness"]
    assert curves["own"]["insertion_low"] < curves["centre"]["insertion_high"]
    assert curves["own"]["deletion_high"] > curves["random"]["deletion_low"]
    found = {source: f"{area:.2f}" for source, area in areas(abn, "insertion").items()}
    others = f"random order {found['random']}, Grad-CAM {found['gradcam']}"
    outwards = f"no better than from the centre outwards ({found['centre']}; {others})"
    assert f"Insertion is {found['own']} in its order, {outwards}" in findings
    no_better = f"deletion no better than random {against_random(abn, 'deletion')}."
    assert f"{no_better} It differs" in findings


def test_the_map_of_vgg_att3(findings):
    maps, ours = (maps_of("cifar10_vgg.json", name) for name in ("vgg_att3_0", "vgg_aib_qt_0"))
    assert maps["reliance"]["verdict"] is None
    own, random = (maps["faithfulness"][source] for source in ("own", "random"))
    assert own["deletion_low"] > random["deletion_high"]
    assert own["insertion_low"] < random["insertion"] < own["insertion_high"]
    worse = f"deletion is worse than random {against_random(maps, 'deletion')}"
    no_better = f"insertion no better {against_random(maps, 'insertion')}."
    assert f"In its order {worse} and {no_better}" in findings
    spans = [
        [figures["score_0.9"] for figures in each["stability"].values()] for each in (maps, ours)
    ]
    assert max(spans[0]) < min(spans[1])
    low, high = (f"{min(span):.0f} to {max(span):.0f}%" for span in spans)
    assert f"(ours {low}, against {high}), as in the paper." in findings
    modifications = ("color-4", "color-8", "color-12", "color-16", "high-4", "low-12")
    assert all(
        paper_score("vgg_att3", "cifar10", name) < paper_score("vgg_aib_qt", "cifar10", name)
        for name in modifications
    )
    large, small = (
        [each["stability"][name]["centred_mean"] for each in (maps, ours)]
        for name in ("color-16", "color-4")
    )
    assert large[0] > large[1] and small[0] < small[1]
    assert "of 16 pixels (mean cosine {:.2f}, against {:.2f}), less".format(*large) in findings
    assert "of 4 ({:.2f}, against {:.2f}).".format(*small) in findings


def test_the_map_of_vgg_on_cifar100(findings):
    flat = maps_of("cifar100_vgg.json", "vgg_aib_qt_0")
    assert flat["reliance"]["verdict"] == "decorative"
    assert f"*decorative* (another image's map costs {cost(flat):.2f} points)" in findings
    assert f"and flat (contrast {flat['information']['contrast']:.2f})" in findings
    insertion = areas(flat, "insertion")
    others = f"(random order {insertion['random']:.2f}, centre {insertion['centre']:.2f})"
    assert f"with an insertion of {insertion['own']:.2f} {others} and" in findings
    curves = flat["faithfulness"]
    assert curves["own"]["deletion_low"] > curves["random"]["deletion_high"]
    assert f"deletion worse than random {against_random(flat, 'deletion')}." in findings


def test_the_map_of_wrn_on_cifar100(findings, readme):
    used = maps_of("cifar100_wrn.json", "wrn_aib_qt_0")
    assert used["reliance"]["verdict"] == "used"
    assert f"form on CIFAR: another image's map costs {cost(used):.1f} points." in findings
    assert f"it is used more ({cost(used):.1f} points)" in readme
    assert cost(used) > max(
        cost(maps_of("cifar10_wrn.json", name))
        for name in ("wrn_aib_qt_0", "batch_256_dropout_0.3")
    )
    told = used["information"]
    energy = 100 * told["energy_passed"]
    assert f"contrast ({told['contrast']:.2f}) and lets {energy:.0f}% of the energy" in findings
    curves = used["faithfulness"]
    own, random, centre, gradcam = (
        curves[source] for source in ("own", "random", "centre", "gradcam")
    )
    assert own["insertion_low"] > random["insertion_high"]
    assert own["insertion_high"] > centre["insertion_low"]  # they overlap
    assert own["insertion"] < centre["insertion"]
    assert own["insertion_high"] < gradcam["insertion_low"]
    better = f"better than random ({random['insertion']:.2f})"
    assert f"its order is {own['insertion']:.2f}: {better}," in findings
    others = f"({centre['insertion']:.2f}), worse than Grad-CAM ({gradcam['insertion']:.2f})."
    assert f"not better than from the centre {others}" in findings
    assert own["deletion_low"] > random["deletion_high"]
    assert f"Deletion is worse than random {against_random(used, 'deletion')}." in findings


def small_network(kind: str, file: str = "shapes_tiny_maps.json", seeds=(7, 1, 2)) -> list[dict]:
    """Its runs with one kind of attention, a seed each; on plain shapes unless said."""
    runs = [run for run in kept(file)["runs"] if run["name"][:-2] == kind]
    assert [run["seed"] for run in runs] == list(seeds)
    return runs


def test_the_small_network_on_cifar10(findings, readme):
    words = {
        "paper_attention": "the preset's",
        "price_and_noise": "price and noise",
        "guided_price_and_noise": "guide, price and noise",
    }
    errors = {}
    for kind, name in words.items():
        seeds = (7, 1) if kind == "price_and_noise" else (7, 1, 2)
        runs = small_network(kind, "cifar10_tiny_maps.json", seeds)
        maps = [run["interpret"] for run in runs]
        errors[kind] = [run["evaluations"]["cifar10 test"]["top1_error"] for run in runs]
        used = sum(each["reliance"]["verdict"] == "used" for each in maps)
        *figures, costs = (list(column) for column in zip(*map(columns, maps), strict=True))
        cells = [spread(errors[kind]), *map(spread, figures), spread(costs, 1)]
        cells.append(f"{used} of {len(runs)}")
        assert f"| {name} | {len(runs)} | {' | '.join(cells)} |" in findings
    usual, priced, guided = (mean(each) for each in errors.values())
    assert guided < usual and "no higher than the preset's" in findings
    price = f"for {priced - usual:.1f} points of error. With the guide"
    assert f"Price and noise alone make the map used, {price}" in findings
    for each in maps:  # the guided ones
        curves = each["faithfulness"]
        assert curves["own"]["deletion_high"] < curves["random"]["deletion_low"]
        assert curves["own"]["insertion_low"] < curves["centre"]["insertion_high"]
        assert curves["own"]["deletion_high"] > curves["centre"]["deletion_low"]
    right = sorted(100 - error for each in errors.values() for error in each)
    assert f"right on {right[0]:.0f} to {right[-1]:.0f}% of the images" in findings
    drop = mean(cost(each) for each in maps)
    assert f"small network (error {guided:.1f}%, three seeds) has a map on CIFAR-10" in readme
    assert f"another image's map costs {drop:.0f} points. As a guess" in readme


def beats_the_blob(maps: dict) -> bool:
    """By AUROC and by insertion, with intervals that do not touch."""
    return all(
        maps[part]["own"][f"{name}_low"] > maps[part]["centre"][f"{name}_high"]
        for part, name in (("localisation", "auroc"), ("faithfulness", "insertion"))
    )


def test_the_small_network_s_map_on_plain_shapes(findings):
    maps = [run["interpret"] for run in small_network("paper_attention")]
    assert all(beats_the_blob(each) and each["reliance"]["verdict"] == "used" for each in maps)
    auroc, insertion = (
        [mean(each[part][source][name] for each in maps) for source in ("own", "centre")]
        for part, name in (("localisation", "auroc"), ("faithfulness", "insertion"))
    )
    found = f"AUROC {auroc[0]:.2f} against {auroc[1]:.2f}"
    found += f", insertion {insertion[0]:.2f} against {insertion[1]:.2f}"
    assert f"{found}, on {maps[0]['subset_images']} images." in findings
    drop = mean(cost(each) for each in maps)
    assert f"another image's map accuracy falls by {drop:.1f} points" in findings


def test_price_noise_and_guide_on_plain_shapes(findings):
    words = {
        "paper_attention": "the paper's",
        "price_and_noise": "price and noise",
        "guided": "guide",
        "guided_price_and_noise": "guide, price and noise",
    }
    for kind, name in words.items():
        runs = small_network(kind)
        maps = [run["interpret"] for run in runs]
        cells = [
            spread([run["evaluations"]["shapes test"]["top1_error"] for run in runs]),
            spread([100 * each[OWN]["energy_inside"] for each in maps], 1),
            spread([each[OWN]["auroc"] for each in maps]),
            spread([areas(each, "insertion")["own"] for each in maps]),
            spread([cost(each) for each in maps], 1),
        ]
        assert f"| {name} | {' | '.join(cells)} |" in findings
        beat = [beats_the_blob(each) for each in maps]
        assert sum(beat) == (1 if kind == "guided" else 3)
        if kind != "guided":
            assert {each["reliance"]["verdict"] for each in maps} == {"used"}


def test_maps_on_plain_shapes(findings):
    runs = kept("shapes_vgg.json")["runs"]
    assert all(run["evaluations"]["shapes test"]["top1_error"] < 0.1 for run in runs)
    auroc = {run["name"]: run["interpret"][OWN]["auroc"] for run in runs}
    assert f"AUROC of {auroc['deeper']:.2f} on 1,000 images" in findings
    others = f"attention {auroc['ours']:.2f}, the released code's {auroc['released']:.2f}."
    assert others in findings
    deeper = maps_of("shapes_vgg.json", "deeper")
    own, centre = (deeper["localisation"][source] for source in ("own", "centre"))
    assert own["auroc_low"] < centre["auroc_high"]  # the intervals overlap
    pair = f"{own['auroc']:.2f} against {centre['auroc']:.2f}"
    assert f"{pair} on the {deeper['subset_images']} images where" in findings
    assert f"another image's map accuracy falls by {cost(deeper):.1f} points" in findings


def test_maps_on_cluttered_shapes(findings):
    runs = {
        kind: [run for run in kept("shapes_clutter.json")["runs"] if run["name"].startswith(kind)]
        for kind in ("exact", "released")
    }
    auroc, inside, error = (
        {kind: [figure(run) for run in found] for kind, found in runs.items()}
        for figure in (
            lambda run: run["interpret"][OWN]["auroc"],
            lambda run: run["interpret"][OWN]["energy_inside"],
            lambda run: run["evaluations"][run["reported"]]["top1_error"],
        )
    )
    exact, released = (", ".join(f"{a:.2f}" for a in auroc[kind]) for kind in runs)
    assert (
        f"an AUROC of {exact} (three seeds)" in findings
        and f"profile it is {released}," in findings
    )
    assert all(run["interpret"]["reliance"]["verdict"] == "used" for run in runs["exact"])
    ours, theirs = mean(error["exact"]), mean(error["released"])
    assert theirs < ours and f"mean error ({theirs:.1f}%, against {ours:.1f}%)" in findings
    assert all(one < other for one, other in zip(inside["exact"], inside["released"], strict=True))


def test_spurious_shapes(findings):
    runs = kept("spurious_vgg.json")["runs"]
    chance = 100 * (1 - 1 / 10)
    for run in runs:
        low, high = run["evaluations"][run["reported"]]["top1_interval"]
        assert low < chance < high
    outside = {
        source: [100 * (1 - run["interpret"]["localisation"][source]["energy"]) for run in runs]
        for source in ("integrated_gradients", "random")
    }
    shown, random = outside.values()
    assert f"{min(shown):.0f} to {max(shown):.0f}% of its mass" in findings
    assert f"of a random map's {min(random):.0f} to {max(random):.0f}%" in findings
    ours = [run["interpret"]["information"] for run in runs if run["name"].startswith("ours")]
    assert max(each["contrast"] for each in ours) < 0.12 and "our map, nearly flat" in findings


def test_the_readme_s_summary(readme):
    decorative = maps_of("cifar10_vgg.json", "vgg_aib_qt_0")
    used = maps_of("cifar10_wrn.json", "wrn_aib_qt_0")
    assert [maps["reliance"]["verdict"] for maps in (decorative, used)] == ["decorative", "used"]
    changes, costs = (abs(cost(maps)) for maps in (decorative, used))
    assert f"accuracy changes by {changes:.2f} points." in readme
    assert f"another image's map costs {costs:.1f} points" in readme
    assert maps_of("cifar10_wrn.json", "wrn_abn_0")["reliance"]["verdict"] == "decorative"
    errors = errors_by_name("cifar10_maps.json")
    price = errors["price_and_noise_0.1"] - errors["deeper_cutout_16"]
    assert f"shut off sky and grass, for {price:.1f} points of error." in readme
    shapes = [run["interpret"]["localisation"] for run in small_network("paper_attention")]
    own, centre = (mean(each[source]["auroc"] for each in shapes) for source in ("own", "centre"))
    assert f"AUROC {own:.2f}, against {centre:.2f}; three seeds)" in readme
    before, after = (
        mean(run["evaluations"]["shapes test"]["top1_error"] for run in small_network(kind))
        for kind in ("paper_attention", "guided_price_and_noise")
    )
    assert f"bring the error from {before:.1f} to {after:.1f}%" in readme


def test_the_figures_in_the_note_on_price_and_noise_are_those_of_its_runs():
    note, maps = kept("cifar10_maps.json")["note"], "cifar10_maps.json"
    errors = errors_by_name(maps)
    passed = {
        name: 100 * maps_of(maps, name)["information"]["energy_passed"]
        for name in ("deeper_with_a_price", "price_and_noise_0.1", "price_and_noise_0.05")
    }
    alone, tenth, twentieth = passed.values()
    control = errors["deeper_cutout_16"]
    for words in (
        f"it lets {alone:.1f}% of the energy pass",
        f"it lets {tenth:.0f}% pass",
        f"for {errors['price_and_noise_0.1'] - control:.1f} points of error",
        f"costs {errors['price_and_noise_0.05'] - control:.1f} points, lets {twentieth:.0f}% pass",
        f"right on {maps_of(maps, 'price_and_noise_0.3')['accuracy']:.0f}% only",
    ):
        assert words in note
