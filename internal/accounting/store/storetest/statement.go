package storetest

import "testing"

// CheckStatement checks that a statement of SQL has no text of its caller's client: every word is among
// words, the bytes that end a statement are missing, quotes are closed, and each question mark has one
// of args arguments.
func CheckStatement(t *testing.T, words map[string]bool, text string, args int) {
	t.Helper()
	marks, quoted, begin := 0, false, -1
	for i := 0; i <= len(text); i++ {
		var at byte = ' '
		if i < len(text) {
			at = text[i]
		}
		letter := at == '_' || 'a' <= at|0x20 && at|0x20 <= 'z'
		switch {
		case letter && begin < 0:
			begin = i
		case !letter && begin >= 0:
			if w := text[begin:i]; !words[w] {
				t.Fatalf("the word %q is not of this program: %s", w, text)
			}
			begin = -1
		}
		switch at {
		case '\'':
			quoted = !quoted
		case '?':
			if !quoted {
				marks++
			}
		case ';', 0:
			t.Fatalf("the byte %q in %s", at, text)
		}
	}
	if quoted || marks != args {
		t.Fatalf("%d question marks and %d arguments: %s", marks, args, text)
	}
}
