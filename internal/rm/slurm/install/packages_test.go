package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// repository is the path of the repository's root.
var repository = filepath.Join("..", "..", "..", "..")

// read returns a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// listed returns the packages that tools/install-deps would install.
func listed(t *testing.T, args ...string) []string {
	t.Helper()
	script := filepath.Join(repository, "tools", "install-deps")
	out, err := exec.Command(script, append([]string{"--list"}, args...)...).Output()
	if err != nil {
		t.Fatalf("%s --list %s: %v", script, strings.Join(args, " "), err)
	}
	return strings.Fields(string(out))
}

// For replays, tools/install-deps installs exactly the packages of Find's requirements.
func TestInstallDeps(t *testing.T) {
	var all []Requirement
	for _, it := range newFakeHome(t).f.find().Items {
		all = append(all, it.Requirement)
	}
	want := packages(all)
	got := listed(t, "--replay")
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("packages of a replay (-requirements +tools/install-deps):\n%s", diff)
	}
	more := listed(t, "chromium")
	for _, p := range append(want, "gcc", "libc6-dev", "chromium") {
		if !slices.Contains(more, p) {
			t.Errorf("tools/install-deps chromium does not install %s: %v", p, more)
		}
	}
}

// The Containerfile has no list of packages of its own. tools/install-deps installs all packages:
// the packages that replays need for the small image, and the packages that `make test` needs for
// the tests.
func TestContainerfile(t *testing.T) {
	var installs [][]string
	for line := range strings.Lines(read(t, "Containerfile")) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		if regexp.MustCompile(`\b(apt|apt-get|dpkg) `).MatchString(line) {
			t.Errorf("%q: want tools/install-deps, which has the list of packages", strings.TrimSpace(line))
		}
		if words[0] == "RUN" && strings.HasSuffix(words[1], "/install-deps") {
			installs = append(installs, words[2:slices.Index(words, "&&")])
		}
	}
	if len(installs) != 2 || installs[0][0] != "--replay" {
		t.Fatalf("install-deps runs with %v, want first --replay and then the packages of build and tests", installs)
	}
	asked := regexp.MustCompile(`(?m)^TEST_PACKAGES *:= *(.*)$`).FindStringSubmatch(read(t, "Makefile"))
	if asked == nil {
		t.Fatal("the Makefile has no TEST_PACKAGES")
	}
	for _, p := range append(strings.Fields(asked[1]), "make", "git") {
		if !slices.Contains(installs[1], p) {
			t.Errorf("the image of the tests lacks %s", p)
		}
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "go.mod"))
	if version == nil || !strings.Contains(read(t, "Containerfile"), "golang:"+version[1]+"-") {
		t.Errorf("the Containerfile's Go is not go.mod's %v", version)
	}
}
