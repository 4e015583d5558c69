package store

import (
	"errors"
	"fmt"
	"reflect"
	"rmreplay/internal/accounting/columnar"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"
)

// Health describes a scheduler during an interval. Counters count the interval's events; the other fields have their
// values at the end of the interval.
type Health struct {
	Cluster  string
	At       time.Time     // end of the interval
	Interval time.Duration // 0 if no counters are known

	Threads, AgentQueue, Agents, DBDQueue                        int64
	Pending, Running                                             int64
	Submitted, Started, Completed, Cancelled, Failed, Backfilled int64
	Main, Backfill                                               Cycles
	Table                                                        int64 // length of the backfill scheduler's table
	Counts                                                       []HealthCount
}

// Cycles describes the cycles of one scheduler (main or backfill) in an interval.
type Cycles struct {
	Count        int64
	Sum, Longest time.Duration
	Depth, Tried int64         // sums over the cycles
	Last         time.Duration // the last cycle
	Queue        int64         // length of the queue in the last cycle
}

// The kinds of HealthCount.
const (
	MainExit     = "main"     // reasons why cycles of the main scheduler ended
	BackfillExit = "backfill" // reasons why cycles of the backfill scheduler ended
	Requests     = "rpc"      // requests to slurmctld, by type
)

// HealthCount is the number of events of one kind and name in an interval.
type HealthCount struct {
	Kind, Name string
	Count      int64
	Micros     int64 // microseconds that requests took
}

// figureRow is a row of a file in health/, with the columns of the view health.
type figureRow struct {
	Cluster        string `parquet:"cluster,dict"`
	Until          int64  `parquet:"until,timestamp(microsecond:local)"`
	Interval       int64  `parquet:"interval_us"`
	Threads        int64  `parquet:"threads"`
	AgentQueue     int64  `parquet:"agent_queue"`
	Agents         int64  `parquet:"agents"`
	DBDQueue       int64  `parquet:"dbd_queue"`
	Pending        int64  `parquet:"pending"`
	Running        int64  `parquet:"running"`
	Submitted      int64  `parquet:"submitted"`
	Started        int64  `parquet:"started"`
	Completed      int64  `parquet:"completed"`
	Cancelled      int64  `parquet:"cancelled"`
	Failed         int64  `parquet:"failed"`
	Backfilled     int64  `parquet:"backfilled"`
	Table          int64  `parquet:"bf_table"`
	MainCycles     int64  `parquet:"main_cycles"`
	MainSum        int64  `parquet:"main_us"`
	MainLongest    int64  `parquet:"main_longest_us"`
	MainDepth      int64  `parquet:"main_depth"`
	MainLast       int64  `parquet:"main_last_us"`
	MainQueue      int64  `parquet:"main_queue"`
	BackfillCycles int64  `parquet:"bf_cycles"`
	BackfillSum    int64  `parquet:"bf_us"`
	BackfillLong   int64  `parquet:"bf_longest_us"`
	BackfillDepth  int64  `parquet:"bf_depth"`
	BackfillTried  int64  `parquet:"bf_tried"`
	BackfillLast   int64  `parquet:"bf_last_us"`
	BackfillQueue  int64  `parquet:"bf_queue"`
}

// countRow is a row of a file in health_counts/, with the columns of the view health_counts.
type countRow struct {
	Cluster string `parquet:"cluster,dict"`
	Until   int64  `parquet:"until,timestamp(microsecond:local)"`
	Kind    string `parquet:"kind,dict"`
	Name    string `parquet:"name,dict"`
	Count   int64  `parquet:"count"`
	Micros  int64  `parquet:"us"`
}

func (h *Health) rows() (f figureRow, counts []countRow) {
	until := h.At.UnixMicro()
	f = figureRow{
		h.Cluster, until, h.Interval.Microseconds(), h.Threads, h.AgentQueue, h.Agents, h.DBDQueue, h.Pending, h.Running,
		h.Submitted, h.Started, h.Completed, h.Cancelled, h.Failed, h.Backfilled, h.Table,
		h.Main.Count, h.Main.Sum.Microseconds(), h.Main.Longest.Microseconds(), h.Main.Depth, h.Main.Last.Microseconds(), h.Main.Queue,
		h.Backfill.Count, h.Backfill.Sum.Microseconds(), h.Backfill.Longest.Microseconds(), h.Backfill.Depth, h.Backfill.Tried,
		h.Backfill.Last.Microseconds(), h.Backfill.Queue,
	}
	for _, c := range h.Counts {
		counts = append(counts, countRow{h.Cluster, until, c.Kind, c.Name, c.Count, c.Micros})
	}
	return f, counts
}

// fields returns pointers to the row's fields, in the order of the columns.
func (f *figureRow) fields() (list []any) {
	row := reflect.ValueOf(f).Elem()
	for i := range row.NumField() {
		list = append(list, row.Field(i).Addr().Interface())
	}
	return list
}

// healthInfo is the entry in store.json for two files of the same name, with figures and with counts.
type healthInfo struct {
	Name    string          `json:"name"`
	Rows    int             `json:"rows"`
	Figures columnar.Sealed `json:"health"`
	Counts  columnar.Sealed `json:"health_counts"`
}

// healthPart is a pair of files that a healthInfo describes.
type healthPart struct {
	file
	info healthInfo
}

// maxFigures is the highest number of rows in one file.
const maxFigures = 2000

