package web

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"rmreplay/internal/accounting/question"
	"rmreplay/internal/accounting/store"
)

// property is one line of a job's details.
type property struct {
	Name, Doc, Text string
	With, Without   string // links to the jobs with this value, and to the jobs without this value
}

// longestScript is the number of bytes of a job's script that a page shows.
const longestScript = 256 << 10

// jobDetails are the details of a job for its page.
type jobDetails struct {
	Title, Revision string
	Ref             string // the job's ID for paths, with escaped slashes
	Properties      []property
	Script          string
	Others          []property // keys of the document that have no column
	Whole           bool       // a whole page, and not a part below a table's row
	Zone            string     // time zone of the times
	InZone          string     // URL parameters for a page that shows times in this zone
	document        []byte
	columns         map[string]any
}

// job reads the job that the request's path names by its ID in the store or in the Elasticsearch cluster.
func (v *server) job(q *http.Request) (*jobDetails, error) {
	r, err := parseRequest(q.URL.Query(), v.now())
	if err != nil {
		return nil, bad(err)
	}
	id := q.PathValue("seq")
	job, err := v.jobs.Job(q.Context(), id)
	if err != nil {
		return nil, err
	}
	if job == nil {
		return nil, missing("there is no job %q", id)
	}
	return r.details(job)
}

// details prepares the details of a job.
func (r *request) details(job *question.Job) (*jobDetails, error) {
	d := &jobDetails{
		Ref: url.PathEscape(job.ID), Revision: revision, Zone: r.zone.String(), InZone: r.inZone(),
		columns: make(map[string]any), document: job.Document,
	}
	row := job.Values
	known := make(map[string]bool)
	for i, c := range store.Columns {
		known[c.Field] = true
		if d.columns[c.Name] = row[i]; row[i] == nil {
			continue
		}
		p := property{Name: c.Name, Doc: r.doc(c.Name), Text: r.writeField(question.Fields[c.Name], row[i])}
		text := fmt.Sprint(row[i])
		if question.Fields[c.Name].Type != question.Instant && len(text) < longestFilter-len(c.Name)-2 {
			p.With, p.Without = r.add(c.Name+"="+text), r.add(c.Name+"!="+text)
		}
		d.Properties = append(d.Properties, p)
	}
	d.Title = fmt.Sprintf("Job %v of %v", d.columns["jobid"], d.columns["cluster"])
	var document map[string]any
	if json.Unmarshal([]byte(strings.ToValidUTF8(string(d.document), "\ufffd")), &document) != nil {
		d.Others = []property{{Name: "document", Text: question.Cut(strings.ToValidUTF8(string(d.document), "\ufffd"))}}
		return d, nil
	}
	script, _ := document["script"].(string)
	if d.Script = strings.ToValidUTF8(script[:min(len(script), longestScript)], ""); len(d.Script) < len(script) {
		d.Script += "\n…"
	}
	for _, key := range slices.Sorted(maps.Keys(document)) {
		if value := document[key]; !known[key] && key != "script" && value != nil {
			text, err := json.Marshal(value)
			if err != nil {
				return nil, err
			}
			name := key
			if question.Fields[key] != nil { // a column shows the same value in another form
				name += " (document)"
			}
			d.Others = append(d.Others, property{Name: name, Text: question.Cut(strings.Trim(string(text), `"`))})
		}
	}
	return d, nil
}

// writeField formats a value of a job for readers.
func (r *request) writeField(f *question.Field, v any) string {
	switch {
	case f.Type == question.Instant:
		return r.write(moment, v)
	case strings.HasSuffix(f.Name, "_s"):
		return fmt.Sprintf("%v (%s)", v, r.write(seconds, v))
	case f.Type == question.Decimal:
		return r.write(hours, v)
	}
	return fmt.Sprint(v)
}

// jobPage answers with a page about a job, or with the part that opens below a row of the table of
// jobs.
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
		for i := range list { // the page's path is one directory deeper
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
