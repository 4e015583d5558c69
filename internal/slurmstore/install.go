package slurmstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"rmreplay/internal/interrupt"
	"rmreplay/internal/slurmspec"
)

// Request says what to install.
type Request struct {
	// Version is a release ("24.11.5") or a series ("24.11"). With From it may be empty; otherwise
	// From must contain this release.
	Version string
	// From is a tarball of a root, an image in the OCI layout, or a directory of .deb files. If it
	// is empty, the packages come from Debian's suites.
	From string
	// Mirror is the address of a Debian mirror; empty means [DebianMirror].
	Mirror string

	unsigned bool // for tests, whose mirror has an index without a signature
}

// Hooks report the progress of an installation. Both functions must be set.
type Hooks struct {
	Step     func(text string) // called when a step begins
	Progress func(text string) // called often during a step
}

// Install installs a release into the store and returns its description. If the store already has
// the release, the result had is true, and nothing is done. The error is an [*InputError] if the
// version or the archive is wrong, and a [*MissingError] if the network or a tool is missing.
// After an error or a cancelled context, the store is unchanged.
func (s *Store) Install(ctx context.Context, req Request, hooks Hooks) (one Slurm, had bool, err error) {
	var want slurmspec.Release
	if req.Version != "" || req.From == "" {
		if want, err = parse(req.Version); err != nil {
			return one, false, err
		}
		found, err := s.find(req.Version)
		if err == nil {
			return found[len(found)-1], true, nil
		}
		if absent := (*NotInstalledError)(nil); !errors.As(err, &absent) {
			return one, false, err
		}
		if !want.Supported() {
			return one, false, &InputError{req.Version, errors.New("not a supported release (want " +
				slurmspec.SupportedList() + ")")}
		}
	}
	err = s.unpacked(func(t *tree, scratch string) error {
		one.Source, err = fill(ctx, t, req, hooks, func() (string,
			error) {
			return fromDebian(ctx, t, req, want, scratch, hooks)
		})
		if err != nil {
			return err
		}
		hooks.Step("checking that slurmctld runs")
		release, err := check(ctx, t)
		if err == nil && !want.IsZero() && !means(want, release) {
			err = fmt.Errorf("its slurmctld has the version %v (want %v)", release, want)
		}
		if err != nil {
			return blame(ctx, req, err)
		}
		one.Version, one.Installed, one.Size = release.String(), time.Now().UTC().Truncate(time.Second), t.size
		one, had, err = s.place(t, one, one.Version)
		return err
	})
	return one, had, err
}

// unpacked calls f with an empty tree in the store, and with the path of a directory for scratch
// files, which does not exist yet. Afterwards it removes both, unless f has moved the tree.
func (s *Store) unpacked(f func(t *tree, scratch string) error) (err error) {
	defer interrupt.Hold()() // until the temporary directory is removed
	if err := s.sweep(); err != nil {
		return fmt.Errorf("preparing the store of Slurm releases: %w", err)
	}
	work, claim, err := s.begin()
	if err != nil {
		return fmt.Errorf("preparing the store of Slurm releases: %w", err)
	}
	defer claim.Close()
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()

	t, err := newTree(filepath.Join(work, "root"))
	if err != nil {
		return fmt.Errorf("preparing the store of Slurm releases: %w", err)
	}
	defer t.close()
	return f(t, filepath.Join(work, "apt"))
}

// fill fills the tree from req.From or, if it is empty, by calling fromNetwork. It returns a
// description of the source. If root installs, fill makes the tree readable for all users.
func fill(ctx context.Context, t *tree, req Request, hooks Hooks, fromNetwork func() (string, error)) (source string,
	err error) {
	if req.From == "" {
		source, err = fromNetwork()
	} else {
		source, err = filepath.Abs(req.From)
		if err == nil {
			err = fromPath(ctx, t, req.From, hooks)
		}
		if err == nil {
			err = t.checkLinks()
		}
		err = blame(ctx, req, err)
	}
	if err == nil && forAll() {
		if err = t.share(); err != nil {
			err = fmt.Errorf("preparing the store of Slurm releases: %w", err)
		}
	}
	return source, err
}

// blame turns an error into an [*InputError] about the user's input. It does not change errors of
// the machine, such as a full disk, or of a cancelled context.
func blame(ctx context.Context, req Request, err error) error {
	var missing *MissingError
	switch {
	case err == nil, errors.As(err, &missing):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("unpacking Slurm: %w", err)
	case req.From == "":
		return fmt.Errorf("installing Slurm %s: %w", req.Version, err)
	}
	return &InputError{req.From, err}
}

// place writes the description of a complete tree, and renames the tree to its name in the store.
// If another process has installed the same release meanwhile, that installation stays.
func (s *Store) place(t *tree, one Slurm, name string) (Slurm, bool, error) {
	text, err := json.MarshalIndent(one, "", "  ")
	if err == nil {
		err = t.write(description, append(text, '\n'))
	}
	if err == nil && forAll() {
		err = t.root.Chmod(description, 0o644)
	}
	if err != nil {
		return one, false, fmt.Errorf("describing %s: %w", name, err)
	}
	one.Path = filepath.Join(s.dir, name)
	err = os.Rename(t.dir, one.Path)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) {
		there, err := describe(one.Path)
		return there, true, err
	}
	if err != nil {
		return one, false, fmt.Errorf("putting %s into the store: %w", name, err)
	}
	return one, false, nil
}
