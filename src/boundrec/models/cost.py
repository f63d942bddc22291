"""What a fit may cost, said before it starts."""

from boundrec.models.base import warn

#: A fit that may take longer than this is announced.
LONG = 30 * 60


def announce_if_long(seconds: float, what: str, remedy: str) -> None:
    """Warn, in hours, when an estimate is above half an hour."""
    if seconds > LONG:
        warn(f"{what} may take up to {seconds / 3600:.1f} hours: {remedy}.")
