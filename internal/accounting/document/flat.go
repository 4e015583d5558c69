package document

import (
	"math/bits"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// flat reads a document in the form that Slurm writes: an object whose values are strings,
// numbers, true, false or null. It returns false for every other text, valid or not, and for
// invalid escapes. If it returns false, the caller must not use the parser any more. The text must
// be UTF-8.
//
// For such a document, flat gives the same result as [parser.object] in a quarter of the time.
func (p *parser) flat(text string) bool {
	s := scanner{text: text}
	s.space()
	if !s.take('{') {
		return false
	}
	s.space()
	if s.take('}') {
		s.space()
		return s.at == len(text)
	}
	for {
		key, ok := s.quoted()
		if !ok {
			return false
		}
		s.space()
		if !s.take(':') {
			return false
		}
		s.space()
		v, ok := s.value()
		if !ok {
			return false
		}
		p.member(key, v)
		s.space()
		if s.take('}') {
			s.space()
			return s.at == len(text)
		}
		if !s.take(',') {
			return false
		}
		s.space()
	}
}

// scanner reads JSON (RFC 8259). A method returns false if the text does not have the expected
// form.
type scanner struct {
	text string
	at   int
}

func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

func (s *scanner) take(c byte) bool {
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *scanner) value() (v value, ok bool) {
	if s.at == len(s.text) {
		return v, false
	}
	switch c := s.text[s.at]; c {
	case '"':
		v.kind = '"'
		v.text, ok = s.quoted()
		return v, ok
	case 'n', 't', 'f':
		v.kind, v.text = jsontext.Kind(c), map[byte]string{'n': "null", 't': "true", 'f': "false"}[c]
		ok = strings.HasPrefix(s.text[s.at:], v.text)
		s.at += len(v.text)
		return v, ok
	}
	begin := s.at
	ok = s.number()
	return value{'0', s.text[begin:s.at]}, ok
}

// quoted reads a string.
func (s *scanner) quoted() (text string, ok bool) {
	if !s.take('"') {
		return "", false
	}
	begin, escaped := s.at, false
	for s.at += plain(s.text[s.at:]); s.at < len(s.text); s.at += plain(s.text[s.at:]) {
		switch s.text[s.at] {
		case '"':
			text = s.text[begin:s.at]
			s.at++
			if escaped {
				return unescape(text)
			}
			return text, true
		case '\\':
			escaped = true
			s.at = min(s.at+2, len(s.text)) // the escaped character does not end the string
		default: // a control character
			return "", false
		}
	}
	return "", false
}

// plain returns the number of bytes before the first quote, backslash or control character. It
// examines eight bytes at a time. In found, the highest bit of each byte is set if the same byte
// of word is one of these characters. Only the lowest set bit is reliable; higher bits may also be
// set for other bytes.
func plain(text string) (n int) {
	const ones, highest = 0x0101010101010101, 0x8080808080808080
	for ; n+8 <= len(text); n += 8 {
		t := text[n : n+8]
		word := uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 | uint64(t[4])<<32 | uint64(t[5])<<40 |
			uint64(t[6])<<48 | uint64(t[7])<<56
		quote, backslash := word^('"'*ones), word^('\\'*ones)
		if found := ((quote-ones)&^quote | (backslash-ones)&^backslash | (word-' '*ones)&^word) & highest; found != 0 {
			return n + bits.TrailingZeros64(found)/8
		}
	}
	for n < len(text) && text[n] != '"' && text[n] != '\\' && text[n] >= ' ' {
		n++
	}
	return n
}

// escapes maps the character after a backslash to the character that the pair encodes.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unescape decodes the text between two quotes. Each backslash in the text must be followed by a
// byte.
func unescape(text string) (string, bool) {
	var to strings.Builder
	to.Grow(len(text))
	for rest := text; ; {
		at := strings.IndexByte(rest, '\\')
		if at < 0 {
			to.WriteString(rest)
			return to.String(), true
		}
		c := escapes[rest[at+1]]
		if c == 0 { // \uXXXX, or invalid
			unquoted, err := jsontext.AppendUnquote(make([]byte, 0, len(text)), `"`+text+`"`)
			return string(unquoted), err == nil
		}
		to.WriteString(rest[:at])
		to.WriteByte(c)
		rest = rest[at+2:]
	}
}

func (s *scanner) number() bool {
	s.take('-')
	if !s.take('0') && !s.digits() {
		return false
	}
	if s.take('.') && !s.digits() {
		return false
	}
	if s.take('e') || s.take('E') {
		if !s.take('+') {
			s.take('-')
		}
		return s.digits()
	}
	return true
}

func (s *scanner) digits() bool {
	begin := s.at
	for s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
		s.at++
	}
	return s.at > begin
}
