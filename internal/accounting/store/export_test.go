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

// Older turns a closed store into one of format 4. Of the waits, its parts have the column wait_s only, which counts
// from the eligible time. Unknown hours are 0, and nodes in lists were not counted.
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

// CompactOnce does what is most urgent at once.
func (s *Store) CompactOnce() (bool, error) { return s.compactOnce(false) }

// Shape returns how many parts there are, durable and fresh, and how many rows are gone.
func (s *Store) Shape() (parts, fresh, gone int) {
	v := s.View()
	defer v.Close()
	return len(v.st.parts), len(v.st.fresh), len(v.st.gone)
}

// OldDatabase is the file of an older store.
const OldDatabase = oldDatabase

// Lost returns rows that are said to be gone and that no part has.
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
