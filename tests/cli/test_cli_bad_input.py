"""Bad input to every command: one sentence, the right exit code, no traceback and no half file."""

import os
import resource
import signal
import subprocess
import sysconfig
import threading
from pathlib import Path

import pytest
from rating_files import write_ratings

import boundrec
from boundrec.files import whole_file

SCRIPT = Path(sysconfig.get_path("scripts")) / "boundrec"
QUICK = ["--k", "2", "--sweeps", "2"]


def sentence(stderr):
    """The one line that is no note, and starts with Error."""
    assert "Traceback" not in stderr
    lines = [line for line in stderr.strip().splitlines() if line.startswith("Error: ")]
    assert len(lines) == 1, stderr
    assert stderr.strip().endswith(lines[0])
    return lines[0]


def usage(stderr):
    assert "Traceback" not in stderr
    return " ".join(stderr.replace("│", " ").split())


@pytest.fixture(scope="module")
def ratings(tmp_path_factory):
    return write_ratings(tmp_path_factory.mktemp("good") / "ratings.csv")


@pytest.fixture(scope="module")
def model(ratings):
    path = ratings.with_name("model.safetensors")
    subprocess.run([SCRIPT, "fit", ratings, "-o", path, *QUICK], check=True, capture_output=True, timeout=300)
    return path


BAD_FILES = {
    "missing": (None, "There is no file"),
    "empty": (b"", "is empty."),
    "header only": (b"user,item,rating\n", "has a header and no rows."),
    "strange columns": (b"a,b,c\nx,y,z\n", "There are: a, b, c."),
    "text in ratings": (b"user,item,rating\n1,a,4\n1,b,four\n", "line 3 has 'four', not a rating"),
    "a rating left out": (b"user,item,rating\n1,a,4\n1,b,\n", "line 3 has no rating"),
    "not UTF-8": (b"user,item,rating\n1,\xe9,4\n", "line 2 is not UTF-8 text"),
    "a quote left open": (b'user,item,rating\n1,"a,4\n', "a quote that is never closed"),
    "a picture": (b"\x89PNG\r\n\x1a\n\0\0", "is no table"),
    "cut gzip": (b"\x1f\x8b\x08\0\0\0\0\0\0\0", "is a gzip file that is cut off or damaged"),
    "too many fields": (
        b"user,item,rating,when\n1,a,4,0\n9,hello, world,3,4,2021\n",
        "line 3 has 6 fields, but there are 4",
    ),
    "a rating too large": (b"user,item,rating\n1,a,4\n1,b,1e200\n", "line 3 has '1e200', too large to be squared"),
    "only a separator": (b",", "line 1 has neither names nor values"),
    "pairs twice": (b"user,item,rating\n1,a,4\n1,a,5\n", "pass --duplicates last or --duplicates mean"),
}


@pytest.mark.parametrize("name", BAD_FILES)
@pytest.mark.parametrize("command", ["fit", "evaluate", "compare", "tune", "report", "predict"])
def test_a_bad_table_ends_in_one_sentence(boundrec_command, model, tmp_path, command, name):
    content, answer = BAD_FILES[name]
    path = tmp_path / "bad"
    if content is not None:
        path.write_bytes(content)
    output = {"fit": ["-o", "m.safetensors"], "compare": ["-o", "p.png"], "report": ["-o", "r.html"]}.get(command, [])
    output = [str(tmp_path / one) if "." in one else one for one in output]
    arguments = [model, path] if command in ("report", "predict") else [path]
    if command == "predict" and name in ("text in ratings", "a rating left out", "a rating too large", "pairs twice"):
        pytest.skip("pairs need no ratings and may come twice")
    code, out, err = boundrec_command(command, *arguments, *output)
    assert (code, out) == (1, "")
    assert answer in sentence(err)
    assert {one.name for one in tmp_path.iterdir()} <= {"bad"}


