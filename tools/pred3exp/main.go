package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/formats"
	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/features"
	"rmreplay/internal/predict/model"
	"rmreplay/internal/predict/trees"
	"rmreplay/internal/workload"
)

type collector struct {
	*features.History
	rows [][]float32
}

func (c *collector) Predict(predict.Submission) predict.Prediction { return predict.Prediction{} }
func (c *collector) Submit(s predict.Submission) predict.Prediction {
	c.rows = append(c.rows, c.Vector(s, nil))
	c.History.Submit(s)
	return predict.Prediction{}
}
func (c *collector) End(number int64, at hpc.Time, state hpc.State) { c.History.End(number, at, state) }

func load(path string) *predict.Cases {
	w, err := formats.OpenWith(path, workload.ReadOptions{Lean: true})
	if err != nil {
		panic(err)
	}
	c, err := predict.CasesOf(w)
	if err != nil {
		panic(err)
	}
	return c
}

func mae(c *predict.Cases, p predict.Predictor) (float64, int) {
	sum, n := 0.0, 0
	_ = predict.Play(context.Background(), c.List, p, func(c *predict.Case, q predict.Prediction) {
		if c.Ran() {
			sum += math.Abs(q.P50 - c.Seconds())
			n++
		}
	})
	return sum / float64(n), n
}

func main() {
	mode := flag.String("mode", "", "")
	leaves := flag.Int("leaves", 31, "")
	rounds := flag.Int("rounds", 100, "")
	minrows := flag.Int("minrows", 20, "")
	rate := flag.Float64("rate", 0.1, "")
	maxRows := flag.Int("maxrows", 50000, "")
	folds := flag.Int("folds", 5, "")
	growth := flag.Float64("growth", 1, "")
	stats := flag.Bool("stats", false, "")
	blocked := flag.Bool("blocked", false, "")
	flag.Parse()
	for _, path := range flag.Args() {
		t0 := time.Now()
		c := load(path)
		last2, n := mae(c, predict.NewLastTwo())
		name := strings.SplitN(filepath.Base(path), "-", 2)[0] + "-" + strings.SplitN(filepath.Base(path), "-", 3)[1]
		switch *mode {
		case "knn":
			knns(name, c, last2)
		case "online":
			m, _ := mae(c, model.NewOnline(model.Options{Kind: model.Boost, Growth: *growth}))
			fmt.Printf("last2 %.0f seconds, root, last2, classavg, classlast, similar:", last2)
			for i := range model.DebugSum {
				fmt.Printf(" %.0f", model.DebugSum[i]/model.DebugN)
				model.DebugSum[i] = 0
			}
			fmt.Printf(" mix %.0f\n", model.DebugMix/model.DebugN)
			model.DebugMix, model.DebugN = 0, 0
			fmt.Printf("%s online growth %g: %.0f (%+.1f %%) in %v\n", name, *growth, m, 100*(m/last2-1), time.Since(t0))
		case "fold":
			o := trees.BoostOptions{Quantile: 0.5, Rounds: *rounds, Leaves: *leaves, MinRows: *minrows, Rate: *rate, Features: 0.5, Rows: 0.7, MaxRows: *maxRows, Seed: 1}
			m := fold(c, *folds, *blocked, *stats, o)
			fmt.Printf("%s n=%d folds=%d blocked=%v stats=%v leaves=%d rounds=%d minrows=%d rate=%g: seconds %.0f root %.0f mean %.0f (%+.1f %%) last2 %.0f in %v\n",
				name, n, *folds, *blocked, *stats, *leaves, *rounds, *minrows, *rate, m[0], m[1], m[2], 100*(m[2]/last2-1), last2, time.Since(t0).Round(time.Second))
		}
	}
	_ = os.Stdout.Sync()
}

func fold(c *predict.Cases, k int, blocked, stats bool, o trees.BoostOptions) [3]float64 {
	col := &collector{History: features.New()}
	_ = predict.Play(context.Background(), c.List, col, nil)
	rng := rand.New(rand.NewPCG(1, 1))
	of := make([]int, len(c.List))
	block := map[int]int{}
	for i := range c.List {
		of[i] = -1
		if !c.List[i].Ran() {
			continue
		}
		of[i] = rng.IntN(k)
		if blocked {
			b := int(c.List[i].At.Sub(c.List[0].At).Hours() / 24 / 7)
			if _, ok := block[b]; !ok {
				block[b] = rng.IntN(k)
			}
			of[i] = block[b]
		}
	}
	width := features.Count
	if stats {
		keys := []func(c *predict.Case) predict.ClassKey{
			func(c *predict.Case) predict.ClassKey { return predict.Class(c.Request) },
			func(c *predict.Case) predict.ClassKey { k := predict.Class(c.Request); k.Name = ""; return k },
			func(c *predict.Case) predict.ClassKey { k := predict.Class(c.Request); k.Size, k.Limit = 0, 0; return k },
			func(c *predict.Case) predict.ClassKey { return predict.ClassKey{User: c.Request.User} },
		}
		for _, key := range keys {
			lists := map[predict.ClassKey][]int{}
			for i := range c.List {
				if of[i] >= 0 {
					kk := key(&c.List[i])
					lists[kk] = append(lists[kk], i)
				}
			}
			for _, l := range lists {
				slices.SortFunc(l, func(a, b int) int {
					if c.List[a].Seconds() < c.List[b].Seconds() {
						return -1
					}
					return 1
				})
				for f := range k {
					var v []float64
					for _, i := range l {
						if of[i] != f {
							v = append(v, math.Log1p(c.List[i].Seconds()))
						}
					}
					for _, i := range l {
						if of[i] != f {
							continue
						}
						nan := float32(math.NaN())
						if n := len(v); n > 0 {
							col.rows[i] = append(col.rows[i], float32(v[n/2]), float32(v[n/4]), float32(v[n*3/4]), float32(math.Log1p(float64(n))))
						} else {
							col.rows[i] = append(col.rows[i], nan, nan, nan, 0)
						}
					}
				}
			}
		}
		width += 4 * len(keys)
	}
	var sum [3]float64
	n := 0.0
	for f := range k {
		t := &trees.Table{Width: width}
		for i := range c.List {
			if of[i] >= 0 && of[i] != f {
				t.X = append(t.X, col.rows[i]...)
				t.Y = append(t.Y, c.List[i].Seconds())
			}
		}
		tr := trees.NewTrainer(t)
		scales := []func(float64) float64{func(x float64) float64 { return x }, math.Sqrt}
		var e [2]*trees.Ensemble
		for s, scale := range scales {
			a := make([]float64, t.Len())
			for i, y := range t.Y {
				a[i] = scale(y) - scale(features.Guess(t.Row(i)))
			}
			e[s] = tr.Boost(a, o)
		}
		for i := range c.List {
			if of[i] != f {
				continue
			}
			x, y := col.rows[i], c.List[i].Seconds()
			g := features.Guess(x)
			p := max(g+e[0].Value(x), 0)
			r := max(math.Sqrt(g)+e[1].Value(x), 0)
			r *= r
			if l := predict.Limit(c.List[i].Request); l > 0 {
				p, r = min(p, l), min(r, l)
			}
			sum[0] += math.Abs(p - y)
			sum[1] += math.Abs(r - y)
			sum[2] += math.Abs((p+r)/2 - y)
			n++
		}
	}
	for i := range sum {
		sum[i] /= n
	}
	return sum
}
