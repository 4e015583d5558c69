package receive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"rmreplay/internal/accounting/intake"
)

// action is a line of a bulk request that says what to do with the next line.
type action struct {
	Index  *target `json:"index"`
	Create *target `json:"create"`
	Update *target `json:"update"`
	Delete *target `json:"delete"`
}

type target struct {
	Index string `json:"_index"`
}

// item is the response to one action of a bulk request.
type item struct {
	name    string
	index   string
	problem string // why the document was not stored
	arrival int    // index in the request's arrivals; -1 if there is no document
}

// bulk stores the documents of a bulk request: all of them with one fsync, or none.
func (h *Handler) bulk(w http.ResponseWriter, r *http.Request) {
	begin := time.Now()
	body, done, ok := h.body(w, r)
	if !ok {
		return
	}
	defer done()
	items, arrivals, err := h.parseBulk(r, body)
	if errors.Is(err, errActions) {
		Fail(w, http.StatusRequestEntityTooLarge, "content_too_long_exception", err.Error())
		return
	}
	if err != nil {
		Fail(w, http.StatusBadRequest, "illegal_argument_exception", err.Error())
		return
	}
	last, err := h.intake.Accept(arrivals...)
	if err != nil {
		Fail(w, http.StatusServiceUnavailable, "unavailable_exception", err.Error())
		return
	}
	h.refresh(r, last)
	first := last - int64(len(arrivals)) + 1
	answers := make([]bulkItem, len(items))
	failed := false
	for i, it := range items {
		if it.arrival < 0 {
			failed = true
			refused := map[string]any{
				"_index": it.index, "status": http.StatusBadRequest, "error": map[string]any{"type": "illegal_argument_exception",
					"reason": it.problem},
			}
			answers[i].set(it.name, refused)
			continue
		}
		kept := h.stored(arrivals[it.arrival], first+int64(it.arrival))
		kept.Status = http.StatusCreated
		answers[i].set(it.name, &kept)
	}
	answer(w, http.StatusOK, bulkAnswer{time.Since(begin).Milliseconds(), failed, answers})
}

// bulkAnswer is the response to a bulk request.
type bulkAnswer struct {
	Took   int64      `json:"took"` // milliseconds
	Errors bool       `json:"errors"`
	Items  []bulkItem `json:"items"`
}

// bulkItem is the response to an action, in the member with the action's name.
type bulkItem struct {
	Index  any `json:"index,omitempty"`
	Create any `json:"create,omitempty"`
	Update any `json:"update,omitempty"`
	Delete any `json:"delete,omitempty"`
}

func (i *bulkItem) set(name string, v any) {
	switch name {
	case "index":
		i.Index = v
	case "create":
		i.Create = v
	case "update":
		i.Update = v
	case "delete":
		i.Delete = v
	}
}

var errActions = fmt.Errorf("the bulk request has more than %d actions (want several requests)", MaxActions)

// parseBulk parses a bulk request. An unsupported action becomes an item with a problem. A line
// that is not an action is an error, because the meaning of the lines after it is unknown.
func (h *Handler) parseBulk(r *http.Request, body []byte) (items []item, arrivals []intake.Arrival, err error) {
	number := 0
	next := func() (line []byte, ok bool) {
		for len(body) > 0 {
			line, body, _ = bytes.Cut(body, []byte("\n"))
			number++
			if line = bytes.TrimSpace(line); len(line) > 0 {
				return line, true
			}
		}
		return nil, false
	}
	var a action
	var read []byte // the line of the last parsed action; an equal line need not be parsed again
	for {
		line, ok := next()
		if !ok {
			break
		}
		if len(items) == MaxActions {
			return nil, nil, errActions
		}
		if !bytes.Equal(line, read) {
			a = action{}
			if err := json.Unmarshal(line, &a); err != nil {
				return nil, nil, fmt.Errorf("line %d of the bulk request: %w (want an action such as {\"index\":{}})", number, err)
			}
			read = line
		}
		it := item{arrival: -1, index: r.PathValue("index")}
		var to *target
		switch {
		case a.Index != nil:
			it.name, to = "index", a.Index
		case a.Create != nil:
			it.name, to = "create", a.Create
		case a.Update != nil:
			it.name, to, it.problem = "update", a.Update, "update: not supported (want index or create)"
		case a.Delete != nil:
			it.name, to, it.problem = "delete", a.Delete, "delete: not supported (want index or create)"
		default:
			return nil, nil, fmt.Errorf("line %d of the bulk request: no action (want {\"index\":{}} or {\"create\":{}})",
				number)
		}
		if to.Index != "" {
			it.index = to.Index
		}
		if strings.HasPrefix(it.index, "_") {
			it.problem = fmt.Sprintf("index %q: a name cannot begin with _", it.index)
		}
		if a.Delete == nil {
			line, ok := next()
			if !ok {
				return nil, nil, fmt.Errorf("line %d of the bulk request: no document follows the action", number)
			}
			if it.problem == "" {
				it.arrival = len(arrivals)
				arrivals = append(arrivals, h.arrival(r, it.index, line))
			}
		}
		items = append(items, it)
	}
	if len(items) == 0 {
		return nil, nil, fmt.Errorf("the bulk request has no action")
	}
	return items, arrivals, nil
}