@pytest.mark.parametrize("command", ["fit", "evaluate", "compare", "tune"])
def test_a_wrong_column_and_a_rating_out_of_bounds_are_answered(boundrec_command, ratings, tmp_path, command):
    output = {"fit": ["-o", tmp_path / "m.safetensors"], "compare": ["-o", tmp_path / "p.png"]}.get(command, [])
    code, _, err = boundrec_command(command, ratings, *output, "--rating", "stars")
    assert code == 1
    assert "has no column 'stars' (--rating). There are: userId, movieId, rating, timestamp." in sentence(err)
    code, _, err = boundrec_command(command, ratings, *output, "--bounds", "1", "5")
    assert code == 1
    assert "ratings lie outside the bounds 1 to 5 (first: 0.5 in line " in sentence(err)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["predict", "recommend", "similar", "info", "report", "evaluate"])
@pytest.mark.parametrize("content", [None, b"", b"not a model at all", b"\x08\0\0\0\0\0\0\0{}      "])
def test_a_bad_model_file_ends_in_one_sentence(boundrec_command, ratings, tmp_path, command, content):
    path = tmp_path / "bad.safetensors"
    if content is not None:
        path.write_bytes(content)
    more = {"predict": [ratings], "similar": ["7"], "report": [ratings, "-o", tmp_path / "r.html"]}.get(command, [])
    arguments = [ratings, "--fitted", path] if command == "evaluate" else [path, *more]
    code, out, err = boundrec_command(command, *arguments)
    assert (code, out) == (1, "")
    assert "bad.safetensors cannot be loaded: " in sentence(err)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("fit", "m.safetensors"),
        ("compare", "p.png"),
        ("report", "r.html"),
        ("predict", "p.csv"),
        ("recommend", "r.parquet"),
        ("similar", "s.ndjson"),
    ],
)
@pytest.mark.parametrize("place", ["missing", "file", "folder"])
def test_a_place_that_cannot_be_written_is_refused_before_any_work(
    boundrec_command, ratings, model, tmp_path, monkeypatch, command, name, place
):
    monkeypatch.setattr("boundrec.cli.table_files.TableFile.open", lambda *_: pytest.fail("a table was read"))
    monkeypatch.setattr("boundrec.load", lambda *_: pytest.fail("a model was read"))
    (tmp_path / "file").write_text("not a folder")
    output = tmp_path / place / name
    if place == "folder":
        output.mkdir(parents=True)
    arguments = {"fit": [ratings], "compare": [ratings], "recommend": [model], "similar": [model, "7"]}
    code, out, err = boundrec_command(command, *arguments.get(command, [model, ratings]), "-o", output)
    assert (code, out) == (1, "")
    assert "Cannot write the " in sentence(err)


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["fit", "RATINGS"], "--output"),
        (["fit", "RATINGS", "-o", "m", "--model", "best"], "best"),
        (["fit", "RATINGS", "-o", "m", "--bounds", "5", "1"], "the lower end must be below the upper one"),
        (["fit", "RATINGS", "-o", "m", "--bounds", "low", "high"], 'give two numbers, or "none" for an open end'),
        (["fit", "RATINGS", "-o", "m", "--k", "0"], "--k"),
        (["fit", "RATINGS", "-o", "m", "--k", "1"], "value: --k 1: give a whole number of at least 2"),
        (["fit", "RATINGS", "-o", "m", "--set", "ridge"], "write NAME=VALUE"),
        (["fit", "RATINGS", "-o", "m", "--set", "rigde=1"], "bayesian has no setting 'rigde'. There are: "),
        (["fit", "RATINGS", "-o", "m", "--set", "slack=0.5"], "slack=0.5: give a number of at least 1"),
        (["fit", "RATINGS", "-o", "m", "--duplicates", "first"], "first"),
        (["fit", "RATINGS", "-o", "m", "--bounds", "0", "none", "--model", "bmf"], "needs both ends"),
        (["evaluate", "RATINGS", "--share", "1.5"], "give a share above 0 and below 1"),
        (["evaluate", "RATINGS", "-n", "0"], "-n"),
        (["compare", "RATINGS", "--models", "mbmf,best"], "there is no model 'best'"),
        (["compare", "RATINGS", "--models", ","], "names no model"),
        (["compare", "RATINGS", "-o", "plot.bmp"], "the plot is a PNG, an SVG or a PDF"),
        (["tune", "RATINGS", "--k", "few"], "give whole numbers with commas between them"),
        (["tune", "RATINGS", "--grid", "ridge"], "write NAME=VALUE,VALUE"),
        (["tune", "RATINGS", "--grid", "rigde=1,2"], "bayesian has no setting 'rigde'"),
        (
            ["tune", "RATINGS", "--grid", "n_factors=4"],
            "--grid n_factors: this setting has an option of its own: pass --k.",
        ),
        (["tune", "RATINGS", "--sweeps", "3", "--grid", "max_iter=2,4"], "--grid max_iter: this setting has an option"),
        (
            ["fit", "RATINGS", "-o", "m", "-k", "3", "--set", "n_factors=2"],
            "--set n_factors: this setting has an option",
        ),
        (["evaluate", "RATINGS", "--set", "n_jobs=1"], "pass --threads."),
        (["recommend", "MODEL", "-o", "lists.xlsx"], "name it .csv"),
        (["recommend", "MODEL", "-o", "lists.csv", "--json"], "name the file .ndjson instead"),
        (["recommend", "MODEL", "7", "--users", "u.csv"], "not both"),
        (["recommend", "MODEL", os.fsdecode(b"7\xff")], "user '7\\udcff' is not UTF-8 text"),
        (["similar", "MODEL"], "IDS"),
        (["similar", "MODEL", "-12"], "No such option: -1. If it begins an id, write -- in front of all ids"),
        (["explain", "MODEL", "7", "-1"], "No such option: -1. If it begins an id, write -- in front of all ids"),
        (["predict", "MODEL"], "PAIRS"),
        (["guess"], "No such command"),
    ],
)
def test_what_is_asked_wrongly_ends_with_code_2(
    boundrec_command, ratings, model, tmp_path, monkeypatch, arguments, answer
):
    monkeypatch.chdir(tmp_path)
    there = {"RATINGS": ratings, "MODEL": model}
    code, out, err = boundrec_command(*(there.get(one, one) for one in arguments))
    assert (code, out) == (2, "")
    assert answer in usage(err)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["evaluate", "compare", "tune"])
