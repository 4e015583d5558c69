package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/parquet-go/parquet-go"

	"rmreplay/internal/accounting/columnar"
	"rmreplay/internal/inert"
)

// Table is a file format of [View.Export].
type Table string

// The formats.
const (
	Parquet Table = "parquet" // compressed with Zstandard
	CSV     Table = "csv"     // with a header, UTF-8
)

// exportLayout describes an exported table: the columns of [Columns], and id.
var exportLayout = columnar.New(append(jobLayout.Columns[:documentColumn:documentColumn], columnar.Column{Name: "id", Kind: "VARCHAR", Null: false, Plain: true})...)

// Export writes the jobs that a filter chooses, with all columns, into a new file in the store's directory tmp. It
// returns the file's path and the number of jobs. The caller removes the file.
func (v *View) Export(ctx context.Context, f Filter, format Table) (path string, jobs int64, err error) {
	path = v.s.path(tempDir, rand.Text()+"."+string(format))
	_, err = columnar.WriteSealed(path, false, func(to *columnar.File) (err error) {
		switch format {
		case Parquet:
			jobs, err = v.exportParquet(ctx, f, to)
		case CSV:
			jobs, err = v.exportCSV(ctx, f, to)
		default:
			err = fmt.Errorf("the format %q is not known (want %s or %s)", format, Parquet, CSV)
		}
		return err
	})
	if err != nil {
		return "", 0, fmt.Errorf("exporting jobs: %w", err)
	}
	return path, jobs, nil
}

// eachChosen calls the function do for each part that has rows which the filter chooses, with the positions of these
// rows.
func (v *View) eachChosen(ctx context.Context, f Filter, do func(r *columnar.Reader, rows []int64) error) (jobs int64, err error) {
	for _, p := range v.st.all() {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		_, rows, err := v.choose(ctx, p, &f)
		if err != nil {
			return 0, err
		}
		if len(rows) == 0 {
			continue
		}
		r, err := p.reader()
		if err != nil {
			return 0, err
		}
		if err := do(r, rows); err != nil {
			return 0, err
		}
		jobs += int64(len(rows))
	}
	return jobs, nil
}

func (v *View) exportParquet(ctx context.Context, f Filter, to io.Writer) (jobs int64, err error) {
	w := exportLayout.Writer(to, columnar.Small)
	jobs, err = v.eachChosen(ctx, f, func(r *columnar.Reader, rows []int64) error {
		err := exportLayout.Fill(w.ColumnWriters(), func(column int, put func([]parquet.Value) error) error {
			if column < documentColumn {
				return r.Values(column, rows, func(_ int, value parquet.Value) error {
					return put([]parquet.Value{value.Level(0, value.DefinitionLevel(), column)})
				})
			}
			ids, err := idsOf(r, rows)
			for _, id := range ids {
				if err == nil {
					err = put([]parquet.Value{exportLayout.Leveled(column, columnar.Text(id))})
				}
			}
			return err
		})
		return errors.Join(err, w.Flush())
	})
	return jobs, errors.Join(err, w.Close())
}

// idsOf returns the values of the column id for rows.
func idsOf(r *columnar.Reader, rows []int64) ([]string, error) {
	ids := make([]string, len(rows))
	for i, name := range []string{"cluster", "jobid", "run"} {
		err := r.Values(jobLayout.Index(name), rows, func(k int, value parquet.Value) error {
			if i > 0 {
				ids[k] += ":"
			}
			ids[k] += csvText(value, jobLayout.Columns[jobLayout.Index(name)].Kind)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// csvRows is the number of rows that are converted to CSV at a time.
const csvRows = 8192

func (v *View) exportCSV(ctx context.Context, f Filter, to io.Writer) (jobs int64, err error) {
	w := inert.NewWriter(to)
	header := make([]string, len(exportLayout.Columns))
	for i, c := range exportLayout.Columns {
		header[i] = c.Name
	}
	if err := w.Write(header); err != nil {
		return 0, err
	}
	jobs, err = v.eachChosen(ctx, f, func(r *columnar.Reader, rows []int64) error {
		for ; len(rows) > 0; rows = rows[min(csvRows, len(rows)):] {
			if err := writeCSV(w, r, rows[:min(csvRows, len(rows))]); err != nil {
				return err
			}
		}
		return nil
	})
	w.Flush()
	return jobs, errors.Join(err, w.Error())
}

func writeCSV(w *inert.Writer, r *columnar.Reader, rows []int64) error {
	lines := make([][]string, len(rows))
	for i := range lines {
		lines[i] = make([]string, 0, len(exportLayout.Columns))
	}
	for column := range documentColumn {
		err := r.Values(column, rows, func(i int, value parquet.Value) error {
			lines[i] = append(lines[i], csvText(value, jobLayout.Columns[column].Kind))
			return nil
		})
		if err != nil {
			return err
		}
	}
	ids, err := idsOf(r, rows)
	if err != nil {
		return err
	}
	for i := range lines {
		if err := w.Write(append(lines[i], ids[i])); err != nil {
			return err
		}
	}
	return nil
}

// csvText returns a value as text. NULL is the empty text.
func csvText(v parquet.Value, kind string) string {
	switch {
	case v.IsNull():
		return ""
	case kind == "TIMESTAMP":
		return time.UnixMicro(v.Int64()).UTC().Format("2006-01-02 15:04:05.999999")
	case kind == "DOUBLE":
		return strconv.FormatFloat(v.Double(), 'g', -1, 64)
	case kind == "VARCHAR":
		return string(v.ByteArray())
	}
	return strconv.FormatInt(v.Int64(), 10)
}
