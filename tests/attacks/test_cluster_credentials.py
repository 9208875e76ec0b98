"""Only the processes of a run can speak to its cluster, and wrong settings of TLS are told in our words."""

import socket
import ssl
import subprocess
import sys
import threading

import pytest

pytest.importorskip("distributed", reason="needs the extra batch")

import distributed

from allfocus.batch.cluster import Cluster
from allfocus.batch.credentials import make_credentials
from allfocus.errors import InputError


def context(purpose: ssl.Purpose, own, trusted, folder) -> ssl.SSLContext:
    made = ssl.create_default_context(purpose, cadata=trusted.certificate)
    (folder / "own.pem").write_text(own.key + own.certificate)
    made.load_cert_chain(folder / "own.pem")
    made.check_hostname, made.verify_mode = False, ssl.CERT_REQUIRED
    return made


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> bool:
    """Whether both trust each other."""
    one, two = socket.socketpair()
    outcome: list[bool] = []

    def serve() -> None:
        try:
            with server.wrap_socket(one, server_side=True) as connection:
                connection.recv(1)
                connection.send(b"x")
                outcome.append(True)
        except (ssl.SSLError, OSError):
            one.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(two) as connection:
            connection.send(b"x")
            connection.recv(1)
    except (ssl.SSLError, OSError):
        two.close()
    thread.join(20)
    return outcome == [True]


def test_only_the_same_credentials_are_trusted(tmp_path):
    own, other = make_credentials(), make_credentials()
    assert own.key != other.key
    assert own.key not in repr(own)
    server = context(ssl.Purpose.CLIENT_AUTH, own, own, tmp_path)
    assert shake_hands(server, context(ssl.Purpose.SERVER_AUTH, own, own, tmp_path))
    for key, trusted in ((other, own), (own, other), (other, other)):
        assert not shake_hands(server, context(ssl.Purpose.SERVER_AUTH, key, trusted, tmp_path))


@pytest.mark.parametrize("number", range(5))
def test_certificates_can_be_read_by_others(number):
    details = ssl._ssl._test_decode_cert  # type: ignore[attr-defined]
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(make_credentials().certificate)
        file.flush()
        assert details(file.name)["subject"] == ((("commonName", "allfocus"),),)


def test_nobody_else_runs_code_in_a_local_cluster(tmp_path):
    with Cluster(workers=1, memory_limit=10**9) as cluster:
        cluster.submit("own", len, "four")
        while cluster.waiting:
            outcomes = cluster.collect(1.0)
        assert outcomes == {"own": 4}
        address = cluster._local.scheduler_address
        assert address.startswith("tls://127.0.0.1:")
        workers = list(cluster._client.scheduler_info(n_workers=-1)["workers"])
        assert workers
        assert all(worker.startswith("tls://") for worker in workers)
        intruder = (
            "import sys, distributed\n"
            "client = distributed.Client(sys.argv[1], timeout=4)\n"
            "print(client.submit(open, sys.argv[2], 'w').result(timeout=4))\n"
        )
        for where in (address, address.replace("tls", "tcp")):
            words = [sys.executable, "-c", intruder, where, str(tmp_path / "hacked")]
            assert subprocess.run(words, capture_output=True, timeout=120, check=False).returncode != 0
        security = distributed.Security(
            require_encryption=True,
            tls_ca_file=make_credentials().certificate,
            tls_client_key=(foreign := make_credentials()).key,
            tls_client_cert=foreign.certificate,
        )
        with pytest.raises(OSError, match=r".*"):
            distributed.Client(address, security=security, timeout=4, set_as_default=False)
    assert not (tmp_path / "hacked").exists()


def test_an_encrypted_address_without_certificates_is_a_clear_error():
    with pytest.raises(InputError, match=r"needs certificates.*cluster\.md"), Cluster("tls://127.0.0.1:1", patience=1):
        pass


def test_certificates_that_are_not_there_are_named(monkeypatch, tmp_path):
    import dask

    files = {"ca-file": str(tmp_path / "ca.pem"), "client": {"key": str(tmp_path / "k"), "cert": str(tmp_path / "c")}}
    with (
        dask.config.set({"distributed.comm.tls": {**dask.config.get("distributed.comm.tls"), **files}}),
        pytest.raises(InputError, match=r"no such file; check the settings of TLS"),
        Cluster("tls://127.0.0.1:1", patience=1),
    ):
        pass
