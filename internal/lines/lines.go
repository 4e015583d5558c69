// Package lines reads text files line by line for the readers of all text formats. Errors name the file and the
// line. A byte order mark and carriage returns are not part of a line. Text that is not UTF-8 can be converted.
package lines

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Longest is the length, in bytes, of the longest line that [Each] accepts.
const Longest = 16 << 20

// Each calls f with every line of r, without its line ending, and the line's number
// from 1. The line is valid only during the call. Each stops at f's first error and
// prefixes it with "name:line: ".
func Each(r io.Reader, name string, f func(number int, line []byte) error) error {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(make([]byte, 64<<10), Longest)
	number := 0
	loneCR := false
	scanner.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if number == 0 {
			loneCR = LoneCR(data)
		}
		return bufio.ScanLines(data, atEOF)
	})
	for scanner.Scan() {
		number++
		line := scanner.Bytes()
		if number == 1 {
			line = bytes.TrimPrefix(line, ByteOrderMark)
		}
		line = bytes.TrimRight(line, "\r")
		if loneCR {
			break
		}
		if err := f(number, line); err != nil {
			return Located(name, number, err)
		}
	}
	switch err := scanner.Err(); {
	case loneCR:
		return fmt.Errorf("%s:1: %w", name, ErrLoneCR)
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("%s:%d: line of more than %d MiB", name, number+1, Longest>>20)
	case err != nil:
		return fmt.Errorf("%s: after line %d: %w", name, number, err)
	}
	return nil
}

// Located adds the file's name and a line to an error: the line of [At] if the error has one, or else the given line.
func Located(name string, number int, err error) error {
	if err == nil {
		return nil
	}
	if before, ok := errors.AsType[*placed](err); ok {
		number, err = before.line, before.err
	}
	return fmt.Errorf("%s:%d: %w", name, number, err)
}

// placed is an error in a line before the current line.
type placed struct {
	line int
	err  error
}

func (p *placed) Error() string { return p.err.Error() }

// At wraps an error so that [Each] reports it for the given line, which is before the current line.
func At(line int, err error) error {
	if err == nil {
		return nil
	}
	return &placed{line, err}
}

// LoneCR reports whether the lines of a text end in carriage returns without line feeds. Such a
// text looks like a single line.
func LoneCR(text []byte) bool {
	return bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(bytes.TrimRight(text, "\r"), '\r') >= 0
}

// ErrLoneCR says that the lines of a file end in carriage returns without line feeds.
var ErrLoneCR = errors.New(`lines end in CR alone (want LF or CR LF; tr '\r' '\n' converts the file)`)

// ByteOrderMark is what some editors write in front of UTF-8 text.
var ByteOrderMark = []byte("\xef\xbb\xbf")

// First returns the first line in the beginning of a file that is neither blank nor a comment (#).
// It removes the blanks around the line. comments reports whether a comment came before that line
// or, without such a line, whether there was any comment.
func First(head []byte) (line string, comments bool) {
	for line := range bytes.Lines(bytes.TrimPrefix(head, ByteOrderMark)) {
		switch line = bytes.TrimSpace(line); {
		case len(line) == 0:
		case line[0] == '#':
			comments = true
		default:
			return string(line), comments
		}
	}
	return "", comments
}

// UTF8 returns text as UTF-8. It reads text that is not UTF-8 as ISO 8859-1, in which every
// byte is a character.
func UTF8(text []byte) string {
	if utf8.Valid(text) {
		return string(text)
	}
	runes := make([]rune, len(text))
	for i, b := range text {
		runes[i] = rune(b)
	}
	return string(runes)
}

// OneLine returns text as one line: every run of blanks and line breaks becomes a blank.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
