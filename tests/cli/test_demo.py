"""The parts of the demonstration: rival, measurements, bars, lists, messages and plot."""

import io
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from boundrec import MBMF, demo, metrics
from boundrec.baselines import MeanPredictor
from boundrec.cli import held_out
from boundrec.cli.held_out import measure, measure_trivial
from boundrec.report.plots import write_comparison
from boundrec.solvers import compiling
from film_sample import film_sample


@pytest.fixture(scope="module")
def films():
    return demo.Films.divided(film_sample(), seed=0)


@pytest.fixture(scope="module")
def fitted(films):
    models = {name: request.model() for name, request in demo.requests(n_factors=3, seed=0).items()}
    for name, model in models.items():
        demo.fit(model, films.training, name)
    return models


@pytest.fixture(scope="module")
def results(films, fitted):
    trial = films.trial()
    return measure_trivial(trial) + [measure(model, name, trial) for name, model in fitted.items()]


def console(**settings):
    return Console(file=io.StringIO(), highlight=False, **settings)


# --- comparison ---------------------------------------------------------------------------------------------


def test_the_trivial_rival_is_the_mean_and_two_shrunken_offsets(films):
    X, y = films.training.to_pairs()
    mean = sum(y) / len(y)
    of_item, of_user = defaultdict(list), defaultdict(list)
    for (_, item), rating in zip(X.tolist(), y, strict=True):
        of_item[item].append(rating - mean)
    item_offset = {item: sum(rest) / (len(rest) + 5) for item, rest in of_item.items()}
    for (user, item), rating in zip(X.tolist(), y, strict=True):
        of_user[user].append(rating - mean - item_offset[item])
    user_offset = {user: sum(rest) / (len(rest) + 5) for user, rest in of_user.items()}
    expected = [mean + user_offset[user] + item_offset[item] for user, item in X.tolist()]
    model = MeanPredictor().fit(X, y)
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-12)
    new = [[-1, 0], [0, -1], [10**6, 0], [-1, 10**6]]
    alone = [mean + item_offset[0], mean + user_offset[0], mean + item_offset[0], mean]
    np.testing.assert_allclose(model.predict(np.array(new)), alone, rtol=1e-12)


def test_a_result_holds_what_its_model_does(films, fitted, results):
    X, y = films.test.to_pairs()
    data = films.data
    everybody = np.array([[user, item] for user in range(data.n_users) for item in range(data.n_items)])
    for result in results[1:]:
        model = fitted[result.name]
        assert result.rmse == metrics.rmse(y, model.predict(X))
        assert result.mae == metrics.mae(y, model.predict(X))
        everything = model.predict(everybody)
        assert result.outside == metrics.out_of_range_share(everything, 0.5, 5)
        assert (result.reach[0], result.reach[-1]) == (everything.min(), everything.max())


def test_predictions_by_blocks_are_those_of_all_pairs_at_once(films, monkeypatch):
    trial = films.trial()
    users, items = trial.pairs
    assert sorted(zip(users.tolist(), items.tolist(), strict=True)) == [
        (user, item) for user in range(films.data.n_users) for item in range(films.data.n_items)
    ]
    monkeypatch.setattr(held_out, "RANDOM_PAIRS", 7)
    np.testing.assert_array_equal(trial.predict_pairs(lambda users, items: 100 * users + items), 100 * users + items)


def test_bounded_models_never_leave_the_bounds(results):
    assert [result.name for result in results] == ["mean + offsets", demo.PLAIN, demo.SCALE, demo.OWN]
    for result in results[2:]:
        assert result.outside == 0
        assert 0.5 <= result.reach[0] <= result.reach[-1] <= 5


def test_control_c_ends_the_demonstration_and_not_only_the_fit(films, monkeypatch):
    class Interrupting(MBMF):
        def fit(self, ratings, callback):
            def interrupt(sweep, objective, model):
                if sweep == 2:
                    raise KeyboardInterrupt

            return super().fit(ratings, callback=interrupt)

    with pytest.raises(KeyboardInterrupt):
        demo.fit(Interrupting(2, bounds=(0.5, 5), random_state=0), films.training, "mbmf")


