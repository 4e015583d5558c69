# %% [markdown]
# # The results of a sweep
#
# `sweep` is the directory that `rmreplay sweep experiment.yaml -o sweep` writes. Its runs may use policies of the
# simulator, Slurm, or the model of Slurm. summary.json has the metrics of each cell of the grid and of each run, which
# docs/COMPARING.md explains. Each run also has its own tables.

# %%
import json
from pathlib import Path

import duckdb
import pandas as pd

sweep = Path("sweep")
summary = json.loads((sweep / "summary.json").read_text())
print(f"{summary['name']}: {summary['runs']} runs, {summary['failed']} failed, {summary['invalid']} not valid")

# %% [markdown]
# ## One row for each run

# %%
runs = pd.json_normalize(
    [{**cell["coordinates"], "cell": cell["cell"], **run} for cell in summary["cells"] for run in cell["runs"]]
)
runs = runs[(runs.state == "complete") & runs.valid]
axes = list({axis: None for cell in summary["cells"] for axis in cell["coordinates"]})
runs[axes] = runs[axes].fillna("")
print(runs[["cell", "seed", "metrics.mean_wait_s", "metrics.utilization"]])

# %% [markdown]
# ## A metric as a table over the varied settings
# Cells of the simulator have a policy and a machine. Cells of Slurm and of its model have a cluster, an edit and a
# release.

# %%
rows, *columns = [axis for axis in axes if runs[axis].nunique() > 1] or ["cell"]
table = runs.pivot_table(index=rows, columns=columns, values="metrics.mean_wait_s")
print(table)

# %% [markdown]
# ## The jobs of all runs
# One query reads the tables of all runs. The name of a row's file tells the run. A job that was requeued or preempted
# has its earlier runs in `segments`; they do not count as wait.

# %%
jobs = duckdb.sql(f"""
    SELECT r.cell, count(*) AS jobs, quantile_cont(wait_s, 0.9) AS p90_wait_s, avg((wait_s > 3600)::INT) AS over_an_hour
    FROM (SELECT filename, (epoch_ns(start_time) - epoch_ns(submit_time) - coalesce(list_sum([
              epoch_ns(s.end_time) - epoch_ns(s.start_time) for s in segments if s.start_time < start_time]), 0)) / 1e9 AS wait_s
          FROM read_parquet('{sweep}/**/jobs.parquet', filename = true)
          WHERE start_time IS NOT NULL AND state <> 'REJECTED')
    JOIN runs r ON filename = '{sweep}/' || r.dir || '/jobs.parquet' GROUP BY r.cell ORDER BY p90_wait_s""").df()
print(jobs)
