package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/accounting/question"
	"rmreplay/internal/accounting/store"
)

// property is a line of what is known of a job.
type property struct {
	Name, Doc, Text string
	With, Without   string // links to the jobs with and without this value
}

// jobDetails are all that is known of a job.
type jobDetails struct {
	Title, Revision string
	Ref             string // the job in paths, where an ID has its slash escaped
	Properties      []property
	Script          string
	Others          []property // keys of the document that are no columns
	Whole           bool       // as a page
	Zone            string     // of the times
	InZone          string     // parameters of a page with times of the zone
	document        []byte
	columns         map[string]any
}

// job reads the job of a path: by the number of its arrival in the store, or by its ID in a source.
func (v *server) job(q *http.Request) (*jobDetails, error) {
	r, err := parseRequest(q.URL.Query(), v.now())
	if err != nil {
		return nil, bad(err)
	}
	if id := q.PathValue("seq"); v.jobs != nil {
		found, err := v.jobs.Job(q.Context(), id)
		if err != nil {
			return nil, unsource(err)
		}
		if found == nil {
			return nil, missing("there is no job %q", id)
		}
		var d *jobDetails
		err = within(q.Context(), []question.Job{*found}, func(s *store.Store) (err error) {
			d, err = r.job(q.Context(), s, 1)
			return err
		})
		if err != nil {
			return nil, err
		}
		d.Ref = url.PathEscape(id)
		return d, nil
	}
	seq, err := strconv.ParseInt(q.PathValue("seq"), 10, 64)
	if err != nil {
		return nil, bad(fmt.Errorf("%q is no number of a job's arrival", q.PathValue("seq")))
	}
	return r.job(q.Context(), v.store, seq)
}

// job reads a job of a store.
func (r *request) job(ctx context.Context, s *store.Store, seq int64) (*jobDetails, error) {
	d := &jobDetails{Ref: strconv.FormatInt(seq, 10), Revision: revision, Zone: r.zone.String(), InZone: r.inZone(), columns: make(map[string]any)}
	row, to := make([]any, len(columns)), make([]any, len(columns))
	for i := range row {
		to[i] = &row[i]
	}
	found := false
	err := s.Read(ctx, func(v *store.Snapshot) error {
		rows, err := v.Query(`SELECT "`+strings.Join(columns, `", "`)+`" FROM jobs WHERE seq = ?`, seq)
		if err != nil {
			return err
		}
		if found = rows.Next(); found {
			err = rows.Scan(to...)
		}
		if err := cmp.Or(err, rows.Err(), rows.Close()); err != nil || !found {
			return err
		}
		d.document, _, err = v.Document(seq)
		return err
	})
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, missing("there is no job of arrival %d", seq)
	}
	known := make(map[string]bool)
	for i, c := range store.Columns {
		known[c.Field] = true
		if d.columns[c.Name] = row[i]; row[i] == nil {
			continue
		}
		p := property{Name: c.Name, Doc: r.doc(c.Name), Text: r.writeField(fields[c.Name], row[i])}
		if fields[c.Name].kind != instant {
			p.With, p.Without = r.add(c.Name+"="+fmt.Sprint(row[i])), r.add(c.Name+"!="+fmt.Sprint(row[i]))
		}
		d.Properties = append(d.Properties, p)
	}
	d.Title = fmt.Sprintf("Job %v of %v", d.columns["jobid"], d.columns["cluster"])
	var document map[string]any
	if json.Unmarshal([]byte(strings.ToValidUTF8(string(d.document), "\ufffd")), &document) != nil {
		d.Others = []property{{Name: "document", Text: strings.ToValidUTF8(string(d.document), "\ufffd")}}
		return d, nil
	}
	d.Script, _ = document["script"].(string)
	for _, key := range slices.Sorted(maps.Keys(document)) {
		if value := document[key]; !known[key] && key != "script" && value != nil {
			text, err := json.Marshal(value)
			if err != nil {
				return nil, err
			}
			name := key
			if fields[key] != nil { // a column has another form of it
				name += " (document)"
			}
			d.Others = append(d.Others, property{Name: name, Text: strings.Trim(string(text), `"`)})
		}
	}
	return d, nil
}

// writeField formats a value of a job.
func (r *request) writeField(f *field, v any) string {
	switch {
	case f.kind == instant:
		return r.write(moment, v)
	case strings.HasSuffix(f.Name, "_s"):
		return fmt.Sprintf("%v (%s)", v, r.write(seconds, v))
	case f.kind == decimal:
		return r.write(hours, v)
	}
	return fmt.Sprint(v)
}

// jobPage answers with a page about a job, or with the part of one that stands below its row.
func (v *server) jobPage(w http.ResponseWriter, q *http.Request) error {
	d, err := v.job(q)
	if err != nil {
		return err
	}
	values := q.URL.Query()
	if d.Whole = !values.Has("part"); !d.Whole {
		return render(w, "job", d)
	}
	for _, list := range [][]property{d.Properties, d.Others} {
		for i := range list { // the page is one directory further down
			if list[i].With != "" {
				list[i].With, list[i].Without = "../"+list[i].With, "../"+list[i].Without
			}
		}
	}
	return render(w, "jobpage", d)
}

func (v *server) jobJSON(w http.ResponseWriter, q *http.Request) error {
	d, err := v.job(q)
	if err != nil {
		return err
	}
	out := map[string]any{"columns": d.columns, "document": strings.ToValidUTF8(string(d.document), "\ufffd")}
	if json.Valid(d.document) {
		out["document"] = json.RawMessage(d.document)
	}
	return writeJSON(w, out)
}
