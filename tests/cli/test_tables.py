"""Reading tables: the files people have, what is guessed about them, and a sentence for each thing that is wrong."""

import csv
import gzip
import io
import os
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from boundrec.cli import table_lines
from boundrec.cli.rating_tables import ColumnNames, as_ids_of, read_ids, read_pairs, read_ratings
from boundrec.cli.table_files import TableFile
from boundrec.data.ids import IdIndex
from boundrec.data.ratings import Ratings


def read(content, header=None, **columns):
    said = []
    table = read_ratings(TableFile("f", content, header), ColumnNames(**columns), said.append)
    return table, said


def rows(table):
    return list(zip(table.users.column().tolist(), table.items.column().tolist(), table.values.tolist(), strict=True))


def rows_of(ratings):
    """The same of settled ratings, in the order of the file."""
    (pairs, values), order = ratings.to_pairs(), np.argsort(ratings.rows)
    return [(*pair, value) for pair, value in zip(pairs[order].tolist(), values[order].tolist(), strict=True)]


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


A_NUMBER = ": write a number, or name another with --rating."
NOTHING = ": fill it in, or name another with --rating."


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", FILES)
def test_every_kind_of_file_gives_the_same_ratings(name, packed, tmp_path):
    path = tmp_path / "ratings"
    path.write_bytes(gzip.compress(FILES[name]) if packed else FILES[name])
    table = read_ratings(TableFile.open(path), ColumnNames(), lambda said: None)
    assert rows(table) == PLAIN


def test_standard_input_is_read_as_a_file_is(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(FILES["CRLF"]))))
    table = read_ratings(TableFile.open(Path("-")), ColumnNames(), lambda said: None)
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
    with pytest.raises(ValueError, match="line 3 has 'nan', not a time, in the column 'when'"):
        read(content.replace(b"2020-03-01", b"7").replace(b"2019-12-31", b"nan"), time="when")
    table = {"user": [1, 2], "item": [1, 2], "rating": [3, 4], "when": [[1], [2]]}
    with pytest.raises(ValueError, match=r"the column 'when' holds List\(Int64\), not times"):
        read(frame_bytes(table), time="when")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "f is empty."),
        (b"\n \n", "f is empty."),
        (b"user,item,rating\n", "f has a header and no rows."),
        (b"user,item,rating\n\n\n", "f has a header and no rows."),
        (b"a,b,c\nx,y,z\n", "f: no column looks like the user's; name it with --user. There are: a, b, c."),
        (b"user,item,rating\n1,a,4\n\n1,b,good\n", "f: line 4 has 'good', not a rating, in the column 'rating'" + A_NUMBER),  # noqa: E501
        (b'user,item,rating\n1,"a\nb",4\n1,b,good\n', "f: line 4 has 'good', not a rating, in the column 'rating'" + A_NUMBER),  # noqa: E501
        (b"user,item,rating\n1,a,x\n1,b,y\n", "f: line 2 has 'x', not a rating, in the column 'rating' (1 more like it)" + A_NUMBER),  # noqa: E501
        (b"user,item,rating\n1,a,nan\n", "f: line 2 has 'nan', not a rating, in the column 'rating'" + A_NUMBER),
        (b"user,item,rating\n1,a,4\n1,b,\n", "f: line 3 has no rating in the column 'rating'" + NOTHING),
        (b"user,item,rating\n1,a,4\n1,b\n", "f cannot be read: line 3 has 2 fields, but there are 3 columns."),
        (b"user,item,rating\n1,a,4\n,b,4\n", "f: line 3 has no user in the column 'user'."),
        (b"user,item,rating\n1,a,4\n1,b,4,5\n", "f cannot be read: line 3 has 4 fields, but there are 3 columns."),
        (b"user,item,rating\n1,\xe9,4\n", "f cannot be read: line 2 is not UTF-8 text (b'\\xe9'): save it as UTF-8."),
        (b'user,item,rating\n1,"a,4\n', "f cannot be read: line 2 opens a quote that is never closed."),
        (b'user,item,rating\n1,5" disc,4\n', "f cannot be read: is there a quote within a field? Put such a field in quotes, and write its own twice."),  # noqa: E501
        (b"user,item,rating\n1,a,4\n1,b,1e200\n", "f: line 3 has '1e200', too large to be squared, in the column 'rating': divide all by a constant."),  # noqa: E501
        (b"user,item,rating\r1,a,4\r", "f has line ends of old Macs (CR): save it with LF or CR LF."),
        (b"user,item,rating\n1,a,4\r1,b,4\n", "f cannot be read: line 2 has 5 fields, but there are 3 columns."),
        (b"user,item,rating\n1," + 140_000 * b"a" + b",4\n1,b,x\n", "f: line 3 has 'x', not a rating, in the column 'rating'" + A_NUMBER),  # noqa: E501
        (b'"a\nb":"c":"d"\n', "f: no column looks like the user's; name it with --user. There are: 'a\\nb:\"c\":\"d\"'."),  # noqa: E501
        (b",", "f: line 1 has neither names nor values: begin with those."),
        (b"\n|\n", "f: line 2 has neither names nor values: begin with those."),
        (b'""', "f: line 1 has neither names nor values: begin with those."),
        ("\N{NO-BREAK SPACE}".encode(), "f: line 1 has neither names nor values: begin with those."),
        (b'{"user":1,"item":2,"rating":3}\n\n{"user":1,"item":3,"rating":"x"}\n',
         "f: line 3 has 'x', not a rating, in the column 'rating'" + A_NUMBER),
        (b'{"user":1,"item":2,"rating":3}\n{oops\n', "f cannot be read: line 2 is not a JSON object."),
        (b'{"user":1,"item":2,"rating":3}\n{"user":1,"item":2,"rating":NaN}\n', "f cannot be read: line 2 is not a JSON object."),  # noqa: E501
        (b'{"user":1,"item":2,"rating":3}\n{"user":"\xff","item":2,"rating":3}\n',
         "f cannot be read: line 2 is not UTF-8 text (b'\\xff'): save it as UTF-8."),
        (b'{"user":1,"item":2,"rating":3}\n{}\n', "f: line 2 has no rating in the column 'rating'" + NOTHING),
        (b'[{"user":1,"item":2,"rating":3}]', "f is one JSON array: write one object a line (NDJSON)."),
        (b"\xff\xfeu\0s\0e\0r\0", "f is UTF-16 text: save it as UTF-8."),
        (b"\x89PNG\r\n\x1a\n\0\0\0\0", "f is no table: give CSV, TSV, Parquet or NDJSON, each gzipped or not."),
    ],
)  # fmt: skip
def test_what_is_wrong_gets_one_sentence_with_its_place(content, sentence):
    with pytest.raises(ValueError) as wrong:  # noqa: PT011
        read(content)
    assert str(wrong.value) == sentence


