// Package selection chooses nodes, cores, memory and generic resources for a job like Slurm's
// select/cons_tres. It has no queue and no clock: it only answers whether and where a job fits.
//
// A [Machine] is the hardware. A [State] says what running jobs use of it, and a [Request] says what a job
// requests. [Tester.Test] is one test of the plugin (_job_test in src/plugins/select/cons_common/job_test.c of
// 22.05). [Tester.WillRun] is its search for the instant at which a job could start.
//
// The cores of a socket are equal in all decisions, so a state only counts free cores by socket.
package selection
