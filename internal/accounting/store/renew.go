package store

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
)

// renew recomputes columns of an older format from the documents; a later start repeats an interrupted one. Up to format
// 4, wait_s was the wait since eligible; to 5, unknown hours were 0; to 6, lost was absent; to 7, unstarted jobs had exits.
func (s *Store) renew() error {
	if s.durable.Format == Format {
		return nil
	}
	s.opts.Report(fmt.Errorf("the directory is one of an older version; waits and hours of its jobs (%d) are computed anew", s.totals.jobs))
	for _, p := range s.now.parts { // of the first state, because rewriting removes a part without rows
		i := slices.Index(s.now.parts, p)
		if err := s.rewrite(s.now, i, i+1); err != nil {
			return fmt.Errorf("computing waits and hours of an older version anew: %w", err)
		}
	}
	return s.commit(s.successor(), func(m *manifest) { m.Format = Format })
}

// renew recomputes waits, nodes and hours of the part's jobs from their documents.
func (f *source) renew() error {
	rows, err := f.part.chosenRows()
	if err != nil {
		return err
	}
	f.anew = make(map[int][]parquet.Value)
	return f.each(documentColumn, func(values []parquet.Value) (bool, error) {
		for _, v := range values {
			row := &rows[0]
			rows = rows[1:]
			e := ParseArrival(row.seq, time.UnixMicro(row.arrived), Source(row.source), row.index, row.cluster, v.ByteArray())
			for i, c := range Columns {
				if strings.HasPrefix(c.Name, "wait_") || strings.HasSuffix(c.Name, "_hours") || c.Name == "nodes" || c.Name == "lost" {
					f.anew[i] = append(f.anew[i], jobLayout.Leveled(i, c.of(&e)))
				}
			}
		}
		return true, nil
	})
}

// each calls do with the values of a column, chunk by chunk.
func (f *source) each(column int, do func(values []parquet.Value) (bool, error)) error {
	if values, ok := f.anew[column]; ok {
		_, err := do(values)
		return err
	}
	r, err := f.part.reader()
	if err != nil {
		return err
	}
	return r.Each(column, 0, do)
}
