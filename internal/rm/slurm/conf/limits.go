package conf

import (
	"bytes"
	"fmt"
	"path/filepath"

	"rmreplay/internal/filekind"
	"rmreplay/internal/hostlist"
	"rmreplay/internal/input"
	"rmreplay/internal/lines"
	"rmreplay/internal/rm/slurm/conf/privacy"
)

// The limits of a cluster directory. The limits are far above any real site's needs. The limits bound the memory and
// time that a hostile configuration can cost.
const (
	maxBytes      = 64 << 20 // in all files together; a file that is included twice counts twice
	maxFiles      = 1000     // files that are read, including files that slurm.conf includes
	maxLine       = 1 << 20  // bytes of a line together with its continuation lines
	maxStatements = 1 << 18  // in all files together
	maxNodes      = 1 << 18
	maxNames      = 1 << 22 // in all host lists together
)

// reader returns a file's contents. It is [readFile] except in tests.
type reader func(path string) ([]byte, error)

func readFile(path string) ([]byte, error) { return input.ReadFile(path, maxBytes) }

// files reads the files of one cluster directory and stops at its limits.
type files struct {
	open       reader
	private    privacy.Files
	count      int
	bytes      int
	statements int
	notes      []string // notes about files that were read in place of others
}

// read returns the text of a file. It returns an error if the file is not a text, or if a limit of the cluster
// directory is exceeded.
func (f *files) read(path string) ([]byte, error) {
	data, err := f.open(path)
	if err != nil {
		return nil, err
	}
	f.private.Read(path, data)
	f.count++
	f.bytes += len(data)
	switch zero := bytes.IndexByte(data, 0); {
	case zero >= 0:
		if kind, known := filekind.Detect(data); known && !kind.Slurm {
			return nil, fmt.Errorf("%s: %s (%s)", path, kind.Name, kind.Want)
		}
		return nil, fmt.Errorf("%s:%d: NUL byte: not a text file", path, 1+bytes.Count(data[:zero], []byte{'\n'}))
	case f.count > maxFiles:
		return nil, fmt.Errorf("%s: the cluster has more than %d files (want fewer)", path, maxFiles)
	case f.bytes > maxBytes:
		return nil, fmt.Errorf("%s: the cluster's files up to this one have more than %d MiB together (want less)", path, maxBytes>>20)
	case lines.LoneCR(data):
		return nil, fmt.Errorf("%s:1: %w", path, lines.ErrLoneCR)
	}
	return data, checkLines(path, data)
}

func checkLines(path string, data []byte) error {
	for number := 1; len(data) > 0; number++ {
		line, rest, _ := bytes.Cut(data, []byte{'\n'})
		if len(line) > maxLine {
			return fmt.Errorf("%s:%d: %w", path, number, errTooLong)
		}
		data = rest
	}
	return nil
}

var errTooLong = fmt.Errorf("line of more than %d MiB (want less)", maxLine>>20)

// expand expands a host list and counts its names towards the cluster's limit.
func (c *Cluster) expand(expr string) ([]string, error) {
	names, err := hostlist.ExpandAtMost(expr, min(hostlist.MaxNames, maxNames-c.names))
	if err != nil {
		return nil, err
	}
	return names, c.charge(len(names))
}

// charge adds a number of names to the names of the cluster's host lists so far.
func (c *Cluster) charge(names int) error {
	if c.names += names; c.names > maxNames {
		return fmt.Errorf("the host lists of %s and the files beside it have more than %d names together (want fewer)",
			filepath.Base(c.Path), maxNames)
	}
	return nil
}
