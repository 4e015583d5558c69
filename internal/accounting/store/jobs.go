package store

import (
	"rmreplay/internal/accounting/columnar"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// jobLayout describes a part's file: the columns of [Columns], and the unchanged document.
var jobLayout = func() *columnar.Layout {
	plain := map[string]bool{"seq": true, "arrived": true, "jobid": true, "run": true, "submit_time": true, "eligible_time": true,
		"start_time": true, "end_time": true, "elapsed_s": true, "wait_s": true, "wait_since_eligible_s": true, "cpu_hours": true, "node_hours": true, "gpu_hours": true,
		"std_out": true, "std_err": true, "sluid": true, "original_sluid": true, "priority": true}
	var columns []columnar.Column
	for _, c := range Columns {
		kind, rest, _ := strings.Cut(c.Type, " ")
		columns = append(columns, columnar.Column{Name: c.Name, Kind: kind, Null: rest == "", Plain: plain[c.Name]})
	}
	return columnar.New(append(columns, columnar.Column{Name: "document", Kind: "BLOB", Null: false, Plain: true})...)
}()

// documentColumn is the position of the document in a part.
var documentColumn = len(Columns)

// fillEntries returns a function that writes the values of one column of the entries.
func fillEntries(entries []Entry) columnar.Filler {
	return func(column int, put func([]parquet.Value) error) error {
		values := make([]parquet.Value, 0, columnar.Chunk)
		for i := range entries {
			v := parquet.ByteArrayValue(entries[i].Document)
			if column < documentColumn {
				v = Columns[column].of(&entries[i])
			}
			values = append(values, jobLayout.Leveled(column, v))
			if len(values) == columnar.Chunk || i == len(entries)-1 {
				if err := put(values); err != nil {
					return err
				}
				values = values[:0]
			}
		}
		return nil
	}
}
