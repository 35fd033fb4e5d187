"""The results of studies as tables, for the terminal, the report and the docs.

Several runs stand side by side; they saw the same modified images.
"""

from collections.abc import Mapping

from aib.figures.table import NOTHING, Table, number, table_of, without
from aib.interpret.measure import subset_size
from aib.interpret.measures.localisation import outside
from aib.interpret.results import Study
from aib.interpret.studies import MEASURES

Studies = Mapping[str, Study]  # by label of the run


def all_tables(studies: Studies) -> list[Table]:
    """The tables that `aib interpret` prints, of studies by name: those that have rows. Without the
    column of runs where there is one run."""
    made = [overview(studies)]
    made += [table for measure in MEASURES for table in measure.tables(studies)]
    made = [table for table in made if table.rows]
    return made if len(studies) > 1 else [without(table, "run") for table in made]


def overview(studies: Studies) -> Table:
    """One row per run: accuracy, localisation of the maps, verdict."""
    rows = []
    for label, study in studies.items():
        own, gradcam = own_localisation(study), study.localisation.get("gradcam")
        rows.append(
            {
                "run": label,
                "model": study.model,
                "profile": study.profile or NOTHING,
                "accuracy %": f"{study.accuracy:.2f}",
                "own map's AUROC": number(own.get("auroc"), 3),
                "its mass on background %": outside(own.get("energy_inside")),
                "Grad-CAM's mass there %": outside(gradcam.energy.value if gradcam else None),
                "map is": study.verdict.name if study.verdict else NOTHING,
            }
        )
    noise = ", no noise"
    if any(study.mask for study in studies.values()):
        noise = ": no noise but one fixed field in closed pixels of masked models"
    note = f"Deterministic passes{noise}."
    if any(study.localisation for study in studies.values()):
        note += f" AUROC and mass on {subset_size(studies)} images, as in the table of maps below."
    return table_of("Accuracy and maps", rows, note)


def own_localisation(study: Study) -> Mapping[str, float | None]:
    """The model's own maps against the masks, on the images that all kinds of maps share.

    Over all images where nothing was compared: a page states each metric once.
    """
    found = study.localisation.get("own")
    if found is None:
        return study.localisation_own_all_images
    return {"energy_inside": found.energy.value, "auroc": found.auroc.value}


def randomisation_text(study: Study) -> str | None:
    """The result of the layer randomisation; None where it was not run."""
    changes = study.randomised_layers
    if not changes:
        return None
    pearson = changes[-1].pearson
    r = "undefined (the maps are flat or NaN)" if pearson is None else f"{pearson:.2f}"
    return (
        f"With all {len(changes)} layers randomised, the map's correlation with the original map "
        f"is {r}; a value near 1 would mean that it shows the image and nothing learnt."
    )
