// Package views stores the saved views of the dashboards in a file of the store's directory.
package views

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// View is a page's URL, saved under a name.
type View struct {
	Name string `json:"name"`
	// URL is relative to the dashboards: "?last=7d&f=partition%3Dgpu" or "compare?a=...".
	URL string `json:"url"`
}

// List has the saved views of a store. Several goroutines can use it.
type List struct {
	mu   sync.Mutex
	path string          // empty: the views are only in memory
	kept map[string]View // the views in memory
}

// New returns the views in the file with the given path. If path is "", the views are only in
// memory.
func New(path string) *List { return &List{path: path} }

// aside, followed by the time, is appended to the name of a damaged file of views.
const aside = ".damaged-"

// load reads the views. It renames a file that cannot be read, and continues without views.
func (l *List) load() (map[string]View, error) {
	if l.path == "" {
		return maps.Clone(l.kept), nil
	}
	text, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the saved views: %w", err)
	}
	all := make(map[string]View)
	if err := json.Unmarshal(text, &all); err != nil {
		to := l.path + aside + time.Now().UTC().Format("20060102T150405.000")
		if err := os.Rename(l.path, to); err != nil {
			return nil, fmt.Errorf("setting the damaged file of saved views aside: %w", err)
		}
		return nil, nil
	}
	return all, nil
}

// damaged returns a message that names the damaged files that are still there, or an empty text.
func (l *List) damaged() string {
	found, err := filepath.Glob(globQuoted.Replace(l.path) + aside + "*")
	if l.path == "" || err != nil || len(found) == 0 {
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

// All returns the views in the order of their names, and the message that the function damaged
// returns.
func (l *List) All() (list []View, damaged string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, err := l.load()
	list = slices.SortedFunc(maps.Values(all), func(a, b View) int { return strings.Compare(a.Name, b.Name) })
	return list, l.damaged(), err
}

// Change changes the views with the function do, and replaces the file atomically. The argument of
// the function is a map of all views, by their names. If the function fails, nothing is saved, and
// Change returns the function's error.
func (l *List) Change(do func(all map[string]View) error) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, err := l.load()
	if err != nil {
		return err
	}
	if all == nil {
		all = make(map[string]View)
	}
	if err := do(all); err != nil {
		return err
	}
	if l.path == "" {
		l.kept = all
		return nil
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(l.path), ".views-*") // with mode 0600
	if err != nil {
		return fmt.Errorf("saving the view: %w", err)
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), l.path)
	}
	if err != nil {
		return fmt.Errorf("saving the view: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}
