-- job_submit.lua for a site with "rmreplay io schedule": jobs of the driver's partitions are submitted
-- held, so that the driver decides when they start. The driver knows them by the mark in AdminComment.
-- Jobs that their users hold, or that may not start at once, are left to Slurm. Merge this script with
-- the site's own job_submit.lua.
local PARTITIONS = { batch = true } -- the partitions of the driver's option --partition
local DEFAULT = "batch"             -- the partition of jobs that name none

function slurm_job_submit(job, partitions, uid)
	if PARTITIONS[job.partition or DEFAULT] and job.priority ~= 0 and job.dependency == nil
		and job.reservation == nil and (job.begin_time or 0) == 0 then
		job.priority = 0
		job.admin_comment = "rmreplay-io=submitted;" .. (job.admin_comment or "")
	end
	return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
	return slurm.SUCCESS
end
