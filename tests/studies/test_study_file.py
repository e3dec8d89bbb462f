import pytest

from kgprobe.errors import DataError, UsageError
from kgprobe.studies.claim_kinds import Place
from kgprobe.studies.fact_claims import HasProperties
from kgprobe.studies.study_file import PACKAGED, init_study, read_study

SMALL = """
title = "Mine"
graphs = ["umls", "data/odd name"]
[models.A]
ranks = "ranks/{graph}/a.parquet"
[models."B (new)"]
train = "complex"
settings = {dimension = 8}
[[claims]]
name = "first"
kind = "place"
graph = "odd name"
model = "A"
place = 1
alpha = 1
statement = "A is the best"
"""


def write(folder, text):
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_study_is_read(tmp_path):
    (tmp_path / "data" / "odd name").mkdir(parents=True)
    study = read_study(write(tmp_path, SMALL))
    assert study.title == "Mine"
    assert study.graphs == {"umls": "umls", "odd name": str(tmp_path / "data" / "odd name")}
    assert study.models["B (new)"].settings == {"dimension": 8}
    assert study.located(study.models["A"].ranks, "umls") == tmp_path / "ranks" / "umls" / "a.parquet"
    assert study.claims[0].graphs == ("odd name",)
    assert (study.seeds, study.level) == ((0, 1, 2), 0.95)


def test_problems_of_a_model_have_its_line(tmp_path):
    text = 'graphs = ["x"]\n[models.A]\ntitle = 1\n[models."B.1"]\ntrain = 3\n[openworld.models.C]\nranks = 4\n'
    with pytest.raises(DataError) as caught:
        read_study(write(tmp_path, text))
    shown = [problem.split(";")[0] for problem in caught.value.problems]
    assert "line 2: unknown key 'title' in [models.A]" in shown
    assert "line 4: train of [models.B.1] must be a text, not 3" in shown
    assert "line 6: ranks of [openworld.models.C] must be a text, not 4" in shown


def test_claims_of_the_same_name_are_an_error_even_where_the_first_is_wrong(tmp_path):
    claim = '[[claims]]\nname = "twice"\nkind = "plce"\n'
    with pytest.raises(DataError) as caught:
        read_study(write(tmp_path, 'graphs = ["x"]\n[models.A]\n' + claim + claim))
    assert "line 6: claim 'twice': another claim has this name" in caught.value.problems


def test_settings_of_a_graph_replace_those_of_all_graphs(tmp_path):
    text = SMALL.replace("[[claims]]", "settings_on.umls = {dimension = 4, epochs = 2}\n[[claims]]", 1)
    (tmp_path / "data" / "odd name").mkdir(parents=True)
    model = read_study(write(tmp_path, text)).models["B (new)"]
    assert model.settings_for("umls") == {"dimension": 4, "epochs": 2}
    assert model.settings_for("odd name") == {"dimension": 8}


def test_ten_lines_are_enough(tmp_path):
    text = "\n".join(['graphs = ["mine"]', "[models.A]", 'model = "a.npz"', "[models.B]", 'model = "b.npz"'])
    study = read_study(write(tmp_path, text))
    assert (study.title, list(study.models), study.claims) == ("study", ["A", "B"], ())


