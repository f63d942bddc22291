"""Reading tables: the files people have, what is guessed about them, and a sentence for each thing that is wrong."""

import gzip
import io
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundrec.ids import IdIndex
from boundrec.ratings import Ratings
from boundrec.table_files import TableFile
from boundrec.tables import Columns, as_ids_of, read_ids, read_pairs, read_ratings


def read(content, header=None, **columns):
    said = []
    table = read_ratings(TableFile("f", content, header), Columns(**columns), said.append)
    return table, said


def rows(table):
    return list(zip(table.users.column().tolist(), table.items.column().tolist(), table.ratings.tolist(), strict=True))


PLAIN = [(1, "a", 4.0), (2, "b", 3.5)]


def as_parquet():
    buffer = io.BytesIO()
    pl.DataFrame({"User ID": [1, 2], "movie_id": ["a", "b"], "Stars": [4.0, 3.5]}).write_parquet(buffer)
    return buffer.getvalue()


FILES = {
    "CSV": b"user,item,rating\n1,a,4\n2,b,3.5\n",
    "no line end": b"user,item,rating\n1,a,4\n2,b,3.5",
    "byte order mark": b"\xef\xbb\xbfuser,item,rating\n1,a,4\n2,b,3.5\n",
    "byte order mark and quotes": b'\xef\xbb\xbf"user","item","rating"\n"1","a","4"\n"2","b","3.5"\n',
    "CRLF": b"user,item,rating\r\n1,a,4\r\n2,b,3.5\r\n",
    "TSV": b"user\titem\trating\n1\ta\t4\n2\tb\t3.5\n",
    "semicolons": b"user;item;rating\n1;a;4\n2;b;3.5\n",
    "spaces": b"user, item, rating\n 1, a, 4\n 2, b, 3.5 \n",
    "empty lines": b"\n\nuser,item,rating\n1,a,4\n\n2,b,3.5\n\n\n",
    "other columns": b"id,when,userId,movieId,x,rating\n9,2020,1,a,,4\n8,2021,2,b,,3.5\n",
    "another order": b"rating,item,user\n4,a,1\n3.5,b,2\n",
    "no header": b"1,a,4\n2,b,3.5\n",
    "NDJSON": b'{"user":1,"item":"a","rating":4}\n\n{"rating":3.5,"user":"2","item":"b","more":[1]}\n',
    "Parquet": as_parquet(),
}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", FILES)
def test_every_kind_of_file_gives_the_same_ratings(name, packed, tmp_path):
    path = tmp_path / "ratings"
    path.write_bytes(gzip.compress(FILES[name]) if packed else FILES[name])
    table = read_ratings(TableFile.open(path), Columns(), lambda said: None)
    assert rows(table) == PLAIN


def test_standard_input_is_read_as_a_file_is(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(FILES["CRLF"]))))
    table = read_ratings(TableFile.open(Path("-")), Columns(), lambda said: None)
    assert rows(table) == PLAIN


def test_quotes_may_hold_separators_line_ends_and_quotes():
    table, _ = read(b'user,item,rating\n1,"a, ""b""\r\nc",4\n')
    assert rows(table) == [(1, 'a, "b"\r\nc', 4.0)]


def test_it_says_which_columns_it_guessed_and_only_those():
    _, said = read(FILES["other columns"], user="userId")
    assert said == ["Columns: item is 'movieId', rating is 'rating'."]
    assert read(FILES["CSV"], user="user", item="item", rating="rating")[1] == []
    assert "no header: user is column 1, item is column 2, rating is column 3" in read(FILES["no header"])[1][0]


def test_columns_without_names_are_numbered_and_a_header_may_be_a_number():
    table, _ = read(b"a,1,4\nb,2,3.5\n", user="2", item="1")
    assert rows(table) == PLAIN
    table, _ = read(b"1,2,3\n1,a,4\n2,b,3.5\n", header=True, user="1", item="2", rating="3")
    assert rows(table) == PLAIN
    with pytest.raises(ValueError, match="line 1 has 'rating', not a rating"):
        read(FILES["CSV"], header=False)


