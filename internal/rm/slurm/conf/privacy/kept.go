package privacy

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"rmreplay/internal/slurmspec"
)

// maxKept bounds the copies of a cluster's files, in bytes.
const maxKept = 16 << 20

// ErrNotKept means that the results contain no copy of a cluster's files.
var ErrNotKept = errors.New("the results get no copy of the cluster's files")

// Kept returns copies of the files that were read, by their names below the cluster's directory.
// The copies contain neither values of keys that may be secrets nor hashes of passwords. The error
// is [ErrNotKept] if a file is outside the directory, or if the files together exceed 16 MiB.
func (u *Files) Kept() (map[string]string, error) {
	if len(u.files) > 0 {
		return nil, fmt.Errorf("%w: %s is not in %s", ErrNotKept, u.files[0], u.Dir)
	}
	kept, size := map[string]string{}, 0
	for path, text := range u.read {
		name, err := filepath.Rel(u.Dir, path)
		if err != nil || !filepath.IsLocal(name) {
			return nil, fmt.Errorf("%w: %s is not in %s", ErrNotKept, path, u.Dir)
		}
		if size += len(text); size > maxKept {
			return nil, fmt.Errorf("%w: they have more than %d MiB", ErrNotKept, maxKept>>20)
		}
		if name == "passwd" {
			kept[name] = withoutHashes(string(text))
		} else {
			kept[name] = withoutSecrets(string(text))
		}
	}
	return kept, nil
}

// pair matches KEY=VALUE in a file of Slurm. A value in quotes may have spaces. A value without
// quotes may continue on the next line.
var pair = regexp.MustCompile(`[A-Za-z][A-Za-z0-9_]*[ \t]*[-+*/]?=[ \t]*("(?:[^"\\]|\\.)*"|(?:\\\r?\n|\S)*)`)

// withoutSecrets removes keys with values that may be secrets, even in comments. All lines keep
// their numbers.
func withoutSecrets(text string) string {
	return pair.ReplaceAllStringFunc(text, func(found string) string {
		if key := found[:strings.IndexAny(found, " \t-+*/=")]; !slurmspec.Secret(key) {
			return found
		}
		return strings.Repeat("\n", strings.Count(found, "\n"))
	})
}

// withoutHashes replaces the password hash in each line of passwd by x.
func withoutHashes(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if fields := strings.SplitN(line, ":", 3); len(fields) == 3 {
			line = fields[0] + ":x:" + fields[2]
		}
		b.WriteString(line)
	}
	return b.String()
}
