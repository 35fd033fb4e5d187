"""The plan of a sweep: its runs and the errors that it finds before any is trained."""

import json
from dataclasses import replace

import pytest

import aib
from aib.sweep.grid import Grid, parse_grid, quick_grids
from aib.sweep.plan import make_plan, read_plan
from tests.helpers import RESOLVED_BASE, SWEEP_BASE, sweep_plan


def test_each_knob_varies_alone_and_a_shared_point_is_one_run():
    runs = sweep_plan("beta=1e-3,1e-2,0.1", "K=8,32", "Q=2,20,100", seeds=(3, 4)).runs
    points = {
        "beta=0.001": {"beta": 0.001},
        "base": {},  # beta=0.01, K=32 and Q=20 are all what the preset has
        "beta=0.1": {"beta": 0.1},
        "K=8": {"latent_dim": 8},
        "Q=2": {"num_anchors": 2},
        "Q=100": {"num_anchors": 100},
    }
    assert [(run.name, run.settings) for run in runs] == [
        (f"{name},seed={seed}", RESOLVED_BASE.updated(**changes, seed=seed))
        for seed in (3, 4)
        for name, changes in points.items()
    ]


def test_a_product_crosses_the_grids_and_names_do_not_depend_on_their_order():
    one = sweep_plan("beta=0.1,0.01", "K=8,32", product=True)
    other = sweep_plan("K=8,32", "beta=0.1,0.01", product=True)
    expected = {"K=8,beta=0.1,seed=3", "beta=0.1,seed=3", "K=8,seed=3", "base,seed=3"}
    assert {run.name for run in one.runs} == {run.name for run in other.runs} == expected
    [found] = [run.settings for run in one.runs if run.name == "K=8,beta=0.1,seed=3"]
    assert found == RESOLVED_BASE.updated(latent_dim=8, beta=0.1)


def test_values_have_the_settings_type():
    assert parse_grid("K=64, 128") == Grid("latent_dim", (64, 128))
    assert parse_grid("clip=none,2") == Grid("clip", (None, 2.0))
    assert parse_grid("augment=true,no") == Grid("augment", (True, False))
    assert parse_grid("modulation=gate,none") == Grid("modulation", ("gate", None))
    assert parse_grid("beta=1e-2,0.01,.01") == Grid("beta", (0.01,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("beta", "KNOB=VALUE"),
        ("beta=", "KNOB=VALUE"),
        ("beta=1,,2", "KNOB=VALUE"),
        ("bta=1", "no knob 'bta'; there are K, Q, "),
        ("seed=1,2", "--seeds repeats"),
        ("evaluator=true,false", "no knob 'evaluator'"),
        ("milestones=1,2", "no knob 'milestones'"),
        ("devices=1,2", "no knob 'devices'"),
        ("beta=much", "beta must be a number, not 'much'"),
        ("K=1e3", "K must be an integer or None, not '1e3'"),
        ("holdout=0,0.2", "could not be compared: set it for all runs with --holdout"),
        ("augment=2", "augment must be true or false, not '2'"),
        ("schedule=linear", "schedule must be one of 'steps', 'cosine', not 'linear'"),
    ],
)
def test_a_bad_grid_is_an_error(text, message):
    with pytest.raises(aib.AibError, match=message):
        parse_grid(text)


def test_a_cutout_larger_than_the_images_is_an_error():
    with pytest.raises(aib.AibError, match="a cut-out of 64 does not suit images of 32 x 32"):
        make_plan("mine", SWEEP_BASE, [parse_grid("cutout=0,64")])
    plain = replace(SWEEP_BASE, augment=False)  # no cut-out then, of whatever size
    assert len(make_plan("mine", plain, [parse_grid("cutout=0,64")]).runs) == 2
    assert len(make_plan("mine", SWEEP_BASE, [parse_grid("cutout=0,62")]).runs) == 2


@pytest.mark.parametrize(
    ("changes", "grids", "message"),
    [
        ({"model": "tiny_aib"}, ["Q=2,20"], "tiny_aib has no anchors: Q changes nothing"),
        ({"model": "tiny"}, ["beta=0,1"], "tiny has no latent: beta changes nothing"),
        ({"model": "wrn_abn"}, ["modulation=gate,residual"], "no aib attention: modulation"),
        ({}, ["lambda_area=1,5"], "tiny_aib_qt has no mask: lambda_area changes nothing"),
        ({}, ["area=0.2,0.3"], "tiny_aib_qt has no mask: area changes nothing"),
        ({"model": "tiny_aib_masked"}, ["modulation=gate,residual"], "no aib attention: mod"),
        ({}, ["K=8", "latent_dim=16"], r"K \(latent_dim\) has two grids"),
        ({}, ["data=shapes:count=40,folder:nowhere"], "nowhere is not a folder"),
        ({}, ["data=shapes:count=40,shapes:cluter=2"], "no option 'cluter'"),
        ({"evaluator": True}, ["beta=0.1,0.2"], "a sweep trains models"),
        ({}, ["model=tiny_aib_qt,tiny_ab"], "no model 'tiny_ab'"),
        ({"nodes": 2}, ["beta=0.1,0.2"], "one device: leave out --devices and --nodes"),
        ({"model": "tiny"}, ["beta_warmup=0,1"], "tiny has no latent: beta_warmup"),
        *(
            ({"model": "tiny_aib"}, [knob], f"no anchors: {knob.partition('=')[0]} changes nothing")
            for knob in ("lambda_q=0,1", "lambda_c=0,1", "revive_anchors=yes,no")
        ),
    ],
)
def test_a_plan_that_makes_no_sense_is_an_error(changes, grids, message):
    with pytest.raises(aib.AibError, match=message):
        make_plan("mine", replace(SWEEP_BASE, **changes), list(map(parse_grid, grids)))


