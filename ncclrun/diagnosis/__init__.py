"""Pure judgements: from facts and records to findings and the first failure."""
