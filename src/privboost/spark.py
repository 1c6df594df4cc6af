"""Models on Spark: predictions as lazy columns, and stages of a `pyspark.ml.Pipeline`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.ml import Estimator, Model
from pyspark.ml.util import (
    DefaultParamsReader,
    DefaultParamsWriter,
    MLReadable,
    MLReader,
    MLWritable,
    MLWriter,
)
from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import col, struct
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
)
from sklearn.base import clone

from privboost._core.checks import check_choice
from privboost.data.targets import ClassTarget
from privboost.estimators.base import PrivateEstimator
from privboost.models.model import Model as TrainedModel
from privboost.models.model import model_bytes, read_model

_WHAT = {
    "prediction": "predict",
    "probability": "predict_proba",
    "score": "decision_function",
}
_CLASSES = {
    "U": StringType(),
    "i": LongType(),
    "u": LongType(),
    "f": DoubleType(),
    "b": BooleanType(),
}


def score_column(model: TrainedModel, what: str = "prediction") -> Column:
    """Return a model's predictions as a lazy column.

    Costs no privacy. For example `frame.withColumn("prediction", score_column(fitted.model_))`.

    Parameters
    ----------
    model : Model
        A trained model.
    what : str
        "prediction" (a class or a number), "probability" (an array, in the order of
        `model.classes`) or "score" (`decision_function`: an array beyond two classes).
    """
    check_choice("what", what, tuple(_WHAT))
    if what == "probability" and not model.has_probabilities:
        raise AttributeError("probability: the scores of this model are not log-odds")
    content, method = model_bytes(model), _WHAT[what]

    def score(batches: Iterator[pd.DataFrame]) -> Iterator[pd.Series]:
        own = read_model(content, "the model of a column")
        for rows in batches:
            yield pd.Series(list(getattr(own, method)(rows, n_jobs=1)))

    fields = [_named(name).alias(name) for name in model.domain.feature_names]
    make: Any = pandas_udf
    scored: Column = make(score, returnType=_type_of(model, what))(struct(*fields))
    return scored


class SparkEstimator(Estimator):
    """An estimator of privboost as a stage of a `pyspark.ml.Pipeline`.

    Parameters
    ----------
    estimator : PrivateEstimator
        A private estimator; it is cloned before it is fitted.
    target : str, optional
        The column of labels; by default the one that the estimator's domain names.
    weight : str, optional
        The column of sample weights.
    columns : dict, optional
        The columns that are added: from "prediction", "probability" and "score" (see
        `score_column`) to names of columns; by default {"prediction": "prediction"}.

    Notes
    -----
    The ε of this stage does not cover other stages that were fitted to the same private rows (a
    `StandardScaler`, a `StringIndexer`).
    """

    def __init__(
        self,
        estimator: PrivateEstimator,
        target: str | None = None,
        weight: str | None = None,
        columns: dict[str, str] | None = None,
    ) -> None:
        super().__init__()
        self.estimator, self.target, self.weight = estimator, target, weight
        self.columns = _checked(columns)

    def _fit(self, dataset: DataFrame) -> SparkModel:
        fitted = clone(self.estimator).fit(dataset, self.target, self.weight)
        return SparkModel(fitted.model_, self.columns)


class SparkModel(Model, MLWritable, MLReadable):
    """A trained model as a transformer that Spark can save and load.

    Parameters
    ----------
    model : Model
        The model; `model.save` writes it without Spark.
    columns : dict, optional
        See `SparkEstimator`.
    """

    def __init__(self, model: TrainedModel, columns: dict[str, str] | None = None) -> None:
        super().__init__()
        self.model, self.columns = model, _checked(columns)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        for what, name in self.columns.items():
            dataset = dataset.withColumn(name, score_column(self.model, what))
        return dataset

    def write(self) -> MLWriter:
        """Return the writer of the stage: released values, and the names of its columns."""
        return _ModelWriter(self)

    @classmethod
    def read(cls) -> MLReader:
        """Return the reader of the stage; the model's file is validated."""
        return _ModelReader()


class _ModelWriter(MLWriter):
    def __init__(self, stage: SparkModel) -> None:
        super().__init__()
        self._stage = stage

    def saveImpl(self, path: str) -> None:
        more = {"columns": self._stage.columns}
        DefaultParamsWriter.saveMetadata(self._stage, path, self.sparkSession, more)
        content = [(bytearray(model_bytes(self._stage.model)),)]
        rows = self.sparkSession.createDataFrame(content, "content binary")
        rows.coalesce(1).write.parquet(_model_path(path))


class _ModelReader(MLReader):
    def load(self, path: str) -> SparkModel:
        metadata = DefaultParamsReader.loadMetadata(path, self.sparkSession)
        (row,) = self.sparkSession.read.parquet(_model_path(path)).collect()
        stage = SparkModel(read_model(bytes(row["content"]), path), metadata["columns"])
        stage._resetUid(metadata["uid"])
        return stage


def _model_path(path: str) -> str:
    return f"{path.rstrip('/')}/model"


def _checked(columns: dict[str, str] | None) -> dict[str, str]:
    columns = {"prediction": "prediction"} if columns is None else dict(columns)
    for what in columns:
        check_choice("columns", what, tuple(_WHAT))
    return columns


def _named(name: str) -> Column:
    """Return a column of any name."""
    return col("`" + name.replace("`", "``") + "`")


def _type_of(model: TrainedModel, what: str) -> DataType:
    if what == "probability" or (what == "score" and model.scores.n_outputs > 1):
        return ArrayType(DoubleType())
    if what == "prediction" and isinstance(model.domain.target, ClassTarget):
        return _CLASSES[model.classes.dtype.kind]
    return DoubleType()
