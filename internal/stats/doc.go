// Package stats says whether two sets of realizations differ by more than chance.
//
// A schedule is one draw of a random process. Two runs of one workload on one
// machine with one configuration differ, by hours for single jobs, because a
// scheduler that wakes a moment later finds another queue (Simakov et al.,
// "Developing Accurate Slurm Simulator", PEARC'22). What can be compared is the
// distribution of such runs. The unit of observation here is therefore always a
// whole run, never a job: jobs of one run share the machine, an hour that one of
// them loses another one gains, and a test that takes 10,000 jobs of one run for
// 10,000 observations finds "significant" differences between a run and its twin.
// Nothing in this package can be computed from one run, and nothing is.
//
// # One number for each run
//
// [Bootstrap] gives a confidence interval for the mean of a metric over runs, or
// for the difference of two means. The interval is BCa (bias-corrected and
// accelerated; Efron, JASA 82, 1987), which follows the skewness of waits, with the
// tails widened as Hesterberg's expanded percentile interval has them ("What
// Teachers Should Know About the Bootstrap", The American Statistician 69(4), 2015,
// section 5.3), because the plain bootstrap of ten runs is too narrow: its
// variance is short by (n−1)/n and its tails are the normal's instead of Student's.
// It misleads
//   - with fewer than about eight runs a side: resampling five values cannot know
//     the shape of what they come from. 95 % intervals then cover less often;
//   - for a metric that one job decides, such as the longest wait: most samples
//     have never seen the value that matters;
//   - when read across: two intervals that overlap do not say that there is no
//     difference. Look at the interval of the difference;
//   - as a promise about a single run: it is about the mean over runs.
//
// [MeanTest] is a permutation test of the same difference. Its p-value is exact in
// finite samples if the two sets have the same distribution. If they have equal means
// and different spreads (and unequal sizes), it may reject too often.
// A table of twenty metrics holds on average one p-value below 0.05 for nothing:
// [Holm] corrects for having looked at all of them.
//
// [HedgesG] and [CliffsDelta] say how large a difference is, in standard
// deviations of a run and in pairs of runs. A large g with a small absolute
// difference is common here, since runs of a calm workload hardly differ at all:
// "significant" then means that the difference is real, not that it matters.
//
// # The whole schedule
//
// Mean waits can agree while nobody's wait does: if one job is served earlier,
// another is served later. PEARC'22 therefore takes each run for one point, the
// vector of its jobs' waits, and compares Euclidean distances ([Distances]) within
// and between sets: if both come from one distribution, a pair of runs is as far
// apart within a set as it is across. Two tests make that formal.
//
// [Energy] is the permutation test on the energy distance (Székely and Rizzo, 2004;
// J. Statist. Plann. Inference 143, 2013). It is consistent against every
// difference between two distributions, and is the one to look at first. It is in
// units of the distances, so it misleads where a few jobs with long and erratic
// waits decide the distance: an effect on a thousand short jobs drowns in the noise
// of those few.
//
// [Depth] is the multivariate Wilcoxon test by data depth (Liu and Singh, JASA
// 88(421), 1993), the class of tests that PEARC'22 refers to through Jurečková and
// Kalina (Bernoulli 18(1), 2012). Depth says how central a point is in a cloud; the
// test compares how central the runs of one set are in the other with how central
// that one's own are. The depth is the spatial depth (Vardi and Zhang, PNAS 97(4),
// 2000; Serfling 2002),
//
//	D(x; F) = 1 − ‖ mean over y of (x − y) / ‖x − y‖ ‖
//
// because there are almost always fewer runs (n) than jobs (d). With n ≤ d all
// points are corners of their convex hull, so halfspace and simplicial depth are
// the same for all of them, and the covariance of Mahalanobis and of projection
// depth is singular. Spatial depth needs neither and depends on distances alone. It
// is bounded and ignores how far away an outlier is, which makes it robust, and blind
// where only the distance of a few outlying runs differs. It misleads
//   - if depths are taken in the pooled sample, as some implementations do: that
//     tests the spread alone and has no power against a shift. Here depths are
//     taken in each set, without the run itself, and the smaller of the two Q
//     decides, so shifts and spreads both count;
//   - with very few runs in very many dimensions, where all depths become alike and
//     the test becomes weak; it still holds its level.
//
// All p-values come from permuting the runs: of all arrangements where they are few
// enough, otherwise of seeded random ones with (1 + extreme) / (1 + drawn), which
// is never 0 and keeps the level (Phipson and Smyth, SAGMB 9(1), 2010). Permutation
// assumes that runs are independent of each other. Realizations with the same seeds
// on both sides are pairs and violate that; the tests are then too cautious.
// With three runs a side the smallest possible p-value is 0.1, whatever the
// difference is: see [SmallestP].
//
// Not to reject is not to show equality. [Detectable] says which difference the runs
// would have found; if it is larger than what matters, there are too few.
package stats
