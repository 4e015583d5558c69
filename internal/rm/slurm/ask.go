package slurm

// askAbout asks slurmctld what has become of a job.
func (e *Engine) askAbout(c completion, in *instance) {
	e.over(c.job, in, c.outcome)
}
