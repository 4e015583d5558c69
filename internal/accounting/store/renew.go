package store

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"rmreplay/internal/accounting/document"
)

// renew computes columns anew, of the documents, that an older version of the program did not write or meant
// otherwise: up to format 4, wait_s was since eligible. A process that is killed begins again.
func (s *Store) renew() error {
	if s.durable.Format == Format {
		return nil
	}
	s.opts.Report(fmt.Errorf("the directory is one of an older version; the waits of its jobs (%d) are computed anew", s.totals.jobs))
	for _, p := range s.now.parts { // of the first state: a part without rows goes
		i := slices.Index(s.now.parts, p)
		if err := s.rewrite(s.now, i, i+1); err != nil {
			return fmt.Errorf("computing the waits of an older version anew: %w", err)
		}
	}
	return s.commit(s.successor(), func(m *manifest) { m.Format = Format })
}

// renew computes the columns of waits of the source's part, of its documents.
func (f *source) renew() error {
	anew := make(map[int][]parquet.Value)
	err := f.each(documentColumn, func(values []parquet.Value) (bool, error) {
		for _, v := range values {
			e := Entry{Job: document.Parse(v.ByteArray(), "")}
			for i, c := range Columns {
				if strings.HasPrefix(c.Name, "wait_") {
					anew[i] = append(anew[i], jobLayout.Leveled(i, c.of(&e)))
				}
			}
		}
		return true, nil
	})
	f.anew = anew
	return err
}

// each calls do with the values of a column of the source, in pieces.
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
