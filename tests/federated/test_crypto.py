"""Shares, identities and sealed messages."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privboost import FederationError
from privboost.federated.crypto import (
    PRIME,
    Advertised,
    Channel,
    KeyPair,
    Reconstruction,
    confirmation,
    derive,
    extract,
    open_letter,
    pair_key,
    seal_letter,
    session_name,
    split_secret,
)
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
    assert Reconstruction(holders).secret(dict(enumerate(shares))) == secret
    if threshold > 1:
        assert Reconstruction(holders[1:]).secret(dict(enumerate(shares))) != secret


def test_fewer_shares_fit_every_secret():
    """For any two shares of three there is a third for each secret: they tell nothing."""
    shares = split_secret(b"a" * 32, 3, 3, KeyStream.seeded(1))
    weights = Reconstruction([0, 1, 2])._weights
    for wanted in (b"b" * 32, bytes(32)):
        known = sum(
            w * int.from_bytes(s, "little") for w, s in zip(weights[:2], shares[:2], strict=True)
        )
        third = (int.from_bytes(wanted, "little") - known) * pow(weights[2], -1, PRIME) % PRIME
        forged = {0: shares[0], 1: shares[1], 2: third.to_bytes(33, "little")}
        assert Reconstruction([0, 1, 2]).secret(forged) == wanted


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
    ab = pair_key("a", *pairs["a"], said[1], session)
    assert ab == pair_key("b", *pairs["b"], said[0], session)
    assert ab != pair_key("a", *pairs["a"], said[2], session)
    assert ab != pair_key("a", *pairs["a"], said[1], session_name("y", said))
    impostor = Advertised("b", KeyPair().public, said[1].fresh, said[1].nonce)
    assert ab != pair_key("a", *pairs["a"], impostor, session)
    # The same keys under other names: whoever calls itself so shares another key.
    for own, other in (("a", "d"), ("d", "b")):
        end = Advertised(other, said[1].identity, said[1].fresh, said[1].nonce)
        assert ab != pair_key(own, *pairs["a"], end, session)
    with pytest.raises(FederationError, match="none with itself"):
        pair_key("b", *pairs["a"], said[1], session)


LOW = (
    0,
    1,
    2**255 - 20,
    2**255 - 19,
    2**255 - 18,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)
"""Points of small order, some written in two ways: every product with them is 0."""


def test_points_of_small_order_are_no_keys():
    """Else whoever sends one knows the product, without any key."""
    odd = [b"", bytes(31), *(point.to_bytes(32, "little") for point in LOW)]
    for public in odd:
        with pytest.raises(FederationError, match="no public key"):
            KeyPair().shared(public)
    pairs, said, session = ends()
    for which in ("identity", "fresh"):
        for point in LOW:
            low = replace(said[1], **{which: point.to_bytes(32, "little")})
            with pytest.raises(FederationError, match="no public key"):
                pair_key("a", *pairs["a"], low, session)


def products_of(derivation, pairs, said):
    """Which products a derivation needs, each as the two secrets that give it."""
    names = {end.identity: f"identity {end.name}" for end in said}
    names |= {end.fresh: f"fresh {end.name}" for end in said}
    needed = []

    class Watched(KeyPair):
        def shared(self, public):
            needed.append(frozenset((names[self.public], names[public])))
            return super().shared(public)

    own = [Watched(pair.private_bytes()) for pair in pairs["a"]]
    derivation("a", *own, said[1], bytes(32))
    return needed


def without_crossed_products(name, identity, fresh, other, session):
    """The broken twin: identities and fresh keys are multiplied with their like alone."""
    return extract(session, identity.shared(other.identity) + fresh.shared(other.fresh))


def test_whose_secrets_give_a_pair_key():
    """A product is known to whoever has one of its two secrets; the key needs all of them."""
    pairs, said, _ = ends()

    def breaks(derivation, *secrets):
        known = set(secrets)
        return all(product & known for product in products_of(derivation, pairs, said))

    own_identity, other_identity = "identity a", "identity b"
    for derivation, twin in ((pair_key, False), (without_crossed_products, True)):
        # Whoever has a's identity, and plays b to a with a fresh key of its own.
        assert breaks(derivation, own_identity, "fresh b") == twin
        # Both identities, stolen after the session; fresh keys that were guessed.
        assert not breaks(derivation, own_identity, other_identity)
        assert not breaks(derivation, "fresh a", "fresh b")
        # An end itself, and whoever has all that is b's.
        assert breaks(derivation, own_identity, "fresh a")
        assert breaks(derivation, other_identity, "fresh b")


def test_confirmations_are_of_one_direction_key_and_session():
    pairs, said, session = ends()
    key = pair_key("a", *pairs["a"], said[1], session)
    other = pair_key("a", *pairs["a"], said[1], session_name("y", said))
    made = {confirmation(key, *way) for way in (("a", "b"), ("b", "a"), ("a", "c"))}
    assert len(made | {confirmation(other, "a", "b"), key}) == 5


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
