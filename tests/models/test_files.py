from dataclasses import replace

import numpy as np
import pytest

from privboost import (
    ModelFileError,
    PrivBoostClassifier,
    PrivBoostRegressor,
    export_model,
    load_model,
)
from privboost._core.grid import SCORE_STEPS
from privboost.models.model import model_bytes, save_model
from tests.tables import CLASSES, NUMBER, THREE, make_domain, make_frame


@pytest.fixture(params=[CLASSES, THREE, NUMBER], ids=["two", "three", "number"])
def fitted(request):
    target = request.param
    kind = PrivBoostRegressor if target is NUMBER else PrivBoostClassifier
    model = kind(1.0, 1e-6, make_domain(target), n_estimators=12, interactions=False)
    return model.fit(make_frame(300, target=target))


def test_round_trip_is_exact(fitted, tmp_path):
    path = tmp_path / "m.privboost"
    fitted.save(path)
    loaded = load_model(path)
    assert model_bytes(loaded) == path.read_bytes()
    assert loaded.privacy == fitted.privacy_
    assert loaded.domain == fitted.domain
    frame = make_frame(400, seed=9)
    np.testing.assert_array_equal(
        loaded.decision_function(frame), fitted.model_.decision_function(frame)
    )
    np.testing.assert_array_equal(loaded.predict(frame), fitted.predict(frame))
    assert not list(tmp_path.glob("*.part"))


def test_edges_come_from_the_file(fitted, tmp_path):
    """A model does not recompute its bins: another machine's logarithm may differ."""
    path = tmp_path / "m.privboost"
    fitted.save(path)
    for own, read in zip(fitted.model_.encoder.edges, load_model(path).encoder.edges, strict=True):
        np.testing.assert_array_equal(own, read)


def test_nothing_is_written_that_cannot_be_read(fitted, tmp_path):
    model, path = fitted.model_, tmp_path / "m.privboost"
    broken = replace(model.scores, noise=tuple(own * np.nan for own in model.scores.noise))
    with pytest.raises(RuntimeError, match="nothing is written, since it could not be read"):
        save_model(replace(model, scores=broken), path)
    assert not path.exists()


@pytest.mark.parametrize("spoil", [lambda b: b[:100], lambda b: b"\x80\x04" + b, lambda b: b""])
def test_other_files_are_refused(fitted, tmp_path, spoil):
    path = tmp_path / "bad"
    path.write_bytes(spoil(model_bytes(fitted.model_)))
    with pytest.raises(
        ModelFileError, match=r"not a privboost model file|not whole: copy it again"
    ):
        load_model(path)


def test_a_line_says_what_to_do(fitted, tmp_path):
    data = model_bytes(fitted.model_)
    changed = data[:-1] + bytes([data[-1] ^ 1])
    later = data[:7] + bytes([data[7] + 1]) + data[8:]
    files = {
        "changed": (changed, r"changed is damaged, or not whole: copy it again"),
        "later": (later, r"a later privboost wrote it \(pip install --upgrade privboost\)"),
        "m.csv": (b"age,sex\n", r"m\.csv is not a privboost model file"),
    }
    for name, (content, words) in files.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ModelFileError, match=words) as caught:
            load_model(tmp_path / name)
        assert "\n" not in str(caught.value)
    with pytest.raises(FileNotFoundError, match=r"No such file: .*none; name the one that save"):
        load_model(tmp_path / "none")
    with pytest.raises(IsADirectoryError, match="is a folder: name the file that save wrote"):
        load_model(tmp_path)
    (tmp_path / "m.sql").write_bytes(data)  # an odd name is no mistake
    assert load_model(tmp_path / "m.sql").domain == fitted.model_.domain


def test_where_nothing_can_be_written_a_line_names_the_place(fitted, tmp_path, monkeypatch):
    (tmp_path / "folder.sql").mkdir()
    for write in (fitted.save, lambda path: export_model(fitted, path)):
        with pytest.raises(FileNotFoundError, match=r"no such folder: .*none; make it, or name"):
            write(tmp_path / "none" / "m.sql")
        with pytest.raises(IsADirectoryError, match="is a folder: name a file"):
            write(tmp_path / "folder.sql")

    def refuse(path, *_):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("os.open", refuse)
    with pytest.raises(PermissionError, match=r"Permission denied: '.*/m\.sql'"):
        fitted.save(tmp_path / "m.sql")


def test_a_later_version_is_refused(fitted, tmp_path):
    path = tmp_path / "later"
    data = bytearray(model_bytes(fitted.model_))
    data[7] = 9
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match="version 9"):
        load_model(path)


def test_a_pickle_is_not_executed(tmp_path):
    import pickle

    class Bomb:
        def __reduce__(self):
            return (exec, ("raise SystemExit('executed')",))

    (tmp_path / "bomb").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ModelFileError):
        load_model(tmp_path / "bomb")


def test_effects_add_up_to_the_score(fitted):
    """What a person reads is what the model computes."""
    effects = fitted.model_.effects().to_pandas()
    row = {"age": 30.0, "gain": 0.0, "step": 2.0, "job": "b", "flag": 1, "place": "p7"}
    frame = make_frame(1).assign(**row)

    def holds(feature, words):
        if feature in ("job", "flag", "place"):
            return words == str(row[feature])
        return words == "any" or (
            "x" in words and eval(words.replace("≤", "<="), {"x": row[feature]})
        )

    hit = [holds(f, v) for f, v in zip(effects["feature"], effects["values"], strict=True)]
    own = effects[hit]
    scores = fitted.model_.decision_function(frame)[0]
    if "class" in effects:
        total = own.groupby("class")["effect"].sum()
        start = fitted.model_.scores.start / SCORE_STEPS
        np.testing.assert_allclose([total[name] for name in fitted.classes_] + start, scores)
    else:
        _, unit = fitted.model_.middle_and_half
        start = fitted.model_.scores.start[0] / SCORE_STEPS * unit
        np.testing.assert_allclose(own["effect"].sum() + start, scores * unit)


def test_values_cannot_be_changed(fitted):
    with pytest.raises(ValueError, match="read-only"):
        fitted.model_.scores.values[0][:] = 0