EXTRA = {  # what stands in the second row, and how many fields it has
    "too many": (b"9,hello, world,3,4,2021", 6),
    "one too many at the end": (b"9,hello,3,x,2021,", 6),
    "too few": (b"9,3,x,2021", 4),
    "a word alone": (b"9", 1),
    "blanks": (b"   ", 1),
    "a separator in stray quotes": (b'9,a "b, c" d,3,4,2021', 6),
    "a separator after a blank and a quote": (b'9, "b, c",3,4,2021', 6),
    "an extra field with a line end": (b'9,hello,3,4,"a\nb",2021', 6),
    "too many beside quotes": (b'9,"hello, world",3,4,5,2021', 6),
}


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b""], ids=["LF", "CR LF", "nothing"])
@pytest.mark.parametrize("name", EXTRA)
def test_a_row_of_another_length_is_refused_whatever_columns_are_read(name, ending, tmp_path):
    row, count = EXTRA[name]
    content = b'user,item,rating,note,when\n1,"a\n\nb",4,,2020\n\n' + row + ending
    path = tmp_path / "f"
    path.write_bytes(content)
    fields = "1 field" if count == 1 else f"{count} fields"
    for source in (content, path):
        file = TableFile("f", source)
        for reader in (
            lambda: read_ratings(file, ColumnNames(), lambda said: None),  # noqa: B023
            lambda: read_pairs(file, ColumnNames("when", "user"), lambda said: None),  # noqa: B023
            lambda: read_ids(file, "user", None, lambda said: None),  # noqa: B023
        ):
            with pytest.raises(ValueError, match=f"^f cannot be read: line 6 has {fields}, but there are 5 columns.$"):
                reader()


