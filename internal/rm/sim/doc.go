// Package sim is the built-in simulator: a deterministic discrete-event engine behind [rm.ResourceManager].
//
// It has three parts. The [Engine] has virtual time and the jobs: submission, dependencies, begin times, ends,
// time limits. The [Machine] has the free processors, the running jobs with their latest ends, and the choice
// of nodes. A [Policy] decides which pending jobs start, and when. Package policy has the policies of the
// literature, and docs/SIMULATOR.md shows how to write another one.
//
// With [EndsFirst], the events of one instant have this order: jobs that end leave the machine; the machine changes,
// for example by reservations; the policy's Schedule is called once; then the policy gets the jobs that become
// eligible, one by one in the order of submission. Nothing depends on real time or on the order of a map: the same
// input gives the same events.
package sim
