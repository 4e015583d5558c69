package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"rmreplay/internal/accounting/web/views"
)

// Limits of saved views.
const (
	maxViews        = 1000
	longestViewName = 100 // characters
	longestView     = 16 << 10
)

func (v *server) listViews(w http.ResponseWriter, _ *http.Request) error {
	list, _, err := v.views.All()
	if err != nil {
		return err
	}
	if list == nil {
		list = []views.View{}
	}
	return writeJSON(w, list)
}

// saveView saves a view. The request's body is JSON: {"url": "?last=7d"}.
func (v *server) saveView(w http.ResponseWriter, q *http.Request) error {
	name := q.PathValue("name")
	if n := utf8.RuneCountInString(name); !utf8.ValidString(name) || strings.TrimSpace(name) == "" || n > longestViewName {
		return bad(fmt.Errorf("the view's name has %d characters (want 1 to %d)", n, longestViewName))
	}
	if kind, _, _ := strings.Cut(q.Header.Get("Content-Type"), ";"); kind != "application/json" {
		return &statusError{http.StatusUnsupportedMediaType, errors.New("saving the view: the request is not JSON (want " +
			"Content-Type: application/json)")}
	}
	var sent struct {
		URL string `json:"url"`
	}
	d := json.NewDecoder(io.LimitReader(q.Body, longestView))
	d.DisallowUnknownFields()
	if err := d.Decode(&sent); err != nil {
		return bad(fmt.Errorf("reading the view: %w (want {\"url\": \"?...\"} of at most %d bytes)", err, longestView))
	}
	page, query, found := strings.Cut(sent.URL, "?")
	values, err := url.ParseQuery(query)
	if !found || err != nil || page != "" && page != "compare" && page != "health" {
		return bad(fmt.Errorf("the view's URL is %q (want one that begins with ?, compare? or health?)", sent.URL))
	}
	if _, err := parseRequest(values, v.now()); err != nil {
		return bad(fmt.Errorf("the view's URL: %w", err))
	}
	saved := views.View{Name: name, URL: page + "?" + values.Encode()}
	err = v.views.Change(func(all map[string]views.View) error {
		if _, there := all[name]; !there && len(all) >= maxViews {
			return &statusError{http.StatusConflict, fmt.Errorf("there are %d views already (want at most %d: delete some)",
				len(all), maxViews)}
		}
		all[name] = saved
		return nil
	})
	if err != nil {
		return err
	}
	return writeJSON(w, saved)
}

func (v *server) deleteView(w http.ResponseWriter, q *http.Request) error {
	name := q.PathValue("name")
	err := v.views.Change(func(all map[string]views.View) error {
		if _, there := all[name]; !there {
			return missing("there is no view %q", name)
		}
		delete(all, name)
		return nil
	})
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
