// Package sim is the built-in simulator: a deterministic discrete-event engine behind
// [rm.ResourceManager].
//
// It has three parts. The [Engine] has virtual time and the jobs: submission, dependencies,
// begin times, ends, time limits. The [Machine] has the free processors, the running jobs with
// their latest ends, and the choice of nodes. A [Policy] decides which pending jobs start, and
// when. Package policy has the policies of the literature, and docs/SIMULATOR.md shows how to
// write another one.
//
// Events of one instant have an order. First the engine removes all jobs that end from the machine,
// and then asks the policy once. Changes of the machine (reservations) come next. Then it offers
// the jobs that become eligible to the policy one by one, in the order of their submission. Nothing
// depends on the order of a map or on real time, so the same input gives the same events.
package sim