@pytest.mark.parametrize(
    ("model", "grids", "product", "points"),
    [
        ("tiny_aib_masked", ["propose=none,separate"], False, "base and propose=separate"),
        ("tiny_aib", ["model=tiny_aib,tiny_aib_qt", "K=none,32"], False, "base and K=32"),
        ("tiny_aib", ["model=tiny_aib,vgg_aib", "K=none,256"], True, "model=vgg_aib and .*K=256"),
    ],
)
def test_a_model_that_two_points_would_train_is_an_error(model, grids, product, points):
    base = replace(SWEEP_BASE, model=model)
    with pytest.raises(aib.AibError, match=f"{points}.* are the same model: leave one of them"):
        make_plan("mine", base, list(map(parse_grid, grids)), product=product)


def test_the_weight_of_the_area_may_vary_for_a_masked_model():
    masked = replace(SWEEP_BASE, model="tiny_aib_masked")
    assert len(make_plan("mine", masked, [parse_grid("lambda_area=1,5")]).runs) == 2


def test_defaults_of_the_model_family_are_resolved():
    made = make_plan("mine", SWEEP_BASE, [parse_grid("K=32,64")], seeds=2)
    assert made.base == RESOLVED_BASE and made.seeds == (3, 4)
    assert [run.name for run in made.runs][:2] == ["base,seed=3", "K=64,seed=3"]
    # In a grid, too: "none" is no model without a latent, but the family's K.
    made = make_plan("mine", SWEEP_BASE.updated(latent_dim=8), [parse_grid("K=none,8,32")])
    assert made.grids == (Grid("latent_dim", (32, 8)),)
    # Compared models keep their own.
    made = make_plan("mine", SWEEP_BASE, [parse_grid("model=tiny_aib_qt,tiny_aib,vgg_aib")])
    assert {run.settings.options.latent_dim for run in made.runs} == {None}
    assert [run.name for run in made.runs][1] == "model=tiny_aib,seed=3"
    # So do profiles and data sets, which differ in the modulation and in the family.
    for text in ("profile=paper,released", "data=shapes:count=40,shapes:count=50"):
        made = make_plan("mine", SWEEP_BASE, [parse_grid(text)])
        assert {run.settings.options.modulation for run in made.runs} == {None}


def test_quick_has_three_values_around_those_of_the_preset():
    beta, size, anchors = quick_grids(RESOLVED_BASE)
    assert beta == Grid("beta", (0.001, 0.01, 0.1))
    assert size == Grid("latent_dim", (8, 32, 128))
    assert anchors == Grid("num_anchors", (2, 20, 100))
    assert len(make_plan("mine", SWEEP_BASE, quick=True).runs) == 7
    without = make_plan("mine", replace(SWEEP_BASE, model="tiny_aib"), quick=True)
    assert [grid.knob for grid in without.grids] == ["beta", "K"]  # it has no anchors
    with pytest.raises(aib.AibError, match="around the preset's own values, but it has none"):
        quick_grids(replace(RESOLVED_BASE, beta=0.0))


def test_run_names_are_valid_folder_names_and_unique():
    names = [run.name for run in sweep_plan("init=runs/a,runs:a,../runs,a%2Fb,a/b").runs]
    assert len(set(names)) == 5 and not any("/" in name or ":" in name for name in names)


def test_a_plan_is_read_back(tmp_path):
    made = sweep_plan("beta=0.1,1", "clip=none,2", product=True, seeds=(3, 4))
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "sweep.json.partial").write_text('{"sche')  # of a killed sweep
    made.write(tmp_path / "s")
    assert read_plan(tmp_path / "s") == made
    stored = json.loads((tmp_path / "s" / "sweep.json").read_text())
    assert stored["runs"]["beta=1,clip=2,seed=4"]["beta"] == 1.0
    assert stored["environment"]["torch"]
    (tmp_path / "s" / "sweep.json").write_text(json.dumps(stored | {"schema": 9}))
    with pytest.raises(aib.AibError, match="another version of aib"):
        read_plan(tmp_path / "s")


def test_a_plan_may_be_replaced_by_one_with_the_same_base(tmp_path):
    sweep_plan("beta=0.1,1").write(tmp_path / "s")
    sweep_plan("beta=0.1,1,2", "K=8,16", seeds=(5, 6)).write(tmp_path / "s")
    with pytest.raises(aib.AibError, match=r"other settings: lr was 0\.1 and is now 0\.3"):
        sweep_plan("beta=0.1", base=RESOLVED_BASE.updated(lr=0.3)).write(tmp_path / "s")
    assert len(read_plan(tmp_path / "s").grids) == 2
    # As on resume, a run's settings of the machine may change; and the first seed.
    sweep_plan("beta=0.1", base=RESOLVED_BASE.updated(workers=0, seed=9)).write(tmp_path / "s")
    assert read_plan(tmp_path / "s").base.workers == 0


def test_a_folder_that_is_not_a_sweep_is_not_written_to(tmp_path):
    file = tmp_path / "thesis.tex"
    file.write_text("years of work")
    for path in (tmp_path, file):
        with pytest.raises(aib.AibError, match="exists and is not a sweep"):
            sweep_plan("beta=0.1").write(path)
    assert list(tmp_path.iterdir()) == [file] and file.read_text() == "years of work"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 1, "base": {}}', '{"schema": 9}'])
def test_a_damaged_plan_is_an_error(tmp_path, text):
    (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(aib.AibError, match=r"sweep\.json"):
        read_plan(tmp_path)