def test_rows_of_the_right_length_are_read_however_they_are_quoted():
    lines = [
        b'\xef\xbb\xbf"user",item,"rating",note\r',
        b'1,"a, ""b""\nc",4,\r',
        b"\r",
        b'2,"|",3,"x"',
        b'"3","d""",5,"""\n"""',
        b"",
    ]
    file = TableFile("f", b"\n".join(lines))
    table = read_ratings(file, ColumnNames(), lambda said: None)
    assert rows(table) == [(1, 'a, "b"\nc', 4.0), (2, "|", 3.0), (3, 'd"', 5.0)]


def test_a_row_of_another_length_is_found_far_down_and_at_the_edges_of_blocks(monkeypatch):
    plain, quoted = b"1,a,3,x\n", b'2,"a, ""b""\n",4,"\n"\n'
    for block in (7, 30, 64, 1 << 20):
        monkeypatch.setattr("boundrec.cli.table_lines.BLOCK", block)
        for body in (plain * 50, quoted * 50, (plain + quoted) * 25):
            content = b"user,item,rating,note\n" + body
            assert table_lines.uneven_row(content, ",", 4) is None
            line = content.count(b"\n") + 1
            for bad in (b"1,a,3,x,y", b"1,a,3\n", b'1,"a,b",3\n'):
                found = table_lines.uneven_row(content + bad + b"\n" + plain, ",", 4)
                assert found == f"line {line} has {5 if b'y' in bad else 3} fields, but there are 4 columns."


FIELDS = st.one_of(
    st.sampled_from(["", "a", '"', '""', ",", "\n", "\r\n", 'a"b', '"a"', "a,b", " "]), st.text(max_size=4)
)


@given(st.lists(st.lists(FIELDS, min_size=1, max_size=4), min_size=1, max_size=6), st.integers(1, 12), st.booleans())
def test_rows_are_those_of_pythons_own_reader(table, block, every):
    buffer = io.StringIO(newline="")
    csv.writer(buffer, quoting=csv.QUOTE_ALL if every else csv.QUOTE_MINIMAL).writerows(table)
    content = buffer.getvalue().encode()
    found = [[field.removesuffix(b"\r").decode() for field in row.fields] for row in table_lines.rows(content, ",")]
    assert found == [[field.removesuffix("\r") for field in row] for row in table]
    width = len(table[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("boundrec.cli.table_lines.BLOCK", block)
        uneven = [row for row in table if len(row) != width]
        assert (table_lines.uneven_row(content, ",", width) is None) == (not uneven)


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        (b'{"user":2,"user":3,"item":1,"rating":4}', "has the key 'user' more than once: give it once."),
        (b'{"user":2,"us\\u0065r":3,"item":1,"rating":4}', "has the key 'user' more than once: give it once."),
        (b'{"user":[1],"item":1,"rating":4}', "has a list as 'user': give text or a number."),
        (b'{"user":1,"item" : {"a":1},"rating":4}', "has an object as 'item': give text or a number."),
        (b'{"user":"\\ud800","item":1,"rating":4}', "has half a character (a lone surrogate) in 'user': correct it."),
        (b'{"user":1,"item":"a\\uDE00","rating":4}', "has half a character (a lone surrogate) in 'item': correct it."),
        (b'{"user":"\\\\ud83d\\ude00","item":1,"rating":4}',
         "has half a character (a lone surrogate) in 'user': correct it."),
        (b'{"user":1,"item":' + 100_000 * b"[" + 100_000 * b"]" + b',"rating":4}',
         "is nested too deeply: leave out what is no rating."),
        (b'{"user":1,"more":' + 100_000 * b"[" + b"\n", "is nested too deeply: leave out what is no rating."),
    ],
)  # fmt: skip
@pytest.mark.parametrize("first", [b"", b'{"user":1,"item":2,"rating":3}\n\n'], ids=["first", "third"])
def test_a_json_object_that_is_not_one_plain_rating_is_refused_with_its_line(first, line, wrong):
    last = b'{"user":"\\ud83d\\ude00","item":"[x]","rating":3,"more":[{"user":1}]}\n'
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        read(first + line + b"\n" + last, user="user", item="item", rating="rating")
    assert str(refused.value) == f"f cannot be read: line {3 if first else 1} {wrong}"


