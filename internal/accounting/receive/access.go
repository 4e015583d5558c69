package receive

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// Role is what somebody may do. The password of slurm.conf's JobCompLoc is known to every user who can
// read that file, so it should not be one that can read all jobs.
type Role string

// The roles.
const (
	Ingest Role = "ingest" // send documents
	Read   Role = "read"   // search, and see the pages
	All    Role = "all"    // both
)

// Access says who may do what. Its zero value lets everybody do all.
type Access struct {
	entries []credential
}

type credential struct {
	role Role
	// hash is of "Basic user:password" or of "Bearer token".
	hash [sha256.Size]byte
}

// ReadAccess reads a file of credentials, one a line: a role, a user and a password, separated by
// spaces; or a role, the word token, and a token. Empty lines and lines that begin with # count for
// nothing. The file must not be readable by others than its owner.
func ReadAccess(path string) (*Access, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the credentials: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading the credentials: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("reading the credentials: %s: mode %#o lets others read it (want chmod 600)", path,
			info.Mode().Perm())
	}
	a := &Access{}
	users := map[string]int{} // their lines
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		words := strings.Fields(line)
		if len(words) != 3 {
			return nil, fmt.Errorf("reading the credentials: %s:%d: %d words (want ROLE USER PASSWORD, or ROLE token TOKEN)",
				path, n, len(words))
		}
		role := Role(words[0])
		if role != Ingest && role != Read && role != All {
			return nil, fmt.Errorf("reading the credentials: %s:%d: role %q (want ingest, read or all)", path, n, words[0])
		}
		key := "Basic " + words[1] + ":" + words[2]
		switch user := words[1]; {
		case user == "token":
			key = "Bearer " + words[2]
		case strings.Contains(user, ":"):
			return nil, fmt.Errorf(
				"reading the credentials: %s:%d: user %q: no client can send a colon in a name (want another name)", path, n, user)
		case users[user] > 0:
			return nil, fmt.Errorf("reading the credentials: %s:%d: user %q has a password in line %d (want one line a user)",
				path, n, user, users[user])
		default:
			users[user] = n
		}
		a.entries = append(a.entries, credential{role, sha256.Sum256([]byte(key))})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the credentials: %w", err)
	}
	if len(a.entries) == 0 {
		return nil, fmt.Errorf("reading the credentials: %s: none (want lines of ROLE USER PASSWORD)", path)
	}
	return a, nil
}

// Required reports whether a request needs credentials.
func (a *Access) Required() bool { return a != nil && len(a.entries) > 0 }

// allows says whether a request's credentials are known, and whether they have a role.
func (a *Access) allows(r *http.Request, role Role) (known, allowed bool) {
	if !a.Required() {
		return true, true
	}
	scheme, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	key := ""
	switch strings.ToLower(scheme) {
	case "basic":
		text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(value))
		if err != nil {
			return false, false
		}
		key = "Basic " + string(text)
	case "bearer", "apikey":
		key = "Bearer " + strings.TrimSpace(value)
	}
	hash := sha256.Sum256([]byte(key))
	for _, e := range a.entries {
		if subtle.ConstantTimeCompare(hash[:], e.hash[:]) == 1 {
			known = true
			allowed = allowed || e.role == role || e.role == All
		}
	}
	return known, allowed
}
