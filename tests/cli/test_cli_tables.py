"""The tables of evaluate, compare and tune: what is trivial, what failed, and what was finished before Ctrl-C."""

import json
from collections import Counter, defaultdict

import numpy as np
import polars as pl
import pytest
from rating_files import write_ratings

import boundrec
from boundrec import metrics
from boundrec.baselines import first_unseen
from boundrec.top_n import Seen

QUICK = ["--sweeps", 2]


@pytest.fixture(scope="module")
def ratings(tmp_path_factory):
    return write_ratings(tmp_path_factory.mktemp("tables") / "ratings.csv")


@pytest.fixture(scope="module")
def parts(ratings):
    """Ratings to learn from and to be judged by, as files."""
    frame = pl.read_csv(ratings).sample(fraction=1, shuffle=True, seed=0)
    files = ratings.with_name("train.csv"), ratings.with_name("test.csv")
    for file, part in zip(files, (frame[:400], frame[400:]), strict=True):
        part.write_csv(file)
    return files


def failing(monkeypatch, *names, error=None):
    """The fits of these classes fail."""

    def fit(*_, **__):
        raise error or ValueError("the ratings are not to its taste.")

    for name in names:
        monkeypatch.setattr(getattr(boundrec, name), "fit", fit)


def lines_of(table):
    """The cells of each line of a printed table, by its first one."""
    head, _, *lines = table.split("\n\n")[0].splitlines()
    return {
        cells[0]: cells[1:] for cells in (line.replace("mean + offsets", "means").split() for line in [head, *lines])
    }


# --- what is trivial --------------------------------------------------------------------------------------------


def trivial_lists(train, n):
    """The lists of everybody by offsets and by popularity, in plain loops; ties in the order of the items."""
    rows = list(train.select("userId", "movieId", "rating").iter_rows())
    mean = sum(rating for *_, rating in rows) / len(rows)
    of_item, seen = defaultdict(list), defaultdict(set)
    for user, item, rating in rows:
        of_item[item].append(rating - mean)
        seen[user].add(item)
    offset = {item: sum(rest) / (len(rest) + 5) for item, rest in of_item.items()}
    count = Counter(item for _, item, _ in rows)
    for score in (offset, count):
        order = sorted(score, key=lambda item: -score[item])  # of_item and count have the order of the items
        yield {user: [item for item in order if item not in seen[user]][:n] for user in seen}


def test_offsets_and_popularity_have_every_figure_of_a_list(boundrec_command, parts):
    code, out, _ = boundrec_command(
        "evaluate", parts[0], "--test", parts[1], "--model", "mbmf", "--k", 2, *QUICK, "-n", 4, "--json"
    )
    assert code == 0
    train, test = map(pl.read_csv, parts)
    known = test.filter(
        pl.col("rating") >= train["rating"].mean(),
        pl.col("userId").is_in(train["userId"].unique()),
        pl.col("movieId").is_in(train["movieId"].unique()),
    )
    found = {result["model"]: result for result in json.loads(out)["results"]}
    assert list(found) == ["mean + offsets", "popularity", "mbmf"]
    for name, lists in zip(("mean + offsets", "popularity"), trivial_lists(train, 4), strict=True):
        users = sorted(set(known["userId"]))
        shown = [lists[user] + [None] * (4 - len(lists[user])) for user in users]
        held = known["userId"].to_list(), known["movieId"].to_list(), users, shown, 4
        assert found[name]["ndcg@4"] == pytest.approx(metrics.ndcg_at_k(*held))
        assert found[name]["recall@4"] == pytest.approx(metrics.recall_at_k(*held))
        assert found[name]["precision@4"] == pytest.approx(metrics.precision_at_k(*held))
        assert found[name]["mrr@4"] == pytest.approx(metrics.mrr(*held))
        assert found[name]["seconds"] >= 0
    assert found["mean + offsets"]["rmse"] > 0
    assert [found["popularity"][name] for name in ("rmse", "mae", "f1", "outside_bounds")] == [None] * 4


@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_a_printed_table_leaves_no_cell_empty(boundrec_command, ratings, tmp_path, command):
    more = ["--model", "mbmf"] if command == "evaluate" else ["--models", "mbmf", "-o", tmp_path / "plot.svg"]
    code, out, err = boundrec_command(command, ratings, *more, "--k", 2, *QUICK)
    assert code == 0
    lines = lines_of(out)
    assert set(lines) == {"model", "means", "popularity", "mbmf"}
    assert lines["popularity"][:4] == ["-"] * 4
    assert [len(cells) for name, cells in lines.items() if name != "model"] == [10] * 3
    assert all("." in cell for cell in lines["popularity"][4:] + lines["means"][4:])
    assert "it predicts no rating" in err


