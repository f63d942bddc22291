"""Model files that nobody saved: parts of a file altered at will, under a checksum that fits.

    arrays, text = read_parts(path)
    arrays["user_factors"][0, 0] = np.nan
    change_table(text, "values", slack=0.5)
    write_crafted(path, arrays, text)

`write_crafted` gives a well formed file of any arrays and text. For a header that is not well formed there are
`dissect` and `seal`, which know nothing of arrays.
"""

import json
import re
from pathlib import Path

import numpy as np

import naive
from boundrec.model_file import tensor_file

#: Bytes of data under one CRC-32, as docs/model-files.md has it.
CHUNK = 1 << 22


def read_parts(path):
    """Copies of all arrays of a file, by name, and its text, by name: change them as you like."""
    file = tensor_file.read(str(path))
    text = {name: value for name, value in file.text.items() if name != "checksum"}
    return {name: np.array(array) for name, array in file.arrays.items()}, text


def write_crafted(path, arrays, text):
    """Write arrays and text as a model file with a checksum that fits, whatever they are."""
    header, data, end = {"__metadata__": {"checksum": "0" * 64, **text}}, [], 0
    for name, array in sorted(arrays.items(), key=lambda part: (-part[1].itemsize, part[0])):
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": tensor_file.NAMES[array.dtype], "shape": array.shape, "data_offsets": [begin, end]}
        data.append(array.tobytes())
    Path(path).write_bytes(seal(header, b"".join(data)))


def change_table(text, table, **changes):
    """Change entries of a table in the text ("values", "settings" or "shared"); None takes one away."""
    entries = json.loads(text[table]) | changes
    text[table] = json.dumps({name: value for name, value in entries.items() if value is not None})


def own_array(arrays, text, name):
    """The array of this name, by itself even where it was shared with others (which then keep the old one)."""
    shared = json.loads(text["shared"])
    sharing = [other for other, stored in shared.items() if stored == name]
    if name in shared:
        arrays[name] = arrays[shared.pop(name)].copy()
    elif sharing:
        first, *others = sharing
        arrays[first] = arrays[name].copy()
        shared.pop(first)
        shared |= dict.fromkeys(others, first)
    text["shared"] = json.dumps(shared)
    return arrays[name]


def dissect(content):
    """Header and data of a file's bytes."""
    start = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:start]), bytearray(content[start:])


def seal(header, data):
    """The bytes of a file of this header (a table, or text as it is) and data, with a checksum that fits."""
    if isinstance(header, dict):
        header = json.dumps(header, separators=(",", ":"))
    header = re.sub(r'"checksum":"\w+"', '"checksum":"' + "0" * 64 + '"', header, count=1).encode()
    header += b" " * (-(8 + len(header)) % 64)
    content = len(header).to_bytes(8, "little") + header + data
    return content.replace(b"0" * 64, naive.file_checksum(content, CHUNK).encode(), 1)
