-- Tells users of sbatch and salloc, in one line, which time limit jobs like theirs need and when such a job would start.
-- It never changes a job or makes a submission fail, and takes 0.2 seconds at most: without an answer it says nothing.
-- slurm.conf: CliFilterPlugins=lua. The file belongs beside slurm.conf, as cli_filter.lua, on each login node.

local program = "rmreplay"
--ask.lua--

local function hint(options)
  local words = {}
  for name, key in pairs({name = "job-name", account = "account", partition = "partition", qos = "qos", limit = "time",
      nodes = "nodes", tasks = "ntasks"}) do
    if options[key] ~= nil then
      table.insert(words, word(name, options[key]))
    end
  end
  local line = answer(words)
  if line then
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
