package store

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"
)

// renew repairs values of older formats. Up to format 4, wait_s was the wait since the job became eligible. Up to 5,
// unknown hours were 0. Up to 6, the column lost was missing. Up to 8, jobs that never ran had exit codes. If the
// process is killed, the next start repeats the work.
func (s *Store) renew() error {
	if s.durable.Format == Format {
		return nil
	}
	s.opts.Report(fmt.Errorf("an older version of rmreplay made the directory; waits, hours and exit codes of its jobs (%d) are computed again", s.totals.jobs))
	for _, p := range s.now.parts { // the parts of the first state: later states lack parts that lose all rows
		i := slices.Index(s.now.parts, p)
		if err := s.rewrite(s.now, i, i+1); err != nil {
			return fmt.Errorf("computing waits, hours and exit codes of an older version anew: %w", err)
		}
	}
	return s.commit(s.successor(), func(m *manifest) { m.Format = Format })
}

// renewed matches the columns that had other values in an older format.
var renewed = regexp.MustCompile("^(wait_.*|.*_hours|nodes|lost|exit_.*|derived_.*)$")

// renew recomputes the columns that match [renewed] from the document of each row.
func (f *source) renew() error {
	rows, err := f.part.chosenRows()
	if err != nil {
		return err
	}
	f.anew = make(map[int][]parquet.Value)
	for i, c := range Columns {
		if renewed.MatchString(c.Name) {
			f.anew[i] = make([]parquet.Value, 0, len(rows))
		}
	}
	return f.each(documentColumn, func(values []parquet.Value) (bool, error) {
		for _, v := range values {
			row := &rows[0]
			rows = rows[1:]
			e := ParseArrival(row.seq, time.UnixMicro(row.arrived), Source(row.source), row.index, row.cluster, v.ByteArray())
			for i := range f.anew {
				f.anew[i] = append(f.anew[i], jobLayout.Leveled(i, Columns[i].of(&e)))
			}
		}
		return true, nil
	})
}

// each calls the function do with the values of a column, chunk by chunk.
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
