"""Every kernel on few rows, for NVIDIA's compute-sanitizer: `make sanitize-gpu`.

    compute-sanitizer --tool memcheck --error-exitcode 1 python -m tests.cuda.sanitize
    compute-sanitizer --tool racecheck --error-exitcode 1 python -m tests.cuda.sanitize vectors fits

It ends with an error, too, if an answer is not the processor's, or a kernel of the sources was not
launched. Where time is short, single checks can be named: codes, vectors, many_rows, classes, fits,
sums, streams; then it says which kernels were launched.
"""

import re
import sys
import warnings

import numpy as np

from privboost._core.errors import PrivacyWarning
from privboost._core.grid import BLOCK_ROWS, VECTOR_STEPS
from privboost.cuda.backend import CudaBackend
from privboost.cuda.device import MANY_ROWS, find_devices, open_device, source
from privboost.cuda.rows import NumberLoader, Uncoded
from privboost.data.encoding import Encoder
from privboost.data.loading import Load, RowLoader, load_rows, open_source
from privboost.data.rows import Codes, Layout, Rows
from privboost.engine.backend import LocalBackend
from privboost.engine.queries import CellSums, GramSums, LinearSums, NodeHistograms, TreeSums
from privboost.engine.updates import Start
from privboost.losses.base import loss_of
from privboost.losses.logistic import LOGISTIC
from privboost.recipes.common.coordinates import design
from privboost.trees.cell_map import CellMap
from tests.cuda.conftest import crowd
from tests.engine import test_softmax
from tests.engine.test_linear import DESIGNS, coded, started
from tests.engine.test_queries import CASES, queries, random_tree, rows_for, updates
from tests.engine.test_sampled_queries import sampled
from tests.fits import ALL, bytes_of
from tests.tables import CLASSES, NUMBER, make_domain, make_frame, opens


def kernels():
    """Return the names of all kernels in the sources."""
    return set(re.findall(r"__global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(", source()))


def check_sums(device):
    """Histograms, trees, nodes, counts and samples, on one device."""
    need_equal_sums(lambda blocks: CudaBackend(blocks, [device]))


def check_streams(device):
    """The same on three devices, of which some stream their rows."""
    need_equal_sums(lambda blocks: CudaBackend(blocks, crowd(device), 300, least_rows=1))


def need_equal_sums(build):
    for target, loss, n_outputs, weighted in CASES:
        encoder, blocks = rows_for(target, weighted)
        one, other = LocalBackend(blocks), build(blocks)
        for update in [Start(loss, n_outputs), *updates(encoder.layout, loss, n_outputs)]:
            for backend in (one, other):
                backend.apply(update)
        asked = list(queries(encoder.layout, n_outputs, 1 if target is NUMBER else 2))
        for query in (*asked, sampled(asked[0])):
            need_equal(one, other, query)


def check_vectors(device):
    for columns in ("short", "products"):
        encoder, blocks = coded(CLASSES, 400, weighted=True)
        terms = design(encoder, **DESIGNS[columns]).terms
        loss = loss_of("classes", "hinge").gradient_table(0.6, (1.0, 0.5))
        one = started(blocks, terms, loss, 1)
        other = started(blocks, terms, loss, 1, CudaBackend, devices=[device])
        need_equal(one, other, LinearSums.of(terms, 0))
        need_equal(one, other, GramSums.of(terms, np.array([VECTOR_STEPS, 20000])))


