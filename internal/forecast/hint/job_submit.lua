-- Tells users, in one line, which time limit jobs like theirs need and when such a job would start. It changes no job,
-- and never fails or delays a submission by more than 0.2 seconds: without an answer it says nothing, and asks again
-- after a minute. slurmctld waits for each answer, so cli_filter.lua is better wherever users submit on login nodes.
-- slurm.conf: JobSubmitPlugins=lua. The file belongs beside slurm.conf, as job_submit.lua, where slurmctld runs.

local program = "/usr/bin/rmreplay"
local predict = "http://127.0.0.1:8765"  -- rmreplay predict serve; "" if there is none
local forecast = "http://127.0.0.1:8766" -- rmreplay forecast serve, or the path of its socket; "" if there is none

local silent = 0 -- until when nobody is asked

local function quoted(text)
  return "'" .. tostring(text):gsub("'", "'\\''") .. "'"
end

local function hint(job)
  local now = os.time()
  if now < silent then
    return
  end
  local words = {"exec timeout -s KILL 0.18", quoted(program), "predict hint --predict-server", quoted(predict),
    "--forecast-server", quoted(forecast)}
  for name, key in pairs({user = "user_name", name = "name", account = "account", partition = "partition", qos = "qos",
      limit = "time_limit", nodes = "min_nodes", tasks = "num_tasks"}) do
    local value = job[key]
    if value ~= nil and value ~= slurm.NO_VAL and value ~= slurm.NO_VAL16 then
      if type(value) == "number" then
        value = string.format("%.0f", value)
      end
      table.insert(words, name .. "=" .. quoted(value))
    end
  end
  local pipe = io.popen(table.concat(words, " ") .. " </dev/null 2>/dev/null")
  if not pipe then
    return
  end
  local line = pipe:read("*l")
  pipe:close()
  if line and line ~= "" then
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
