package stats

import (
	"encoding/csv"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"rmreplay/internal/realdata"
)

// comparisons is the number of null comparisons for each test. The share of rejections at 5
// % then has a standard error of 0.7 %.
const comparisons = 1000

// tests are the tests of this package on two sets of points.
var tests = map[string]func(a, b [][]float64, opts TestOptions) (Test, error){
	"energy": Energy,
	"depth": func(a, b [][]float64, opts TestOptions) (Test, error) {
		t, err := Depth(a, b, opts)
		return t.Test, err
	},
	"mean": func(a, b [][]float64, opts TestOptions) (Test, error) {
		return MeanTest(column(a), column(b), opts), nil
	},
}

// column returns the first coordinate of points.
func column(points [][]float64) []float64 {
	out := make([]float64, len(points))
	for i, p := range points {
		out[i] = p[0]
	}
	return out
}

// rejections returns the share of comparisons whose p-value is at most 5 %.
func rejections(t *testing.T, n int, test func(a, b [][]float64, opts TestOptions) (Test, error), draw func(*rand.Rand) (a, b [][]float64)) float64 {
	t.Helper()
	random := rand.New(rand.NewPCG(11, 13))
	rejected := 0
	for range n {
		a, b := draw(random)
		// 99 arrangements suffice, because the +1 rule keeps the level for any number.
		result, err := test(a, b, TestOptions{ExactLimit: -1, Draws: 99, Seed: random.Uint64()})
		if err != nil {
			t.Fatal(err)
		}
		if result.P <= 0.05 {
			rejected++
		}
	}
	return float64(rejected) / float64(n)
}

// skewed returns runs that resemble runs of schedules: log-normal waits of very different scales
// that depend on each other through a factor of the whole run.
func skewed(random *rand.Rand, n, dim int) [][]float64 {
	points := cloud(random, n, dim, 0)
	for _, p := range points {
		load := random.NormFloat64()
		for i := range p {
			p[i] = float64(1+i*i) * math.Exp(p[i]/2+load/2)
		}
	}
	return points
}

// If the sets do not differ, each test rejects as often as its level says. This is checked for
// fewer and for more runs than jobs, for sets of equal and unequal sizes, and for normal and
// skewed waits.
func TestFalsePositives(t *testing.T) {
	nulls := map[string]func(*rand.Rand) (a, b [][]float64){
		"10 and 10 runs of 5 normal jobs":   func(r *rand.Rand) (a, b [][]float64) { return cloud(r, 10, 5, 0), cloud(r, 10, 5, 0) },
		"12 and 6 runs of 40 skewed jobs":   func(r *rand.Rand) (a, b [][]float64) { return skewed(r, 12, 40), skewed(r, 6, 40) },
		"8 and 8 runs of 20 skewed jobs":    func(r *rand.Rand) (a, b [][]float64) { return skewed(r, 8, 20), skewed(r, 8, 20) },
		"20 and 10 runs of 2 normal values": func(r *rand.Rand) (a, b [][]float64) { return cloud(r, 20, 2, 0), cloud(r, 10, 2, 0) },
	}
	for name, test := range tests {
		for null, draw := range nulls {
			t.Run(name+"/"+null, func(t *testing.T) {
				t.Parallel()
				share := rejections(t, comparisons, test, draw)
				t.Logf("%.1f %% rejected", 100*share)
				if share < 0.03 || share > 0.07 {
					t.Errorf("%.1f %% rejected, want 3 to 7", 100*share)
				}
			})
		}
	}
}

// The larger the difference of two sets is, the more often each test detects this difference.
func TestPowerAgainstShifts(t *testing.T) {
	const trials = 200
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			last := 0.0
			for _, shift := range []float64{0, 0.5, 1, 1.5, 2} {
				share := rejections(t, trials, test, func(r *rand.Rand) (a, b [][]float64) {
					return cloud(r, 10, 5, 0), cloud(r, 10, 5, shift)
				})
				t.Logf("shift of %.1f standard deviations, 10 and 10 runs: %.0f %% found", shift, 100*share)
				if share < last-0.05 {
					t.Errorf("shift %v: %v found, and %v of a smaller one", shift, share, last)
				}
				last = share
			}
			if last < 0.95 {
				t.Errorf("a shift of 2 standard deviations is found in %v", last)
			}
		})
	}
	for _, name := range []string{"energy", "depth"} {
		share := rejections(t, trials, tests[name], func(r *rand.Rand) (a, b [][]float64) {
			b = cloud(r, 15, 5, 0)
			for _, p := range b {
				for i := range p {
					p[i] *= 3
				}
			}
			return cloud(r, 15, 5, 0), b
		})
		t.Logf("%s: three times the spread, 15 and 15 runs: %.0f %% found", name, 100*share)
		if share < 0.9 {
			t.Errorf("%s: three times the spread is found in %v", name, share)
		}
	}
}

// Fifty runs of one workload on a real Slurm, divided in two at random: no test may reject
// more often than by chance.
func TestRealRunsSplitAtRandom(t *testing.T) {
	runs := realRuns(t)
	if len(runs) != 50 || len(runs[0]) != 20 {
		t.Fatalf("%d runs of %d jobs, want 50 of 20", len(runs), len(runs[0]))
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			share := rejections(t, comparisons, test, func(r *rand.Rand) (a, b [][]float64) {
				split := slices.Clone(runs)
				r.Shuffle(len(split), func(i, k int) { split[i], split[k] = split[k], split[i] })
				return split[:25], split[25:]
			})
			t.Logf("%.1f %% of %d splits rejected", 100*share, comparisons)
			if share < 0.03 || share > 0.07 {
				t.Errorf("%.1f %% rejected, want 3 to 7", 100*share)
			}
		})
	}
}

// realRuns reads the wait vectors of real runs, if the data exist.
func realRuns(t *testing.T) [][]float64 {
	t.Helper()
	file, err := os.Open(realdata.Path(t, "slurm", "micro", "small2.real-slurm-50-runs.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	records, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	index := make(map[[2]string]int)
	var runs [][]float64
	// slurm_mode,dtstart,run_id,job_id,submit_job,launch_job,job_epilog_complete,waittime,walltime
	for _, r := range records[1:] {
		key := [2]string{r[1], r[2]}
		if _, ok := index[key]; !ok {
			index[key] = len(runs)
			runs = append(runs, nil)
		}
		wait, err := strconv.ParseFloat(r[7], 64)
		if err != nil {
			t.Fatal(err)
		}
		runs[index[key]] = append(runs[index[key]], wait)
	}
	return runs
}