def check_many_rows(device):
    """From so many rows on blocks have all their threads, and tables are in shared memory."""
    layout, rng = Layout((193, 193, 9)), np.random.default_rng(0)
    blocks = []
    for _ in range(-(-MANY_ROWS // BLOCK_ROWS)):
        narrow = rng.integers(0, 9, (3, BLOCK_ROWS), dtype=np.uint8)
        codes = Codes(layout, narrow, np.zeros((0, BLOCK_ROWS), dtype=np.uint16))
        blocks.append(Rows(codes, rng.integers(0, 2, BLOCK_ROWS, dtype=np.uint8)))
    one, other = LocalBackend(blocks), CudaBackend(blocks, [device])
    for backend in (one, other):
        backend.apply(Start(LOGISTIC.table(0.3, 0.1)))
    whole = [CellMap.of_feature(f, np.arange(n)) for f, n in enumerate(layout.n_codes)]
    tree, side_by_side = random_tree(layout, 2, 1), CellMap.side_by_side(whole)
    asked = [CellSums(whole[0]), CellSums(side_by_side), CellSums(CellMap.joint(whole[:2]))]
    asked += [NodeHistograms(tree.top(1), side_by_side), NodeHistograms(tree, side_by_side)]
    deep = random_tree(layout, 5, 2)  # its columns are copied to shared memory
    for query in (*asked, TreeSums((tree,)), TreeSums((deep,))):
        need_equal(one, other, query)


def check_codes(device):
    domain, frame = make_domain(), make_frame(2000)
    encoder, (source, roles) = Encoder.of(domain), open_source(domain, frame, None, None)
    loader = RowLoader(encoder, roles)
    blocks = load_rows([Load(loader, source)])[0].blocks
    left = load_rows([Load(NumberLoader(loader, few_rows=1), source)])[0].blocks
    assert any(isinstance(block.codes, Uncoded) for block in left)
    one, other = LocalBackend(blocks), CudaBackend(left, [device])
    for backend in (one, other):
        backend.apply(Start(LOGISTIC.table(0.3, 0.1)))
    for feature, codes in enumerate(encoder.layout.n_codes):
        need_equal(one, other, CellSums(CellMap.of_feature(feature, np.arange(codes))))


def check_classes(device):
    """Statistics of all classes at once."""
    for classes, weighted in ((3, True), (17, False)):
        blocks = test_softmax.blocks_of(500, classes, weighted=weighted)
        one = LocalBackend(blocks)
        others = [CudaBackend(blocks, [device]), CudaBackend(blocks, crowd(device), 300)]
        for update in test_softmax.updates(classes):
            for backend in (one, *others):
                backend.apply(update)
        for query in test_softmax.queries(classes):
            for other in others:
                need_equal(one, other, query)


def check_fits(device):
    """Budgets, votes, and labels in bins."""
    trees = ("sbdt 0, two classes", "LazyBBClassifier 0", "LazyBBClassifier 2")
    for name in (*trees, "PrivBoostRegressor, poisson"):
        fit = ALL[name]
        assert bytes_of(fit(backend=opens(CudaBackend, devices=[device]))) == bytes_of(fit())


def need_equal(one, other, query):
    np.testing.assert_array_equal(other.sum(query), one.sum(query))


CHECKS = {
    "codes": check_codes,
    "vectors": check_vectors,
    "many_rows": check_many_rows,
    "classes": check_classes,
    "fits": check_fits,
    "sums": check_sums,
    "streams": check_streams,
}
"""The latter two take longest under the checker of races."""


def launched_on(device, checks=tuple(CHECKS)):
    """Run checks, and return which kernels were launched."""
    launched, launch = set(), device.launch

    def noted(kernel, *task, **how):
        launched.add(kernel)
        launch(kernel, *task, **how)

    device.launch = noted
    try:
        for name in checks:
            CHECKS[name](device)
            print(f"{name}: {', '.join(sorted(launched))}", flush=True)
    finally:
        del device.launch
    return launched


class Apart:
    """Memory of its own for every array of rows: where one lies after another, nobody sees that a
    kernel reads too far."""

    def __init__(self, cuda):
        self.malloc = lambda size: cuda.MemoryPointer(cuda.Memory(size), 0)
        self.set_limit = lambda size: None
        self.used_bytes = self.total_bytes = self.free_all_blocks = lambda: 0


def main():
    device = open_device(find_devices()[0])
    device._pool = Apart(device._cupy.cuda)
    device._cupy.cuda.set_allocator(None)
    named = sys.argv[1:]
    missing = kernels() - launched_on(device, named or tuple(CHECKS))
    if missing and not named:
        sys.exit(f"kernels that were not launched: {', '.join(sorted(missing))}")
    print(f"{len(kernels()) - len(missing)} of {len(kernels())} kernels launched")


if __name__ == "__main__":
    warnings.simplefilter("ignore", PrivacyWarning)  # of seeds
    main()
