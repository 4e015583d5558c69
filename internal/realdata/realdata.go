// Package realdata finds real logs and recorded schedules for tests. The repository does not contain them. They are in
// ../shared/data, beside the directory of the module. Only tests import this package.
package realdata

import (
	"os"
	"path/filepath"
	"testing"
)

// Path returns the path of a file or directory of the real data. If it is missing, Path skips the
// test with a message.
func Path(t testing.TB, elem ...string) string {
	t.Helper()
	path, ok := Find(t, elem...)
	if !ok {
		t.Skipf("SKIPPED: not tested with real data: there is no %s", path)
	}
	return path
}

// Find returns the path of a file or directory of the real data, and whether it exists.
func Find(t testing.TB, elem ...string) (path string, ok bool) {
	t.Helper()
	dir, err := os.Getwd() // go test runs a test in the directory of its package
	if err != nil {
		t.Fatal(err)
	}
	for !exists(filepath.Join(dir, "go.mod")) {
		if dir == filepath.Dir(dir) {
			t.Fatalf("real data %s: no go.mod above the working directory", filepath.Join(elem...))
		}
		dir = filepath.Dir(dir)
	}
	path = filepath.Join(append([]string{filepath.Dir(dir), "shared", "data"}, elem...)...)
	return path, exists(path)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
