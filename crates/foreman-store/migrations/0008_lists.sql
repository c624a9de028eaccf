-- Lists of runs count each run's blocks by their state; a run can have thousands of them.
CREATE INDEX blocks_by_run_state ON blocks (run, state);
