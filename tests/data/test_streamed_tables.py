"""Lazy frames, datasets and sparse matrices: the same rows, never all of them at once."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
import scipy.sparse

from privboost import (
    LazyBBClassifier,
    PrivateSearchCV,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SBDTClassifier,
    SchemaError,
    evaluate,
)
from privboost.data import table as tables
from privboost.data.encoding import Encoder
from privboost.data.lazy_tables import _attempt
from privboost.data.rows import Codes, Rows
from privboost.data.sources import count_rows, open_table
from tests.tables import make_domain, make_frame

FRAME = make_frame(700)
LIKE_POLARS = pl.DataFrame(FRAME.assign(job=FRAME["job"].astype("str"))).with_columns(
    pl.col("job").replace("nan", None)
)
GRID = {
    "version": 1,
    "features": {f"x{k}": {"kind": "numeric", "bounds": [0, 1]} for k in range(6)},
    "target": {"name": "y", "classes": [0, 1]},
}


def classifier(kind=PrivBoostClassifier, **how):
    how = {"n_estimators": 9, "random_state": 1} | how
    return kind(1.0, 1e-6, make_domain(), **how)


def as_dataset(folder, frame=LIKE_POLARS):
    for part in range(3):
        (folder / f"step={part}").mkdir()
        rows = frame.slice(part * 250, 250)
        rows.write_parquet(folder / f"step={part}" / "rows.parquet", row_group_size=100)
    return pa.dataset.dataset(folder, format="parquet")


@pytest.fixture
def expected():
    return classifier().fit(LIKE_POLARS).predict_proba(LIKE_POLARS)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_lazy_frame_is_the_frame(expected, n_jobs):
    lazy = LIKE_POLARS.lazy().filter(pl.col("flag").is_null() | True)
    model = classifier(n_jobs=n_jobs).fit(lazy)
    np.testing.assert_array_equal(model.predict_proba(lazy), expected)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_dataset_is_its_rows(expected, tmp_path, n_jobs):
    dataset = as_dataset(tmp_path)
    model = classifier(n_jobs=n_jobs).fit(dataset)
    np.testing.assert_array_equal(model.predict_proba(dataset), expected)


def test_types_that_were_guessed_from_rows_are_refused(tmp_path):
    """One row with another word would change a type, and a learned domain, with certainty."""
    as_dataset(tmp_path, LIKE_POLARS.drop("step"))
    with pytest.raises(SchemaError, match="partitions of a dataset"):
        classifier().fit(pa.dataset.dataset(tmp_path, format="parquet", partitioning="hive"))
    path = tmp_path / "a.csv"
    LIKE_POLARS.write_csv(path)
    texts = pa.dataset.dataset(path, format="csv")
    for dataset in (texts, pa.dataset.dataset([texts, texts])):
        with pytest.raises(SchemaError, match="dataset of such files cannot be used"):
            classifier().fit(dataset)
    with pytest.raises(SchemaError, match="a lazy frame that scans one cannot be used"):
        classifier().fit(pl.scan_csv(path).filter(pl.col("age") > 0))


@pytest.mark.parametrize("form", ["lazy", "dataset"])
def test_labels_and_weights_do_not_lie_apart(form, tmp_path):
    """Rows may come in another order, or number, each time they are read."""
    table = LIKE_POLARS.lazy() if form == "lazy" else as_dataset(tmp_path)
    with pytest.raises(SchemaError, match="y of a lazy frame or dataset must be one of"):
        classifier().fit(table, LIKE_POLARS["income"])
    with pytest.raises(SchemaError, match="sample_weight of a lazy frame or dataset"):
        classifier(sample_weight_bound=1.0).fit(table, sample_weight=np.ones(700))


def test_a_search_needs_units_where_rows_may_come_in_another_order():
    search = PrivateSearchCV(classifier(random_state=None), [{"n_estimators": 3}], 1.0, 1e-6)
    with pytest.raises(ValueError, match=r"a search on a lazy frame.* needs a unit column"):
        search.fit(LIKE_POLARS.lazy())


def test_rows_have_parts_of_one_length():
    layout = Encoder.of(make_domain()).layout
    with pytest.raises(ValueError, match="differ in length"):
        Rows(Codes.empty(layout, 3), np.zeros(3, np.uint8), np.zeros(2, np.uint16))


def test_batches_are_small_and_come_in_order():
    lazy = pl.LazyFrame({"a": np.arange(1000)})
    table = open_table(lazy, ())
    sizes, seen = [], []
    for batch in table.batches(["a"], 64):
        sizes.append(len(batch["a"]))
        seen += batch["a"].to_pylist()
    assert sizes[0] == 0
    assert max(sizes) <= 64
    assert seen == list(range(1000))


def test_a_query_is_computed_only_when_rows_are_read():
    def refuse(_):
        raise AssertionError("a row was read")

    lazy = LIKE_POLARS.lazy().with_columns(pl.col("age").map_batches(refuse, return_dtype=pl.Int64))
    open_table(lazy, ())
    with pytest.raises(SchemaError, match="no column 'gain'"):
        classifier().fit(lazy.drop("gain"))


@pytest.mark.parametrize("act", ["fit", "count"])
def test_no_error_quotes_a_value(act):
    lazy = LIKE_POLARS.lazy().with_columns(age=pl.col("place").cast(pl.Int64))
    with pytest.raises(SchemaError, match="could not be read") as caught:
        classifier().fit(lazy) if act == "fit" else count_rows(lazy.select("age"))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "p1" not in str(caught.value)


def test_a_panic_quotes_no_value_either():
    class Panic(BaseException):
        pass

    def panic():
        raise Panic("p1")

    assert _attempt(panic) is None
    with pytest.raises(KeyboardInterrupt):
        _attempt(lambda: (_ for _ in ()).throw(KeyboardInterrupt))


def test_no_error_of_a_dataset_quotes_a_value(tmp_path):
    pl.DataFrame({"age": ["20", "forty-two"], "income": ["low", "high"]}).write_parquet(
        tmp_path / "a.parquet"
    )
    schema = pa.schema({"age": pa.int64(), "income": pa.string()})
    dataset = pa.dataset.dataset(tmp_path, schema=schema, format="parquet")
    domain = {
        "version": 1,
        "features": {"age": {"kind": "numeric", "bounds": [0, 99]}},
        "target": {"name": "income", "classes": ["low", "high"]},
    }
    with pytest.raises(SchemaError, match="could not be read") as caught:
        PrivBoostClassifier(1.0, 1e-6, domain).fit(dataset)
    assert caught.value.__context__ is None


def test_other_lazy_frames_are_refused():
    class Old:
        """A lazy frame of an earlier polars."""

    from privboost.data.lazy_tables import LazyTable

    with pytest.raises(TypeError, match="collect it first"):
        LazyTable(Old())


def test_a_domain_is_learned_from_a_stream():
    lazy = pl.LazyFrame({"x": np.linspace(0, 1, 3000), "y": np.linspace(0, 2, 3000)})
    model = PrivBoostRegressor(5.0, 1e-6, n_estimators=3).fit(lazy, "y")
    assert model.domain_.feature_names == ("x",)


def test_streams_votes_and_evaluations_take_them(tmp_path):
    dataset = as_dataset(tmp_path)
    assert count_rows(dataset) == count_rows(LIKE_POLARS.lazy()) == 700
    classifier(LazyBBClassifier, n_estimators=None).fit(dataset)
    stream = classifier(SBDTClassifier, calibration_share=0).partial_fit(LIKE_POLARS.lazy())
    assert evaluate(stream, dataset, epsilon=1.0, delta=1e-6).privacy.epsilon <= 1


def sparse_rows(rows=400):
    rng = np.random.default_rng(0)
    dense = rng.random((rows, 6)) * (rng.random((rows, 6)) < 0.3)
    return dense, (dense[:, 0] + dense[:, 1] > 0.2).astype(int)


@pytest.mark.parametrize("kind", ["csr_matrix", "csc_matrix", "coo_matrix", "csr_array"])
def test_a_sparse_matrix_is_the_dense_one(kind, monkeypatch):
    dense, labels = sparse_rows()
    sparse = getattr(scipy.sparse, kind)(dense)
    model = PrivBoostClassifier(1.0, 1e-6, GRID, n_estimators=12, random_state=0)
    expected = model.fit(dense, labels).predict_proba(dense)
    np.testing.assert_array_equal(model.fit(sparse, labels).predict_proba(sparse), expected)
    monkeypatch.setattr(tables, "_DENSE_VALUES", 60)
    np.testing.assert_array_equal(model.fit(sparse, labels).predict_proba(sparse), expected)
    assert count_rows(sparse) == 400


def test_a_wide_sparse_matrix_is_never_dense(monkeypatch):
    """A million columns: a batch of them in full would be 260 GB."""
    wide = scipy.sparse.csr_matrix((np.ones(3), ([0, 1, 2], [5, 7, 9])), shape=(50_000, 1_000_000))
    table = open_table(wide, [f"x{k}" for k in range(1_000_000)])
    batches = table.batches(["x7"], 2**15 - 1)
    assert len(next(batches)["x7"]) == 0
    assert next(batches)["x7"].tolist() == [0, 1, 0, 0]


def test_what_a_sparse_matrix_must_be():
    dense, labels = sparse_rows(20)
    model = PrivBoostClassifier(1.0, 1e-6, GRID, n_estimators=2)
    with pytest.raises(SchemaError, match="X has 5 features"):
        model.fit(scipy.sparse.csr_matrix(dense[:, :5]), labels)
    with pytest.raises(SchemaError, match="Complex data"):
        model.fit(scipy.sparse.csr_matrix(dense + 1j), labels)
    with pytest.raises(SchemaError, match="an array has features only"):
        model.fit(scipy.sparse.csr_matrix(dense))
    with pytest.raises(SchemaError, match="a table is needed"):
        model.fit(scipy.sparse.coo_array(labels), labels)


def test_sparse_columns_of_a_frame():
    dense, labels = sparse_rows()
    frame = pd.DataFrame.sparse.from_spmatrix(
        scipy.sparse.csr_matrix(dense), columns=[*GRID["features"]]
    )
    model = PrivBoostClassifier(1.0, 1e-6, GRID, n_estimators=12, random_state=0)
    expected = model.fit(dense, labels).predict_proba(dense)
    np.testing.assert_array_equal(model.fit(frame, labels).predict_proba(frame), expected)
