// Package bundle packs a workload and its cluster into one file, which a site can publish: a tar
// archive, compressed with gzip if its name ends in .gz. Commands that read a workload or a cluster
// also read the archive.
//
// The archive may come from anybody. So only members with the names of a bundle's files are read, each
// once and up to a largest size. No member decides to which path it is written.
package bundle

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"

	"rmreplay/internal/filekind"
	"rmreplay/internal/input"
	"rmreplay/internal/output"
)

// The members of a bundle, in their order. The files of the cluster are in a directory, so that the
// unpacked archive is a workload and a cluster directory.
const (
	Report     = "bundle.json"
	clusterDir = "cluster/"
	Workload   = "workload.jsonl"
)

// clusterFiles are the files of a cluster that a bundle may have.
var clusterFiles = []string{"slurm.conf", "gres.conf", "topology.conf", "accounts.sacctmgr", "users"}

// want is the part of an error text that says which archive would be right.
const want = "(want a bundle as rmreplay site export writes it)"

// The bounds of an archive that is read.
const (
	maxFile    = 64 << 20 // bytes of each file of the cluster, and of the report
	maxMembers = 16
	maxAll     = 64 << 30 // bytes of the unpacked archive
)

// Bundle is the content of an archive. Cluster has the files of the cluster by name.
type Bundle struct {
	Report  []byte
	Cluster map[string]string
	// Workload is a trace.
	Workload []byte
}

// Write writes the archive. The same content gives the same bytes. The file appears whole or not at all.
func (b *Bundle) Write(path string) error {
	_, err := output.File(path, func(w io.Writer) error {
		if !strings.HasSuffix(path, ".gz") && !strings.HasSuffix(path, ".tgz") {
			return b.write(w)
		}
		z := gzip.NewWriter(w)
		if err := b.write(z); err != nil {
			return err
		}
		return z.Close()
	})
	if err != nil {
		return fmt.Errorf("writing bundle: %w", err)
	}
	return nil
}

func (b *Bundle) write(w io.Writer) error {
	t := tar.NewWriter(w)
	add := func(name string, text []byte) error {
		err := t.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: name, Size: int64(len(text)), Mode: 0o644, Format: tar.FormatUSTAR,
		})
		if err == nil {
			_, err = t.Write(text)
		}
		return err
	}
	if err := add(Report, b.Report); err != nil {
		return err
	}
	for _, name := range clusterFiles {
		if text, has := b.Cluster[name]; has {
			if err := add(clusterDir+name, []byte(text)); err != nil {
				return err
			}
		}
	}
	if err := add(Workload, b.Workload); err != nil {
		return err
	}
	return t.Close()
}

// Is reports whether a file that begins with these bytes, perhaps after decompression, is a tar archive.
func Is(head []byte) bool { return len(head) > 262 && string(head[257:262]) == "ustar" }

// IsFile reports whether a path is a regular file with a tar archive, perhaps compressed with gzip.
func IsFile(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := input.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() // only read
	r, err := unpacked(f)
	if err != nil {
		return false
	}
	head, _ := r.Peek(512)
	return Is(head)
}

// unpacked returns a reader of the archive.
func unpacked(r io.Reader) (*bufio.Reader, error) {
	buffered := bufio.NewReaderSize(r, 64<<10)
	if magic, _ := buffered.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return buffered, nil
	}
	z, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, err
	}
	return bufio.NewReaderSize(z, 64<<10), nil
}

var errFound = errors.New("found")

// OpenWorkload finds the trace in an archive, which r reads without compression. The caller reads it until
// its end.
func OpenWorkload(r io.Reader, name string) (trace io.Reader, err error) {
	err = each(r, func(member string, content io.Reader) error {
		if member != Workload {
			return nil
		}
		trace = content
		return errFound
	})
	if err == nil || !errors.Is(err, errFound) {
		return nil, fmt.Errorf("reading bundle: %s: %w", name, cause(err, "it has no "+Workload+" "+want))
	}
	return trace, nil
}

func cause(err error, otherwise string) error {
	if err != nil {
		return err
	}
	return errors.New(otherwise)
}

// ReadCluster reads the files of the cluster from an archive.
func ReadCluster(path string) (files map[string]string, err error) {
	files = map[string]string{}
	err = open(path, func(member string, content io.Reader) error {
		name, is := strings.CutPrefix(member, clusterDir)
		if !is {
			return nil
		}
		text, err := readBounded(content, member)
		files[name] = string(text)
		return err
	}, func() string {
		if files["slurm.conf"] == "" {
			return clusterDir + "slurm.conf"
		}
		return ""
	})
	if err != nil {
		return nil, err
	}
	return files, nil
}

// ReadReport reads the report of an archive's contents.
func ReadReport(path string) (report []byte, err error) {
	err = open(path, func(member string, content io.Reader) (err error) {
		if member == Report {
			report, err = readBounded(content, member)
		}
		return err
	}, func() string {
		if report == nil {
			return Report
		}
		return ""
	})
	return report, err
}

// open visits the members of the archive at a path. lacks returns the name of a member that the archive lacks, or "".
func open(path string, visit func(member string, content io.Reader) error, lacks func() string) error {
	f, err := input.Open(path)
	if err != nil {
		return fmt.Errorf("reading bundle: %w", err) // the error names the path
	}
	defer f.Close() // only read
	if err = visitAll(f, visit); err == nil && lacks() != "" {
		err = errors.New("it has no " + lacks() + " " + want)
	}
	if err != nil {
		return fmt.Errorf("reading bundle: %s: %w", filepath.Base(path), err)
	}
	return nil
}

func visitAll(f io.Reader, visit func(member string, content io.Reader) error) error {
	r, err := unpacked(f)
	if err != nil {
		return err
	}
	// An empty archive begins with zeros.
	if head, err := r.Peek(512); (err == nil || errors.Is(err, io.EOF)) && !Is(head) && len(bytes.Trim(head, "\x00")) > 0 {
		kind, known := filekind.Detect(head)
		if !known {
			kind.Name = "a file without a tar archive"
		}
		return fmt.Errorf("%s, not a bundle %s", kind.Name, want)
	}
	return each(r, visit)
}

func readBounded(r io.Reader, name string) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s: more than %d MiB (want less)", name, maxFile>>20)
	}
	return text, err
}

// each visits the members. It refuses an archive that is not a bundle: an archive with other members, links,
// devices, or the same member twice.
func each(r io.Reader, visit func(member string, content io.Reader) error) error {
	t := tar.NewReader(io.LimitReader(r, maxAll))
	seen := map[string]bool{}
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the tar archive is damaged or incomplete: %w", err)
		}
		name, inCluster := strings.CutPrefix(h.Name, clusterDir)
		switch {
		case h.Typeflag == tar.TypeDir && h.Name == clusterDir: // as tar writes it for an unpacked bundle
			continue
		case h.Typeflag != tar.TypeReg:
			return fmt.Errorf("%q is not a regular file %s", h.Name, want)
		case inCluster && !slices.Contains(clusterFiles, name), !inCluster && h.Name != Report && h.Name != Workload:
			return fmt.Errorf("%q is not a member of a bundle (want %s, %s and %s of %s)",
				h.Name, Report, Workload, clusterDir, strings.Join(clusterFiles, ", "))
		case seen[h.Name]:
			return fmt.Errorf("%s occurs twice (want it once)", h.Name)
		case len(seen) == maxMembers:
			return fmt.Errorf("more than %d members", maxMembers)
		}
		seen[h.Name] = true
		if err := visit(h.Name, t); err != nil {
			return err
		}
	}
}
