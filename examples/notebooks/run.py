# %% [markdown]
# # The tables of a run
#
# `run` is the directory of a run, for example of
#
#     rmreplay workload generate example --seed 1 -o demo
#     rmreplay simulate demo/day.jsonl --cluster demo/cluster --policy slurm -o run
#
# docs/SCHEMA.md has all columns. The figures below are those of `rmreplay metrics run`.

# %%
import json
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow.parquet as pq

run = Path("run")
manifest = json.loads((run / "manifest.json").read_text())
print(manifest["engine"], manifest["state"], "valid" if manifest["valid"] else "NOT VALID: see its warnings")

# %% [markdown]
# ## Jobs with pandas
# Columns with durations end in `_ns`. Columns with instants end in `_time`; an instant is missing (`NaT`) if the event
# never happened, as `start_time` for a job that was cancelled before it started. The cell reads only the columns that it
# needs: the texts of the requests take most of the file.

# %%
columns = ["job", "user", "partition", "state", "submit_time", "start_time", "end_time", "processors", "segments"]
jobs = pq.read_table(run / "jobs.parquet", columns=columns).to_pandas()
accepted = jobs[jobs.state != "REJECTED"]

# %% [markdown]
# ## Waits
# A job that was suspended, requeued or preempted held processors in several periods, its `segments`. For all other
# jobs the list is empty: they held their processors from start to end. For a job that was requeued or preempted,
# `start_time` is the start of its last run, and its earlier runs do not count as wait.


# %%
def periods(job):
    if len(job.segments):
        utc = [(pd.to_datetime(s["start_time"], utc=True), pd.to_datetime(s["end_time"], utc=True)) for s in job.segments]
        return [(start, end, s["processors"]) for (start, end), s in zip(utc, job.segments)]
    return [] if pd.isna(job.start_time) else [(job.start_time, job.end_time, job.processors)]


def waited_s(job):
    lost = [end - start for start, end, _ in periods(job) if start < job.start_time]
    return (job.start_time - job.submit_time - sum(lost, pd.Timedelta(0))).total_seconds()


wait_s = pd.Series({job.Index: waited_s(job) for job in accepted.itertuples() if not pd.isna(job.start_time)})
mean_wait_s, p90_wait_s, max_wait_s = wait_s.mean(), wait_s.quantile(0.9), wait_s.max()
makespan_s = (accepted.end_time.max() - accepted.start_time.min()).total_seconds()
print(f"{len(wait_s)} jobs started; waits: mean {mean_wait_s:.1f} s, P90 {p90_wait_s:.1f} s, longest {max_wait_s:.0f} s")

# %%
by_user = accepted.assign(wait_s=wait_s).groupby("user").wait_s.agg(["count", "mean", "max"])
print(by_user.sort_values("mean", ascending=False).head())

# %% [markdown]
# ## Processors in use

# %%
held = pd.DataFrame([p for job in accepted.itertuples() for p in periods(job)], columns=["start", "end", "processors"])
used_processor_s = ((held.end - held.start).dt.total_seconds() * held.processors).sum()
utilization = used_processor_s / (makespan_s * manifest["cluster"]["processors"])
changes = pd.concat([held.set_index("start").processors, -held.set_index("end").processors]).groupby(level=0).sum()
in_use = changes.cumsum()
print(f"utilization {utilization:.1%}; most processors in use: {in_use.max()} at {in_use.idxmax()}")
# in_use.plot(drawstyle="steps-post")

# %% [markdown]
# ## Why jobs waited, with DuckDB
# Each row `waiting` of events.parquet has the reason for which a job is pending. The reason is valid until the job's next
# row or its start, which may be a moment before the row `started`. (A row with an array's name and the task -1 is about
# all pending tasks of the array. This query leaves arrays out; `rmreplay metrics` includes them.)

# %%
reasons = duckdb.sql(f"""
    SELECT reason, count(DISTINCT job) AS jobs, sum(until - since) / 3.6e12 AS hours FROM (
        SELECT job, kind, e.reason, epoch_ns(at_time) AS since, least(
            lead(epoch_ns(at_time)) OVER (PARTITION BY job ORDER BY e.file_row_number),
            epoch_ns(coalesce(j.start_time, j.end_time))) AS until
        FROM read_parquet('{run}/events.parquet', file_row_number = true) e
        JOIN '{run}/jobs.parquet' j USING (job, task) WHERE task = -1)
    WHERE kind = 'waiting' GROUP BY reason ORDER BY hours DESC""").df()
print(reasons)

# %% [markdown]
# ## The scheduler's work
# scheduler.parquet has slurmctld's counters. The difference of two rows counts the events between them, unless the
# counters were reset in between. Replays on Slurm and simulations with the policy `slurm` have this table.

# %%
if (run / "scheduler.parquet").exists():
    cycles = duckdb.sql(f"""
        SELECT at_time, main_cycles - CASE WHEN since_time = lag(since_time) OVER (ORDER BY at_time)
            THEN lag(main_cycles) OVER (ORDER BY at_time) ELSE 0 END AS main_cycles
        FROM '{run}/scheduler.parquet'""").df()
    main_cycles = int(cycles.main_cycles.sum())
    print(f"{main_cycles} cycles of the main scheduler; most in an interval: {cycles.main_cycles.max()}")
