package lines

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestEach(t *testing.T) {
	for text, want := range map[string][]string{
		"":                     nil,
		"\n":                   {""},
		"a":                    {"a"},
		"a\r\n\r\nb\r":         {"a", "", "b"},
		"\xef\xbb\xbfa\nb\n":   {"a", "b"},
		"a\n\xef\xbb\xbfb\n":   {"a", "\xef\xbb\xbfb"}, // only at the beginning is this a byte order mark
		"a\rb\nc\rd":           {"a\rb", "c\rd"},       // a name may have a carriage return
		"a b \t\n c\x00\xff\n": {"a b \t", " c\x00\xff"},
	} {
		var got []string
		err := Each(iotest.OneByteReader(strings.NewReader(text)), "x", func(number int, line []byte) error {
			if got = append(got, string(line)); number != len(got) {
				t.Errorf("%q: line %d has the number %d", text, len(got), number)
			}
			return nil
		})
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v, -want +got\n%s", text, err, diff)
		}
	}
}

func TestEachErrors(t *testing.T) {
	broken := errors.New("broken")
	for want, tt := range map[string]struct {
		r    io.Reader
		fail int // the line at which f fails
	}{
		"x.swf:2: broken":                   {strings.NewReader("a\nb\nc\n"), 2},
		"x.swf: after line 2: broken":       {io.MultiReader(strings.NewReader("a\nb\n"), iotest.ErrReader(broken)), 9},
		"x.swf:2: line of more than 16 MiB": {strings.NewReader("a\n" + strings.Repeat("b", Longest+1) + "\n"), 9},
		"x.swf: after line 0: broken":       {iotest.ErrReader(broken), 9},
		"x.swf:1: lines end in CR alone (want LF or CR LF; tr '\\r' '\\n' converts the file)": {
			iotest.HalfReader(strings.NewReader("a\rb\rc\r" + strings.Repeat("d\r", Longest))), 9},
	} {
		err := Each(tt.r, "x.swf", func(number int, _ []byte) error {
			if number == tt.fail {
				return broken
			}
			return nil
		})
		if err == nil || err.Error() != want || strings.HasSuffix(want, "broken") != errors.Is(err, broken) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	longest := strings.Repeat("b", Longest-1)
	if err := Each(strings.NewReader(longest+"\nc\n"), "x", func(int, []byte) error { return nil }); err != nil {
		t.Errorf("a line of %d bytes: %v", len(longest), err)
	}
}

func TestFirst(t *testing.T) {
	for head, want := range map[string]struct {
		line     string
		comments bool
	}{
		"":                             {"", false},
		" \n\n":                        {"", false},
		"# a\n":                        {"", true},
		"\xef\xbb\xbf\n  a b \nc":      {"a b", false},
		"\n # a\r\n\r\n\tb # c\r\n# d": {"b # c", true},
		"a\n# b":                       {"a", false},
	} {
		if line, comments := First([]byte(head)); line != want.line || comments != want.comments {
			t.Errorf("%q: %q, comments %t", head, line, comments)
		}
	}
}

func TestUTF8(t *testing.T) {
	for text, want := range map[string]string{"": "", "Jürgen": "Jürgen", "J\xfcrgen": "Jürgen", "ü\xff": "Ã¼ÿ"} {
		if got := UTF8([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.Byte()).Draw(t, "text")
		got := UTF8(text)
		if !utf8.ValidString(got) {
			t.Fatalf("%q is not UTF-8", got)
		}
		if !utf8.Valid(text) && utf8.RuneCountInString(got) != len(text) {
			t.Fatalf("%q has %d characters of %d bytes", got, utf8.RuneCountInString(got), len(text))
		}
	})
}

func TestOne(t *testing.T) {
	if got := OneLine(" a\n\tb  c\r\n"); got != "a b c" {
		t.Errorf("%q", got)
	}
}
