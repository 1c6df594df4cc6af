"""What is missing is said in one line, before a row is read; nothing is imported unasked."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from privboost import PrivBoostClassifier
from privboost._core.errors import DeviceError
from privboost.cuda import backend
from privboost.cuda.device import find_devices, open_device
from privboost.data.encoding import Encoder
from privboost.data.loading import Load, RowLoader, open_source
from privboost.data.table import RemoteTable
from privboost.engine.backend import LocalBackend
from tests.cuda import sanitize
from tests.cuda.processor_device import ProcessorDevice, compiler
from tests.tables import make_domain, make_frame


class RuntimeFault(Exception):
    pass


class Full:
    """A device that another program has for itself."""

    compute_capability = "90"

    def __init__(self, number):
        self.number = number

    @property
    def attributes(self):
        raise RuntimeFault("cudaErrorDevicesUnavailable")


def fake(count=1, capabilities=("90",), error=None, device=None):
    """CuPy as far as it is asked before a device is used."""
    devices = [SimpleNamespace(compute_capability=each) for each in capabilities]

    def count_devices():
        if error:
            raise RuntimeFault(error)
        return count

    runtime = SimpleNamespace(getDeviceCount=count_devices, CUDARuntimeError=RuntimeFault)
    device = devices.__getitem__ if device is None else device
    return SimpleNamespace(cuda=SimpleNamespace(runtime=runtime, Device=device))


@pytest.mark.parametrize(
    ("cupy", "words"),
    [
        (None, r"needs CuPy: pip install .*gpu12.*gpu13"),
        (fake(0), "needs an NVIDIA GPU"),
        (fake(error="cudaErrorNoDevice: no CUDA-capable device is detected"), "an NVIDIA GPU"),
        (fake(error="cudaErrorInsufficientDriver: too old"), "driver is too old"),
        (fake(capabilities=("61",)), "GPU is too old"),
        (fake(device=Full), "device 0 cannot be used"),
    ],
)
def test_what_is_missing_is_said_in_one_line(monkeypatch, tmp_path, cupy, words):
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    open_device.cache_clear()
    ledger = tmp_path / "ledger"
    model = PrivBoostClassifier(1.0, 1e-6, make_domain(), backend="cuda", ledger=ledger)
    with pytest.raises(DeviceError, match=words) as raised:
        model.fit(make_frame(10))
    assert "\n" not in str(raised.value)
    assert 'backend="auto"' in str(raised.value)
    assert not ledger.exists()


def test_all_devices_are_used_that_are_new_enough(monkeypatch):
    cupy = fake(count=3, capabilities=("90", "61", "70"))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    assert find_devices() == (0, 2)


@pytest.mark.parametrize("rows", [90, 110])
def test_few_rows_stay_with_the_processor(monkeypatch, tmp_path, rows):
    """Whether their table tells how many they are, or not."""
    if compiler() is None:
        pytest.skip("no g++ to compile kernels for the processor")
    monkeypatch.setattr(backend, "find_devices", lambda: (0,))
    monkeypatch.setattr(backend, "open_device", lambda number: ProcessorDevice())
    monkeypatch.setattr(backend, "FEW_ROWS", 100)
    frame, path = make_frame(rows), tmp_path / "rows.csv"
    frame.to_csv(path, index=False)
    domain = make_domain()
    for table in (frame, path):
        source, roles = open_source(domain, table, None, None)
        loads = [Load(RowLoader(Encoder.of(domain), roles), source)]
        opened = backend.open_cuda()(loads)
        assert isinstance(opened, LocalBackend if rows < 100 else backend.CudaBackend)
        opened.close()


class Elsewhere(RemoteTable):
    """Rows with a cluster."""

    columns, place = ("age",), "nowhere"

    def no_rows(self, names):
        raise AssertionError

    count_rows = open_backend = no_rows


def test_rows_of_a_cluster_stay_there(tmp_path):
    ledger = tmp_path / "ledger"
    model = PrivBoostClassifier(1.0, 1e-6, make_domain(), backend="cuda", ledger=ledger)
    with pytest.raises(DeviceError, match="stay there"):
        model.fit(Elsewhere())
    assert not ledger.exists()


@pytest.mark.slow
def test_the_sanitizer_sees_every_kernel():
    if compiler() is None:
        pytest.skip("no g++ to compile kernels for the processor")
    assert sanitize.launched_on(ProcessorDevice()) == sanitize.kernels()


def test_importing_needs_no_cupy():
    code = "import sys, privboost.cuda.backend; assert 'cupy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
