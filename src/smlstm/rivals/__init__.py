"""Other papers' matchers behind the same interface, on the same features, for fair comparison."""
