// Package access finds out who sends a request to a server: it looks up the request's credentials in a file of the
// server. It also reads a client's own credentials from a file. A server says which roles its credentials may
// have, and what they may do.
package access

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
)

// Role names what a client may do.
type Role string

// Access has the credentials that a server accepts. A nil Access, and its zero value, require no
// credentials.
type Access struct {
	entries []credential
}

// Grant is the result of a check of credentials: a role, and the user's name unless the credentials are a token.
type Grant struct {
	Role Role
	User string
}

type credential struct {
	Grant
	// hash is the hash of "Basic user:password" or of "Bearer token".
	hash [sha256.Size]byte
}

// Read reads a file of credentials. Each line has a role, a user and a password, or a role, the
// word token, and a token. Spaces separate the words. Empty lines and lines that begin with # are
// ignored. The file must not be readable by others than its owner.
func Read(path string, roles ...Role) (*Access, error) {
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
	users := map[string]int{} // the line of each user
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
		if !slices.Contains(roles, role) {
			return nil, fmt.Errorf("reading the credentials: %s:%d: role %q (want %s)", path, n, words[0], oneOf(roles))
		}
		grant, key := Grant{role, words[1]}, "Basic "+words[1]+":"+words[2]
		switch user := words[1]; {
		case user == "token":
			grant.User, key = "", "Bearer "+words[2]
		case strings.Contains(user, ":"):
			return nil, fmt.Errorf(
				"reading the credentials: %s:%d: user %q: no client can send a colon in a name (want another name)", path, n, user)
		case users[user] > 0:
			return nil, fmt.Errorf("reading the credentials: %s:%d: user %q has a password in line %d (want one line a user)",
				path, n, user, users[user])
		default:
			users[user] = n
		}
		a.entries = append(a.entries, credential{grant, sha256.Sum256([]byte(key))})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the credentials: %w", err)
	}
	if len(a.entries) == 0 {
		return nil, fmt.Errorf("reading the credentials: %s: it has no credentials (want lines of ROLE USER PASSWORD)", path)
	}
	return a, nil
}

// Required reports whether a request needs credentials.
func (a *Access) Required() bool { return a != nil && len(a.entries) > 0 }

// oneOf writes roles as "ingest, read or all".
func oneOf(roles []Role) string {
	var b strings.Builder
	for i, role := range roles {
		switch {
		case i > 0 && i == len(roles)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(string(role))
	}
	return b.String()
}

// Who returns the grants of a request's credentials. It returns nil for a request without
// credentials, and for credentials that the server does not accept.
func (a *Access) Who(r *http.Request) (grants []Grant) {
	if !a.Required() {
		return nil
	}
	scheme, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	key := ""
	switch strings.ToLower(scheme) {
	case "basic":
		text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(value))
		if err != nil {
			return nil
		}
		key = "Basic " + string(text)
	case "bearer", "apikey":
		key = "Bearer " + strings.TrimSpace(value)
	}
	hash := sha256.Sum256([]byte(key))
	for _, e := range a.entries {
		if subtle.ConstantTimeCompare(hash[:], e.hash[:]) == 1 {
			grants = append(grants, e.Grant)
		}
	}
	return grants
}

// Authorization reads a file with the credentials of a client, in one line: USER:PASSWORD, "ApiKey KEY" or "Bearer
// TOKEN". It returns the value of the header, "" for no file. Only the file's owner may be able to read it.
func Authorization(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("reading the credentials: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("the credentials in %s: others can read or change the file (mode %#o, want 0600)", path,
			info.Mode().Perm())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the credentials: %w", err)
	}
	line := strings.TrimSpace(string(text))
	if strings.HasPrefix(line, "ApiKey ") || strings.HasPrefix(line, "Bearer ") {
		return line, nil
	}
	user, password, ok := strings.Cut(line, ":")
	if !ok || user == "" || strings.ContainsAny(line, "\r\n") {
		return "", fmt.Errorf("the credentials in %s: want one line: USER:PASSWORD, \"ApiKey KEY\" or \"Bearer TOKEN\"", path)
	}
	r := &http.Request{Header: http.Header{}}
	r.SetBasicAuth(user, password)
	return r.Header.Get("Authorization"), nil
}
