"""One record for each table of the warehouse, with its Arrow schema; `registry` lists them all."""
