package store

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
