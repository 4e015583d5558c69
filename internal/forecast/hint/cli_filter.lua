-- Tells users of sbatch and salloc, in one line, which time limit jobs like theirs need and when such a job would start.
-- It changes no job, and never fails or delays a submission by more than 0.2 seconds: without an answer it says nothing.
-- slurm.conf: CliFilterPlugins=lua. The file belongs beside slurm.conf, as cli_filter.lua, on each login node.

local program = "rmreplay"
local predict = "http://127.0.0.1:8765"  -- rmreplay predict serve; "" if there is none
local forecast = "http://127.0.0.1:8766" -- rmreplay forecast serve, or the path of its socket; "" if there is none

local function quoted(text)
  return "'" .. tostring(text):gsub("'", "'\\''") .. "'"
end

local function hint(options)
  local words = {"exec timeout -s KILL 0.18", quoted(program), "predict hint --predict-server", quoted(predict),
    "--forecast-server", quoted(forecast)}
  for name, key in pairs({name = "job-name", account = "account", partition = "partition", qos = "qos", limit = "time",
      nodes = "nodes", tasks = "ntasks"}) do
    if options[key] ~= nil then
      table.insert(words, name .. "=" .. quoted(options[key]))
    end
  end
  local pipe = io.popen(table.concat(words, " ") .. " </dev/null 2>/dev/null")
  if not pipe then
    return
  end
  local line = pipe:read("*l")
  pipe:close()
  if line and line ~= "" then
    slurm.log_info("%s", line)
  end
end

function slurm_cli_setup_defaults(options, early)
  return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, offset)
  if options["type"] ~= "srun" then
    pcall(hint, options)
  end
  return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job, step)
  return slurm.SUCCESS
end
