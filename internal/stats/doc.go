// Package stats says whether two sets of realizations differ by more than chance.
//
// A schedule is one draw from a random process. Two runs of one workload on one machine with one configuration differ,
// by hours for single jobs: a scheduling pass that begins a moment later finds a different queue (Simakov et al.,
// "Developing Accurate Slurm Simulator", PEARC'22). Only the distributions of runs can be compared. The unit of
// observation in a comparison of runs is therefore a whole run, never a job. The jobs of one run share the machine: one
// job gains the hour that another job loses. A test that treats 10,000 jobs of one run as 10,000 observations finds
// "significant" differences even between two runs of one configuration.
//
// # One number for each run
//
// [Bootstrap] gives a confidence interval for the mean of a metric over runs, or for the
// difference of two means. The interval is BCa (bias-corrected and accelerated; Efron, JASA 82,
// 1987), which follows the skewness of waits. Its tails are widened as in Hesterberg's expanded
// percentile interval ("What Teachers Should Know About the Bootstrap", The American Statistician
// 69(4), 2015, section 5.3), because the plain bootstrap of ten runs is too narrow: its variance
// is too small by the factor (n−1)/n, and its tails are those of the normal distribution instead
// of Student's t. The interval misleads in these cases:
//   - There are fewer than about eight runs on each side. Five values do not show the shape of
//     their distribution, and fewer than 95 % of the 95 % intervals contain the true value.
//   - A metric depends on one job, such as the longest wait. Many bootstrap samples then lack the
//     run with the decisive value.
//   - Two intervals are compared by eye. Overlapping intervals do not mean that there is no
//     difference. Look at the interval of the difference.
//   - It is used as a prediction of a single run. It is an interval for the mean over runs.
//
// [MeanTest] is a permutation test of the same difference. Its p-value is exact in finite samples if the two sets have
// the same distribution. With equal means but different spreads (and unequal sizes), the test may reject too often. In
// a table of twenty metrics, one p-value is below 0.05 by chance on average: [Holm] corrects for the number of metrics.
//
// [HedgesG] measures how large a difference is in standard deviations of a run, with a correction
// for few runs, and [CliffsDelta] in shares of pairs of runs. A large g with a small absolute
// difference is common here, because runs of a calm workload hardly differ: "significant" then
// means that the difference is real, not that it matters.
//
// # The whole schedule
//
// Mean waits can be equal although the waits of all jobs differ: if one job starts earlier,
// another job starts later. PEARC'22 therefore represents each run by one point, the vector of its
// jobs' waits, and compares Euclidean distances ([Distances]) within and between sets. If both
// sets come from one distribution, two runs of one set are as far apart as two runs of different
// sets. Two tests formalize this comparison.
//
// [Energy] is the permutation test on the energy distance (Székely and Rizzo, 2004; J. Statist. Plann. Inference 143,
// 2013). With enough runs it detects every difference between two distributions, so look at it first. The energy
// distance depends on the distances themselves, so it misleads if a few jobs with long and erratic waits dominate the
// distance: their noise hides an effect on a thousand short jobs.
//
// [Depth] is the multivariate Wilcoxon test by data depth (Liu and Singh, JASA 88(421), 1993), the
// class of tests that PEARC'22 refers to through Jurečková and Kalina (Bernoulli 18(1), 2012).
// Depth measures how central a point is in a cloud. The test compares how central the runs of one
// set are in the other set with how central the other set's own runs are. The depth is the spatial
// depth (Vardi and Zhang, PNAS 97(4), 2000; Serfling 2002),
//
//	D(x; F) = 1 − ‖ mean over y of (x − y) / ‖x − y‖ ‖
//
// because there are almost always fewer runs (n) than jobs (d). With n ≤ d all points are corners of their convex hull,
// so halfspace and simplicial depth are equal for all of them, and the covariance matrix of Mahalanobis and of
// projection depth is singular. Spatial depth needs no hull and no covariance matrix. Spatial depth is bounded, and
// does not depend on how far away an outlier is, so it is robust, but does not detect a difference that is only in the
// distance of a few outlying runs. The test by depth misleads in these cases:
//   - Depths are computed in the pooled sample, as by some implementations. Such a test detects
//     only differences of spread, and no shift. Here depths are computed in each set, without the
//     run itself, and the smaller of the two Q decides. So the test detects both.
//   - There are very few runs in very many dimensions. All depths become similar, and the test
//     loses power. The probability of a false rejection is still at most the level.
//
// All p-values come from permuting the runs. If there are few enough arrangements, a test counts all of them; otherwise
// it draws random arrangements with a seed, and p = (1 + extreme) / (1 + drawn). This value of p is never 0, and the
// probability of a false rejection stays at most the level (Phipson and Smyth, SAGMB 9(1), 2010). Permutation assumes
// that runs are independent of each other. Realizations with the same seeds on both sides are pairs and violate this
// assumption. For such realizations the tests are too cautious. With three runs on each side the smallest possible
// p-value is 0.1, even for the largest difference: see [SmallestP].
//
// A test that does not reject does not show equality. [Detectable] returns the difference that the
// runs would probably have detected. If smaller differences matter, there are too few runs.
// [Needed] returns how many runs detect a given difference, from the [PooledDeviation] of a pilot
// study. The standard deviation of few runs is uncertain: see [DeviationInterval].
package stats
