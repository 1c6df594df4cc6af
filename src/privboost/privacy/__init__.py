"""Releases and what they cost: noise, mechanisms, events, the ledger and the accountants."""
