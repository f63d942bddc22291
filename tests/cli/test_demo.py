"""The parts of the demonstration: rival, measurements, bars, lists, messages and picture."""

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
from boundrec.report.poster import _short
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
    return demo.trivial(films, trial) + [demo.judge(model, name, films, trial, 1.0) for name, model in fitted.items()]


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


def everybody(data):
    return np.array([[user, item] for user in range(data.n_users) for item in range(data.n_items)])


def ties_of_clipped_lists(predictions, seen):
    """Entries of the ten best unseen predictions of each user that equal another one's, by plain loops."""
    equal = entries = 0
    for row, rated in zip(predictions, seen, strict=True):
        ten = sorted((min(max(value, 0.5), 5.0) for value in row[~rated]), reverse=True)[:10]
        equal += sum(ten.count(value) > 1 for value in ten)
        entries += 10
    return equal / entries


def test_a_result_holds_what_its_model_does(films, fitted, results):
    X, y = films.test.to_pairs()
    data = films.data
    seen = np.zeros((data.n_users, data.n_items), bool)
    seen[tuple(films.training.to_pairs()[0].T)] = True
    for result in results[2:]:
        model = fitted[result.measured.name]
        assert result.measured.rmse == metrics.rmse(y, model.predict(X))
        assert result.measured.mae == metrics.mae(y, model.predict(X))
        everything = model.predict(everybody(data)).reshape(seen.shape)
        np.testing.assert_array_equal(result.everything, everything)
        assert result.outside == metrics.out_of_range_share(everything, 0.5, 5)
        assert result.tied == pytest.approx(ties_of_clipped_lists(everything, seen), abs=1e-12)


def test_all_predictions_are_those_of_every_user_with_every_film_whatever_the_blocks(films, monkeypatch):
    expected = np.add.outer(100.0 * np.arange(films.data.n_users), np.arange(films.data.n_items))
    for size in (1, 7, 10**6):
        monkeypatch.setattr(demo, "USERS_AT_A_TIME", size)
        np.testing.assert_array_equal(films.predict_all(lambda pairs: 100.0 * pairs[:, 0] + pairs[:, 1]), expected)


def test_clipping_makes_ties_and_lists_that_nobody_clips_have_none(films):
    rng, shape = np.random.default_rng(0), (films.data.n_users, films.data.n_items)
    inside = rng.uniform(0.6, 4.9, shape)
    measured = held_out.Measured("invented")
    assert demo.Shown.of(measured, inside, films)[2:] == (0, 0)
    above = demo.Shown.of(measured, 6 + inside, films)
    assert above.outside == 1
    assert 0.99 < above.tied <= 1  # who has seen all but nine films has a list of nine


def test_lists_are_judged_by_what_was_held_out_and_liked(films, fitted, results):
    X, y = films.test.to_pairs()
    liked = X[y >= films.training.to_pairs()[1].mean()]
    users = np.unique(liked[:, 0])
    for result in results[2:]:
        lists, _ = fitted[result.measured.name].recommend(users, 10)
        assert result.ndcg == pytest.approx(metrics.ndcg_at_k(liked[:, 0], liked[:, 1], users, lists, 10), rel=1e-12)


def test_who_is_in_the_table_and_that_the_bounded_one_never_leaves_the_scale(results):
    assert [one.measured.name for one in results] == ["mean + offsets", "popularity", demo.PLAIN, demo.BOUNDED]
    assert results[1].everything is None
    assert results[1].ndcg > 0
    assert results[-1].outside == 0
    assert 0.5 <= results[-1].everything.min() <= results[-1].everything.max() <= 5


def test_the_share_of_ratings_in_their_intervals_is_counted(films, fitted):
    X, y = films.test.to_pairs()
    model = fitted[demo.BOUNDED]
    inside = [
        low <= rating <= high for rating, (low, high) in zip(y, model.predict_quantiles(X, (0.1, 0.9)), strict=True)
    ]
    assert demo.coverage(model, films.test) == np.mean(inside)


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
    bar = demo.interval_bar(*ends, width, plain)
    dot = "o" if plain else "●"
    assert len(bar) == width
    assert bar.count(dot) == 1
    drawn = bar.strip()
    assert " " not in drawn
    assert plain is bar.isascii()
    assert abs(bar.index(dot) - (ends[1] - 0.5) / 4.5 * (width - 1)) <= 0.5 + 1e-9
    assert abs(len(drawn) - 1 - (ends[2] - ends[0]) / 4.5 * (width - 1)) <= 1 + 1e-9


def test_a_bar_looks_as_it_should():
    assert demo.interval_bar(0.5, 4, 5, 10, plain=False) == "├──────●─┤"
    assert demo.interval_bar(1, 2, 4.5, 10, plain=True) == " |-o----| "


