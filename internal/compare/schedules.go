package compare

import (
	"rmreplay/internal/metrics"
	"rmreplay/internal/stats"
)

// Distances are the Euclidean distances between the runs' vectors of waits, in seconds
// (PEARC'22, section 2 and figure 1).
type Distances struct {
	Jobs    int `json:"jobs"`     // jobs that started in every run, without preset jobs
	LeftOut int `json:"left_out"` // other jobs of the baseline's first run
	// Rows has the run of each row of the matrix.
	Rows   []DistanceRow     `json:"rows"`
	Matrix [][]metrics.Float `json:"matrix_s"`
	Blocks []Block           `json:"blocks"` // within and between sets
}

// DistanceRow identifies the run of a row of the matrix.
type DistanceRow struct {
	Set int `json:"set"`
	Run int `json:"run"`
}

// Block summarizes the distances between the runs of two sets, or within one set.
type Block struct {
	Sets      [2]int        `json:"sets"`
	Pairs     int           `json:"pairs"`
	Mean      metrics.Float `json:"mean_s"`
	Deviation metrics.Float `json:"standard_deviation_s"`
}

// waitVectors are the vectors of waits of the runs.
type waitVectors struct {
	points  [][][]float64 // by set and run
	jobs    int
	leftOut int
	matrix  [][]float64
	first   []int // the first row of each set
	rows    []DistanceRow
}

// newWaits collects the waits of the jobs that started in every run.
func newWaits(tables [][]table) (*waitVectors, error) {
	w := &waitVectors{points: make([][][]float64, len(tables))}
	var jobs []int // the jobs' numbers
	for _, number := range tables[0][0].numbers {
		if startedInAll(tables, number) {
			jobs = append(jobs, number)
		} else {
			w.leftOut++
		}
	}
	w.jobs = len(jobs)
	var all [][]float64
	for i, runs := range tables {
		w.first = append(w.first, len(all))
		for k := range runs {
			point := make([]float64, len(jobs))
			for c, number := range jobs {
				point[c] = runs[k].moments[number].wait.Seconds()
			}
			w.points[i] = append(w.points[i], point)
			w.rows = append(w.rows, DistanceRow{i, k})
			all = append(all, point)
		}
	}
	var err error
	w.matrix, err = stats.Distances(all)
	return w, err
}

func startedInAll(tables [][]table, number int) bool {
	for _, runs := range tables {
		for k := range runs {
			if start := runs[k].moments[number].start; start == 0 || runs[k].preset(start) {
				return false
			}
		}
	}
	return true
}

// members returns the rows of a set.
func (w *waitVectors) members(set int) []int {
	var list []int
	for i := range w.points[set] {
		list = append(list, w.first[set]+i)
	}
	return list
}

// distances returns the matrix. It returns nil for fewer than two runs, or if no job can be
// compared.
func (w *waitVectors) distances() *Distances {
	if len(w.rows) < 2 || w.jobs == 0 {
		return nil
	}
	d := &Distances{Jobs: w.jobs, LeftOut: w.leftOut, Rows: w.rows}
	for _, row := range w.matrix {
		out := make([]metrics.Float, len(row))
		for i, v := range row {
			out[i] = metrics.Float(v)
		}
		d.Matrix = append(d.Matrix, out)
	}
	for a := range w.points {
		for b := a; b < len(w.points); b++ {
			s := stats.SpreadBetween(w.matrix, w.members(a), w.members(b))
			d.Blocks = append(d.Blocks, Block{
				Sets: [2]int{a, b}, Pairs: s.Pairs, Mean: metrics.Float(s.Mean), Deviation: metrics.Float(s.Deviation),
			})
		}
	}
	return d
}
