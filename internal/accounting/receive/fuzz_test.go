package receive

import (
	"bytes"
	"net/http/httptest"
	"testing"
)

// FuzzBulk checks that a bulk request is an error or a list of items. Their documents must be lines
// of the body, each once and in order.
func FuzzBulk(f *testing.F) {
	f.Add([]byte("{\"index\":{}}\n{\"jobid\":1}\n{\"create\":{\"_index\":\"b\"}}\n{}\n{\"delete\":{\"_id\":\"1\"}}\n{\"index\":{}}\n7"))
	f.Add([]byte("{\"index\":{\"_index\":\"_x\"}}\r\n{}\r\n\n{\"update\":{}}\n{}"))
	f.Add([]byte("{\"index\":{}}\n{\"index\":{}}\n{\"index\":{}}"))
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest("POST", "/a/_bulk", nil)
		r.SetPathValue("index", "a")
		items, arrivals, err := new(Handler).parseBulk(r, bytes.Clone(body))
		if err != nil {
			if items != nil || arrivals != nil {
				t.Error("an error with items")
			}
			return
		}
		next, rest := 0, body
		for _, it := range items {
			if (it.arrival < 0) == (it.problem == "") {
				t.Errorf("%+v", it)
			}
			if it.arrival < 0 {
				continue
			}
			if it.arrival != next {
				t.Errorf("document %d comes after %d", it.arrival, next-1)
			}
			text := arrivals[it.arrival].Document
			at := bytes.Index(rest, text)
			if len(text) == 0 || bytes.ContainsRune(text, '\n') || at < 0 {
				t.Fatalf("%q is not a line of the body", text)
			}
			rest = rest[at+len(text):]
			next++
		}
		if next != len(arrivals) || len(items) == 0 {
			t.Errorf("%d documents of %d items, %d arrivals", next, len(items), len(arrivals))
		}
	})
}