def test_a_model_file_is_measured_beside_what_is_trivial(boundrec_command, parts, tmp_path):
    for keep in ([], ["--keep-ratings"]):
        path = tmp_path / "model.safetensors"
        assert boundrec_command("fit", parts[0], "-o", path, "--model", "mbmf", "--k", 2, *QUICK, *keep)[0] == 0
        code, out, err = boundrec_command("evaluate", parts[1], "--fitted", path, "--json")
        assert code == 0
        found = {result["model"]: result for result in json.loads(out)["results"]}
        assert list(found) == [*(["mean + offsets"] if keep else []), "popularity", "mbmf"]
        assert ("--keep-ratings" in err) is not bool(keep)
    both = ["--model", "mbmf", "--k", 2, *QUICK, "--json"]
    again = json.loads(boundrec_command("evaluate", parts[0], "--test", parts[1], *both)[1])["results"]
    for result in again:
        del result["seconds"]
        assert result.items() <= found[result["model"]].items()


def test_lists_of_a_test_file_are_those_of_the_same_ratings_held_out(boundrec_command, ratings, tmp_path):
    frame = pl.read_csv(ratings).sort("timestamp")
    n_test = round(0.9 * len(frame))  # so many that some users and items are new
    whole, train, test = (tmp_path / name for name in ("whole.csv", "train.csv", "test.csv"))
    frame.write_csv(whole)  # sorted, so that ties come in the same order of items
    frame[:-n_test].write_csv(train)
    frame[-n_test:].write_csv(test)
    more = ["--bounds", "0.5", "5", "--model", "mbmf", "--k", 2, *QUICK, "--json"]
    by_time = json.loads(boundrec_command("evaluate", whole, "--by-time", "timestamp", "--share", 0.9, *more)[1])
    by_file = json.loads(boundrec_command("evaluate", train, "--test", test, *more)[1])
    assert by_time["test_ratings"] == by_file["test_ratings"] == n_test
    for held_out, other in zip(by_time["results"][:2], by_file["results"][:2], strict=True):
        assert held_out["ndcg@10"] == pytest.approx(other["ndcg@10"])


def test_the_first_unseen_items_are_those_of_the_order_without_what_was_rated():
    seen = Seen(np.array([0, 2, 2, 5]), np.array([1, 3, 0, 1, 2], np.int32))
    lists = first_unseen(np.array([3, 0, 1, 2]), seen, np.array([0, 1, 2]), 3)
    assert lists.tolist() == [[0, 2, -1], [3, 0, 1], [3, -1, -1]]


def test_tune_shows_what_is_trivial_as_well(boundrec_command, ratings):
    arguments = ["tune", ratings, "--model", "mbmf", "--k", "2,3", "--grid", "ridge=0.05", *QUICK]
    code, out, _ = boundrec_command(*arguments)
    assert code == 0
    lines = lines_of(out)
    assert lines["k"] == ["ridge", "RMSE", "MAE", "seconds"]
    assert lines["means"][0] == "-"
    assert float(lines["means"][1]) > 0
    found = json.loads(boundrec_command(*arguments, "--json")[1])
    assert [result["model"] for result in found["trivial"]] == ["mean + offsets"]


# --- what failed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [None, OverflowError("too large"), MemoryError(), RuntimeError("odd")])
def test_a_model_that_fails_is_a_row_and_the_others_go_on(boundrec_command, ratings, tmp_path, monkeypatch, error):
    failing(monkeypatch, "MF", error=error)
    plot = tmp_path / "plot.svg"
    code, out, err = boundrec_command("compare", ratings, "--models", "mf,mbmf", "--k", 2, *QUICK, "-o", plot)
    assert code == 0
    lines = lines_of(out)
    assert lines["mf"] == ["failed", *["-"] * 9]
    assert float(lines["mbmf"][0]) > 0
    told = {
        None: "not to its taste",
        OverflowError: "OverflowError: too large",
        MemoryError: "not enough memory",
        RuntimeError: "odd",
    }
    assert told[error and type(error)] in next(line for line in err.splitlines() if line.startswith("mf failed: "))
    assert "Traceback" not in err
    assert plot.exists()


def test_the_sentence_of_a_failure_is_in_the_json(boundrec_command, ratings, tmp_path, monkeypatch):
    failing(monkeypatch, "MF")
    plot = tmp_path / "plot.svg"
    _, out, _ = boundrec_command("compare", ratings, "--models", "mf,nmf", "--k", 2, *QUICK, "-o", plot, "--json")
    found = {result["model"]: result for result in json.loads(out)["results"]}
    assert found["mf"]["error"] == "the ratings are not to its taste."
    assert found["mf"]["rmse"] is None
    assert "error" not in found["nmf"]


def test_models_that_bounds_do_not_suit_are_rows_too(boundrec_command, ratings, tmp_path):
    more = ["--bounds", "0", "none", "--k", 2, *QUICK, "-o", tmp_path / "plot.svg"]
    code, out, err = boundrec_command("compare", ratings, "--models", "bmf,mf", *more)
    assert code == 0
    assert lines_of(out)["bmf"][0] == "failed"
    assert "bmf failed: " in err
    assert "needs both ends" in err


