package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Limits of saved views.
const (
	maxViews        = 1000
	longestViewName = 100 // characters
	longestView     = 16 << 10
)

// view is a page's URL, saved under a name.
type view struct {
	Name string `json:"name"`
	// URL is relative to the dashboards: "?last=7d&f=partition%3Dgpu" or "compare?a=...".
	URL string `json:"url"`
}

// views are the saved views of a store. They are in a file in the store's directory.
type views struct {
	mu   sync.Mutex
	path string          // empty: the views are only in memory
	kept map[string]view // the views in memory
}

// aside, followed by the time, is appended to the name of a damaged file of views.
const aside = ".damaged-"

// load reads the views. It renames a file that cannot be read, and continues without views.
func (v *views) load() (map[string]view, error) {
	if v.path == "" {
		return maps.Clone(v.kept), nil
	}
	text, err := os.ReadFile(v.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the saved views: %w", err)
	}
	all := make(map[string]view)
	if err := json.Unmarshal(text, &all); err != nil {
		to := v.path + aside + time.Now().UTC().Format("20060102T150405.000")
		if err := os.Rename(v.path, to); err != nil {
			return nil, fmt.Errorf("setting the damaged file of saved views aside: %w", err)
		}
		return nil, nil
	}
	return all, nil
}

// damaged returns a message that names the damaged files that are still there, or an empty text.
func (v *views) damaged() string {
	found, err := filepath.Glob(globQuoted.Replace(v.path) + aside + "*")
	if v.path == "" || err != nil || len(found) == 0 {
		return ""
	}
	for i, path := range found {
		found[i] = filepath.Base(path)
	}
	return "The saved views could not be read and are set aside, in the store's directory: " + strings.Join(found, ", ") +
		" (repair the file and name it views.json, or remove it)."
}

// globQuoted quotes the characters that have a meaning in a glob pattern.
var globQuoted = strings.NewReplacer("*", `\*`, "?", `\?`, "[", `\[`, `\`, `\\`)

// list returns the views in the order of their names, and the message of damaged.
func (v *views) list() (list []view, damaged string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	all, err := v.load()
	list = slices.SortedFunc(maps.Values(all), func(a, b view) int { return strings.Compare(a.Name, b.Name) })
	return list, v.damaged(), err
}

// change changes the views with do, and replaces the file atomically.
func (v *views) change(do func(all map[string]view) error) (err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	all, err := v.load()
	if err != nil {
		return err
	}
	if all == nil {
		all = make(map[string]view)
	}
	if err := do(all); err != nil {
		return err
	}
	if v.path == "" {
		v.kept = all
		return nil
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(v.path), ".views-*") // with mode 0600
	if err != nil {
		return fmt.Errorf("saving the view: %w", err)
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), v.path)
	}
	if err != nil {
		return fmt.Errorf("saving the view: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

func (v *server) listViews(w http.ResponseWriter, _ *http.Request) error {
	list, _, err := v.views.list()
	if err != nil {
		return err
	}
	if list == nil {
		list = []view{}
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
	saved := view{Name: name, URL: page + "?" + values.Encode()}
	err = v.views.change(func(all map[string]view) error {
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
	err := v.views.change(func(all map[string]view) error {
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