def test_too_few_ratings_to_hold_some_out_are_told_with_the_option_that_mends_it(boundrec_command, tmp_path, command):
    path = tmp_path / "one.csv"
    path.write_text("user,item,rating\nann,tea,3\n")
    code, out, err = boundrec_command(command, path, "--bounds", "1", "5")
    assert (code, out) == (1, "")
    assert sentence(err).startswith("Error: --share 0.1 of 1 entries is 0; both parts need at least one.")


def test_an_item_that_the_model_does_not_know_has_no_neighbours(boundrec_command, model):
    code, out, err = boundrec_command("similar", model, "nobody")
    assert (code, out) == (1, "")
    assert sentence(err).startswith(
        "Error: The model does not know item 'nobody': pass the id of one that it was fitted"
    )


# --- full disks -------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("command", [["recommend"], ["info"], ["similar"]])
def test_a_full_disk_under_stdout_ends_in_one_sentence(model, command):
    more = ["film 03"] if command == ["similar"] else []
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([SCRIPT, *command, model, *more], stdout=full, stderr=subprocess.PIPE, timeout=120)
    assert done.returncode == 1
    assert sentence(done.stderr.decode()) == "Error: No space left on device"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_device_is_written_to_and_not_replaced(boundrec_command, model, ratings):
    before = os.stat("/dev/full")
    code, _, err = boundrec_command("recommend", model, "-o", "/dev/full")
    assert code == 1
    assert "No space left on device" in sentence(err)
    code, _, err = boundrec_command("fit", ratings, "-o", "/dev/full")
    assert code == 1
    assert "/dev/full is a device or a pipe" in sentence(err)
    assert os.stat("/dev/full").st_rdev == before.st_rdev


