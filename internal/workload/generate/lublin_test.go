package generate

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/mathext"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

var monday = hpc.Unix(1_709_510_400) // 4 March 2024

// ksOne is the Kolmogorov-Smirnov distance of a sample from a distribution.
func ksOne(sample []float64, cdf func(float64) float64) float64 {
	slices.Sort(sample)
	distance, n := 0.0, float64(len(sample))
	for i, x := range sample {
		f := cdf(x)
		distance = max(distance, f-float64(i)/n, float64(i+1)/n-f)
	}
	return distance
}

// ksTwo is the Kolmogorov-Smirnov distance of two samples.
func ksTwo(a, b []float64) float64 {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	distance, i, j := 0.0, 0, 0
	for i < len(a) && j < len(b) {
		x := min(a[i], b[j])
		for i < len(a) && a[i] == x {
			i++
		}
		for j < len(b) && b[j] == x {
			j++
		}
		distance = max(distance, math.Abs(float64(i)/float64(len(a))-float64(j)/float64(len(b))))
	}
	return distance
}

// TestLublinRunTimes compares run times with the hyper-gamma distribution with each size's
// probability p = pa*n + pb, by the Kolmogorov-Smirnov distance at the 0.1 % level.
func TestLublinRunTimes(t *testing.T) {
	for _, c := range []*lublinClass{&lublinBatch, &lublinInteractive, &lublinAll} {
		for _, n := range []int{1, 32, 128} {
			rng := rand.New(rand.NewPCG(1, uint64(n)))
			var sample []float64
			for range 20000 {
				// Run times are truncated to whole seconds; the mean loss is half a second.
				sample = append(sample, math.Log(c.drawRunTime(rng, n).Seconds()+rng.Float64()))
			}
			p := min(max(c.pa*float64(n)+c.pb, 0), 1)
			mixture := func(x float64) float64 {
				if x <= 0 {
					return 0
				}
				return p*mathext.GammaIncReg(c.a1, x/c.b1) + (1-p)*mathext.GammaIncReg(c.a2, x/c.b2)
			}
			distance := ksOne(sample, func(x float64) float64 { return mixture(x) / mixture(maxLogRun) })
			if critical := 1.95 / math.Sqrt(20000); distance > critical {
				t.Errorf("%s, %d processors: distance %.4f, want at most %.4f", c.name, n, distance, critical)
			}
		}
	}
}

func TestLublinSizes(t *testing.T) {
	for _, c := range []*lublinClass{&lublinBatch, &lublinInteractive, &lublinAll} {
		rng := rand.New(rand.NewPCG(2, 2))
		serial, powers, n := 0, 0, 50000
		for range n {
			switch size := c.drawSize(rng, 128); {
			case size < 1 || size > 128:
				t.Fatalf("%s: %d processors", c.name, size)
			case size == 1:
				serial++
			case bits.OnesCount(uint(size)) == 1:
				powers++
			}
		}
		if share := float64(serial) / float64(n); math.Abs(share-c.serial) > 0.01 {
			t.Errorf("%s: %.4f serial, want %.4f", c.name, share, c.serial)
		}
		// A size that drawSize does not round to a power of two may still be one, so c.pow2 is only
		// a lower bound of the share of powers of two.
		if share := float64(powers) / float64(n); share < c.pow2-0.01 {
			t.Errorf("%s: %.4f powers of two, want at least %.4f", c.name, share, c.pow2)
		}
	}
}

// TestLublinArrivals: the day has the model's cycle, and the logarithms of gaps at the mean
// rate are gamma-distributed.
func TestLublinArrivals(t *testing.T) {
	for _, c := range []*lublinClass{&lublinBatch, &lublinInteractive, &lublinAll} {
		a := newArrivals(rand.New(rand.NewPCG(3, 3)), c)
		weights := c.dayWeights()
		counts, n, last := [buckets]float64{}, 150000, 0.0
		for range n {
			at := a.next()
			if at < last {
				t.Fatalf("%s: %g after %g", c.name, at, last)
			}
			last = at
			counts[int(math.Mod(at, 86400)/bucketLength)]++
		}
		for i, got := range counts {
			want := weights[i] / buckets
			if math.Abs(got/float64(n)-want) > 0.006 {
				t.Errorf("%s: half-hour %d has %.4f of the jobs, want %.4f", c.name, i, got/float64(n), want)
			}
		}
		if peak := slices.Index(weights[:], slices.Max(weights[:])); peak < 20 || peak > 34 {
			t.Errorf("%s: most jobs come in half-hour %d, want by day", c.name, peak)
		}
	}
}