def test_only_where_all_fail_the_exit_code_says_so_after_the_table(boundrec_command, ratings, tmp_path, monkeypatch):
    failing(monkeypatch, "MF", "NMF")
    code, out, err = boundrec_command("compare", ratings, "--models", "mf,nmf", "-o", tmp_path / "plot.svg")
    assert code == 1
    assert lines_of(out)["means"][0] != "failed"
    assert err.splitlines()[-1].startswith("Error: No model could be fitted")
    assert (tmp_path / "plot.svg").exists()
    failing(monkeypatch, "MBMF")
    code, out, err = boundrec_command("tune", ratings, "--model", "mbmf", "--k", "2,3", "--grid", "ridge=0.05")
    assert code == 1
    assert lines_of(out)["2"] == ["0.05", "failed", "-", "-"]
    assert "boundrec fit" not in out
    assert err.splitlines()[-1].startswith("Error: No candidate could be fitted")


def test_settings_that_fail_are_rows_and_the_best_of_the_others_wins(boundrec_command, ratings):
    arguments = ["tune", ratings, "--model", "mbmf", "--k", "1,3,3", "--grid", "slack=0.5,1.2", *QUICK]
    code, out, err = boundrec_command(*arguments)
    assert code == 0
    assert [line.split() for line in out.splitlines() if "failed" in line] == [
        ["1", "0.5", "failed", "-", "-"],
        ["1", "1.2", "failed", "-", "-"],
        *[["3", "0.5", "failed", "-", "-"]] * 2,
    ]
    assert out.rstrip().endswith("--k 3 --sweeps 2 --set slack=1.2")
    assert "k=1 slack=1.2 failed: --k 1: give a whole number of at least 2." in err
    found = json.loads(boundrec_command(*arguments, "--json")[1])
    assert found["results"][0]["slack"] == 1.2
    assert found["results"][-1]["error"].startswith("--set slack=0.5: give a number of at least 1")


def test_a_plot_that_cannot_be_written_does_not_take_the_table_with_it(
    boundrec_command, ratings, tmp_path, monkeypatch
):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("boundrec.report.plots.save", full)
    code, out, err = boundrec_command("compare", ratings, "--models", "nmf", *QUICK, "-o", tmp_path / "plot.svg")
    assert code == 1
    assert "nmf" in lines_of(out)
    assert err.splitlines()[-1] == f"Error: No space left on device: {tmp_path / 'plot.svg'}"


# --- what was finished ------------------------------------------------------------------------------------------


def interrupt_in(monkeypatch, name, call=1):
    """Ctrl-C in a fit of this class: the first one, or a later one."""
    kind = getattr(boundrec, name)
    fit, calls = kind.fit, []

    def interrupted(self, *arguments, **settings):
        calls.append(1)
        if len(calls) >= call:
            raise KeyboardInterrupt
        return fit(self, *arguments, **settings)

    monkeypatch.setattr(kind, "fit", interrupted)


def test_ctrl_c_ends_a_comparison_with_what_is_finished(boundrec_command, ratings, tmp_path, monkeypatch):
    interrupt_in(monkeypatch, "NMF")
    plot = tmp_path / "plot.svg"
    code, out, err = boundrec_command("compare", ratings, "--models", "mf,nmf,mbmf", *QUICK, "-o", plot)
    assert code == 130
    assert set(lines_of(out)) == {"model", "means", "popularity", "mf"}
    assert "Interrupted: 1 of 3 are finished." in err
    assert plot.exists()


def test_ctrl_c_ends_a_search_with_the_best_so_far(boundrec_command, ratings, monkeypatch):
    interrupt_in(monkeypatch, "MBMF", call=3)
    arguments = ["tune", ratings, "--model", "mbmf", "--k", "2,3,4", "--grid", "ridge=0.05", *QUICK]
    code, out, err = boundrec_command(*arguments)
    assert code == 130
    assert set(lines_of(out)) == {"k", "2", "3", "means"}
    assert "boundrec fit" in out
    assert "Interrupted: 2 of 3 are finished." in err
    code, out, err = boundrec_command(*arguments)
    assert code == 130
    assert set(lines_of(out)) == {"k", "means"}


def test_the_command_that_tune_prints_reads_the_file_alike(boundrec_command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lines = [f"{user},{item},{rng.integers(1, 9) + 1234560 + 1 / 8}" for user in range(9) for item in range(7)]
    (tmp_path / "plain.csv").write_text("\n".join(lines))
    settings = ["--model", "mbmf", "--k", 2, "--grid", "ridge=0.1", *QUICK]
    code, out, err = boundrec_command("tune", "plain.csv", "--no-header", *settings)
    assert code == 0
    command = out.rstrip().splitlines()[-1]
    assert "--no-header" in command
    assert "--bounds 1234561.125 1234568.125" in command
    assert "--bounds 1234561.125 1234568.125" in err
    assert boundrec_command(*command.split()[1:])[0] == 0
