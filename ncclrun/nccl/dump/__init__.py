"""Settings in what people have instead of a conf file: environments, scripts, YAML, documents, programs."""
