import pickle
import secrets

import numpy as np
import pytest

from privboost.randomness import keystream
from privboost.randomness.keystream import KeyStream


def test_a_seed_repeats_and_the_system_does_not(monkeypatch):
    monkeypatch.setattr(keystream, "secrets", secrets)
    assert (KeyStream.seeded(1).words(8) == KeyStream.seeded(1).words(8)).all()
    assert (KeyStream.seeded(1).words(8) != KeyStream.seeded(2).words(8)).any()
    assert (KeyStream.secure().words(8) != KeyStream.secure().words(8)).any()


def test_words_do_not_depend_on_how_they_are_asked_for():
    one, two = KeyStream.seeded(3), KeyStream.seeded(3)
    np.testing.assert_array_equal(one.words(10), np.concatenate([two.words(3), two.words(7)]))


def test_children_differ_and_are_given_once():
    parent = KeyStream.seeded(4)
    a, b = parent.child("a"), parent.child("b")
    assert (a.words(4) != b.words(4)).any()
    assert (
        KeyStream.seeded(4).child("a").words(4) == KeyStream.seeded(4).child("a").words(4)
    ).all()
    with pytest.raises(ValueError, match="used already"):
        parent.child("a")


def test_words_are_those_of_aes_256_ctr():
    """The counter starts at zero: the stream is AES of 0, 1, 2, … as 16-byte blocks."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key = bytes(range(32))
    ecb = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # an independent way to AES
    blocks = b"".join(ecb.update(k.to_bytes(16, "big")) for k in range(3))
    assert KeyStream(key).words(6).tobytes() == blocks


def test_a_key_stays_inside():
    stream = KeyStream(bytes(range(32)))
    assert "\\x01" not in repr(stream)
    with pytest.raises(TypeError, match="must not leave"):
        pickle.dumps(stream)
