package forward

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"rmreplay/internal/accounting/store"
)

// Member is the name of the member that [Options.Derived] adds to documents. It contains those of the store's columns
// that Slurm's documents lack.
const Member = "rmreplay"

// Derived reports whether the store computes a column, so that [Member] contains it.
func Derived(c store.Column) bool {
	return c.Field == "" && c.Name != "seq" || c.Name == "wait_since_eligible_s"
}

// member returns the JSON text of [Member] for a document.
func member(e *store.Entry) ([]byte, error) {
	row := store.Row(e)
	own := map[string]any{"id": store.ID(&e.Job), "limit_used": nil}
	for i, c := range store.Columns {
		if Derived(c) || c.Name == "cluster" {
			own[c.Name] = cellOf(row[i])
		}
	}
	if used, ok := e.Job.LimitUsed(); ok {
		own["limit_used"] = used
	}
	return json.Marshal(own)
}

// extend adds [Member] to a document that lacks this member. It also adds the keys of Slurm that the document lacks
// and for which the store has a value. For example, some documents do not have the key cluster, and imported documents
// do not have cpu_hours. So the documents of all jobs have these fields, even in an index to which Slurm's plugin also
// writes.
func extend(document, member []byte, e *store.Entry) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(document, &members) != nil {
		return document
	}
	own, ok := members[Member]
	if !ok {
		own = member
		document = insert(document, Member, own)
	}
	row := store.Row(e)
	for i, c := range store.Columns {
		if _, named := members[c.Field]; named || c.Field == "" || c.Field == "_index" || Derived(c) {
			continue
		}
		value, err := json.Marshal(cellOf(row[i]))
		if c.Name == "cluster" {
			value, err = clusterOf(own)
		}
		if text := string(value); err == nil && text != "null" && text != `""` && text != "" {
			document = insert(document, c.Field, value)
		}
	}
	return document
}

// cellOf converts a value of a row to a value for JSON.
func cellOf(value any) any {
	if at, ok := value.(time.Time); ok {
		return at.Format("2006-01-02T15:04:05.000Z")
	}
	return value
}

// clusterOf returns the cluster in a [Member]. A server that forwards a document without a cluster writes its own
// cluster there.
func clusterOf(member []byte) (json.RawMessage, error) {
	var known struct {
		Cluster json.RawMessage `json:"cluster"`
	}
	err := json.Unmarshal(member, &known)
	return known.Cluster, err
}

// insert adds a member to a JSON object. There must not be white space around the object.
func insert(object []byte, name string, value json.RawMessage) []byte {
	var b bytes.Buffer
	b.Write(object[:len(object)-1])
	if len(object) > len("{}") {
		b.WriteByte(',')
	}
	fmt.Fprintf(&b, `"%s":%s}`, name, value)
	return b.Bytes()
}

// property returns the mapping of a column. Malformed values are ignored, for example Unknown,
// which Slurm writes for a missing time. Long texts are not indexed, because a keyword is limited
// to 32,766 bytes of UTF-8.
func property(c store.Column) map[string]any {
	switch strings.Fields(c.Type)[0] {
	case "BIGINT":
		return map[string]any{"type": "long", "ignore_malformed": true}
	case "DOUBLE":
		return map[string]any{"type": "double", "ignore_malformed": true}
	case "TIMESTAMP":
		return map[string]any{"type": "date", "ignore_malformed": true}
	}
	return map[string]any{"type": "keyword", "ignore_above": 8191}
}

// ownProperties returns the mapping of the fields in [Member].
func ownProperties() map[string]any {
	own := map[string]any{"limit_used": map[string]any{"type": "double"}, "id": map[string]any{"type": "keyword"}}
	for _, c := range store.Columns {
		if Derived(c) || c.Name == "cluster" {
			own[c.Name] = property(c)
		}
	}
	return map[string]any{Member: map[string]any{"properties": own}}
}

// properties returns the mapping of an index that this program creates.
func properties() map[string]any {
	all := ownProperties()
	maps.Copy(all, slurmProperties())
	return all
}

// slurmProperties returns the mapping of Slurm's documents.
func slurmProperties() map[string]any {
	all := map[string]any{}
	for _, name := range []string{"exit_code", "derived_ec"} {
		all[name] = map[string]any{"type": "keyword"}
	}
	all["script"] = map[string]any{"type": "keyword", "index": false, "doc_values": false}
	for _, c := range store.Columns {
		if c.Field != "" && c.Field != "_index" {
			all[c.Field] = property(c)
		}
	}
	return all
}

// prepare creates an index with its mapping. If the index exists, it adds the mapping of [Member].
// If the cluster refuses both, prepare reports this, and the cluster maps the fields itself. On
// error the caller tries again.
func (f *Forwarder) prepare(ctx context.Context, index string) error {
	if f.prepared[index] {
		return nil
	}
	path := "/" + url.PathEscape(index)
	refused, err := f.put(ctx, path, map[string]any{"mappings": map[string]any{"properties": properties()}})
	if err == nil && refused != nil {
		if refused, err = f.put(ctx, path+"/_mapping", map[string]any{"properties": ownProperties()}); refused != nil {
			f.opts.Report(fmt.Errorf("forwarding: the index %s refuses the mapping of this program, and keeps its own: %w",
				index, refused))
		}
	}
	if err == nil {
		f.prepared[index] = true
	}
	return err
}

// put sends a request. refused is a final refusal of the cluster; err is an error after which the
// caller tries again.
func (f *Forwarder) put(ctx context.Context, path string, body any) (refused, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, strings.TrimSuffix(f.target, "/_bulk")+path,
		bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	if f.authorization != "" {
		request.Header.Set("Authorization", f.authorization)
	}
	response, err := f.opts.Client.Do(request)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	err = errors.Join(err, response.Body.Close())
	switch status := response.StatusCode; {
	case err != nil:
		return nil, err
	case status == http.StatusOK || status == http.StatusCreated:
		return nil, nil
	case status >= 400 && status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout:
		return fmt.Errorf("the Elasticsearch cluster answers %s: %s", response.Status, excerpt(answer)), nil
	default:
		return nil, fmt.Errorf("the Elasticsearch cluster answers %s: %s", response.Status, excerpt(answer))
	}
}
