"""Statistics of all classes on a device are those of the processor's own kernels."""

import numpy as np
import pytest

from privboost.cuda.backend import CudaBackend
from privboost.engine.backend import LocalBackend
from tests.cuda.conftest import crowd
from tests.engine.test_softmax import blocks_of, queries, updates
from tests.fits import BASIC, bytes_of
from tests.tables import opens


@pytest.mark.parametrize(("classes", "weighted"), [(3, True), (17, False)])
def test_sums(device, classes, weighted):
    blocks = blocks_of(500, classes, weighted=weighted)
    one = LocalBackend(blocks)
    others = [CudaBackend(blocks, [device]), CudaBackend(blocks, crowd(device), 300, least_rows=1)]
    for update in updates(classes):
        for backend in (one, *others):
            backend.apply(update)
    for query in queries(classes):
        for other in others:
            np.testing.assert_array_equal(other.sum(query), one.sum(query))


def test_a_fit_has_the_same_bytes(device):
    fit = BASIC["privboost, three classes"]
    assert bytes_of(fit(backend=opens(CudaBackend, devices=[device]))) == bytes_of(fit())
