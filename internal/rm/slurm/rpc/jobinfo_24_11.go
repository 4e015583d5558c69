package rpc

import "rmreplay/internal/slurmspec"

// readJobInfo2411 reads one record in the layout of 24.11. First come the fields that slurmctld
// also saves in its state, in alphabetical order (job_record_pack_common in common/job_record.c),
// and then the fields of pack_job (slurmctld/job_mgr.c).
func readJobInfo2411(d *decoder) JobInfo {
	var j JobInfo
	d.jobSaved(&j)
	d.jobComputed(&j)
	d.jobDetails2411(&j)
	d.Take(4*2, "contiguous, core specialization, cpus per task and node")
	d.U64("least memory")
	d.U32("least disk")
	d.U16("end of the step when out of memory")
	d.jobPlacement()
	return j
}

func (d *decoder) jobSaved(j *JobInfo) {
	j.Account = d.Str("account")
	d.Skip("administrator's comment", "submitting node")
	d.U32("session")
	j.ArrayJobID, j.ArrayTaskID = d.U32("array job id"), d.U32("array task id")
	d.U32("association")
	d.Mem("batch features")
	d.U16("batch flag")
	d.Mem("batch host")
	d.U64("flags")
	d.Skip("burst buffer", "burst buffer state")
	d.U64("billable resources")
	d.Skip("comment", "container", "container id", "cpus per resource")
	d.Time("deadline")
	d.U32("boot delay")
	j.DerivedEC, j.ExitCode = d.U32("derived exit code"), d.U32("exit code")
	d.Skip("extra", "failed node")
	d.federation()
	d.Mem("generic resources")
	j.GroupID = d.U32("group")
	d.U32("heterogeneous job")
	d.Mem("heterogeneous job's components")
	d.U32("heterogeneous offset")
	j.JobID = d.U32("job id")
	d.jobState(j)
	d.Time("scheduling time")
	d.Mem("licenses")
	d.U16("mail type")
	d.Skip("mail user", "mcs label", "memory per resource")
	j.Name = d.Str("name")
	d.Mem("network")
	d.Time("preemption time")
	j.RunBeforeSuspend = d.Time("time before suspension")
	j.Priority = d.U32("priority")
	d.U32("profile")
	d.U8("reboot")
	d.U32("switches")
	d.Time("resize time")
	j.Restarts = int(d.U16("restarts"))
	j.Reservation = d.Str("reservation")
	d.Skip("reserved ports", "selinux context")
	d.U32("site factor")
	d.U16("protocol version")
	j.Description = d.Str("state description")
	j.Reason = slurmspec.Reason(d.U32("reason"))
	j.Suspended = d.Time("suspend time")
	d.Mem("system comment")
	d.U32("least time")
	d.Mem("binding")
	j.TRESAlloc = d.Str("allocated resources")
	d.Skip("requested resources", "frequency", "resources of the job", "resources per node",
		"resources per socket", "resources per task")
	j.UserID = d.U32("user")
	d.Mem("user name")
	d.U32("switch wait")
	d.Mem("wckey")
}

// federation reads the fields about a federation, whose presence a flag announces
// (_dump_job_fed_details in common/job_record.c).
func (d *decoder) federation() {
	if d.U8("federation flag") == 0 {
		return
	}
	d.Mem("federation's origin")
	for range 2 {
		d.U64("federation's siblings")
		d.Mem("federation's siblings")
	}
}

func (d *decoder) jobComputed(j *JobInfo) {
	j.ArrayTasks = d.Str("array tasks")
	d.U32("array limit")
	d.timeLimit(j)
	j.Start, j.End = d.Time("start time"), d.Time("end time")
	d.U32s("priorities of partitions")
	d.Skip("partitions of priorities", "cluster")
	j.Nodes = d.Str("nodes")
	d.Mem("scheduled nodes")
	j.Partition, j.QOS = d.Str("partition"), d.Str("qos")
	d.Time("preemptable time")
	d.noResources()
	d.SkipBitmap("nodes")
}

// jobDetails2411 reads the details of the request (_pack_default_job_details). A flag says whether
// slurmctld still has these details.
func (d *decoder) jobDetails2411(j *JobInfo) {
	if d.U8("details flag") == 0 {
		j.CPUs, j.NodeCount = int(d.U32("cpus")), int(d.U32("node count"))
		d.U32("nice")
		return
	}
	d.Time("accrue time")
	j.Eligible = d.Time("eligible time")
	d.Mem("cluster features")
	d.Take(3*4, "cpu frequency")
	d.Mem("dependency")
	d.SkipBitmap("sizes to choose from")
	d.U32("nice")
	d.Take(3*2, "tasks per node and resource, and requeue")
	j.Submit = d.Time("submit time")
	d.Skip("directory", "features", "preferred features", "command")
	j.CPUs = int(d.U32("cpus"))
	d.U32("most cpus")
	j.NodeCount = int(d.U32("node count"))
	d.U32("most nodes")
	d.U32("tasks")
	d.U16("shared")
	d.Mem("crontab entry")
}