def test_ids_stay_text_unless_all_of_them_are_plain_whole_numbers():
    table, _ = read(b"user,item,rating\n007,1,4\n7,2,3\n")
    assert rows(table) == [("007", 1, 4.0), ("7", 2, 3.0)]
    assert table.items.distinct.ids.dtype == np.int64


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.data())
def test_numbers_and_their_text_are_the_same_ids(numbers, data):
    strange = data.draw(st.sampled_from(["x", "007", "1.0", "+1", ""]))
    index = IdIndex.encode(numbers)[0]
    text = [str(one) for one in numbers]
    assert as_ids_of(index, text) == numbers
    assert as_ids_of(IdIndex.encode([*text, strange])[0], text) == text
    assert as_ids_of(IdIndex.encode([*numbers, "x"])[0], [*text, "x"]) == [*numbers, "x"]


def test_times_are_numbers_or_dates():
    content = b"user,item,rating,when\n1,a,4,2020-03-01\n2,b,3,2019-12-31\n"
    assert np.diff(read(content, time="when")[0].times) == -61 * 86_400 * 10**6
    assert read(content.replace(b"2020-03-01", b"7").replace(b"2019-12-31", b"5.5"), time="when")[0].times.tolist() == [
        7,
        5.5,
    ]
    with pytest.raises(ValueError, match="line 3 has 'later', not a time, in the column 'when'"):
        read(content.replace(b"2019-12-31", b"later"), time="when")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "f is empty."),
        (b"\n \n", "f is empty."),
        (b"user,item,rating\n", "f has a header and no rows."),
        (b"user,item,rating\n\n\n", "f has a header and no rows."),
        (b"a,b,c\nx,y,z\n", "f: no column looks like the user's; name it with --user. There are: a, b, c."),
        (b"user,item,rating\n1,a,4\n\n1,b,good\n", "f: line 4 has 'good', not a rating, in the column 'rating'."),
        (b'user,item,rating\n1,"a\nb",4\n1,b,good\n', "f: line 4 has 'good', not a rating, in the column 'rating'."),
        (b"user,item,rating\n1,a,x\n1,b,y\n", "f: line 2 has 'x', not a rating, in the column 'rating' (1 more like it)."),  # noqa: E501
        (b"user,item,rating\n1,a,nan\n", "f: line 2 has 'nan', not a rating, in the column 'rating'."),
        (b"user,item,rating\n1,a,4\n1,b\n", "f: line 3 has no rating in the column 'rating'."),
        (b"user,item,rating\n1,a,4\n,b,4\n", "f: line 3 has no user in the column 'user'."),
        (b"user,item,rating\n1,a,4\n1,b,4,5\n", "f cannot be read: line 3 has 4 fields, but there are 3 columns."),
        (b"user,item,rating\n1,\xe9,4\n", "f cannot be read: line 2 is not UTF-8 text (b'\\xe9'): save it as UTF-8."),
        (b'user,item,rating\n1,"a,4\n', "f cannot be read: is there a quote that is never closed?"),
        (b'{"user":1,"item":2,"rating":3}\n\n{"user":1,"item":3,"rating":"x"}\n',
         "f: line 3 has 'x', not a rating, in the column 'rating'."),
        (b'{"user":1,"item":2,"rating":3}\n{oops\n', "f cannot be read: line 2 is not a JSON object."),
        (b'[{"user":1,"item":2,"rating":3}]', "f is one JSON array: write one object a line (NDJSON)."),
        (b"\xff\xfeu\0s\0e\0r\0", "f is UTF-16 text: save it as UTF-8."),
        (b"\x89PNG\r\n\x1a\n\0\0\0\0", "f is no table: give CSV, TSV, Parquet or NDJSON, each gzipped or not."),
    ],
)  # fmt: skip
def test_what_is_wrong_gets_one_sentence_with_its_place(content, sentence):
    with pytest.raises(ValueError) as wrong:  # noqa: PT011
        read(content)
    assert str(wrong.value) == sentence


def test_a_damaged_parquet_file_and_a_column_that_holds_no_numbers_are_refused():
    with pytest.raises(ValueError, match="f cannot be read: "):
        read(as_parquet()[:-10])
    with pytest.raises(ValueError, match="row 2 has 'x', not a rating"):
        read(frame_bytes({"user": [1, 2], "item": [1, 2], "rating": ["3", "x"]}))
    with pytest.raises(ValueError, match=r"the column 'rating' holds List\(Int64\), not numbers"):
        read(frame_bytes({"user": [1, 2], "item": [1, 2], "rating": [[3], [4]]}))


