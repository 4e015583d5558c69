package store

import (
	"runtime"
	"strings"
	"sync"

	"github.com/duckdb/duckdb-go/v2/mapping"
)

// Part is documents on their way into the store, with their rows of the table jobs in the form that the
// database takes. Making them takes a sixth of the time of [Store.Apply]. One goroutine at a time writes to the
// database, so others make the rows of the next part meanwhile.
type Part struct {
	Entries []Entry
	jobs    []*chunk // the rows of all entries; nil if they are not made ahead
}

// libraryTypes are the library's types by the first word of [Column.Type].
var libraryTypes = map[string]mapping.Type{
	"BIGINT": mapping.TypeBigInt, "DOUBLE": mapping.TypeDouble, "TIMESTAMP": mapping.TypeTimestamp, "VARCHAR": mapping.TypeVarchar,
}

// NewPart makes the rows of entries on all processors. The caller ends with [Part.Free], unless [Store.ApplyAll]
// has taken the part.
func NewPart(entries []Entry) *Part {
	columns := make([]mapping.LogicalType, len(Columns))
	for i, c := range Columns {
		name, _, _ := strings.Cut(c.Type, " ")
		columns[i] = mapping.CreateLogicalType(libraryTypes[name])
	}
	defer destroyTypes(columns)
	most := int(mapping.VectorSize())
	p := &Part{Entries: entries, jobs: make([]*chunk, (len(entries)+most-1)/most)}
	var group sync.WaitGroup
	workers := runtime.NumCPU()
	for w := range workers {
		group.Go(func() {
			for i := w; i < len(p.jobs); i += workers {
				p.jobs[i] = newChunk(columns)
				p.jobs[i].add(entries[i*most : min((i+1)*most, len(entries))])
			}
		})
	}
	group.Wait()
	return p
}

// add adds the rows of entries to a chunk that has room for them.
func (c *chunk) add(entries []Entry) {
	for i := range entries {
		c.n++
		c.set(&entries[i])
	}
}

// set sets the last row to an entry's.
func (c *chunk) set(e *Entry) {
	for i := range Columns {
		Columns[i].set(c.cell(i), e)
	}
}

// Free frees the rows. The entries stay.
func (p *Part) Free() {
	for _, c := range p.jobs {
		c.free()
	}
	p.jobs = nil
}
