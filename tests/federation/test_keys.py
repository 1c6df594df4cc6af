"""Shares, identities and sealed messages."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privboost import FederationError
from privboost.federation.channels import Channel, open_letter, seal_letter
from privboost.federation.keys import Advertised, KeyPair, derive, pair_key, session_name
from privboost.federation.shares import PRIME, Joiner, split_secret
from privboost.randomness.keystream import KeyStream


def test_the_field_is_one():
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):  # Miller and Rabin
        odd, twos = PRIME - 1, 0
        while odd % 2 == 0:
            odd, twos = odd // 2, twos + 1
        x = pow(base, odd, PRIME)
        assert x in (1, PRIME - 1) or any(
            (x := x * x % PRIME) == PRIME - 1 for _ in range(twos - 1)
        )


@settings(max_examples=50)
@given(st.data(), st.binary(min_size=32, max_size=32), st.integers(1, 9))
def test_any_threshold_of_shares_tell_the_secret(data, secret, parties):
    threshold = data.draw(st.integers(1, parties))
    shares = split_secret(secret, threshold, parties, KeyStream.seeded(1))
    holders = data.draw(st.permutations(range(parties)))[:threshold]
    assert Joiner(holders).join(dict(enumerate(shares))) == secret
    if threshold > 1:
        assert Joiner(holders[1:]).join(dict(enumerate(shares))) != secret


def test_fewer_shares_fit_every_secret():
    """For any two shares of three there is a third for each secret: they tell nothing."""
    shares = split_secret(b"a" * 32, 3, 3, KeyStream.seeded(1))
    weights = Joiner([0, 1, 2])._weights
    for wanted in (b"b" * 32, bytes(32)):
        known = sum(
            w * int.from_bytes(s, "little") for w, s in zip(weights[:2], shares[:2], strict=True)
        )
        third = (int.from_bytes(wanted, "little") - known) * pow(weights[2], -1, PRIME) % PRIME
        forged = {0: shares[0], 1: shares[1], 2: third.to_bytes(33, "little")}
        assert Joiner([0, 1, 2]).join(forged) == wanted


def test_derived_keys_differ_by_every_word():
    key = bytes(32)
    made = {derive(key, *words) for words in (("a", "b"), ("ab",), ("a", "b", 1), ("a", 1, "b"))}
    assert len(made | {derive(b"k" * 32, "a", "b")}) == 5


def ends(agreed="x"):
    pairs = {name: (KeyPair(), KeyPair()) for name in ("a", "b", "c")}
    said = [
        Advertised(name, own.public, fresh.public, name.encode() * 32)
        for name, (own, fresh) in pairs.items()
    ]
    return pairs, said, session_name(agreed, said)


def test_two_ends_share_a_key_of_one_session():
    pairs, said, session = ends()
    ab = pair_key(*pairs["a"], said[1], session)
    assert ab == pair_key(*pairs["b"], said[0], session)
    assert ab != pair_key(*pairs["a"], said[2], session)
    assert ab != pair_key(*pairs["a"], said[1], session_name("y", said))
    impostor = Advertised("b", KeyPair().public, said[1].fresh, said[1].nonce)
    assert ab != pair_key(*pairs["a"], impostor, session)
    for odd in (b"", bytes(32)):
        with pytest.raises(FederationError, match="no public key"):
            pairs["a"][0].shared(odd)


def test_a_private_key_stays_where_it_is():
    key = KeyPair()
    assert key.private_bytes().hex() not in repr(key)
    assert KeyPair(key.private_bytes()).public == key.public
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(key)
    with pytest.raises(ValueError, match="32 bytes"):
        KeyPair(b"short")


@settings(max_examples=100)
@given(st.data())
def test_a_channel_reads_each_message_once_in_order_and_nothing_else(data):
    """Messages that are delayed, doubled, reordered, forged or of another session."""
    one, two = Channel(b"k" * 32, "a", "b"), Channel(b"k" * 32, "b", "a")
    stranger = Channel(b"z" * 32, "a", "b")
    sent = [one.close({"n": n, "x": np.arange(n)}) for n in range(6)]
    forged = [stranger.close({"n": 9}), b"", b"12345678", sent[0][:-1], sent[1] + b"x"]
    forged.append(sent[2][:9] + bytes([sent[2][9] ^ 1]) + sent[2][10:])
    forged.append(two.close({"n": 7}))  # its own words, sent back
    last = -1
    for message in data.draw(st.lists(st.sampled_from(sent + forged), max_size=20)):
        body = two.open(message)
        if message in sent and sent.index(message) > last:
            last = sent.index(message)
            assert body["n"] == last
        else:
            assert body is None


def test_letters_are_for_one_reader():
    a, b = KeyPair(), KeyPair()
    letter = seal_letter(a.shared(b.public), "a", "b", {"hello": 1})
    assert open_letter(b.shared(a.public), "b", "a", letter) == {"hello": 1}
    assert open_letter(a.shared(b.public), "a", "b", letter) is None
    assert open_letter(b.shared(KeyPair().public), "b", "a", letter) is None
    assert open_letter(b.shared(a.public), "b", "a", letter[:40]) is None
