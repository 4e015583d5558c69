package accounts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// absent is a number that no machine's files assign to an account, because systemd reserves such
// numbers for services without an account.
const absent = 65000

// fakeGetent puts a getent in PATH that knows the user ana, 65001, and the group lab, 65002, as a directory
// server would. It cannot answer for 65003.
func fakeGetent(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	script := `#!/bin/sh
case "$1 $2" in
"passwd 65001") echo "ana:*:65001:65001:Ana:/home/ana:/bin/bash" ;;
"group 65002") echo "lab:*:65002:ana" ;;
*65003) echo "getent: the server is down" >&2; exit 1 ;;
*) exit 2 ;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "getent"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
}

func TestAccountsOfDirectoryServer(t *testing.T) {
	fakeGetent(t)
	for id, want := range map[int]bool{0: true, absent: false, 65001: true, 65002: true} {
		if got, err := Has(id); got != want || err != nil {
			t.Errorf("Has(%d) = %v, %v; want %v", id, got, err, want)
		}
	}
	for id, want := range map[int]string{0: "root", absent: "", 65001: "ana", 65002: ""} {
		if got, err := Name(id); got != want || err != nil {
			t.Errorf("Name(%d) = %q, %v; want %q", id, got, err, want)
		}
	}
}

func TestServerThatIsDown(t *testing.T) {
	fakeGetent(t)
	for _, ask := range []func() error{
		func() error { _, err := Has(65003); return err },
		func() error { _, err := Name(65003); return err },
	} {
		if err := ask(); err == nil || !strings.Contains(err.Error(), "getent passwd 65003: exit status 1") {
			t.Errorf("error %v, want one that names the question", err)
		}
	}
}

// A machine without getent has the accounts of its files only.
func TestWithoutGetent(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if name, err := Name(0); name != "root" || err != nil {
		t.Errorf("Name(0) = %q, %v", name, err)
	}
	if has, err := Has(absent); has || err != nil {
		t.Errorf("Has(%d) = %v, %v", absent, has, err)
	}
}
