// Package tune looks for values of a resource manager's parameters that serve a workload better,
// and proves what it found on data that the search has not seen.
//
// # The search
//
// The search is an iterated race (López-Ibáñez, Dubois-Lacoste, Pérez Cáceres, Birattari and
// Stützle, "The irace package: Iterated racing for automatic algorithm configuration", Operations
// Research Perspectives 3, 2016). A setting gives each parameter a value. A block is a workload
// with a seed. In a race all settings are measured on one block after the other. After three
// blocks, and after each later block, [stats.Friedman] ranks the settings within the blocks, and
// settings that are significantly worse than the best leave the race. The survivors are the parents
// of the next settings, which are drawn ever closer to them. The site's own setting takes part in
// every race, and never leaves it.
//
// The search differs from irace in four ways. The first settings are a Latin hypercube. Among values without an
// order, a new setting keeps its parent's value with a probability that is the same for all parents; in irace each
// parent has a probability for each value. A race of two settings uses the same test as a race of many settings.
// Numbers have at most three significant digits.
//
// Constraints compare a setting with the site's own setting over the same blocks. In a race, a setting that
// breaks a constraint ranks after all settings that keep all constraints, and a setting with a failed run
// ranks last.
//
// At the end the best settings run on all blocks, and the best setting is simplified: one parameter
// after the other goes back to the site's value, if the setting without this change keeps 95 % of
// its gain in the search. (Fawcett and Hoos, "Analysing differences between algorithm
// configurations through ablation", J. Heuristics 22, 2016, asks the same question one step at a
// time.)
//
// # The proof
//
// The best setting of a search looks better than it is, because it was chosen for its good results
// (the winner's curse). So the measurements of the search are not evidence. This setting and the
// site's own setting run on held-out blocks: workloads, or at least seeds, that no decision of the
// search has seen. One two-sided test of the paired differences decides ([stats.PairedTest]). It is
// the only test. So if a search found only noise, the test calls this a difference in at most 5 %
// of cases: in half of these a gain, in the other half a loss. TestNothingToFind measures this.
//
// The interval of the gain holds for the population from which the blocks are drawn. With fewer
// than six held-out workloads, this population is the realizations of these workloads, and the
// interval says nothing about other days. With six or more, a workload is the unit of the test.
//
// # Resuming
//
// A trial is a run of a sweep ([rmreplay/internal/sweep]), in a cell that has the name of its
// setting. All decisions follow from the file, the seed and the records. So the search keeps no
// state of its own: the same command makes the same decisions again, and finds its earlier runs
// complete.
package tune