def frame_bytes(columns):
    buffer = io.BytesIO()
    pl.DataFrame(columns).write_parquet(buffer)
    return buffer.getvalue()


def test_a_gzip_file_that_was_cut_off_is_refused(tmp_path):
    path = tmp_path / "ratings.csv.gz"
    path.write_bytes(gzip.compress(FILES["CSV"])[:-9])
    with pytest.raises(ValueError, match=r"ratings\.csv\.gz is a gzip file that is cut off or damaged"):
        TableFile.open(path)


def test_files_that_are_not_there_and_folders_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no file .*missing\.csv"):
        TableFile.open(tmp_path / "missing.csv")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        TableFile.open(tmp_path)


def test_a_column_that_is_not_there_is_answered_with_those_that_are():
    with pytest.raises(ValueError, match=r"f has no column 'stars' \(--rating\)\. There are: user, item, rating\."):
        read(FILES["CSV"], rating="stars")


def test_ratings_outside_the_bounds_are_refused_with_the_first_place():
    table, _ = read(b"user,item,rating\n1,a,4\n\n1,b,9\n2,b,0\n")
    table.check_bounds(0, 9)
    table.check_bounds(None, None)
    with pytest.raises(ValueError, match=r"2 of 3 ratings lie outside the bounds 1 to 5 \(first: 9 in line 4\)"):
        table.check_bounds(1, 5)
    with pytest.raises(ValueError, match=r"1 of 3 ratings lie outside the bounds 1 to none \(first: 0 in line 5\)"):
        table.check_bounds(1, None)


REPEATED = b"user,item,rating\n1,a,4\n2,a,1\n1,a,5\n2,b,2\n1,a,3\n"


def test_pairs_that_come_twice_are_refused_or_settled():
    table, _ = read(REPEATED)
    with pytest.raises(ValueError, match=r"2 ratings .* \(first: user 1, item 'a', line 2 and line 4\)"):
        table.settled("raise")
    assert rows(table.settled("last")) == [(2, "a", 1.0), (2, "b", 2.0), (1, "a", 3.0)]
    assert rows(table.settled("mean")) == [(2, "a", 1.0), (2, "b", 2.0), (1, "a", 4.0)]
    unique = read(FILES["CSV"])[0]
    assert unique.settled("raise") is unique


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 5)), min_size=1))
def test_settled_pairs_are_those_of_ratings_read_from_pairs(entries):
    content = "user,item,rating\n" + "".join(f"{user},{item},{rating}\n" for user, item, rating in entries)
    table, _ = read(content.encode())
    X, y = [entry[:2] for entry in entries], [entry[2] for entry in entries]
    for duplicates in ("last", "mean"):
        mine = table.settled(duplicates).to_ratings().to_pairs()
        theirs = Ratings.from_pairs(X, y, duplicates=duplicates).to_pairs()
        in_order = [np.lexsort(pairs.T) for pairs, _ in (mine, theirs)]
        np.testing.assert_array_equal(mine[0][in_order[0]], theirs[0][in_order[1]])
        np.testing.assert_allclose(mine[1][in_order[0]], theirs[1][in_order[1]])


def test_another_table_takes_the_kind_of_ids_of_the_first():
    words, _ = read(b"user,item,rating\n1,a,4\n2,7,3\n")
    numbers, _ = read(b"user,item,rating\n1,7,4\n2,8,3\n")
    assert numbers.with_ids_like(words.users.distinct, words.items.distinct).items.column().tolist() == ["7", "8"]
    back = words.with_ids_like(numbers.users.distinct, numbers.items.distinct)
    assert back.items.column().tolist() == ["a", 7]


def test_pairs_and_single_columns_of_ids_are_read_too():
    users, items, names = read_pairs(TableFile("f", b"userId,movieId\n1,a\n2,b\n"), Columns(), lambda said: None)
    assert (users.column().tolist(), items.column().tolist()) == ([1, 2], ["a", "b"])
    assert names == {"user": "userId", "item": "movieId"}
    assert read_ids(TableFile("f", b"whoever\n7\n8\n7\n"), "user", None, lambda said: None) == ["7", "8"]
    assert read_ids(TableFile("f", b"x,user\n7,u\n"), "user", None, lambda said: None) == ["u"]
