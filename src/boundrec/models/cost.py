"""What a fit costs, said before it is paid."""

from boundrec.models.notes import warn

#: A fit that may take longer than this is announced.
LONG = 30 * 60
#: Bytes above which a fit's own memory is announced.
LARGE = 2 * 10**9


def announce_if_long(seconds: float, what: str, remedy: str) -> None:
    """Warn, in hours, when an estimate is above half an hour."""
    if seconds > LONG:
        warn(f"{what} may take up to {seconds / 3600:.1f} hours: {remedy}.")


def announce_if_large(n_bytes: int, what: str, remedy: str) -> bool:
    """Warn, in gigabytes, when memory above two of them is asked for; whether it was."""
    if n_bytes > LARGE:
        warn(f"{what} takes {n_bytes / 1e9:.1f} GB: {remedy}.")
    return n_bytes > LARGE
