// Package selection chooses nodes, cores, memory and generic resources for a job as Slurm's
// select/cons_tres does. It models the decisions only: there is no job, no clock and no queue.
//
// A [Machine] is the hardware, a [State] what running jobs hold of it, a [Request] what a job wants.
// [Machine.Test] is one test of the plugin (_job_test in src/plugins/select/cons_common/job_test.c of
// 22.05), and [Machine.WillRun] its search for the instant at which a job could start.
//
// Cores of a socket are interchangeable for all decisions, so a state counts free cores by socket.
package selection
