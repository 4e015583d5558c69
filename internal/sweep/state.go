package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	files "rmreplay/internal/input"
	"rmreplay/internal/output"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/run"
)

// status is the content of the file beside each product of a sweep: NAME.json beside NAME.
type status struct {
	Fingerprint string   `json:"fingerprint"`       // the fingerprint of the inputs
	Command     []string `json:"command,omitempty"` // the command line that makes the product
	// Error says why a run failed. It includes the last lines that the run's process wrote.
	Error string `json:"error,omitempty"`
	// Notes are what a transform says about the workload that it made.
	Notes []string `json:"notes,omitempty"`
}

func statusFile(path string) string { return path + ".json" }

// readStatus reads the file beside path. It returns an empty status if it cannot read the file.
func readStatus(path string) (s status) {
	text, err := files.ReadFile(statusFile(path), maxRead)
	if err != nil || json.Unmarshal(text, &s) != nil {
		return status{}
	}
	return s
}

func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return output.Text(path, string(text)+"\n")
}

// fingerprints computes the fingerprints of all inputs and runs. If an input of a run cannot be read, fingerprints sets
// the run's error, because other cells may not need that input.
func (p *Plan) fingerprints(version string) {
	contents := contents{}
	for _, d := range p.derived {
		d.fingerprint, d.err = d.compute(version, contents)
	}
	for _, r := range p.Runs {
		r.fingerprint, r.err = r.compute(version, contents)
	}
}

func (d *derived) compute(version string, c contents) (string, error) {
	source, err := c.of(d.source)
	if err != nil {
		return "", err
	}
	options, err := c.ofOptions(d.transform)
	if err != nil {
		return "", err
	}
	return fingerprint(version, source, options, d.edit.arguments())
}

func (r *Run) compute(version string, c contents) (string, error) {
	options, err := c.ofOptions(r.options)
	if err != nil {
		return "", err
	}
	parts := []any{version, r.command, options, r.Seed}
	if named, ok := r.options.Get("slurm"); ok && r.command == replayCommand {
		programs, err := c.ofSlurm(named)
		if err != nil {
			return "", err
		}
		parts = append(parts, programs)
	}
	inputs := []input{r.workload}
	if r.cluster != nil {
		inputs = append(inputs, *r.cluster)
	}
	for _, in := range inputs {
		if in.made != nil {
			if in.made.err != nil {
				return "", in.made.err
			}
			parts = append(parts, in.made.fingerprint)
			continue
		}
		hash, err := c.of(in.path)
		if err != nil {
			return "", err
		}
		parts = append(parts, hash)
	}
	return fingerprint(parts...)
}

func fingerprint(parts ...any) (string, error) {
	text, err := json.Marshal(parts)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// contents caches the hashes of files and directories.
type contents map[string]string

// ofOptions returns the options with the hashes of files and directories instead of their paths, so
// that the paths themselves do not matter.
func (c contents) ofOptions(options Options) ([]string, error) {
	args := []string{} // not nil, so that an empty list is always encoded as []
	for _, o := range options {
		if o.Path {
			hash, err := c.of(o.Value)
			if err != nil {
				return nil, err
			}
			o.Value = hash
		}
		if file := o.model(); file != "" {
			hash, err := c.of(file)
			if err != nil {
				return nil, err
			}
			args = append(args, "model="+hash)
		}
		args = append(args, o.Name+"="+o.Value)
	}
	return args, nil
}

// ofSlurm returns the hash of the Slurm that --slurm names. If the Slurm in a directory was replaced, or if a version
// was installed again, a resumed sweep repeats the runs on it. The default Slurm of replay is not hashed, because each
// host of a job array may have a different default Slurm.
func (c contents) ofSlurm(named string) (string, error) {
	key := "slurm " + named
	if hash, ok := c[key]; ok {
		return hash, nil
	}
	hashes := []any{}
	for _, path := range install.Files(named) {
		hash, err := c.of(path)
		if err != nil {
			return "", err
		}
		hashes = append(hashes, hash)
	}
	var err error
	c[key], err = fingerprint(hashes...)
	return c[key], err
}

// of returns the hash of a file, or of all files in a directory.
func (c contents) of(path string) (string, error) {
	if hash, ok := c[path]; ok {
		return hash, nil
	}
	h := sha256.New()
	err := filepath.WalkDir(path, func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := os.Stat(at) // Stat follows links
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		relative, err := filepath.Rel(path, at)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(h, "%q %d\n", relative, info.Size()); err != nil {
			return err
		}
		f, err := files.Open(at)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(h, f)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("reading input: %w", err)
	}
	c[path] = hex.EncodeToString(h.Sum(nil))
	return c[path], nil
}

// complete opens the record of a run. It returns nil if the record is incomplete, or if its inputs
// were different.
func (p *Plan) complete(r *Run) *run.Run {
	if r.fingerprint == "" || readStatus(p.path(r.Dir)).Fingerprint != r.fingerprint {
		return nil
	}
	record, err := run.Open(p.path(r.Dir))
	if err != nil || record.Partial || record.Manifest.State != run.StateComplete {
		return nil
	}
	return record
}

// ErrBusy says that another process has locked the sweep's directory or a run.
var ErrBusy = errors.New("in use by another process")

// Lock locks the sweep's directory, either exclusively or shared with other tasks of a job
// array. The lock ends with the process. Lock fails with [ErrBusy] if another sweep holds the
// lock.
func (p *Plan) Lock(shared bool) (io.Closer, error) {
	if err := os.MkdirAll(p.Dir, 0o777); err != nil {
		return nil, fmt.Errorf("creating %s: %w", p.Dir, err)
	}
	f, err := os.OpenFile(p.path(lockFile), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", p.Dir, err)
	}
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	if err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrBusy
		}
		return nil, fmt.Errorf("locking %s: %w", p.Dir, err)
	}
	return f, nil
}

// lockRun locks a run for this process, because tasks of a job array share the sweep's directory.
// Each run has its own byte in a lock file. The lock ends with the process. lockRun fails with
// [ErrBusy] if another process holds the lock.
func (p *Plan) lockRun(r *Run) (io.Closer, error) {
	f, err := os.OpenFile(p.path(runLocksFile), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, fmt.Errorf("locking a run: %w", err)
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: int64(r.Number), Len: 1}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			err = ErrBusy
		}
		return nil, fmt.Errorf("locking run %d: %w", r.Number, err)
	}
	return f, nil
}
