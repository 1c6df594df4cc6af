"""Privacy accounting: events, accountants, composition, calibration, the ledger."""
