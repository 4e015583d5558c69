# %% [markdown]
# # The finished jobs of a data directory
#
# `store` is a data directory of `rmreplay accounting serve` or `accounting import`. It can be read while the server
# writes. docs/SCHEMA.md has all columns, and says which files count.

# %%
import json
from pathlib import Path

import duckdb

store = Path("store")


# %% [markdown]
# ## The jobs
# `store.json` names the files. Rows whose `seq` is in a file of `gone` have been replaced by later documents. If a file
# is missing, the server has replaced it meanwhile: run the cell again.


# %%
def connect():
    state = json.loads((store / "store.json").read_text())
    database = duckdb.connect()
    parts = [f"{store}/jobs/{part['name']}.parquet" for part in state["parts"]]
    gone = f"SELECT seq FROM '{store}/gone/{state['gone']['name']}'" if state.get("gone") else "SELECT -1"
    if parts:
        database.sql(f"""CREATE VIEW jobs AS SELECT * EXCLUDE (document)
            FROM read_parquet({parts}, union_by_name = true) WHERE seq NOT IN ({gone})""")
    figures = [f"{store}/health/{part['name']}" for part in state["health"] or []]
    if figures:
        database.sql(f"CREATE VIEW health AS FROM read_parquet({figures}, union_by_name = true)")
    return database, bool(figures)


database, has_health = connect()
jobs, cpu_hours = database.sql("SELECT count(*), sum(cpu_hours) FROM jobs").fetchall()[0]
print(f"{jobs} jobs, {cpu_hours:.0f} CPU hours")

# %% [markdown]
# ## Who used the machine
# Times are UTC. Days of another zone: `end_time AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Zurich'`.

# %%
users = database.sql("""
    SELECT cluster, date_trunc('day', end_time) AS day, user_name, count(*) AS jobs, sum(cpu_hours) AS cpu_hours
    FROM jobs GROUP BY ALL ORDER BY cpu_hours DESC""").df()
print(users.head())

# %% [markdown]
# ## Waits, failures and time limits
# NULL means that a value is not known or does not exist, such as the wait of a job that never ran. Averages, sums and
# quantiles leave such jobs out.

# %%
partitions = database.sql("""
    SELECT cluster, "partition", count(*) AS jobs, count(wait_s) AS ran, avg(wait_s) AS mean_wait_s,
        avg((state IN ('FAILED', 'TIMEOUT', 'NODE_FAIL', 'OUT_OF_MEMORY'))::INT) AS failed,
        sum(elapsed_s) / sum(limit_s) FILTER (elapsed_s IS NOT NULL) AS limit_used
    FROM jobs WHERE limit_s > 0 GROUP BY ALL ORDER BY jobs DESC""").df()
print(partitions)

# %% [markdown]
# ## How the schedulers fared
# The table has figures of sdiag if `accounting serve --sdiag` recorded them, or if runs were imported.

# %%
if has_health:
    print(database.sql("""
        SELECT cluster, max(pending) AS pending, sum(main_us) / sum(main_cycles) / 1e3 AS mean_cycle_ms
        FROM health GROUP BY cluster""").df())
