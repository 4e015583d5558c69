// Package sim is the built-in simulator: a deterministic discrete-event engine behind
// [rm.ResourceManager].
//
// It has three parts. The [Engine] keeps time, jobs and their fates: submission,
// dependencies, begin times, ends, time limits. The [Machine] knows what is free, what
// runs until when at the latest, and where a job would go. A [Policy] decides which
// waiting jobs start, and when; the package policy below has those of the literature,
// and docs/SIMULATOR.md shows how to write another one.
//
// What happens at one instant is ordered. First the jobs that end are taken off the
// machine, all of them before the policy is asked once; then what changes the machine
// (reservations); then the jobs that become eligible are offered to the policy one by
// one, in the order of their submission. Nothing depends on the order of a map or on
// real time, so that the same input gives the same events.
package sim
