"""Pure decisions: from a cluster, a job and facts to a plan."""