def test_only_encodings_with_the_signs_get_them():
    assert demo.can_print_bars("utf-8")
    assert demo.can_print_bars("cp437") is False  # it has the lines but no dot
    assert not demo.can_print_bars("ascii")
    assert not demo.can_print_bars("no such encoding")


def test_the_top_titles_are_the_first_of_the_list_without_what_was_rated(films, fitted):
    data, model = films.data, fitted[demo.BOUNDED]
    user = 3
    top = demo.top_titles(model, films, user, n=5)
    rated = data.item[data.user == user].tolist()
    items = [item for item in model.recommend([user], data.n_items)[0][0].tolist() if item >= 0 and item not in rated]
    assert [entry.title for entry in top] == [data.item_names[item] for item in items[:5]]
    for entry, item in zip(top, items, strict=False):
        assert entry.raters == (data.item == item).sum()
        assert entry.prediction == model.predict([(user, item)])[0]
        assert [entry.low, entry.high] == model.predict_quantiles([(user, item)], (0.1, 0.9))[0].tolist()
        assert 0.5 <= entry.low < entry.prediction < entry.high <= 5


def test_a_user_who_rated_nearly_all_gets_a_shorter_list(films, fitted):
    data = films.data
    user = int(np.bincount(data.user).argmax())
    unseen = data.n_items - int((data.user == user).sum())
    assert len(demo.top_titles(fitted[demo.BOUNDED], films, user, n=data.n_items)) == unseen


def test_favourites_are_the_highest_ratings_the_newest_first(films):
    data = films.data
    own = np.flatnonzero(data.user == 4)
    order = sorted(own, key=lambda entry: (-data.rating[entry], -data.timestamp[entry]))
    assert demo.favourites(data, 4, n=3) == [data.item_names[data.item[entry]] for entry in order[:3]]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_list_fits_the_terminal_and_keeps_its_places_and_bars_whole(films, fitted, width):
    out = console(width=width)
    out.print(demo.titles_table(demo.top_titles(fitted[demo.BOUNDED], films, 3), width, plain=True))
    lines = out.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    rows = [line for line in lines if line.count("|") == 2 and "o" in line[line.index("|") :]]
    assert [int(line.split()[0]) for line in rows] == list(range(1, 11))


def test_what_is_said_fits_eighty_columns_uncut(films, results):
    out = console(width=80)
    demo._print_results(results, films, 0.8, out)
    text = out.file.getvalue()
    assert "…" not in text
    assert [name in text for name in demo.requests(2, 0)] == [True] * 2
    meanings = text.split("\n\n")[1].splitlines()
    assert [line[:2] for line in meanings] == ["  "] * 4  # none goes on to another line


def test_a_few_among_millions_do_not_become_zero():
    assert demo.percent(0.0167) == "1.67 %"
    assert demo.percent(1e-6) == "< 0.01 %"
    assert demo.percent(0) == "0.00 %"


# --- picture ------------------------------------------------------------------------------------------------


def test_the_picture_is_a_png_of_the_shape_that_people_post(films, fitted, results, tmp_path):
    top = demo.top_titles(fitted[demo.BOUNDED], films, 3)
    demo.poster(results, films, 3, top).write(tmp_path / "plot.png")
    png = (tmp_path / "plot.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    assert (int.from_bytes(png[16:20]), int.from_bytes(png[20:24])) == (1500, 945)


def test_the_picture_says_what_the_table_says(films, fitted, results, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("boundrec.report.poster.save", lambda canvas, file, kind: drawn.append(canvas))
    top = demo.top_titles(fitted[demo.BOUNDED], films, 3)
    demo.poster(results, films, 3, top).write(tmp_path / "plot.png")
    said = [text.get_text() for text in drawn[0].findobj(lambda one: hasattr(one, "get_text"))]
    for one in results:
        assert one.measured.name in said
        assert f"{one.ndcg:.3f}".lstrip("0") in said
    pairs = results[0].everything.size
    assert f"All {pairs:,} predictions, person × film" in said
    assert f"{demo.PLAIN}: {round(results[2].outside * pairs):,} outside" in said
    assert f"{demo.BOUNDED}: 0 outside" in said
    assert [f"rated by {entry.raters}" in said for entry in top] == [True] * 10
    assert "BayesianMBMF's list for user 104" in said


def test_a_long_title_is_cut_in_the_picture():
    assert _short("Amelie (Fabuleux destin d'Amélie Poulain, Le)", 12) == "Amelie (Fab…"
    assert _short("Twelve words", 12) == "Twelve words"
