package workload

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxLine is the longest line, in bytes, that a reader of this package takes.
const maxLine = 16 << 20

// eachLine calls f with every line of r, without its line ending, and its number
// from 1. The line is valid only during the call. It stops at f's first error and
// prefixes it with "name:line: ".
func eachLine(r io.Reader, name string, f func(number int, line []byte) error) error {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(make([]byte, 64<<10), maxLine)
	number := 0
	for scanner.Scan() {
		number++
		line := scanner.Bytes()
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")) // an editor's byte order mark
		}
		line = bytes.TrimRight(line, "\r")
		if err := f(number, line); err != nil {
			return fmt.Errorf("%s:%d: %w", name, number, err)
		}
	}
	switch err := scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("%s:%d: line of more than %d MiB", name, number+1, maxLine>>20)
	case err != nil:
		return fmt.Errorf("%s: after line %d: %w", name, number, err)
	}
	return nil
}