def test_all_problems_are_reported_with_their_lines(tmp_path):
    text = (
        SMALL.replace("title =", "titel =")
        .replace('train = "complex"', 'train = "complexx"')
        .replace("place = 1", "place = 7")
    )
    with pytest.raises(DataError) as caught:
        read_study(write(tmp_path, text))
    shown = str(caught.value)
    assert "study.toml: not a valid study" in shown
    assert "line 2: unknown key 'titel'; nearest: title" in shown
    assert "unknown model 'complexx'; nearest: complex" in shown
    assert "line 9: claim 'first': place must be a whole number from 1 to 2, not 7" in shown


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("graphs = []", "graphs must be a list of names or directories"),
        ('graphs = ["a/x", "b/x"]', "graphs names 'x' twice"),
        ('graphs = ["x"]\nseeds = [1, 1]', "seeds must be a list of different whole numbers from 0 on"),
        ('graphs = ["x"]\nalphas = [1, "2"]', "alphas must be a list of different numbers"),
        ('graphs = ["x"]\nmetrics = ["MRX"]', "unknown metric"),
        ('graphs = ["x"]\nlevel = 95', "level must be a number between 0 and 1, not 95"),
        ('graphs = ["x"]\nmodels = 5', "models must be a table, such as [models.NAME], not 5"),
        ('graphs = ["x"]\n[models.A]\ntrain = "rotate"\nranks = "r"', "has several of train, model and ranks"),
        (
            'graphs = ["x"]\n[models.A]\nsettings = {dimension = 3}',
            "settings of [models.A] must be a table beside train",
        ),
        ('graphs = ["x"]\n[models.A]\nranks = 3', "ranks of [models.A] must be a text, not 3"),
        ('graphs = ["x"]', "there is no model"),
        ('graphs = ["x"]\n[models.A]\nunavailable = {y = "oom"}', "graph 'y' is not in the study"),
        (
            'graphs = ["x"]\n[models.A]\ntrain = "rotate"\nsettings_on = {y = {epochs = 3}}',
            "graph 'y' is not in the study",
        ),
        ('graphs = ["x"]\n[models.A]\ntrain = "rotate"\nsettings_on = {x = 3}', "must be tables of settings by graph"),
        ('graphs = ["x"]\n[models.A]\nsettings_on = {x = {epochs = 3}}', "settings_on of [models.A] must stand beside"),
        ('graphs = ["x"]\n[models.A]\nunavailable = {x = 3}', "unavailable of [models.A] must be reasons by graph"),
        ('graphs = ["x"]\nclaims = 3\n[models.A]', "claims must be tables, each below a line [[claims]]"),
        ('graphs = ["x"]\n[models.A]\n[openworld]\ndensity = 2', "density of [openworld] must be between 0 and 1"),
        ('graphs = ["x"]\n[models.A]\n[openworld.models.B]\ntrain = "rotate"', "[openworld] has models but no world"),
        ('graphs = ["x"]\n[models.A]\n[openworld]\nworld = "w"\n[openworld.models.B]', "models without train: B"),
        ("graphs = [", "not TOML"),
    ],
)
def test_a_wrong_study_is_refused(tmp_path, line, problem):
    with pytest.raises(DataError) as caught:
        read_study(write(tmp_path, line))
    assert problem in str(caught.value)


def test_two_claims_of_one_name_are_refused(tmp_path):
    with pytest.raises(DataError, match="not a valid study") as caught:
        read_study(write(tmp_path, SMALL + SMALL[SMALL.index("[[claims]]") :]))
    assert "line 17: claim 'first': another claim has this name" in str(caught.value)


@pytest.mark.parametrize("name", PACKAGED)
def test_a_packaged_study_is_written_and_read(tmp_path, name):
    study = read_study(init_study(name, tmp_path / "study.toml"))
    assert len(study.claims) > 5
    with pytest.raises(UsageError, match="the file exists"):
        init_study(name, tmp_path / "study.toml")
    init_study(name, tmp_path / "study.toml", force=True)


def test_the_paper_is_encoded():
    """Every example and finding that the issue of the paper's study names is a claim."""
    from pathlib import Path

    import kgprobe.studies.study_file as module

    study = read_study(Path(module.__file__).parent / "probe-paper.toml")
    claims = {claim.name: claim for claim in study.claims}
    complex_places = claims["rq1-complex-fb15k-237"]
    assert isinstance(complex_places, Place)
    assert [one.place for one in complex_places.at] == [4, 3, 2]
    assert {claim.section.rpartition(" ")[2] for claim in study.claims if "finding" in claim.section} == set("1234")
    assert sum(isinstance(claim, HasProperties) for claim in study.claims) == 8
    assert {graph for claim in study.claims for graph in getattr(claim, "graphs", ())} == set(study.graphs)


def test_an_unknown_packaged_study_is_refused(tmp_path):
    with pytest.raises(UsageError, match="unknown study 'probe'"):
        init_study("probe", tmp_path / "study.toml")
