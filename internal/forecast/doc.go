// Package forecast says when pending jobs will start. A [Queue] has the data that a scheduler has at an instant. The
// package draws a run time for each job of the queue, and simulates the scheduler from that instant on. Many
// simulations with different run times (realizations) give a distribution of each job's start.
//
// A queue is the state of a recorded run at an instant ([Course.Freeze]), or comes from the output
// of Slurm's commands (package capture). It is a workload whose window begins at that instant. The
// running jobs are preset jobs, and the pending jobs have their age.
//
// A forecast depends on what it assumes. Run times are unknown, so they are drawn from a
// distribution ([RunTimes]). Later submissions are unknown as well, and jobs of a higher priority
// delay the jobs that wait. [Arrivals] says which later submissions a forecast assumes.
//
// [Evaluate] compares forecasts with what a run did; docs/measurements/forecast.md has the figures.
package forecast
