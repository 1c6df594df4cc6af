import numpy as np
import pytest

from privboost._core import codec

MAGIC = b"TESTFMT1"


def test_round_trip_keeps_values_and_order():
    value = {
        "b": [1, 2.5, None, "ü"],
        "a": {"x": np.arange(6, dtype=np.int32).reshape(2, 3), "y": np.zeros((0, 4))},
    }
    back = codec.load(codec.dump(value, MAGIC), MAGIC)
    assert list(back) == ["b", "a"]
    assert back["b"] == value["b"]
    np.testing.assert_array_equal(back["a"]["x"], value["a"]["x"])
    assert back["a"]["x"].dtype == np.int32
    assert back["a"]["y"].shape == (0, 4)


def test_floats_are_exact():
    value = [0.1, 1e-310, 2.0**-1074, 1 / 3]
    assert codec.load(codec.dump(value, MAGIC), MAGIC) == value


def test_objects_are_not_written():
    with pytest.raises(TypeError):
        codec.dump(np.array([object()]), MAGIC)


def test_only_what_is_written_is_read():
    data = codec.dump({"a": 1, "b": [2]}, MAGIC)
    spaced = data.replace(b'"a": 1', b'"a":1 ')
    with pytest.raises(ValueError, match="not one of this format"):
        codec.load(spaced, MAGIC)


def test_a_name_may_be_the_one_of_arrays():
    value = {"features": {"__array__": {"kind": "numeric"}}}
    assert codec.load(codec.dump(value, MAGIC), MAGIC) == value
    with pytest.raises(TypeError, match="means an array"):
        codec.dump({"__array__": 0}, MAGIC)


@pytest.mark.parametrize("cut", [0, 7, 12, 20, -1])
def test_damaged_bytes_are_refused(cut):
    data = codec.dump({"x": np.arange(4, dtype=np.int64)}, MAGIC)
    with pytest.raises(ValueError, match=r"."):
        codec.load(data[:cut], MAGIC)
    with pytest.raises(ValueError, match="left over"):
        codec.load(data + b"0", MAGIC)
    with pytest.raises(ValueError, match="first bytes"):
        codec.load(data, b"OTHERFMT")