def test_json_objects_may_hold_whatever_else_they_like():
    content = (
        b'\xef\xbb\xbf{"user":"\\ud83d\\ude00","item":"[1]","rating":3,"more":[{"user":"\\ud800"}],"more":2}\n'
        b'{"item":"rating","rating":4,"user":"{","x":"\\u003c"}\n'
    )
    assert rows(read(content)[0]) == [("\N{GRINNING FACE}", "[1]", 3.0), ("{", "rating", 4.0)]


def test_a_damaged_parquet_file_and_a_column_that_holds_no_numbers_are_refused():
    with pytest.raises(ValueError, match="f cannot be read: "):
        read(as_parquet()[:-10])
    with pytest.raises(ValueError, match="row 2 has 'x', not a rating"):
        read(frame_bytes({"user": [1, 2], "item": [1, 2], "rating": ["3", "x"]}))
    with pytest.raises(ValueError, match=r"the column 'rating' holds List\(Int64\), not numbers"):
        read(frame_bytes({"user": [1, 2], "item": [1, 2], "rating": [[3], [4]]}))


@pytest.mark.parametrize(
    ("ids", "answer"),
    [
        (pl.Series([[1], [2]]), r"f: the column 'user' holds List\(Int64\), not ids; name another with --user\."),
        (pl.Series([{"a": 1}, {"a": 2}]), "the column 'user' holds Struct"),
        (pl.Series([timedelta(1), timedelta(2)]), "the column 'user' holds Duration"),
        (pl.Series([b"a", b"\xff"]), r"f: row 2 has b'\\xff', not UTF-8 text, in the column 'user'\."),
        (pl.Series([1.0, None]), "row 2 has no user"),
        (pl.Series([1.5, float("nan")]), "row 2 has no user"),
        (pl.Series([None, None]), "row 1 has no user"),
    ],
)
def test_columns_of_parquet_files_that_are_no_ids_are_refused(ids, answer):
    with pytest.raises(ValueError, match=answer):
        read(frame_bytes({"user": ids, "item": [1, 2], "rating": [3, 4]}))


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (pl.Series([7.0, 8.0]), [7, 8]),
        (pl.Series([7.5, 8.0]), ["7.5", "8.0"]),
        (pl.Series([b"a", b"b"]), ["a", "b"]),
        (pl.Series(["a", "b"], dtype=pl.Categorical), ["a", "b"]),
        (pl.Series([7, 2**100], dtype=pl.Int128), ["7", str(2**100)]),
        (pl.Series([date(2020, 1, 1), date(2021, 1, 1)]), ["2020-01-01", "2021-01-01"]),
    ],
)
def test_other_columns_of_parquet_files_are_ids(given, found):
    table, _ = read(frame_bytes({"user": given, "item": [1, 2], "rating": [3, 4]}))
    assert table.users.column().tolist() == found


def test_maps_and_broken_text_in_a_parquet_file_are_refused():
    pairs = pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int64()))
    starts, letters = np.array([0, 1, 2], np.int32), b"a\xff"
    broken = pa.StringArray.from_buffers(2, pa.py_buffer(starts.tobytes()), pa.py_buffer(letters))
    for users, answer in ((pairs, "the column 'user' holds "), (broken, "f cannot be read: .*UTF-8")):
        buffer = io.BytesIO()
        parquet.write_table(pa.table({"user": users, "item": [1, 2], "rating": [3, 4]}), buffer)
        with pytest.raises(ValueError, match=answer):
            read(buffer.getvalue())


def test_a_parquet_file_on_which_polars_panics_is_refused_and_the_panic_is_not_shown(monkeypatch, capfd):
    def panic(_):
        os.write(2, b"thread panicked")
        raise pl.exceptions.PanicException("range end index out of range")

    monkeypatch.setattr(pl.LazyFrame, "collect", panic)
    with pytest.raises(ValueError, match=r"^f cannot be read: it is damaged\.$"):
        read(as_parquet())
    assert capfd.readouterr().err == ""


def test_damaged_parquet_files_are_refused_or_read_and_never_more(capfd):
    whole = as_parquet()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(100):
        damaged = bytearray(whole)
        damaged[rng.integers(4, len(whole))] = rng.integers(256)
        try:
            read(bytes(damaged))
        except ValueError:
            refused += 1
    assert refused > 10
    assert capfd.readouterr().err == ""


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


