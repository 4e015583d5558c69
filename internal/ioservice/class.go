package ioservice

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
)

// NamedClass returns the ID of a class that a user named: the SHA-256 of the name, in hexadecimal
// digits.
func NamedClass(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

// ClassOfArguments returns the ID of the class of jobs whose scripts have these arguments. The ID
// is the SHA-256 of the arguments as JSON, as Python's json.dumps formats it. The first argument
// is the script's path.
func ClassOfArguments(arguments []string) string {
	quoted := make([]string, len(arguments))
	for i, a := range arguments {
		quoted[i] = pythonString(a)
	}
	return NamedClass("[" + strings.Join(quoted, ", ") + "]")
}

// pythonString formats a JSON string like Python's json.dumps (ensure_ascii). It escapes all
// characters except printable ASCII, and a character above U+FFFF becomes two escapes.
func pythonString(s string) string {
	short := map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch escape, known := short[r]; {
		case known:
			b.WriteString(escape)
		case ' ' <= r && r <= '~':
			b.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// errJobType says that a comment has a malformed jobtype.
var errJobType = errors.New("not a job type (want jobtype=NAME; at the comment's begin, NAME of letters, digits and _)")

// nameCharacters are the characters that are allowed in a class's name.
const nameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

// NameInComment returns the name of the class at the beginning of a job's comment (jobtype=NAME;).
// A plugin may have put variety_id=ID; before it. It returns "" if the comment does not name a
// class.
func NameInComment(comment string) (string, error) {
	if rest, found := strings.CutPrefix(comment, "variety_id="); found {
		_, comment, _ = strings.Cut(rest, ";")
	}
	rest, found := strings.CutPrefix(comment, "jobtype=")
	if !found {
		return "", nil
	}
	name, _, found := strings.Cut(rest, ";")
	if !found || name == "" || len(name) > maxName || strings.ContainsFunc(name,
		func(r rune) bool { return !strings.ContainsRune(nameCharacters, r) }) {
		return "", fmt.Errorf("%.60q: %w", comment, errJobType)
	}
	return name, nil
}

// IDInComment returns the class ID that a plugin added at the beginning of a comment
// (variety_id=ID;). It returns "" without an ID, and for N/A, which means an unknown class.
func IDInComment(comment string) string {
	rest, found := strings.CutPrefix(comment, "variety_id=")
	id, _, closed := strings.Cut(rest, ";")
	if !found || !closed || id == "N/A" || len(id) > maxClassID {
		return ""
	}
	return id
}
