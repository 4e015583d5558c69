package workload

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
)

func TestParseUsers(t *testing.T) {
	got, err := ParseUsers(strings.NewReader("# people\r\nadmin:1000:admin:1000 # me\r\n\n user2 : 1002 : g : 7\n"), "users")
	want := []hpc.User{{Name: "admin", UID: 1000, Group: "admin", GID: 1000}, {Name: "user2", UID: 1002, Group: "g", GID: 7}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	line := "eve:7:g:8:staff,backup\n"
	if got, err = ParseUsers(strings.NewReader(line), "users"); err != nil || len(got) != 1 || UserLine(got[0]) != line || !slices.Equal(got[0].Groups, []string{"staff", "backup"}) {
		t.Errorf("further groups: %+v, %v", got, err)
	}
	for text, want := range map[string]string{
		"a:1:g:1:b,,c":     "users:1: empty name of a group",
		"a:1:g:1:b:c":      "users:1: not a user",
		"a:1:g":            "users:1: not a user (want name:uid:group:gid or name:uid:group:gid:GROUP,GROUP)",
		"a:x:g:1":          `uid "x": not a number`,
		"a:1:g:4294967296": `gid "4294967296": not a number`,
		":1:g:1":           "empty name",
		"a:1:g:1\na:2:g:1": "users:2: user a occurs twice",
	} {
		if _, err := ParseUsers(strings.NewReader(text), "users"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func FuzzParseUsers(f *testing.F) {
	f.Add("admin:1000:admin:1000\n#x\na:1:b:2")
	f.Fuzz(func(t *testing.T, text string) {
		users, err := ParseUsers(strings.NewReader(text), "users")
		if err == nil {
			for _, u := range users {
				if u.Name == "" || u.Group == "" {
					t.Fatalf("%+v", u)
				}
			}
		}
	})
}
