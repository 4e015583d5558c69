// Package tune searches for values of a resource manager's parameters with which a workload has
// better results. It tests its result on data that the search did not use.
//
// # The search
//
// The search is an iterated race (López-Ibáñez, Dubois-Lacoste, Pérez Cáceres, Birattari and
// Stützle, "The irace package: Iterated racing for automatic algorithm configuration", Operations
// Research Perspectives 3, 2016). A setting gives each parameter a value. A block is a workload with
// a seed. In a race all settings run on one block after the other. After three blocks, and after
// each later block, [stats.Friedman] ranks the settings within the blocks, and settings that are
// significantly worse than the best setting are removed from the race. The settings that remain are
// the parents of the next settings. In each race, new settings are drawn closer to their parents
// than in the race before. The site's own setting is in every race, and is never removed.
//
// The search differs from irace in four ways. The first settings are a Latin hypercube. For a parameter whose values
// have no order, a new setting has its parent's value with a probability that is the same for all parents; in irace
// each parent has a probability for each value. A race of two settings uses the same test as a race of many settings.
// Numbers have at most three significant digits.
//
// Constraints compare a setting with the site's own setting over the same blocks. In a race, a setting that breaks a
// constraint ranks after all settings that fulfil all constraints, and a setting with a failed run ranks last.
//
// At the end the best settings run on all blocks, and the best setting is simplified: one parameter
// after the other is set back to the site's value, if the setting without this change still has 95 %
// of its gain in the search. (Fawcett and Hoos, "Analysing differences between algorithm
// configurations through ablation", J. Heuristics 22, 2016, examine the effects of single changes in
// a similar way.)
//
// # The proof
//
// The best setting of a search seems better than it is, because it was chosen for its good results (the winner's
// curse), so the measurements of the search are not evidence. The best setting and the site's own setting also run on
// held-out blocks: workloads, or at least seeds, that the search did not use. One two-sided test of the paired
// differences decides ([stats.PairedTest]). There is no other test, so if a search found only noise, the test reports a
// difference in at most 5 % of cases. In half of the false reports the difference is a gain, and in the other half a
// loss. TestNothingToFind measures this.
//
// The interval of the gain is about the population from which the blocks are drawn. With fewer than
// six held-out workloads, this population is the realizations of these workloads, and the interval
// does not cover other days. With six or more held-out workloads, the unit of the test is a
// workload.
//
// # Resuming
//
// A trial is a run of a sweep ([rmreplay/internal/sweep]), in a cell that has the name of its setting. All decisions
// follow from the file, the seed and the records, so the search has no other state: if the same command runs again, it
// makes the same decisions and uses its earlier complete runs.
package tune
