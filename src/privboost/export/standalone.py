"""How a row is scored with Python alone: the part that every exported module has.

Its text is copied into those modules, which must run where nothing is installed.
"""

# --- copied from here on ---
import math
from bisect import bisect_left
from decimal import Decimal


def is_missing(value):
    """Say whether a value stands for nothing: None, NaN, or what pandas and numpy have for it."""
    if value is None or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return True
    return isinstance(value, float) and math.isnan(value)


def plain(value):
    """Turn a number of numpy's into one of Python's, and bytes into text."""
    kind = type(value)
    if kind.__module__ == "numpy" and kind.__name__ != "datetime64" and hasattr(value, "item"):
        value = value.item()
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def number_of(value):
    """Read a number, a truth, or a text of either; None where it is none of them."""
    if isinstance(value, str):
        word = value.lower()
        if word in ("true", "false"):
            return float(word == "true")
        try:
            return float(word)
        except ValueError:
            return None
    if not isinstance(value, (bool, int, float, Decimal)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except ValueError:
        return None


def text_of(value):
    """Write a text or a number; a whole number the same way whatever its type."""
    if isinstance(value, str):
        return value
    number = number_of(value)
    if number is None:
        return None
    if math.isfinite(number) and number == int(number):
        return str(int(value))
    return repr(number)


def read_number(value):
    """Read a value of any kind as a number; None where it is none."""
    return number_of(plain(value))


READERS = {"numbers": read_number}


def code_of(value, column):
    """Return the code of a value, as the model was trained on it."""
    if "edges" in column:
        number = READERS[column["reads"]](value)
        if number is None or math.isnan(number):
            return column["missing"]
        return bisect_left(column["edges"], number)
    value = plain(value)
    if is_missing(value):
        return column["missing"]
    places = column["labels"]
    if not column["text"]:
        return places.get(number_of(value), column["other"])
    if isinstance(value, bool):
        return column["truths"].get(value, column["other"])
    place = places.get(text_of(value))
    if place is None and column["numbers"]:
        place = column["numbers"].get(number_of(value))
    return column["other"] if place is None else place


def scores_of(row, model):
    """Return a row's scores: whole steps, added up."""
    codes = [code_of(row[column["name"]], column) for column in model["columns"]]
    totals = []
    for output, total in enumerate(model["start"]):
        for code, tables in zip(codes, model["alone"], strict=True):
            total += tables[output][code]
        totals.append(total)
    for output, first, second, own, other, values in model["pairs"]:
        totals[output] += values[own[codes[first]]][other[codes[second]]]
    for nodes, values in model["trees"]:
        node = 0
        while node < len(nodes):
            column, turns = model["splits"][nodes[node]]
            node = 2 * node + 1 + turns[codes[column]]
        for output, leaves in enumerate(values):
            totals[output] += leaves[node - len(nodes)]
    return [total / model["steps"] for total in totals]


def log_chance(score):
    """Return the logarithm of the chance that log-odds stand for."""
    return min(score, 0.0) - math.log1p(math.exp(-abs(score)))


def chances_of(scores):
    """Return the probability of each class, given log-odds."""
    if len(scores) == 1:
        score = scores[0]
        own = 1 / (1 + math.exp(-score)) if score > -700 else 0.0
        return [1 - own, own]
    logs = [log_chance(score) for score in scores]
    shares = [math.exp(own - max(logs)) for own in logs]
    return [share / sum(shares) for share in shares]


def from_scale(place, model):
    """Return the number that has a place on the scale that the model learned on."""
    if model["way_back"] == "exp":
        return math.exp(place)
    if model["way_back"] == "mirrored":
        return -math.exp(-place)
    if model["way_back"] == "signed":
        return math.copysign(math.expm1(abs(place)), place)
    return place


def prediction_of(scores, model):
    """Return the most probable class, or the number within its bounds."""
    if model["classes"] is None:
        low, high = model["bounds"]
        return from_scale(min(max(model["middle"] + model["half"] * scores[0], low), high), model)
    if len(scores) == 1:
        return model["classes"][int(scores[0] > 0)]
    return model["classes"][scores.index(max(scores))]
