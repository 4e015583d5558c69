-- job_submit.lua for a site with "rmreplay io serve --class-table". slurmctld reads it from the
-- directory of slurm.conf (JobSubmitPlugins=lua). It asks nothing over the network.
--
-- A job's class is NAME if its comment begins with jobtype=NAME; and else made from its user and name,
-- and written into the comment. The job gets the licences that its class is expected to need. If the
-- user requested such licences, the request stays as it is.
local TABLE = "/var/lib/rmreplay/classes" -- lines of NAME LICENSES MINUTES
local LICENSE = "lustre"                  -- Licenses=lustre:10000 in slurm.conf

local function class_of(job, uid)
	local comment = job.comment or ""
	local name = string.match(comment, "^jobtype=([%w_]+);")
	if name == nil then
		name = "u" .. string.format("%d", uid) .. "_" .. string.sub(string.gsub(job.name or "", "[^%w_]", "_"), 1, 64)
		job.comment = "jobtype=" .. name .. ";" .. comment
	end
	return name
end

function slurm_job_submit(job, partitions, uid)
	local name, wanted = class_of(job, uid), job.licenses or ""
	local file = io.open(TABLE, "r")
	if file == nil or string.find("," .. string.gsub(wanted, "[|;]", ","), "," .. LICENSE .. "%f[%W]") then
		if file then file:close() end
		return slurm.SUCCESS
	end
	for line in file:lines() do
		local known, licenses = string.match(line, "^(%S+) (%d+) ")
		if known == name and licenses ~= "0" and not string.find(wanted, "|", 1, true) then
			job.licenses = (wanted == "" and "" or wanted .. ",") .. LICENSE .. ":" .. licenses
		end
	end
	file:close()
	return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
	return slurm.SUCCESS
end
