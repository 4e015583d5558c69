// Package privacy makes sure that messages about a cluster's configuration do not quote other
// files, and that copies of the configuration contain no secrets.
//
// A slurm.conf may include any file, and a file beside it may be a link to any file. When root reads another user's
// configuration, root may thus read a file that this user must not read, so no message quotes a file outside the
// cluster's directory.
package privacy

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// outside reports whether a file is not below a directory, after all links are followed.
func outside(dir, path string) bool {
	relative, err := filepath.Rel(resolved(dir), resolved(path))
	return err != nil || !filepath.IsLocal(relative)
}

// resolved returns a path without links, as far as the path exists.
func resolved(path string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	if found, err := filepath.EvalSymlinks(path); err == nil {
		return found
	}
	return path
}

// Files are the files of a cluster that were read.
type Files struct {
	Dir   string   // the cluster's directory
	files []string // read files outside the directory
	read  map[string][]byte
}

// Read records the path and the text of a file that was read.
func (u *Files) Read(path string, text []byte) {
	if outside(u.Dir, path) {
		u.files = append(u.files, path)
	}
	if u.read == nil {
		u.read = map[string][]byte{}
	}
	u.read[path] = text
}

// Has reports whether a file is outside the directory.
func (u *Files) Has(path string) bool { return slices.Contains(u.files, path) }

// Error returns an error that gives places in files outside the directory, but does not quote
// their text.
func (u *Files) Error(err error) error {
	if err == nil {
		return nil
	}
	if text := u.text(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}

// Texts rewrites messages in place, as Error does.
func (u *Files) Texts(messages []string) {
	for i, m := range messages {
		messages[i] = u.text(m)
	}
}

// text does the work of Error for the text of a message. Each line of a message begins with a
// place or continues the previous line.
func (u *Files) text(message string) string {
	var kept []string
	hiding := false
	for line := range strings.SplitSeq(message, "\n") {
		begin, place := u.place(line)
		switch {
		case place != "":
			hiding = true
			kept = append(kept, fmt.Sprintf("%s%s: a mistake (its text is not shown, because the file is not in %s)", begin,
				place, u.Dir))
		case !hiding || strings.HasPrefix(line, u.Dir+string(filepath.Separator)):
			hiding = false
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// place finds FILE:LINE of a file outside the directory, and the text before it.
func (u *Files) place(line string) (before, place string) {
	for _, file := range u.files {
		at := strings.Index(line, file+":")
		if at < 0 {
			continue
		}
		rest := line[at+len(file)+1:]
		if digits := len(rest) - len(strings.TrimLeft(rest, "0123456789")); digits > 0 {
			return line[:at], file + ":" + rest[:digits]
		}
	}
	return "", ""
}
