"""What arrays hold, by name."""

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Numbers in float64, and in whatever precision a model stores them.
Floats = NDArray[np.float64]
Reals = NDArray[np.floating[Any]]
#: Row numbers; −1 is somebody unknown.
Codes = NDArray[np.int64]
Bools = NDArray[np.bool_]


class ReadOnly:
    """Base of frozen dataclasses whose arrays cannot be written to, either: others may share them."""

    def __post_init__(self) -> None:
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            if isinstance(value, np.ndarray) and value.flags.writeable:
                locked = value.view()
                locked.flags.writeable = False
                object.__setattr__(self, one.name, locked)
