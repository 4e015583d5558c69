package store

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"rmreplay/internal/accounting/columnar"
)

// Older turns a closed store into one of format 4. Of the columns for waits, its parts have only wait_s, which counts
// from the eligible time. Unknown hours are 0, and nodes in lists are not counted.
func Older(dir string) error {
	m, err := readManifest(filepath.Join(dir, manifestFile))
	if err != nil {
		return err
	}
	var columns []columnar.Column
	var from []int
	for i, c := range jobLayout.Columns {
		if c.Name == "wait_s" {
			i = jobLayout.Index("wait_since_eligible_s")
		} else if strings.HasPrefix(c.Name, "wait_") {
			continue
		}
		c.Null = c.Null && !strings.HasSuffix(c.Name, "_hours")
		columns, from = append(columns, c), append(from, i)
	}
	layout := columnar.New(columns...)
	for i := range m.Parts {
		path := filepath.Join(dir, jobsDir, m.Parts[i].Name+".parquet")
		r, err := jobLayout.Open(path)
		if err != nil {
			return err
		}
		m.Parts[i].Jobs, err = layout.Write(path+".older", columnar.Small, false, func(column int, put func([]parquet.Value) error) error {
			return r.Each(from[column], 0, func(values []parquet.Value) (bool, error) {
				values = slices.Clone(values)
				for k, v := range values {
					switch name := columns[column].Name; {
					case strings.HasSuffix(name, "_hours"):
						v = parquet.DoubleValue(v.Double()).Level(0, 0, column)
					case strings.HasPrefix(name, "exit_"), strings.HasPrefix(name, "derived_"):
						v = columnar.Int(v.Int64()).Level(0, 1, column) // 0 for jobs that never ran
					case name == "nodes":
						v = parquet.NullValue()
					}
					values[k] = v.Level(0, v.DefinitionLevel(), column)
				}
				return true, put(values)
			})
		})
		if err != nil {
			return err
		}
		if err := os.Rename(path+".older", path); err != nil {
			return err
		}
	}
	m.Format = 4
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifestFile), text, 0o600)
}

// WithPartRows returns options of a store whose parts have few rows.
func WithPartRows(opts Options, rows int) Options {
	opts.partRows = rows
	return opts
}

// CompactOnce does the most urgent piece of the compaction's work.
func (s *Store) CompactOnce() (bool, error) { return s.compactOnce(false) }

// Shape returns the numbers of durable parts, fresh parts and replaced rows.
func (s *Store) Shape() (parts, fresh, gone int) {
	v := s.View()
	defer v.Close()
	return len(v.st.parts), len(v.st.fresh), len(v.st.gone)
}

// OldDatabase is the file of an older store.
const OldDatabase = oldDatabase

// Lost returns the numbers of rows that are listed as replaced but are in no part.
func (s *Store) Lost() (lost []int64) {
	v := s.View()
	defer v.Close()
	there := map[int64]bool{}
	for _, p := range v.st.all() {
		seqs, err := p.seqs()
		if err != nil {
			panic(err)
		}
		for _, seq := range seqs {
			there[seq] = true
		}
	}
	for _, row := range v.st.gone {
		if !there[row.seq] {
			lost = append(lost, row.seq)
		}
	}
	return lost
}