@pytest.mark.parametrize("name", ["a*b", "a?b", "a[x]b", b"a\xffb"])
@pytest.mark.parametrize("kind", ["CSV", "NDJSON", "Parquet"])
def test_the_name_of_a_file_is_no_pattern_and_may_be_no_text(name, kind, tmp_path):
    (tmp_path / "axb").write_bytes(FILES[kind])
    path = tmp_path / os.fsdecode(name)
    path.write_bytes(FILES[kind])
    assert rows(read_ratings(TableFile.open(path), ColumnNames(), lambda said: None)) == PLAIN


def test_a_column_that_is_not_there_is_answered_with_those_that_are():
    with pytest.raises(ValueError, match=r"f has no column 'stars' \(--rating\)\. There are: user, item, rating\."):
        read(FILES["CSV"], rating="stars")


def test_ratings_outside_the_bounds_are_refused_with_the_first_place():
    table, _ = read(b"user,item,rating\n1,a,4\n\n1,b,9\n2,b,0\n")
    table = table.settled("raise")
    table.check_bounds((0, 9))
    table.check_bounds((None, None))
    with pytest.raises(ValueError, match=r"2 of 3 ratings lie outside the bounds 1 to 5 \(first: 9 in line 4\)"):
        table.check_bounds((1, 5))
    with pytest.raises(ValueError, match=r"1 of 3 ratings lie outside the bounds 1 to none \(first: 0 in line 5\)"):
        table.check_bounds((1, None))


REPEATED = b"user,item,rating\n1,a,4\n2,a,1\n1,a,5\n2,b,2\n1,a,3\n"


def test_pairs_that_come_twice_are_refused_or_settled():
    table, _ = read(REPEATED)
    with pytest.raises(ValueError, match=r"2 ratings .* \(first: user 1, item 'a', line 2 and line 4\)"):
        table.settled("raise")
    assert rows_of(table.settled("last").ratings) == [(2, "a", 1.0), (2, "b", 2.0), (1, "a", 3.0)]
    assert rows_of(table.settled("mean").ratings) == [(2, "a", 1.0), (2, "b", 2.0), (1, "a", 4.0)]
    unique = read(FILES["CSV"])[0]
    assert rows_of(unique.settled("raise").ratings) == PLAIN


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 5)), min_size=1))
def test_settled_pairs_are_those_of_ratings_read_from_pairs(entries):
    content = "user,item,rating\n" + "".join(f"{user},{item},{rating}\n" for user, item, rating in entries)
    table, _ = read(content.encode())
    X, y = [entry[:2] for entry in entries], [entry[2] for entry in entries]
    for duplicates in ("last", "mean"):
        mine = table.settled(duplicates).ratings.to_pairs()
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
    pairs = read_pairs(TableFile("f", b"userId,movieId\n1,a\n2,b\n"), ColumnNames(), lambda said: None)
    assert (pairs.users.column().tolist(), pairs.items.column().tolist()) == ([1, 2], ["a", "b"])
    assert pairs.names == {"user": "userId", "item": "movieId"}
    assert read_ids(TableFile("f", b"whoever\n7\n8\n7\n"), "user", None, lambda said: None) == ["7", "8"]
    assert read_ids(TableFile("f", b"x,user\n7,u\n"), "user", None, lambda said: None) == ["u"]


@pytest.mark.parametrize("key", ["rating", "item", "unread"])
def test_a_number_too_large_for_json_is_told_with_its_line(key):
    content = b'{"user":1,"item":2,"rating":3,"unread":4}\n' + b'{"user":1,"item":7,"rating":3,"unread":4}\n'
    start = content.rindex(f'"{key}":'.encode()) + len(key) + 3
    with pytest.raises(ValueError, match=f"^f cannot be read: line 2 has a number too large to be read in '{key}'"):
        read(content[:start] + b"1e999" + content[start + 1 :])


def test_a_nul_byte_in_a_table_is_told_with_its_line():
    with pytest.raises(ValueError, match=r"^f: line 3 has a NUL byte, which belongs in no table: correct it\.$"):
        read(b"user,item,rating\n1,a,4\n1,\0,3\n")


def test_a_first_line_whose_quotes_hide_columns_is_told():
    file = TableFile("f", b'"aG\t"b"\t"\xe5"\n"4"\t"i2"\t"1"\n', False)
    with pytest.raises(ValueError, match="f cannot be read: line 1 is not UTF-8 text"):
        read_pairs(file, ColumnNames(), print)
