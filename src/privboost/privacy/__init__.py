"""Privacy accounting: events, accountants, composition, calibration and the ledger."""
