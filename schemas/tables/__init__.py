"""One record per table of the warehouse, each with its Arrow schema; `registry` names them all."""
