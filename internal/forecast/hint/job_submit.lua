-- Tells users, in one line, which time limit jobs like theirs need and when such a job would start. It never changes a
-- job or makes a submission fail, and takes 0.2 seconds at most: without an answer it says nothing, and asks nobody for
-- a minute. slurmctld waits for each answer, so cli_filter.lua is better wherever users submit on login nodes.
-- slurm.conf: JobSubmitPlugins=lua. The file belongs beside slurm.conf, as job_submit.lua, where slurmctld runs.

local program = "/usr/bin/rmreplay"
--ask.lua--

local silent = 0 -- until when nobody is asked

local function hint(job)
  local now = os.time()
  if now < silent then
    return
  end
  local words = {}
  for name, key in pairs({user = "user_name", name = "name", account = "account", partition = "partition", qos = "qos",
      limit = "time_limit", nodes = "min_nodes", tasks = "num_tasks"}) do
    local value = job[key]
    if value ~= nil and value ~= slurm.NO_VAL and value ~= slurm.NO_VAL16 then
      if type(value) == "number" then
        value = string.format("%.0f", value)
      end
      table.insert(words, word(name, value))
    end
  end
  local line = answer(words)
  if line then
    slurm.log_user("%s", line)
  else
    silent = now + 60
  end
end

function slurm_job_submit(job, partitions, uid)
  pcall(hint, job)
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
  return slurm.SUCCESS
end