func (s *Store) openHealth(list []healthInfo) (parts []*healthPart) {
	for _, info := range list {
		parts = append(parts, s.healthPart(info))
	}
	return parts
}

func (s *Store) healthPart(info healthInfo) *healthPart {
	return &healthPart{file{paths: []string{s.path(healthDir, info.Name), s.path(countsDir, info.Name)}}, info}
}

// AddHealth adds figures of schedulers. For each cluster, they replace the stored figures between the first and the
// last instant in the list.
func (s *Store) AddHealth(list ...Health) error {
	type extent struct{ first, last int64 }
	extents := make(map[string]extent)
	var figures []figureRow
	var counts []countRow
	for i := range list {
		f, c := list[i].rows()
		figures, counts = append(figures, f), append(counts, c...)
		e, ok := extents[f.Cluster]
		if !ok {
			e = extent{f.Until, f.Until}
		}
		extents[f.Cluster] = extent{min(e.first, f.Until), max(e.last, f.Until)}
	}
	_, err := s.changeHealth(figures, counts, func(cluster string, until int64) bool {
		e, ok := extents[cluster]
		return ok && e.first <= until && until <= e.last
	})
	if err != nil {
		return fmt.Errorf("adding figures of a scheduler: %w", err)
	}
	return nil
}

// ExpireHealth removes clusters' figures that are older than an instant, and returns the number of intervals removed.
// Figures of runs remain, because their instants are virtual.
func (s *Store) ExpireHealth(before time.Time) (removed int64, err error) {
	runs := make(map[string]bool)
	v := s.View()
	for _, c := range v.Clusters() {
		runs[c.Name] = c.Kind == "run"
	}
	v.Close()
	removed, err = s.changeHealth(nil, nil, func(cluster string, until int64) bool { return until < before.UnixMicro() && !runs[cluster] })
	if err != nil {
		return 0, fmt.Errorf("removing old figures of schedulers: %w", err)
	}
	return removed, nil
}

// changeHealth removes and adds rows. It rewrites the files that lose rows, and the last file if it has room for more
// rows.
func (s *Store) changeHealth(figures []figureRow, counts []countRow, drop func(cluster string, until int64) bool) (removed int64, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	next := s.successor()
	var made []*healthPart
	defer func() {
		if err != nil {
			for _, h := range made {
				err = errors.Join(err, columnar.Remove(h.paths[0]), columnar.Remove(h.paths[1]))
			}
		}
	}()
	put := func(figures []figureRow, counts []countRow) error {
		if len(figures) == 0 {
			return nil
		}
		h, err := s.writeHealth(figures, counts)
		made = append(made, h)
		return err
	}
	var kept []*healthPart
	for i, h := range next.health {
		old, oldCounts, lost, err := h.without(drop)
		if err != nil {
			return 0, err
		}
		removed += int64(lost)
		if i == len(next.health)-1 && len(old) < maxFigures && len(figures) > 0 {
			figures, counts = append(old, figures...), append(oldCounts, counts...)
			continue
		}
		if lost == 0 {
			kept = append(kept, h)
		} else if err := put(old, oldCounts); err != nil {
			return 0, err
		}
	}
	if removed == 0 && len(figures) == 0 {
		return 0, nil
	}
	if err := put(figures, counts); err != nil {
		return 0, err
	}
	next.health = slices.Concat(kept, made)
	return removed, s.commit(next, nil)
}

// without reads the rows for which the function drop returns false. lost is the number of rows of figures for which
// drop returns true.
func (h *healthPart) without(drop func(cluster string, until int64) bool) (figures []figureRow, counts []countRow, lost int, err error) {
	if figures, err = parquet.ReadFile[figureRow](h.paths[0]); err != nil {
		return nil, nil, 0, err
	}
	if counts, err = parquet.ReadFile[countRow](h.paths[1]); err != nil {
		return nil, nil, 0, err
	}
	all := len(figures)
	figures = slices.DeleteFunc(figures, func(f figureRow) bool { return drop(f.Cluster, f.Until) })
	counts = slices.DeleteFunc(counts, func(c countRow) bool { return drop(c.Cluster, c.Until) })
	return figures, counts, all - len(figures), nil
}

func (s *Store) writeHealth(figures []figureRow, counts []countRow) (*healthPart, error) {
	info := healthInfo{Name: s.name() + ".parquet", Rows: len(figures)}
	h := s.healthPart(info)
	var err error
	if h.info.Figures, err = writeRows(h.paths[0], figures); err == nil {
		h.info.Counts, err = writeRows(h.paths[1], counts)
	}
	return h, err
}

// writeRows writes rows, which are structs, into a Parquet file.
func writeRows[T any](path string, rows []T) (columnar.Sealed, error) {
	return columnar.WriteSealed(path, true, func(f *columnar.File) error {
		w := parquet.NewGenericWriter[T](f, parquet.Compression(columnar.Small), parquet.CreatedBy("rmreplay", "", ""))
		_, err := w.Write(rows)
		return errors.Join(err, w.Close())
	})
}

// healthViews returns the SQL statements that define the views health and health_counts.
func healthViews(parts []*healthPart) []string {
	var figures, counts []string
	for _, h := range parts {
		figures, counts = append(figures, h.paths[0]), append(counts, h.paths[1])
	}
	if len(parts) == 0 {
		return nil
	}
	return []string{
		"CREATE OR REPLACE TEMP VIEW health AS FROM " + readParquet(figures),
		"CREATE OR REPLACE TEMP VIEW health_counts AS FROM " + readParquet(counts),
	}
}