def small_files_only():
    """A limit on the size of files stands for a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("fit", "m.safetensors"),
        ("compare", "p.png"),
        ("report", "r.html"),
        ("recommend", "r.csv"),
        ("recommend", "r.parquet"),
    ],
)
def test_a_disk_that_fills_up_leaves_no_half_file(ratings, model, tmp_path, command, name):
    output = tmp_path / name
    output.write_text("what was there before")
    first = {"fit": [ratings, *QUICK], "compare": [ratings, "--models", "mbmf", *QUICK], "recommend": [model]}
    arguments = first.get(command, [model, ratings])
    done = subprocess.run(
        [SCRIPT, command, *arguments, "-o", output], capture_output=True, timeout=300, preexec_fn=small_files_only
    )
    assert done.returncode == 1
    assert "too large" in sentence(done.stderr.decode())
    assert output.read_text() == "what was there before"
    assert [one.name for one in tmp_path.iterdir()] == [output.name]


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["recommend", "info"])
def test_a_standard_output_that_was_cut_off_is_no_success(model, tmp_path, command, unbuffered):
    printed = tmp_path / "printed"
    with printed.open("wb") as file:
        file.write(b" " * 1900)  # so that a part of the results fits in
        file.flush()
        done = subprocess.run(
            [SCRIPT, command, model],
            stdout=file,
            stderr=subprocess.PIPE,
            timeout=300,
            preexec_fn=small_files_only,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert printed.stat().st_size == 2000
    assert done.returncode == 1
    assert sentence(done.stderr.decode()) == "Error: File too large"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_messages_that_cannot_be_told_do_not_end_the_work(model):
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([SCRIPT, "recommend", model, "nobody"], stdout=subprocess.PIPE, stderr=full, timeout=120)
        assert done.returncode == 0
        assert done.stdout.count(b"\n") == 11
        assert subprocess.run([SCRIPT, "info", "missing"], stderr=full, timeout=120).returncode == 1


# --- streams that are closed ------------------------------------------------------------------------------------


def in_a_shell(line, *values, **options):
    """A line of the shell in which $1, $2 ... are the values, and its exit code, stdout and stderr."""
    command = ["sh", "-c", line, "sh", SCRIPT, *values]
    done = subprocess.run(command, capture_output=True, timeout=300, **options)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_results_for_a_closed_standard_output_end_in_one_sentence(ratings, model, tmp_path):
    answer = "Error: Standard output is closed: send the results to a file or through a pipe."
    code, _, err = in_a_shell('"$1" recommend "$2" >&-', model)
    assert (code, sentence(err)) == (1, answer)
    code, _, err = in_a_shell('"$1" fit "$2" -o "$3" --k 2 --sweeps 2 >&-', ratings, tmp_path / "m.safetensors")
    assert (code, sentence(err)) == (1, answer)
    assert not list(tmp_path.iterdir())


def test_results_in_a_file_need_no_standard_streams(model, tmp_path):
    code, _, err = in_a_shell('"$1" recommend "$2" -o "$3" <&- >&-', model, tmp_path / "open.csv")
    assert (code, err) == (0, f"Wrote 400 recommendations to {tmp_path / 'open.csv'}\n")
    assert in_a_shell('"$1" recommend "$2" -o "$3" <&- >&- 2>&-', model, tmp_path / "closed.csv") == (0, "", "")
    assert (tmp_path / "closed.csv").read_bytes() == (tmp_path / "open.csv").read_bytes()


def test_a_closed_standard_error_loses_messages_and_nothing_else(model):
    told = in_a_shell('"$1" recommend "$2" nobody', model)
    assert in_a_shell('"$1" recommend "$2" nobody 2>&-', model) == (0, told[1], "")
    assert in_a_shell('"$1" recommend missing 2>&-', model) == (1, "", "")


def test_a_closed_standard_input_has_no_table(model):
    code, out, err = in_a_shell('"$1" predict "$2" - <&-', model)
    assert (code, out) == (1, "")
    assert sentence(err).startswith("Error: Standard input is closed: give the name of a file")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["recommend", "info"])
def test_a_reader_who_has_seen_enough_is_no_error(model, command, unbuffered):
    reading, writing = os.pipe()
    os.close(reading)
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(
        [SCRIPT, command, model], stdout=writing, stderr=subprocess.PIPE, timeout=120, env=environment
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_pipe_that_is_the_output_and_has_lost_its_reader_is_an_error(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def read_one_byte():
        with pipe.open("rb", buffering=0) as reader:
            reader.read(1)

    reader = threading.Thread(target=read_one_byte)
    reader.start()
    with pytest.raises(OSError, match="its reader has gone"), whole_file(pipe) as file:
        file.write(bytes(10_000_000))
    reader.join()


# --- what nobody foresaw ----------------------------------------------------------------------------------------


class Panic(BaseException):
    """As that of polars, this is no Exception."""


@pytest.mark.parametrize("error", [RuntimeError("first\nsecond"), KeyError("k"), OverflowError(), Panic("p" * 999)])
def test_what_nobody_foresaw_ends_in_one_sentence_that_says_where_to_report_it(
    boundrec_command, model, monkeypatch, error
):
    def fail(_):
        raise error

    monkeypatch.setattr("boundrec.load", fail)
    code, out, err = boundrec_command("info", model)
    assert (code, out) == (70, "")
    told = sentence(err)
    assert type(error).__name__ in told
    assert "report it at https://github.com/boundrec/boundrec/issues" in told
    assert "boundrec --debug" in told
    assert len(told) < 450


def test_debug_shows_the_traceback_and_the_sentence(boundrec_command, model, monkeypatch):
    monkeypatch.setattr("boundrec.load", lambda _: {}["missing"])
    code, out, err = boundrec_command("--debug", "info", model)
    assert (code, out) == (70, "")
    assert "Traceback (most recent call last)" in err
    assert "Error: Something happened that nobody foresaw (KeyError: 'missing')" in err.splitlines()[-1]


def test_debug_shows_where_a_foreseen_error_came_from_too(boundrec_command):
    code, _, err = boundrec_command("--debug", "info", "missing.safetensors")
    assert code == 1
    assert "Traceback (most recent call last)" in err
    assert err.splitlines()[-1].startswith("Error: missing.safetensors cannot be loaded")
    assert "Traceback" not in boundrec_command("info", "missing.safetensors")[2]


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "ratings.csv", "-o", "ratings.csv"),
        ("fit", "ratings.csv", "--history", "past.csv", "-o", "past.csv"),
        ("fit", "ratings.csv", "-o", "link.csv"),
        ("compare", "ratings.png", "-o", "./ratings.png"),
        ("predict", "model.csv", "ratings.csv", "-o", "ratings.csv"),
        ("predict", "model.csv", "ratings.csv", "-o", "model.csv"),
        ("recommend", "model.csv", "--users", "ratings.csv", "-o", "ratings.csv"),
        ("recommend", "model.csv", "-o", "model.csv"),
        ("similar", "model.csv", "1", "-o", "model.csv"),
        ("report", "model.csv", "ratings.csv", "-o", "model.csv"),
        ("report", "model.csv", "ratings.csv", "-o", "ratings.csv"),
    ],
    ids=" ".join,
)
def test_no_command_writes_over_what_it_reads(boundrec_command, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    for name in ("ratings.csv", "past.csv", "ratings.png", "model.csv"):
        (tmp_path / name).write_text("as it was")
    (tmp_path / "link.csv").symlink_to("ratings.csv")
    code, out, err = boundrec_command(*words)
    assert (code, out) == (2, "")
    assert f"--output {Path(words[-1])} is the file that is read: name another." in usage(err)
    assert {path.read_text() for path in tmp_path.iterdir()} == {"as it was"}


def test_no_command_writes_over_the_file_that_standard_input_comes_from(tmp_path):
    path = write_ratings(tmp_path / "ratings.csv")
    before = path.read_bytes()
    with path.open("rb") as stdin:
        done = subprocess.run(
            [SCRIPT, "fit", "-", "-o", path, *QUICK], stdin=stdin, capture_output=True, text=True, timeout=300
        )
    assert (done.returncode, done.stdout) == (2, "")
    assert "is the file that is read: name another." in usage(done.stderr)
    assert path.read_bytes() == before


@pytest.mark.parametrize("command", ["recommend", "similar", "evaluate", "compare"])
def test_a_list_longer_than_any_model_has_items_is_asked_wrongly(boundrec_command, command):
    words = ["1"] if command == "similar" else []
    code, out, err = boundrec_command(command, "not looked at", *words, "-n", "99999999999999999999")
    assert (code, out) == (2, "")
    assert "'-n'" in usage(err)
    assert "2147483647" in usage(err)


@pytest.mark.parametrize("words", [("compare", "--models", "bmf,bmc-admm"), ("tune", "--model", "bmf")], ids=" ".join)
def test_where_nothing_that_is_asked_makes_sense_the_exit_code_is_2_as_the_help_says(boundrec_command, words):
    command, *options = words
    code, out, err = boundrec_command(command, "not looked at", *options, "--bounds", "0", "none")
    assert (code, out) == (2, "")
    assert "BMF needs both ends, such as --bounds 1 5." in usage(err)
    assert "and 2, without a table, if none of them" in usage(boundrec_command(command, "--help")[1])


def test_a_json_object_may_have_more_keys_than_are_read(boundrec_command, tmp_path):
    rows = ['{"user": 1, "item": "a", "rating": 3}', '{"user": 2, "item": "b", "rating": 4, "mood": "fair"}']
    (tmp_path / "ratings.ndjson").write_text("\n".join(rows))
    words = "fit", tmp_path / "ratings.ndjson", "-o", tmp_path / "model", *QUICK
    assert boundrec_command(*words)[0] == 0


@pytest.mark.parametrize("name", ["bayesian", "mbmf", "nmf", "bmf"])
def test_large_ratings_that_are_the_same_as_floats_get_bounds_that_differ(boundrec_command, tmp_path, name):
    rows = [f"{user},{item},1{'0' * 29}{(user * item) % 5}" for user in range(6) for item in range(5)]
    (tmp_path / "ratings.csv").write_text("\n".join(["user,item,rating", *rows]))
    words = "fit", tmp_path / "ratings.csv", "-o", tmp_path / "model", "--model", name, *QUICK
    code, _, err = boundrec_command(*words)
    assert code == 0, err
    assert "Every rating is 1e+30: there is nothing to learn but that." in err


def test_a_column_of_times_that_is_not_there_is_told_with_the_option_that_named_it(boundrec_command, ratings):
    code, _, err = boundrec_command("evaluate", ratings, "--by-time", "nope", *QUICK)
    assert code == 1
    assert "has no column 'nope' (--by-time). There are: " in sentence(err)


@pytest.mark.parametrize("command", ["fit", "predict"])
def test_one_column_in_two_roles_is_refused(boundrec_command, ratings, model, tmp_path, command):
    files = [ratings, "-o", tmp_path / "new"] if command == "fit" else [model, ratings]
    item = ratings.read_text().split(",")[1]
    code, out, err = boundrec_command(command, *files, "--user", item, "--item", item)
    assert (code, out) == (1, "")
    assert f"ratings.csv: --user and --item name the same column, {item!r}: give each its own." in sentence(err)


def test_bounds_that_are_no_numbers_are_refused_in_the_words_of_the_command(boundrec_command, ratings, tmp_path):
    code, out, err = boundrec_command("fit", ratings, "-o", tmp_path / "model", "--bounds", "nan", "5")
    assert (code, out) == (2, "")
    assert "--bounds nan 5: an end that is not a number; write none where there is no bound." in usage(err)


@pytest.mark.parametrize("command", ["fit", "report"])
def test_what_is_no_table_is_not_written_to_standard_output(boundrec_command, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    files = ["not looked at"] if command == "fit" else ["not", "looked at"]
    code, out, err = boundrec_command(command, *files, "-o", "-")
    assert (code, out) == (2, "")
    assert "--output -: this cannot go to standard output: name a file." in usage(err)
    assert not list(tmp_path.iterdir())


def test_a_value_of_the_grid_that_makes_no_sense_is_told_as_one_of_the_grid(boundrec_command):
    words = "tune", "not looked at", "--model", "mbmf", "--set", "slack=2", "--grid", "ridge=x"
    code, out, err = boundrec_command(*words)
    assert (code, out) == (2, "")
    assert "--grid ridge=x: give a number of at least 0" in usage(err)


def test_ids_longer_than_any_column_of_numbers_are_answered_as_text(boundrec_command, tmp_path):
    model = boundrec.MBMF(2, bounds=(1, 5), max_iter=2, tol=1.0, random_state=0)
    model.fit([(u, i) for u in range(3) for i in range(3)], [1, 2, 3, 4, 5, 1, 2, 3, 4])
    model.save(tmp_path / "model.safetensors")
    (tmp_path / "pairs.csv").write_text(f"user,item\n1{300 * '0'},1\n0,1\n")
    code, out, _ = boundrec_command("predict", tmp_path / "model.safetensors", tmp_path / "pairs.csv")
    assert code == 0
    assert [line.partition(",")[0] for line in out.splitlines()] == ["user", "1" + 300 * "0", "0"]
