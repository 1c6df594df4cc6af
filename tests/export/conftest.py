import pytest

from tests.export.databases import Postgres, in_duckdb, in_sqlite


@pytest.fixture(scope="session")
def postgres():
    server = Postgres()
    yield server
    server.stop()


@pytest.fixture(params=["duckdb", "sqlite", "postgres"])
def run(request):
    """Run a query on rows in a table named rows; return what it selects."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres")
    return {"duckdb": in_duckdb, "sqlite": in_sqlite}[request.param]