func TestLublin(t *testing.T) {
	o := LublinOptions{Jobs: 5000, Seed: 4, Start: monday}
	w, err := Lublin(o)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := Lublin(o)
	if !gocmp.Equal(w, again) {
		t.Error("the same seed gave two workloads")
	}
	if o.Seed++; true {
		if other, _ := Lublin(o); w.Jobs.Equal(other.Jobs) {
			t.Error("two seeds gave the same workload")
		}
	}
	kinds := map[string]int{}
	for _, job := range w.Jobs.All() {
		kinds[job.Name]++
	}
	if w.Jobs.Len() != 5000 || kinds["batch"] < 500 || kinds["interactive"] < 500 || len(w.Users) != 50 {
		t.Errorf("%d jobs, %v", w.Jobs.Len(), kinds)
	}
	users := map[string]bool{}
	for _, u := range w.Users {
		users[u.Name] = true
	}
	for _, p := range workload.Validate(w, workload.Cluster{Users: users}) {
		t.Error(p)
	}
	nodes, err := Lublin(LublinOptions{Jobs: 100, Processors: 1000, Nodes: true, Untyped: true, Start: monday})
	if err != nil || nodes.Jobs.At(0).MinNodes == 0 || nodes.MachineNodes != 1000 || nodes.Jobs.At(0).Name != "job" {
		t.Errorf("%v, %+v", err, nodes.Jobs.At(0))
	}
	for _, bad := range []LublinOptions{{Jobs: -1}, {Jobs: 1 << 40}, {Processors: 3}, {Processors: 1 << 30}, {Users: -1}} {
		if _, err := Lublin(bad); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

// features are the properties in which a drawn workload must resemble its model.
var features = map[string]func(w *workload.Workload) []float64{
	"nodes and tasks": perJob(func(j *hpc.Job) float64 { return float64(1000*j.MinNodes + workload.CPUs(&j.Request)) }),
	"run time":        perJob(func(j *hpc.Job) float64 { return j.RunTime.Seconds() }),
	"time limit":      perJob(func(j *hpc.Job) float64 { return j.TimeLimit.Seconds() }),
	"used share":      perJob(func(j *hpc.Job) float64 { return min(j.RunTime.Seconds()/max(j.TimeLimit.Seconds(), 1), 1) }),
	"hour of the day": perJob(func(j *hpc.Job) float64 { return float64(j.Submit.Std().Hour()) }),
	"day of the week": perJob(func(j *hpc.Job) float64 { return float64(j.Submit.Std().Weekday()) }),
	"gap": func(w *workload.Workload) []float64 {
		var list []float64
		for i := 1; i < w.Jobs.Len(); i++ {
			list = append(list, w.Jobs.Submit(i).Sub(w.Jobs.Submit(i-1)).Seconds())
		}
		return list
	},
}

// userRanks returns the ranks of the jobs' users by how much they submit in the model.
func userRanks(model, w *workload.Workload) []float64 {
	counts := map[string]int{}
	for _, j := range model.Jobs.All() {
		counts[j.User]++
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	})
	ranks := map[string]float64{}
	for i, name := range names {
		ranks[name] = float64(i)
	}
	return perJob(func(j *hpc.Job) float64 { return ranks[j.User] })(w)
}

func perJob(f func(*hpc.Job) float64) func(*workload.Workload) []float64 {
	return func(w *workload.Workload) []float64 {
		list := make([]float64, w.Jobs.Len())
		for i, j := range w.Jobs.All() {
			list[i] = f(j)
		}
		return list
	}
}

// near checks all features and the set of users.
func near(t *testing.T, model, drawn *workload.Workload, most float64) {
	t.Helper()
	distances := map[string]float64{"user": ksTwo(userRanks(model, model), userRanks(model, drawn))}
	for name, feature := range features {
		distances[name] = ksTwo(feature(model), feature(drawn))
	}
	for name, distance := range distances {
		t.Logf("%s: %s: distance %.4f", drawn.Source, name, distance)
		if distance > most {
			t.Errorf("%s: %s: distance %.3f, want at most %.3f", drawn.Source, name, distance, most)
		}
	}
}

func TestLikeLublin(t *testing.T) {
	model, err := Lublin(LublinOptions{Jobs: 8000, Seed: 9, Start: monday})
	if err != nil {
		t.Fatal(err)
	}
	w, err := Like(model, LikeOptions{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	// The weekdays of a log of a few weeks are chance, so the bound is wide.
	near(t, model, w, 0.1)
	more, err := Like(model, LikeOptions{Seed: 1, Jobs: 20000})
	if err != nil || more.Jobs.Len() != 20000 {
		t.Fatalf("%d jobs, %v", more.Jobs.Len(), err)
	}
	near(t, model, more, 0.1)
	again, _ := Like(model, LikeOptions{Seed: 1})
	if !gocmp.Equal(w, again) {
		t.Error("the same seed gave two workloads")
	}
	other, _ := Like(model, LikeOptions{Seed: 2})
	if w.Jobs.Equal(other.Jobs) {
		t.Error("two seeds gave the same workload")
	}
	same := 0
	for i, j := range w.Jobs.All() {
		if j.Submit == model.Jobs.Submit(i) {
			same++
		}
	}
	if same > w.Jobs.Len()/10 {
		t.Errorf("%d of %d submissions are those of the model", same, w.Jobs.Len())
	}
}

func TestLikeRefuses(t *testing.T) {
	few := &workload.Workload{}
	for i := range minModelJobs {
		few.Jobs.Append(&hpc.Job{ID: fmt.Sprint(i), Submit: monday})
	}
	if _, err := Like(few, LikeOptions{}); err == nil {
		t.Error("jobs of one instant were accepted")
	}
	few.Jobs = few.Jobs.First(minModelJobs - 1)
	if _, err := Like(few, LikeOptions{}); err == nil {
		t.Error("too few jobs were accepted")
	}
	for i := range few.Jobs.Len() {
		few.Jobs.Change(i, func(j *hpc.Job) { j.Submit = monday.Add(time.Duration(i) * time.Minute) })
	}
	few.Jobs.Append(&hpc.Job{Submit: monday})
	if _, err := Like(few, LikeOptions{Jobs: -1}); err == nil {
		t.Error("a negative number was accepted")
	}
}