# --- compiling ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiles", [True, False])
def test_the_time_of_compiling_is_told_only_when_it_happened(monkeypatch, compiles):
    monkeypatch.setattr(compiling._notes, "compiles", False)

    def prepare():
        compiling._notes.compiles = compiles
        return 12.3

    monkeypatch.setattr(demo, "compile_kernels", prepare)
    messages = console(width=100)
    demo._compile(messages)
    assert messages.file.getvalue() == ("Compiled the kernels in 12 s\n" if compiles else "")


# --- terminal -----------------------------------------------------------------------------------------------

BOUNDS = demo.BOUNDS
values = st.floats(*BOUNDS)


@given(st.tuples(values, values, values).map(sorted), st.integers(3, 80), st.booleans())
def test_a_bar_has_its_width_and_its_dot_between_its_ends(ends, width, plain):
    bar = demo.range_bar(*ends, width, plain)
    dot = "o" if plain else "●"
    assert len(bar) == width
    assert bar.count(dot) == 1
    drawn = bar.strip()
    assert " " not in drawn
    assert plain is bar.isascii()
    assert abs(bar.index(dot) - (ends[1] - 0.5) / 4.5 * (width - 1)) <= 0.5 + 1e-9
    assert abs(len(drawn) - 1 - (ends[2] - ends[0]) / 4.5 * (width - 1)) <= 1 + 1e-9


def test_a_bar_looks_as_it_should():
    assert demo.range_bar(0.5, 4, 5, 10, plain=False) == "├──────●─┤"
    assert demo.range_bar(1, 2, 4.5, 10, plain=True) == " |-o----| "


def test_only_encodings_with_the_signs_get_them():
    assert demo.can_print_bars("utf-8")
    assert demo.can_print_bars("cp437") is False  # it has the lines but no dot
    assert not demo.can_print_bars("ascii")
    assert not demo.can_print_bars("no such encoding")


def test_the_top_titles_are_the_best_of_those_not_rated(films, fitted):
    data, model = films.data, fitted[demo.OWN]
    user = 3
    top = demo.top_titles(model, films, user, n=5)
    rated = set(data.item[data.user == user].tolist())
    predictions = {
        data.item_names[item]: float(model.predict(np.array([[user, item]]))[0])
        for item in range(data.n_items)
        if item not in rated
    }
    best = sorted(predictions, key=lambda title: -predictions[title])[:5]
    assert [entry.title for entry in top] == best
    for entry in top:
        assert entry.prediction == pytest.approx(predictions[entry.title], rel=1e-12)
        assert 0.5 <= entry.lower <= entry.prediction <= entry.upper <= 5
    assert len({(entry.lower, entry.upper) for entry in top}) > 1  # each range is its own


def test_a_user_who_rated_nearly_all_gets_a_shorter_list(films, fitted):
    data = films.data
    user = int(np.bincount(data.user).argmax())
    unseen = data.n_items - int((data.user == user).sum())
    assert len(demo.top_titles(fitted[demo.OWN], films, user, n=data.n_items)) == unseen


def test_favourites_are_the_highest_ratings_the_newest_first(films):
    data = films.data
    own = np.flatnonzero(data.user == 4)
    order = sorted(own, key=lambda entry: (-data.rating[entry], -data.timestamp[entry]))
    assert demo.favourites(data, 4, n=3) == [data.item_names[data.item[entry]] for entry in order[:3]]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_list_fits_the_terminal_and_keeps_its_bars_whole(films, fitted, width):
    out = console(width=width)
    out.print(demo.titles_table(demo.top_titles(fitted[demo.OWN], films, 3), width, plain=True))
    lines = out.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert sum(line.count("|") == 2 and "o" in line.rpartition("..")[2] for line in lines) == 10


def test_the_table_of_results_fits_eighty_columns_uncut(results):
    out = console(width=80)
    out.print(demo.results_table(results))
    assert "…" not in out.file.getvalue()
    assert [name in out.file.getvalue() for name in demo.requests(2, 0)] == [True] * 3


def test_a_few_among_millions_do_not_become_zero():
    assert demo.percent(0.0167) == "1.67 %"
    assert demo.percent(1e-6) == "< 0.01 %"
    assert demo.percent(0) == "0.00 %"


# --- plot ---------------------------------------------------------------------------------------------------


def test_the_plot_is_a_png_that_grows_with_the_models(results, tmp_path):
    write_comparison(results, BOUNDS, 10, tmp_path / "plot.png")
    png = (tmp_path / "plot.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    assert (int.from_bytes(png[16:20]), int.from_bytes(png[20:24])) == (720, 690)
